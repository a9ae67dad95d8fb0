"""Random stories of aggregations against brute force: late rows, ties, silence, restarts, changed windows, drops."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.operators.aggregate import cell_files, edge_rows, shape
from penstock.operators.aggregate.partials import tiles
from tests.oracle.aggregates.rig import Rig
from tests.support.examples import SOAK

# Those of `make test` are the cheapest that run the lines of aggregates and views which more than twice as many stories run.
# In 195 retention passes over history that a query with LATCH has still to read. In 303 windows get longer after cells were forgotten.
SEEDS = range(400) if SOAK else (0, 2, 4, 8, 195, 303)
# With them, too, little stays apart or much, pages and slots are small or large, and there is room for many rows and sums or for few.
SEEDS_OF_WIDTHS = range(1000, 1100) if SOAK else (1007, 1013, 1031, 1035)
SEEDS_OF_FILES = range(2000, 2100) if SOAK else (2000, 2001, 2011)
STEPS = 120


@pytest.mark.parametrize("seed", SEEDS)
def test_every_answer_is_what_all_rows_say(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_story(Rig(tmp_path, seed, monkeypatch), least=20)


@pytest.mark.parametrize("seed", SEEDS_OF_WIDTHS)
def test_cells_of_every_width_say_the_same(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Little stays apart, tiles are small and are widened at once, and the rows of cut slots are soon dropped again."""
    monkeypatch.setattr(tiles, "RECENT", seed % 3)
    monkeypatch.setattr(tiles, "TILE_CELLS", (5, 1 << 18)[seed % 2])
    monkeypatch.setattr(tiles, "TILE_SLOTS", ((2, 1), (60, 10, 1), (10, 5, 1))[seed % 3])
    monkeypatch.setattr(tiles, "CELL_ROWS", 1000)
    if seed // 9 % 2:  # as with millions of cells: slots of rows that are far apart, made again in finer ones
        monkeypatch.setattr(tiles, "MANY_CELLS", 0)
        monkeypatch.setattr(tiles, "SLOT_POSITIONS", 2)
    monkeypatch.setattr(tiles, "SLOT_ROWS", (3, 40, 1 << 20)[seed // 3 % 3])
    monkeypatch.setattr(edge_rows, "PAGE_ROWS", (3, 1 << 12)[seed // 2 % 2])
    monkeypatch.setattr(edge_rows, "MOST_ROW_BYTES", (500, 1 << 20)[seed // 4 % 2])
    monkeypatch.setattr(edge_rows, "MOST_SUM_BYTES", (5_000, 1 << 20)[seed // 8 % 2])
    rig = Rig(tmp_path, seed, monkeypatch)
    rig.far = True
    run_story(rig, least=5)
    assert rig.bursts


WIDTHS_US = [10**power for power in range(3, 8)] + [60_000_000, 600_000_000, 3_600_000_000, 86_400_000_000]


@pytest.mark.parametrize("width_us", WIDTHS_US)
@pytest.mark.parametrize("seed", range(3000, 3020) if SOAK else (3000,))
def test_slices_of_a_width_that_is_forced_say_the_same(
    seed: int, width_us: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a millisecond to a day; those of panes stay as they are."""
    monkeypatch.setattr(shape, "SECOND_US", width_us)
    rig = Rig(tmp_path, seed + width_us, monkeypatch)
    rig.far = width_us > 1_000_000
    rig.db.execute("CREATE QUERY plain AS SELECT SUM(value) FROM probes BEGIN (NOW - 10 SECONDS) END (NOW)")  # no panes
    run_story(rig, least=5, steps=STEPS if SOAK else STEPS // 2)
    assert width_us in rig.widths_us


@pytest.mark.parametrize("seed", SEEDS_OF_FILES)
def test_cells_in_files_say_the_same_when_files_are_lost_or_damaged(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every tile is in a file at the next snapshot, and at each restart some files are gone, cut short or changed."""
    monkeypatch.setattr(cell_files, "FILE_CELLS", 1)
    monkeypatch.setattr(cell_files, "FILE_TILES", (1, 3, 256)[seed % 3])
    monkeypatch.setattr(tiles, "RECENT", 0)
    monkeypatch.setattr(tiles, "RECENT_CELLS", 1)
    monkeypatch.setattr(tiles, "TILE_SLOTS", ((2, 1), (60, 10, 1))[seed % 2])
    if seed // 2 % 2:
        monkeypatch.setattr(tiles, "MANY_CELLS", 0)
        monkeypatch.setattr(tiles, "SLOT_POSITIONS", 2)
    rig = Rig(tmp_path, seed, monkeypatch)
    rig.restarts = 0.4
    rig.db.execute(
        "CREATE QUERY kept AS SELECT COUNT(*) FROM probes BEGIN (NOW - 10 SECONDS) END (NOW)"
    )  # has files in every story
    run_story(rig, least=5, files=True)
    assert rig.files_lost + rig.files_kept


def run_story(rig: Rig, least: int, files: bool = False, steps: int = STEPS) -> None:
    """Run a whole story, and go on until it has compared more than `least` answers, and met files where it is about them."""
    rig.create()
    for step in range(steps):
        rig.step()
        if rig.far and step == steps - 8:
            rig.burst()
    rig.finish(least, files)
    rig.db.stop()
    assert rig.compared > least and rig.compared_older
