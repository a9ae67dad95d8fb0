"""Cells in tiles: the same sums as of all cells one by one, whatever their widths, order, groups and times."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.operators.aggregate.partials import cell_sums, tiles
from penstock.operators.aggregate.partials.base import Partial
from penstock.operators.aggregate.partials.cell_sums import CellRange, Panes, combine, merge_combined
from penstock.operators.aggregate.partials.cells import Cells
from penstock.operators.aggregate.partials.extremes import Extremes
from penstock.operators.aggregate.partials.slices import slice_rows
from penstock.operators.aggregate.partials.sums import Count, Moments, Total
from penstock.operators.aggregate.partials.tiles import TileStore
from penstock.operators.aggregate.partials.value_lists import Percentile
from penstock.types import BIGINT, DOUBLE
from tests.support.examples import seeds

PARTIALS: tuple[Partial, ...] = (
    *(Count(()), Total((DOUBLE,)), Total((BIGINT,)), Extremes((DOUBLE,)), Moments((DOUBLE,)), Percentile((DOUBLE,))),
)
NUMBERS = [0.0, -0.0, 1.5, -2.25, 1e300, float("nan"), float("inf"), None]
WHOLES = [0, 1, -1, 2**63 - 1, -(2**63), 2**31, None]


class Rows:
    """Random rows, sliced piece by piece with one of several widths into tiles."""

    def __init__(self, seed: int, partial: Partial, span: int, groups: int) -> None:
        self.chance = random.Random(seed)
        self.partial, self.span, self.groups = partial, span, groups
        self.tiled = TileStore(partial)
        self.rows: list[tuple[int, int, Any]] = []  # time, group and value, by position

    def put(self) -> None:
        first, late = len(self.rows), self.chance.random() < 0.3
        for _ in range(self.chance.choice([1, 3, 40])):
            time = self.chance.randrange(0 if late else self.span // 2, self.span)
            whole = bool(self.partial.types) and self.partial.types[0] == BIGINT
            value: Any = self.chance.choice(WHOLES if whole else NUMBERS)
            self.rows.append((time, self.chance.randrange(self.groups), value))
        self.tiled.put(self.cells(range(first, len(self.rows)), self.chance.choice([10, 10, 10, 100])))

    def cells(self, positions: Sequence[int], width: int) -> Cells:
        """These rows in slots of a width."""
        times, groups, values = ([self.rows[p][i] for p in positions] for i in range(3))
        columns = (np.array(c, np.int64) for c in (times, list(positions), groups))
        type_ = pa.int64() if self.partial.types and self.partial.types[0] == BIGINT else pa.float64()
        arguments = [pa.array(values, type_) for _ in self.partial.types]
        return slice_rows(*columns, width).aggregate(self.partial, arguments)

    def inside(self, look: CellRange) -> list[int]:
        """The positions of the rows that a look is about."""
        return [p for p in range(look.floor, look.head) if look.low <= self.rows[p][0] <= look.high]

    def look(self, panes: Panes | None) -> CellRange:
        low, head = self.chance.randrange(self.span), len(self.rows)
        floor = self.chance.choice([0, 0, 0, self.chance.randrange(head + 1)])
        head = self.chance.choice([head, head, self.chance.randrange(floor, head + 1)])
        pane = None if panes is None else panes.step
        return CellRange(low, self.chance.randrange(low, self.span + 50), floor, head, pane)


def finished(partial: Partial, lines: Any) -> dict[tuple[int, int], str]:
    function, parameter = {"count": ("count", None), "extremes": ("min", None), "moments": ("stddev_samp", None)}.get(
        partial.name, ("sum", None)
    )
    if isinstance(partial, Percentile):
        function, parameter = "percentile_cont", 0.5
    type_ = BIGINT if partial.name == "count" or (partial.types and partial.types[0] == BIGINT) else DOUBLE
    found = partial.finish(function, lines.state, type_, parameter).to_pylist()
    keys = zip(lines.windows.tolist(), lines.groups.tolist(), strict=True)
    # Which of both zeros is the smallest is left to the order of the rows.
    return {key: repr(None if value is None else value + 0) for key, value in zip(keys, found, strict=True)}


@pytest.mark.parametrize("partial", PARTIALS, ids=lambda p: f"{p.name} {''.join(map(str, p.types))}")
@pytest.mark.parametrize("seed", seeds(4))
def test_a_sum_of_tiles_is_that_of_the_cells(partial: Partial, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "RECENT", 3)
    monkeypatch.setattr(tiles, "TILE_CELLS", 50)
    monkeypatch.setattr(tiles, "CELL_ROWS", 1000)
    monkeypatch.setattr(cell_sums, "BLOCK_CELLS", [10, 1 << 20][seed % 2])
    monkeypatch.setattr(tiles, "SLOT_ROWS", [0, 30, 300, 1 << 20][seed % 4])
    refines = seed % 4 == 2
    if refines:
        monkeypatch.setattr(tiles, "MANY_CELLS", 0)
        monkeypatch.setattr(tiles, "SLOT_POSITIONS", 5)
        monkeypatch.setattr(tiles, "REFINED_US", 10)
    rows = Rows(seed, partial, span=5000, groups=[1, 4, 30][seed % 3])
    if seed % 2:
        assert rows.tiled.keep_panes(600)
    used, refined = 0, 0
    for _ in range(60):
        rows.put()
        panes = rows.chance.choice([None, Panes(1000, 500), Panes(200, 200)])
        look = rows.look(panes)
        cut = rows.tiled.unrefined(look) if refines else []
        for slot in cut:
            own = [p for p, row in enumerate(rows.rows) if slot.start <= row[0] < slot.start + slot.width]
            rows.tiled.refine(slot, [rows.cells(own, tiles.refined_width(slot.width))])
        refined += len(cut) - len(rows.tiled.unrefined(look)) if cut else 0
        added_up, rest = rows.tiled.look(look, panes)
        if rows.chance.random() < 0.3:
            rows.put()  # what comes after a look does not change it
        lines = added_up()
        used += len(lines.groups)
        read = [
            p
            for p in rows.inside(look)
            if any(low <= rows.rows[p][0] < high for low, high in rest.periods)
            and any(first <= p < end for first, end in rest.positions)
        ]
        width = look.pane or 1 << 40
        found = merge_combined([lines, combine(rows.cells(read, width), partial, panes)], partial)
        wanted = combine(rows.cells(rows.inside(look), width), partial, panes)
        assert finished(partial, found) == finished(partial, wanted)
    assert used and bool(refined) == refines
    assert int(rows.tiled.view().rows.sum()) == len(rows.rows)


@pytest.mark.parametrize("seed", seeds(6))
def test_cells_before_a_time_or_below_a_position_go_and_the_others_stay(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiles, "RECENT", 2)
    rows = Rows(seed, Count(()), span=100_000, groups=3)
    for _ in range(40):
        rows.put()
    low, floor, head = 60_000, len(rows.rows) // 3, len(rows.rows)
    rows.tiled.forget_before(low, floor)
    left = rows.tiled.view()
    assert (left.starts + left.widths > low).all() and (left.lasts >= floor).all()
    look = CellRange(low + 100, 200_000, floor, head)
    added_up, rest = rows.tiled.look(look, None)
    lines = added_up()
    read = [
        p
        for p in rows.inside(look)
        if any(a <= rows.rows[p][0] < b for a, b in rest.periods) and any(a <= p < b for a, b in rest.positions)
    ]
    assert int(lines.state["count"].sum()) + len(read) == len(rows.inside(look))
    rows.tiled.forget_before(200_000, 0)
    assert len(rows.tiled) == 0 and rows.tiled.nbytes == 0


def test_groups_get_other_numbers() -> None:
    store = TileStore(Count(()))
    for at in range(50):
        store.put(slice_rows(np.array([at * 7]), np.array([at]), np.array([at % 3]), 10).aggregate(Count(()), []))
    store.renumber(np.array([2, 0, 1]))
    added_up, _ = store.look(CellRange(0, 1000, 0, 50), None)
    lines = added_up()
    assert lines.state["count"].tolist() == [17, 16, 17]
    assert store.used_groups().tolist() == [0, 1, 2]


def test_counts_and_sums_take_few_bytes() -> None:
    """200 groups with a reading a minute, for thirty days, in slots of an hour: COUNT(*) and a sum together at most 40 bytes."""
    minutes, groups = 30 * 24 * 60, 200
    stores = (TileStore(Count(())), TileStore(Total((DOUBLE,))))
    chance = np.random.default_rng(5)
    for first in range(0, minutes, 600):
        times = np.repeat(np.arange(first, first + 600), groups) * 60_000_000
        sliced = slice_rows(
            times, np.arange(len(times)) + first * groups, np.tile(np.arange(groups), 600), 3_600_000_000
        )
        stores[0].put(sliced.aggregate(Count(()), []))
        stores[1].put(sliced.aggregate(Total((DOUBLE,)), [pa.array(chance.normal(20, 5, len(times)))]))
    for store in stores:
        store.look(CellRange(0, minutes * 60_000_000, 0, minutes * groups), None)[0]()  # sums of tiles count, too
    assert len(stores[0]) == len(stores[1]) == groups * 720
    assert sum(store.nbytes for store in stores) / len(stores[0]) <= 40


def test_a_group_that_lags_does_not_keep_the_cells_of_others() -> None:
    """One group is 100 slots behind the other: their cells of a slot lie far apart in the log."""
    store, position = TileStore(Count(())), 0
    for second in range(3000):
        for group, slot in ((0, second), (1, second - 100)):
            if slot >= 0:
                cells = slice_rows(np.array([slot * 10]), np.array([position]), np.array([group]), 10)
                store.put(cells.aggregate(Count(()), []))
                position += 1
    store.forget_before(15_000, 0)
    assert int(store.view().rows.sum()) <= position // 2 + 120


@pytest.mark.parametrize(("apart", "widest_s"), [(1, 3600), (tiles.SLOT_POSITIONS, 60)])
def test_slots_grow_wide_only_where_their_rows_lie_near_to_each_other_in_the_log(apart: int, widest_s: int) -> None:
    """Readings once a minute of one sensor: alone in the log, or among many others."""
    partial, second = Count(()), 1_000_000
    store = TileStore(partial)
    for minute in range(600):
        place = np.array([minute * apart])
        store.put(
            slice_rows(np.array([minute * 60 * second]), place, np.zeros(1, np.int64), second).aggregate(partial, [])
        )
    assert store.view().widths.max() == widest_s * second


def test_fine_cells_with_rows_among_those_of_a_wider_slot_become_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A short window had some minutes sliced in seconds; a longer one has the rest of that hour sliced as one slot."""
    monkeypatch.setattr(tiles, "RECENT", 0)
    monkeypatch.setattr(tiles, "SLOT_ROWS", 500)
    partial, second = Count(()), 1_000_000
    store, positions = TileStore(partial), np.arange(3600)
    is_fine = (positions >= 1810) & (positions < 2030)  # cuts tiles of a minute and of ten
    for chosen, width in ((is_fine, second), (~is_fine, 3600 * second)):
        rows = positions[chosen]
        store.put(slice_rows(rows * second, rows * 1000, np.zeros(len(rows), np.int64), width).aggregate(partial, []))
    later = np.array([3 * 86_400 * second]), np.array([9_999_999]), np.zeros(1, np.int64)
    store.put(slice_rows(*later, second).aggregate(partial, []))
    look = CellRange(1800 * second, 3 * 86_400 * second, 0, 10_000_000)
    (slot,) = store.unrefined(look)
    assert (slot.start, slot.width, slot.rows) == (0, 3600 * second, 3600)
    assert int(store.view().rows.sum()) == 3601
