"""Golden scripts: a statement, then what it comes to behind `--|`. PENSTOCK_UPDATE_GOLDEN=1 writes them anew.

A statement ends with a semicolon at the end of a line. `-- stages` before it shows every stage of it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.errors import PenstockError
from penstock.sql.parse import parse_script
from tests.sql.stages import stages
from tests.sql.world import World, plant

FOLDER = Path(__file__).parent / "golden"
MARK = "--|"


def _blocks(text: str) -> list[str]:
    """The statements of a script with the comments before them, outputs left out."""
    blocks: list[list[str]] = [[]]
    for line in text.splitlines():
        if line.startswith(MARK):
            continue
        if not line.strip() and not any(part.strip() for part in blocks[-1]):
            continue
        blocks[-1].append(line)
        if line.rstrip().endswith(";"):
            blocks.append([])
    return ["\n".join(block) for block in blocks if any(part.strip() for part in block)]


def _answer(world: World, block: str) -> str:
    try:
        if block.startswith("-- stages"):
            return "\n".join(stages(statement, world) for statement in parse_script(block))
        return world.run(block)
    except PenstockError as failure:
        return failure.render()


def _written(world: World, text: str) -> str:
    out = []
    for block in _blocks(text):
        answer = _answer(world, block)
        shown = [f"{MARK} {line}".rstrip() for line in answer.splitlines()]
        out.append("\n".join([block, *shown]))
    return "\n\n".join(out) + "\n"


@pytest.mark.parametrize("script", sorted(FOLDER.glob("*.sql")), ids=lambda path: path.stem)
def test_a_golden_script_still_says_the_same(script: Path) -> None:
    text = script.read_text()
    world = World() if text.startswith("-- empty") else plant()
    written = _written(world, text)
    if os.environ.get("PENSTOCK_UPDATE_GOLDEN"):
        script.write_text(written)
    assert written == text
