"""The cells of an exact measure in tiles: sorted arrays of neighbouring slots, with a sum per group, and the newest cells apart.

A *slot* is the time of one slice. A tile never changes: cells that come for it make a new one. The cells of the last commits
stay apart, as they came: so an answer at one of the last cycles can leave out the rows that came after it.

Where readings are few, slots grow wide: an older tile with few rows per cell becomes one slot of the next level. Where an edge of a window
cuts that slot, so few rows are soon read (`edge_rows`). So sensors that send once a minute have cells of an hour. A store with very many
cells has wide slots of many rows, too; where an edge cuts one of them, it is made again in finer slots, once (`refine`).
"""

from __future__ import annotations

import math
from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

import numpy as np

from penstock.cache import Cache
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

TILE_SLOTS, TILE_HOURS = (60, 10, 1), (24, 6, 1)
"""How many slots, or hours, a tile may span: fewer where a slot has many groups."""
TILE_CELLS = 1 << 18
RECENT = 16
"""So many of the last batches of cells stay apart."""
RECENT_CELLS = 1 << 14
SLOT_ROWS = 1 << 14
"""A slot is made as wide as a tile while it has no more rows than this: so many are read where a window cuts it."""
SLOT_POSITIONS = 1 << 16
"""And while its rows lie so near to each other in the log: what lies between them is read, too."""
MANY_CELLS, WIDE_ROWS = 1 << 22, 1 << 20
"""With so many cells, a slot may have so many rows, wherever in the log."""
REFINED_US, REFINED_BYTES = 1_000_000, 64 << 20
"""Where an edge cuts a slot with rows further apart than SLOT_POSITIONS, it is made again in slots of this width; so many bytes of those are kept."""
CELL_ROWS = 4
"""And while its cells have no more rows than this on average, or it has one slot: otherwise little is saved by wider ones."""
HOUR_US, SLOT_MAX_US = 3_600_000_000, 24 * 3_600_000_000
ALWAYS = -(1 << 63)
"""Before every time that a window may begin at."""
_SMALL = np.iinfo(np.int32)


def tile_slots(width: int) -> tuple[int, ...]:
    """How many slots of a width a tile may span."""
    return TILE_HOURS if width == HOUR_US else TILE_SLOTS


def refined_width(width: int) -> int:
    """The width of the slots that a slot is made again in."""
    return math.gcd(width, REFINED_US)


