"""The cells of an exact measure in tiles: sorted arrays of neighbouring slots, with a sum per group, and the newest cells apart.

A *slot* is the time of one slice. A tile never changes: cells that come for it make a new one. The cells of the last commits
stay apart, as they came: so an answer at one of the last cycles can leave out the rows that came after it.

Where readings are few, slots grow wide: an older tile with few rows per cell becomes one slot of the next level. Where an edge of a window
cuts that slot, so few rows are soon read (`edge_rows`). So sensors that send once a minute have cells of an hour.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from itertools import chain

import numpy as np

from penstock.expr.windows import FOREVER
from penstock.operators.aggregate.partials.base import Ints, Mergeable, Numbers
from penstock.operators.aggregate.partials.cell_sums import (
    CellRange,
    CombinedCells,
    Panes,
    Slots,
    Summands,
    UncoveredRows,
    add_up,
    combine,
    uncovered,
)
from penstock.operators.aggregate.partials.cells import Cells, concat_cells, distinct_groups, no_cells

TILE_SLOTS = (60, 10, 1)
"""How many slots a tile may span: fewer where a slot has many groups."""
TILE_CELLS = 1 << 18
RECENT = 16
"""So many of the last batches of cells stay apart."""
RECENT_CELLS = 1 << 14
SLOT_ROWS = 1 << 14
"""A slot is made as wide as a tile while it has no more rows than this: so many are read where a window cuts it."""
SLOT_POSITIONS = 1 << 16
"""And while its rows lie so near to each other in the log: what lies between them is read, too."""
CELL_ROWS = 4
"""And while its cells have no more rows than this on average: otherwise little is saved by wider ones."""
SLOT_MAX_US = 3_600_000_000
ALWAYS = -(1 << 63)
"""Before every time that a window may begin at."""
_SMALL = np.iinfo(np.int32)


class CellTile:
    """Cells of one width, by slot and group. Slots without cells are not there; the log positions are those of a slot."""

    def __init__(self, cells: Cells) -> None:
        """Of cells that are sorted by start and group, each pair once."""
        self.width = int(cells.widths[0])
        self.slots, begins = np.unique(cells.starts, return_index=True)
        self.firsts, self.lasts = np.minimum.reduceat(cells.firsts, begins), np.maximum.reduceat(cells.lasts, begins)
        self.bounds = np.append(begins, len(cells))
        self.row_count = int(cells.rows.sum())
        self.groups = cells.groups.astype(np.int32)
        self.rows = _packed(cells.rows)
        self.state = {name: _packed(field, self.rows) for name, field in cells.state.items()}
        self._sum: Cells | None = None

    def __len__(self) -> int:
        return len(self.groups)

    def nbytes(self, partial: Mergeable) -> int:
        shared = sum(f.nbytes for f in self.state.values() if f is self.rows or f.strides == (0,))
        known = (self.slots, self.firsts, self.lasts, self.bounds, self.groups, self.rows)
        return sum(column.nbytes for column in known) + partial.nbytes(self.state) - shared

    def cells(self, partial: Mergeable, chosen: np.ndarray | None = None) -> Cells:
        """All cells, or those of the slots that a mask chooses."""
        counts = np.diff(self.bounds)
        slot = np.repeat(np.arange(len(self.slots)), counts)
        at: np.ndarray | slice = slice(None)
        if chosen is not None:
            at = np.flatnonzero(chosen[slot])
            slot = slot[at]
        state = {
            name: np.ascontiguousarray(self.state[name][at], dtype) for name, (dtype, _) in partial.fields().items()
        }
        widths = np.full(len(slot), self.width, np.int64)
        groups, rows = self.groups[at].astype(np.int64), self.rows[at].astype(np.int64)
        return Cells(self.slots[slot], widths, groups, self.firsts[slot], self.lasts[slot], rows, state)

    def summands(self, chosen: np.ndarray) -> Summands:
        """Groups and states of the slots that a mask chooses, as they are kept."""
        at = slice(None) if chosen.all() else np.repeat(chosen, np.diff(self.bounds))
        return self.groups[at], {name: column[at] for name, column in self.state.items()}

    def summed(self, partial: Mergeable, start: int, width: int) -> Cells:
        """One cell per group, for the whole time of the tile."""
        if self._sum is None:
            cells = self.cells(partial)
            lines = combine(cells, partial, None)
            rows = np.zeros(len(lines.groups), np.int64)
            np.add.at(rows, np.searchsorted(lines.groups, cells.groups), cells.rows)
            same = (np.full(len(rows), value) for value in (start, width, self.firsts.min(), self.lasts.max()))
            starts, widths, firsts, lasts = same
            self._sum = Cells(starts, widths, lines.groups, firsts, lasts, rows, lines.state)
        return self._sum


def _packed(field: Numbers, rows: Numbers | None = None) -> Numbers:
    """The same numbers in fewer bytes: those of `rows` if they are equal, no array for zeros alone, 32 bits for small ones."""
    if field.dtype == np.float64 and not field.any() and not np.signbit(field).any():
        return np.broadcast_to(np.zeros(1), field.shape)
    if field.dtype != np.int64:
        return field
    if rows is not None and np.array_equal(field, rows):
        return rows
    small = not len(field) or (_SMALL.min <= field.min() and field.max() <= _SMALL.max)
    return field.astype(np.int32) if small else field


class CellLevel:
    """The tiles of one width, by time."""

    def __init__(self, width: int, partial: Mergeable) -> None:
        self.width = width
        self.partial = partial
        self.tiles: dict[int, CellTile] = {}  # by start, ascending
        self._slots = TILE_SLOTS[0]

    @property
    def tile_us(self) -> int:
        return self.width * self._slots

    def put(self, cells: Cells) -> None:
        """Merge cells of other rows in."""
        largest = self._put(cells)
        while largest > TILE_CELLS and self._slots > 1:
            # Each merge writes a whole tile.
            self._slots = TILE_SLOTS[TILE_SLOTS.index(self._slots) + 1]
            known, self.tiles = self.tiles, {}
            largest = max(self._put(tile.cells(self.partial)) for tile in known.values())
        self._order()

    def _put(self, cells: Cells) -> int:
        """The number of cells of the largest tile that was written."""
        keys = np.floor_divide(cells.starts, self.tile_us) * self.tile_us
        order = np.argsort(keys, kind="stable")
        starts, begins = np.unique(keys[order], return_index=True)
        largest = 0
        for start, chosen in zip(starts.tolist(), np.split(order, begins[1:]), strict=True):
            tile = self.tiles.get(start)
            mine = cells.take(chosen)
            merged = sorted_cells([mine] if tile is None else [tile.cells(self.partial), mine], self.partial)
            self.tiles[start] = CellTile(merged)
            largest = max(largest, len(merged))
        return largest

    def take_sparse(self, before: int) -> list[Cells]:
        """Take out the tiles that end before a time and have few rows, each as one slot."""
        sparse = {
            start: tile.summed(self.partial, start, self.tile_us)
            for start, tile in self.tiles.items()
            if start + self.tile_us <= before
            and tile.row_count <= min(SLOT_ROWS, CELL_ROWS * len(tile))
            and tile.lasts.max() - tile.firsts.min() < SLOT_POSITIONS
        }
        if sparse:
            self.tiles = {start: tile for start, tile in self.tiles.items() if start not in sparse}
            self._order()
        return list(sparse.values())

    def replace(self, change: Callable[[CellTile], Cells | None]) -> None:
        """Make each tile anew of the cells that `change` gives; None: it stays as it is."""
        for start, tile in list(self.tiles.items()):
            cells = change(tile)
            if cells is not None and not len(cells):
                del self.tiles[start]
            elif cells is not None:
                self.tiles[start] = CellTile(cells)
        self._order()

    def _order(self) -> None:
        self.tiles = dict(sorted(self.tiles.items()))
        self.__dict__.pop("index", None)

    @cached_property
    def index(self) -> LevelIndex:
        return LevelIndex(self, self.partial)


class LevelIndex:
    """The slots of all tiles of a level as arrays, and the sums of its tiles."""

    def __init__(self, level: CellLevel, partial: Mergeable) -> None:
        self.tiles = list(level.tiles.values())
        self.tile_us = level.tile_us
        self.starts = list(level.tiles)
        self.slots, self.firsts, self.lasts = (
            np.concatenate([getattr(tile, name) for tile in self.tiles]) for name in ("slots", "firsts", "lasts")
        )
        self.bounds = np.cumsum([0, *(len(tile.slots) for tile in self.tiles)])  # of the slots of each tile
        self.partial = partial
        self._sums: tuple[Cells, Ints] | None = None  # and where those of each tile begin and end

    def chosen_cells(self, chosen: np.ndarray, pane: int | None) -> Iterator[Cells]:
        """The cells of chosen slots; where every slot of a tile is chosen, its sums. No sum is of two panes."""
        whole, others = self._split(chosen, pane)
        if whole.any():
            yield self._summed(whole)
        for tile, slots in others:
            yield tile.cells(self.partial, slots)

    def chosen_summands(self, chosen: np.ndarray) -> Iterator[Summands]:
        """The same where it does not matter when cells are."""
        whole, others = self._split(chosen, None)
        if whole.any():
            sums = self._summed(whole)
            yield sums.groups, sums.state
        for tile, slots in others:
            yield tile.summands(slots)

    def _split(self, chosen: np.ndarray, pane: int | None) -> tuple[np.ndarray, Iterator[tuple[CellTile, np.ndarray]]]:
        """Which tiles are chosen as a whole and have a sum, and the others with their chosen slots."""
        whole = np.logical_and.reduceat(chosen, self.bounds[:-1])
        some = np.logical_or.reduceat(chosen, self.bounds[:-1])
        if (pane is not None and pane % self.tile_us) or self.kept:
            whole[:] = False  # lists of values are not kept twice
        whole &= np.diff(self.bounds) > 1  # and the cells of one slot are its sum
        places = np.flatnonzero(some & ~whole).tolist()
        return whole, ((self.tiles[i], chosen[self.bounds[i] : self.bounds[i + 1]]) for i in places)

    def _summed(self, tiles: np.ndarray) -> Cells:
        """One cell per group of each tile that a mask chooses."""
        if self._sums is None:
            pairs = zip(self.tiles, self.starts, strict=True)
            found = [tile.summed(self.partial, start, self.tile_us) for tile, start in pairs]
            self._sums = concat_cells(found), np.cumsum([0, *map(len, found)])
        sums, bounds = self._sums
        return sums.take(np.repeat(tiles, np.diff(bounds)))

    @cached_property
    def _tile_bytes(self) -> int:
        return sum(tile.nbytes(self.partial) for tile in self.tiles) + 3 * self.slots.nbytes

    @property
    def nbytes(self) -> int:
        """Bytes of the tiles and of what is kept beside them."""
        # Sums are there twice: of each tile, and side by side.
        return self._tile_bytes + (0 if self._sums is None else 2 * bytes_of(self._sums[0], self.partial))

    @cached_property
    def kept(self) -> int:
        return sum(self.partial.kept(tile.state) for tile in self.tiles)


def sorted_cells(parts: list[Cells], partial: Mergeable) -> Cells:
    """The cells of all parts by start and group, each pair once. All have one width; those of the first part are so already."""
    cells = concat_cells(parts)
    span = int(cells.groups.max()) + 1
    keys = (cells.starts - cells.starts.min()) // cells.widths[0] * span + cells.groups
    found, firsts, at = np.unique(keys, return_index=True, return_inverse=True)
    if len(found) == len(keys):
        return cells.take(firsts)
    # The first of each pair stays as it is, and takes the others in.
    more = np.ones(len(keys), np.bool_)
    more[firsts] = False
    merged, others = cells.take(firsts), cells.take(more)
    at = at[more]
    np.minimum.at(merged.firsts, at, others.firsts)
    np.maximum.at(merged.lasts, at, others.lasts)
    np.add.at(merged.rows, at, others.rows)
    partial.merge(merged.state, at, others.state)
    return merged


def bytes_of(cells: Cells, partial: Mergeable) -> int:
    return 6 * cells.starts.nbytes + partial.nbytes(cells.state)


class TileStore:
    """The cells of one measure: every row that was folded in is in exactly one of them."""

    def __init__(self, partial: Mergeable) -> None:
        self.partial = partial
        self._levels: dict[int, CellLevel] = {}
        self._recent: list[Cells] = []
        self._newest: Cells | None = None  # those of `_recent` as one
        self.since_us = ALWAYS  # slots that end before it were forgotten
        self.pane_us = 0  # no slot is of two panes of this width; 0: there are none

    def keep_panes(self, width_us: int) -> bool:
        """Have no slot be of two panes of this width from now on; False where one is already."""
        self.pane_us = math.gcd(self.pane_us, width_us)
        recent = (width for cells in self._recent for width in np.unique(cells.widths).tolist())
        return all(self._fits(width) for width in (*self._levels, *recent))

    def _fits(self, width: int) -> bool:
        return self.pane_us % width == 0

    def __len__(self) -> int:
        return sum(map(len, self._tiles())) + sum(map(len, self._recent))

    def _tiles(self) -> Iterator[CellTile]:
        for level in self._levels.values():
            yield from level.tiles.values()

    def _blocks(self) -> list[CellTile | Cells]:
        return [*self._tiles(), *self._recent]

    @property
    def nbytes(self) -> int:
        recent = sum(bytes_of(cells, self.partial) for cells in self._recent)
        return recent + sum(level.index.nbytes for level in self._levels.values())

    @property
    def kept(self) -> int:
        """How many values its partial keeps one by one."""
        recent = sum(self.partial.kept(cells.state) for cells in self._recent)
        return recent + sum(level.index.kept for level in self._levels.values())

    def view(self) -> Cells:
        """All cells."""
        return concat_cells([no_cells(self.partial), *(t.cells(self.partial) for t in self._tiles()), *self._recent])

    def used_groups(self) -> Ints:
        return distinct_groups(block.groups for block in self._blocks())

    def put(self, cells: Cells) -> None:
        """Fold in cells of other rows."""
        if not len(cells):
            return
        self._newest = None
        self._recent.append(cells)
        sizes = np.cumsum([len(batch) for batch in reversed(self._recent)])
        if len(sizes) > 2 * RECENT or sizes[-1] > RECENT_CELLS:
            # The newest ones stay, but no more than half of the cells that may.
            self._fold(len(sizes) - min(RECENT, int(np.searchsorted(sizes, RECENT_CELLS // 2, side="right"))))

    def _fold(self, count: int) -> None:
        """Move the oldest batches into tiles."""
        cells = concat_cells(self._recent[:count])
        del self._recent[:count]
        newest = int(cells.starts.max())
        for width in np.unique(cells.widths).tolist():
            for part in self._widened(cells.take(cells.widths == width), width, newest):
                self._level(int(part.widths[0])).put(part)
        self._widen(newest)

    def _level(self, width: int) -> CellLevel:
        return self._levels.setdefault(width, CellLevel(width, self.partial))

    def _widened(self, cells: Cells, width: int, newest: int) -> Iterator[Cells]:
        """Cells of one width in slots as wide as they may be, before there are any tiles of them: a long history at once."""
        wider = width * TILE_SLOTS[0]
        if not self._may_be(wider):
            yield cells
            return
        starts = np.floor_divide(cells.starts, wider) * wider
        _, at = np.unique(starts, return_inverse=True)
        few = np.bincount(at, cells.rows) <= np.minimum(SLOT_ROWS, CELL_ROWS * np.bincount(at))
        order = np.argsort(at, kind="stable")
        begins = np.flatnonzero(np.diff(at[order], prepend=-1))
        lasts, firsts = (
            np.maximum.reduceat(cells.lasts[order], begins),
            np.minimum.reduceat(cells.firsts[order], begins),
        )
        few &= lasts - firsts < SLOT_POSITIONS
        sparse = few[at] & (starts + 2 * wider <= newest)
        if not sparse.all():
            yield cells.take(~sparse)
        if sparse.any():
            chosen = cells.take(sparse)
            wide = replace(chosen, starts=starts[sparse], widths=np.full(len(chosen), wider))
            yield from self._widened(sorted_cells([wide], self.partial), wider, newest)

    def _widen(self, newest: int) -> None:
        """Make one slot of each tile with few rows that has passed."""
        widths = sorted(self._levels)
        for width in widths:
            level = self._levels[width]
            if level.tile_us == width or not self._may_be(level.tile_us):
                continue
            sparse = level.take_sparse(newest - level.tile_us)
            if sparse:
                self._level(level.tile_us).put(concat_cells(sparse))
                if level.tile_us not in widths:
                    insort(widths, level.tile_us)
            if not level.tiles:
                del self._levels[width]

    def _may_be(self, width: int) -> bool:
        return width <= SLOT_MAX_US and self._fits(width)

    def _recent_cells(self) -> Cells:
        if self._newest is None:
            self._newest = concat_cells([no_cells(self.partial), *self._recent])
        return self._newest

    def look(self, look: CellRange, panes: Panes | None) -> tuple[Callable[[], CombinedCells], UncoveredRows]:
        """What gives the sum of the cells that lie wholly inside a range, and the rows of the log that have to be read besides."""
        levels = [level.index for level in self._levels.values()]
        newest = self._recent_cells()
        looks = [Slots.seen_by(look, newest.starts, newest.widths, newest.firsts, newest.lasts)]
        looks += [Slots.seen_by(look, i.slots, i.tiles[0].width, i.firsts, i.lasts) for i in levels]
        rest = uncovered(looks, look)

        def added_up() -> CombinedCells:
            first, pairs = newest.take(looks[0].chosen), zip(levels, looks[1:], strict=True)
            if panes is None:
                summands = (level.chosen_summands(slots.chosen) for level, slots in pairs)
                return add_up(chain([(first.groups, first.state)], *summands), self.partial)
            chosen = chain([first], *(level.chosen_cells(slots.chosen, look.pane) for level, slots in pairs))
            return combine(concat_cells([*chosen]), self.partial, panes)

        return added_up, rest

    def forget_before(self, low_us: int, floor: int) -> None:
        """Drop slots that end before a time, and those with rows below a log position only, which the log has no more."""
        if low_us > max(self.since_us, -FOREVER):
            self.since_us = low_us
        for level in self._levels.values():
            level.replace(lambda tile: self._left(tile, floor))
        self._levels = {width: level for width, level in self._levels.items() if level.tiles}
        recent = [c.take((c.starts + c.widths > self.since_us) & (c.lasts >= floor)) for c in self._recent]
        self._recent, self._newest = [cells for cells in recent if len(cells)], None

    def _left(self, tile: CellTile, floor: int) -> Cells | None:
        kept = (tile.slots + tile.width > self.since_us) & (tile.lasts >= floor)
        return None if kept.all() else tile.cells(self.partial, kept)

    def renumber(self, numbers: Ints) -> None:
        """Group g is number numbers[g] from now on."""
        cells = self.view()
        self._levels, self._recent, self._newest = {}, [], None
        self.put(replace(cells, groups=numbers[cells.groups]))
