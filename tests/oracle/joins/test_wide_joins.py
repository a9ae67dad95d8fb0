"""Every algorithm, every form, two to six streams, end to end: the answer is what the definition says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.operators.join.brute import FORMS
from tests.oracle.joins.wide import Wide

# Seeds that failed once are written down here, and run first from then on.
FAILED = Path(__file__).with_name("failed_seeds.txt")
SOAK = bool(os.environ.get("PENSTOCK_SOAK"))
SEEDS = range(20) if SOAK else range(1)


def _cases() -> list[tuple[str, int, int]]:
    kept = [line.rsplit(maxsplit=2) for line in FAILED.read_text().splitlines()] if FAILED.exists() else []
    known = [(form, int(count), int(seed)) for form, count, seed in kept]
    fresh = [(form, count, seed) for seed in SEEDS for form in FORMS for count in range(2, 7)]
    if not SOAK:  # every form with two or three numbers of streams, every number with half of the forms
        fresh = fresh[::2]
    return list(dict.fromkeys([*known, *fresh]))


@pytest.mark.parametrize(("form", "count", "seed"), _cases())
def test_all_algorithms_answer_by_the_definition(form: str, count: int, seed: int, tmp_path: Path) -> None:
    wide = Wide(tmp_path / "data", form, count, seed)
    try:
        wide.run()
        assert wide.names
    except BaseException:
        with FAILED.open("a") as file:
            file.write(f"{form} {count} {seed}\n")
        raise
    finally:
        wide.db.stop()
