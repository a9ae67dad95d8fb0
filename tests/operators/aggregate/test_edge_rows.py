"""Rows of slots that a window cuts: none is missing and none counts twice, whatever was read before and is forgotten."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from penstock.expr.expression import Column
from penstock.operators.aggregate import edge_rows
from penstock.operators.aggregate.edge_rows import EdgeCache, EdgeLook
from penstock.operators.aggregate.groups import Groups
from penstock.operators.aggregate.partials.cell_sums import CellRange, Panes, UncoveredRows, merge_combined
from penstock.operators.aggregate.shape import Measure
from penstock.operators.aggregate.slicer import FamilyRows
from penstock.types import DOUBLE

VALUE, OTHER = Column("value", DOUBLE), Column("other", DOUBLE)
COUNT, TOTAL = Measure("count", (VALUE,)), Measure("sum", (VALUE,))
GROUPS = 3


def log_of(times: Sequence[int]) -> FamilyRows:
    """A log of readings with these times, in groups that take turns; the value of each is its position."""
    places = np.arange(len(times))
    values = pa.array(places.astype(float))
    return FamilyRows(np.array(times, np.int64), places, places % GROUPS, [], {VALUE: values, OTHER: values})


def asked(
    cache: EdgeCache, groups: Groups, log: FamilyRows, look: CellRange, panes: Panes | None = None
) -> tuple[dict[tuple[int, int], int], int]:
    """Rows by window and group, of the time that is cut, and how many rows were read for that."""
    rest = UncoveredRows(((look.low, look.high + 1),), ((look.floor, look.head),))
    edges = EdgeLook(cache, "family", groups, [COUNT], rest, look, panes)
    middle = (look.floor + look.head) // 2
    read = edges.missing([(look.floor, middle), (middle, look.head)], (0, look.head))
    for first, end in read:
        edges.put((first, end), log.take(np.arange(first, end)))
    parts = edges.sums()[COUNT]
    if not parts:
        return {}, sum(end - first for first, end in read)
    lines = merge_combined(parts, COUNT.make())
    keys = zip(lines.windows.tolist(), lines.groups.tolist(), strict=True)
    return dict(zip(keys, lines.state["count"].tolist(), strict=True)), sum(end - first for first, end in read)


def expected(log: FamilyRows, look: CellRange, panes: Panes | None) -> dict[tuple[int, int], int]:
    found: dict[tuple[int, int], int] = {}
    for at, position, group in zip(log.times.tolist(), log.positions.tolist(), log.groups.tolist(), strict=True):
        if not (look.low <= at <= look.high and look.floor <= position < look.head):
            continue
        windows = [0]
        if panes is not None:
            windows = [k for k in range(-100, at + 1, panes.step) if k % panes.step == 0 and k <= at < k + panes.width]
        for window in windows:
            found[window, group] = found.get((window, group), 0) + 1
    return found


@pytest.mark.parametrize("seed", range(12))
def test_every_look_counts_what_a_loop_counts(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge_rows, "PAGE_ROWS", (1, 7, 64)[seed % 3])
    monkeypatch.setattr(edge_rows, "MOST_ROW_BYTES", (1, 1 << 20)[seed % 2])
    monkeypatch.setattr(edge_rows, "MOST_SUM_BYTES", (1, 20_000, 1 << 20)[seed // 3 % 3])
    monkeypatch.setattr(edge_rows, "MOST_SUMS", (1, 4)[seed // 2 % 2])
    chance = random.Random(seed)
    log = log_of([position // 2 + chance.choice((0, 0, 0, -20, 5)) for position in range(300)])
    cache, groups = EdgeCache(), Groups()
    for _ in range(80):
        low, floor = chance.randrange(-30, 160), chance.choice((0, 0, chance.randrange(300)))
        head = chance.randrange(floor, 301)
        panes = chance.choice((None, None, Panes(10, 10), Panes(12, 4)))
        look = CellRange(low, low + chance.randrange(60), floor, head, panes.pane if panes is not None else None)
        assert asked(cache, groups, log, look, panes)[0] == expected(log, look, panes)


def test_what_was_read_is_not_read_again() -> None:
    log, cache, groups = log_of(range(20_000)), EdgeCache(), Groups()
    assert asked(cache, groups, log, CellRange(0, 99, 0, 10_000))[1] == 10_000
    assert asked(cache, groups, log, CellRange(50, 6_000, 100, 9_000))[1] == 0
    # The page that was not complete is read again.
    assert asked(cache, groups, log, CellRange(50, 6_000, 100, 10_001))[1] == 10_001 - 2 * edge_rows.PAGE_ROWS


def test_sums_are_enough_where_the_rows_were_forgotten() -> None:
    log, cache, groups = log_of(range(edge_rows.PAGE_ROWS)), EdgeCache(), Groups()
    look = CellRange(100, 1 << 20, 0, len(log.times))
    first = asked(cache, groups, log, look)
    cache.rows.clear()
    assert asked(cache, groups, log, look) == (first[0], 0)
    assert asked(cache, groups, log, CellRange(101, 1 << 20, 0, len(log.times)))[1] == len(log.times)


def test_groups_that_are_numbered_anew_and_other_arguments_are_read_again() -> None:
    log, cache, groups = log_of(range(100)), EdgeCache(), Groups()
    look = CellRange(0, 50, 0, 100)
    assert asked(cache, groups, log, look)[1] == 100
    assert asked(cache, Groups(), log, look)[1] == 100
    rest = UncoveredRows(((0, 51),), ((0, 100),))
    more = Measure("sum", (Column("third", DOUBLE),))
    assert EdgeLook(cache, "family", groups, [more], rest, look, None).missing([(0, 100)], (0, 100)) == [(0, 100)]
    cache.clear()
    assert cache.nbytes == 0


def test_readers_at_many_heads_see_their_own_rows_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge_rows, "PAGE_ROWS", 50)
    monkeypatch.setattr(edge_rows, "MOST_SUMS", 1)
    log, cache, groups = log_of(range(900)), EdgeCache(), Groups()
    wrong: list[CellRange] = []

    def read(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(400):
            look = CellRange(chance.randrange(900), 899, 0, chance.randrange(1, 900))
            if asked(cache, groups, log, look)[0] != expected(log, look, None):
                wrong.append(look)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
