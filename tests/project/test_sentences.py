"""The documentation says one idea per sentence: a crude look at the number of words in sentences and cells of tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CHANGELOG.md")),
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "decisions"),
    *sorted((ROOT / "apps").rglob("*.md")),
]
SENTENCE_WORDS_MAX = 28
CELL_WORDS_MAX = 40
MARK = re.compile(r"^(?:[-*] |\d+\. )")


def pieces(text: str) -> Iterator[tuple[str, bool]]:
    """Paragraphs, points of lists and cells of tables without code blocks, and whether each is a cell."""
    block: list[str] = []
    for line in (*re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL).splitlines(), ""):
        plain = line.strip()
        if block and (not plain or plain[0] in "#|>" or MARK.match(plain)):
            yield " ".join(block), False
            block = []
        if plain.startswith("|"):
            yield from ((cell, True) for cell in plain.strip("|").split(" | "))
        elif plain and plain[0] not in "#!":  # a picture's text says all that is on it
            block.append(MARK.sub("", plain))


def sentences(piece: str) -> list[str]:
    """Cut where a full stop, a colon or a semicolon ends a word outside of code."""
    plain = re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "code", piece))
    return re.split(r"(?<=[.!?:;])[\")*]*\s+(?=[A-Za-z\[*(0-9\"])", plain)


def words(text: str) -> list[str]:
    found = re.findall(r"[A-Za-z0-9][\w'.,%/-]*", text)
    return [] if found.count("code,") > len(found) / 2 else found  # a list of names


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_sentence_is_long_and_no_cell_is_a_paragraph(page: Path) -> None:
    long = []
    for piece, is_cell in pieces(page.read_text()):
        long += [found for found in sentences(piece) if len(words(found)) > SENTENCE_WORDS_MAX]
        if is_cell and len(piece.split()) > CELL_WORDS_MAX:
            long.append(piece)
    assert long == []