def may_be_slot(width: int, pane_us: int) -> bool:
    """Whether slots may be so wide: none is of two panes; 0: there are no panes."""
    return width <= SLOT_MAX_US and pane_us % width == 0


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
        self._slots = tile_slots(width)[0]

    @property
    def tile_us(self) -> int:
        return self.width * self._slots

    def put(self, cells: Cells) -> None:
        """Merge cells of other rows in."""
        largest = self._put(cells)
        while largest > TILE_CELLS and self._slots > 1:
            # Each merge writes a whole tile.
            fewer = tile_slots(self.width)
            self._slots = fewer[fewer.index(self._slots) + 1]
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

    def take_sparse(self, before: int, most_rows: int, most_positions: int) -> list[Cells]:
        """Take out the tiles that end before a time and have few rows, each as one slot."""
        sparse = {
            start: tile.summed(self.partial, start, self.tile_us)
            for start, tile in self.tiles.items()
            if start + self.tile_us <= before
            and tile.row_count <= (most_rows if len(tile.slots) == 1 else min(most_rows, CELL_ROWS * len(tile)))
            and tile.lasts.max() - tile.firsts.min() < most_positions
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

    def slot_rows(self, place: int) -> int:
        """How many rows a slot has."""
        at = int(np.searchsorted(self.bounds, place, side="right")) - 1
        tile, own = self.tiles[at], place - int(self.bounds[at])
        return int(tile.rows[tile.bounds[own] : tile.bounds[own + 1]].sum())

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


@dataclass(frozen=True, slots=True)
class CutSlot:
    """A wide slot that an edge of a window cuts, with the first and last log position of its rows."""

    start: int
    width: int
    first: int
    last: int
    rows: int


class TileStore:
    """The cells of one measure: every row that was folded in is in exactly one of them."""

    def __init__(self, partial: Mergeable) -> None:
        self.partial = partial
        self._levels: dict[int, CellLevel] = {}
        self._recent: list[Cells] = []
        self._newest: Cells | None = None  # those of `_recent` as one
        self.since_us = ALWAYS  # slots that end before it were forgotten
        self.pane_us = 0  # no slot is of two panes of this width; 0: there are none
        self._refined: Cache[CutSlot, CellTile] = Cache(most_bytes=REFINED_BYTES)

    def keep_panes(self, width_us: int) -> bool:
        """Have no slot be of two panes of this width from now on; False where one is already."""
        self.pane_us = math.gcd(self.pane_us, width_us)
        recent = (width for cells in self._recent for width in np.unique(cells.widths).tolist())
        return all(self._fits(width) for width in (*self._levels, *recent))

    def _fits(self, width: int) -> bool:
        return self.pane_us % width == 0

    def __len__(self) -> int:
        return sum(map(len, self._tiles())) + sum(map(len, self._recent))

    @property
    def levels(self) -> dict[int, int]:
        """By width, how many cells there are; the widest first."""
        found = Counter({width: sum(map(len, level.tiles.values())) for width, level in self._levels.items()})
        for cells in self._recent:
            widths, counts = np.unique(cells.widths, return_counts=True)
            found.update(dict(zip(widths.tolist(), counts.tolist(), strict=True)))
        return dict(sorted(found.items(), reverse=True))

    def _tiles(self) -> Iterator[CellTile]:
        for level in self._levels.values():
            yield from level.tiles.values()

    def _blocks(self) -> list[CellTile | Cells]:
        return [*self._tiles(), *self._recent]

    @property
    def nbytes(self) -> int:
        recent = sum(bytes_of(cells, self.partial) for cells in self._recent)
        return recent + self._refined.nbytes + sum(level.index.nbytes for level in self._levels.values())

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
        wider = width * tile_slots(width)[0]
        if not may_be_slot(wider, self.pane_us):
            yield cells
            return
        starts = np.floor_divide(cells.starts, wider) * wider
        _, at = np.unique(starts, return_inverse=True)
        most_rows, most_positions = self._slot_limits()
        slots = np.bincount(np.unique(np.stack((at, cells.starts)), axis=1)[0])
        most = np.where(slots == 1, most_rows, np.minimum(most_rows, CELL_ROWS * np.bincount(at)))
        few = np.bincount(at, cells.rows) <= most
        order = np.argsort(at, kind="stable")
        begins = np.flatnonzero(np.diff(at[order], prepend=-1))
        lasts, firsts = (
            np.maximum.reduceat(cells.lasts[order], begins),
            np.minimum.reduceat(cells.firsts[order], begins),
        )
        few &= lasts - firsts < most_positions
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
            if level.tile_us == width or not may_be_slot(level.tile_us, self.pane_us):
                continue
            sparse = level.take_sparse(newest - level.tile_us, *self._slot_limits())
            if sparse:
                self._level(level.tile_us).put(concat_cells(sparse))
                if level.tile_us not in widths:
                    insort(widths, level.tile_us)
            if not level.tiles:
                del self._levels[width]

    def _slot_limits(self) -> tuple[int, int]:
        """How many rows a slot may have that is made wider, and how many log positions they may span."""
        return (WIDE_ROWS, FOREVER) if len(self) > MANY_CELLS else (SLOT_ROWS, SLOT_POSITIONS)

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
        refined = [tile for index, slots in zip(levels, looks[1:], strict=True) for tile in self._finer(index, slots)]
        finer = [Slots.seen_by(look, tile.slots, tile.width, tile.firsts, tile.lasts) for tile in refined]
        rest = uncovered([*looks, *finer], look)

        def added_up() -> CombinedCells:
            pairs = zip(levels, looks[1:], strict=True)
            own = [newest.take(looks[0].chosen)]
            own += [tile.cells(self.partial, slots.chosen) for tile, slots in zip(refined, finer, strict=True)]
            if panes is None:
                summands = (level.chosen_summands(slots.chosen) for level, slots in pairs)
                return add_up(chain(((c.groups, c.state) for c in own), *summands), self.partial)
            chosen = chain(own, *(level.chosen_cells(slots.chosen, look.pane) for level, slots in pairs))
            return combine(concat_cells([*chosen]), self.partial, panes)

        return added_up, rest

    def _finer(self, index: LevelIndex, slots: Slots) -> Iterator[CellTile]:
        """Finer cells of the slots that are cut, where they are known; those slots are not used then."""
        for place, slot in self._cut(index, slots):
            tile = self._refined.get(slot)
            if tile is not None:
                slots.seen[place] = slots.cut[place] = False
                yield tile

    def _cut(self, index: LevelIndex, slots: Slots) -> Iterator[tuple[int, CutSlot]]:
        """The slots that are cut and have rows far apart in the log, and their places."""
        width = index.tiles[0].width
        cut = (
            slots.cut & (index.lasts - index.firsts >= SLOT_POSITIONS)
            if width > refined_width(width)
            else slots.cut[:0]
        )
        for place in np.flatnonzero(cut).tolist():
            first, last = int(index.firsts[place]), int(index.lasts[place])
            yield place, CutSlot(int(index.slots[place]), width, first, last, index.slot_rows(place))

    def unrefined(self, look: CellRange) -> list[CutSlot]:
        """The slots with rows far apart that a look cuts, and that are not known in finer cells."""
        found = []
        for index in (level.index for level in self._levels.values()):
            slots = Slots.seen_by(look, index.slots, index.tiles[0].width, index.firsts, index.lasts)
            found += [slot for _, slot in self._cut(index, slots) if self._refined.get(slot) is None]
        return found

    def refine(self, slot: CutSlot, cells: list[Cells]) -> None:
        """Keep the cells of a slot in finer ones, too; not if rows have come for it meanwhile, or are gone."""
        tile = CellTile(sorted_cells(cells, self.partial)) if sum(map(len, cells)) else None
        if tile is not None and tile.row_count == slot.rows:
            self._refined.put(slot, tile, tile.nbytes(self.partial))

    def release(self) -> None:
        """Forget what is known twice."""
        self._refined.clear()

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
        self.release()
        self.put(replace(cells, groups=numbers[cells.groups]))
