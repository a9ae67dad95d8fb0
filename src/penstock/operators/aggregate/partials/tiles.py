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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from functools import cached_property
from itertools import chain
from typing import NamedTuple

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

TILE_SLOTS = (60, 10, 1)
"""How many slots a tile may span: fewer where a slot has many groups."""
TILE_CELLS = 1 << 18
RECENT = 16
"""So many of the last batches of cells stay apart."""
RECENT_CELLS, FEW_RECENT = 1 << 14, 1 << 12
"""But no more than so many cells, which take three times as much there; of small stores no more than so many."""
SLOT_ROWS = 1 << 14
"""A slot is made as wide as a tile while it has no more rows than this: so many are read where a window cuts it."""
SLOT_POSITIONS = 1 << 16
"""And while its rows lie so near to each other in the log: what lies between them is read, too."""
MANY_CELLS, WIDE_ROWS = 1 << 22, 1 << 20
"""With so many cells, a slot may have so many rows, wherever in the log, and however many per cell."""
REFINED_US, REFINED_BYTES = 1_000_000, 128 << 20
"""Where an edge cuts a slot with rows further apart than SLOT_POSITIONS, it is made again in finer slots, the finest of this width; so many
bytes of those are kept."""
CELL_ROWS = 4
"""And while its cells have no more rows than this on average, or it has one slot: otherwise little is saved by wider ones. Not with many cells."""
MINUTE_US, HOUR_US = 60_000_000, 3_600_000_000
SLOT_MAX_US = 24 * HOUR_US
_TILE_SLOTS = {10_000_000: (6, 1), 10 * MINUTE_US: (6, 1), HOUR_US: (24, 6, 1), 6 * HOUR_US: (4, 1)}
_REFINED = (6 * HOUR_US, HOUR_US, 10 * MINUTE_US, MINUTE_US, 10_000_000)
ALWAYS = -(1 << 63)
"""Before every time that a window may begin at."""
_SMALL = np.iinfo(np.int32)
_ONE = np.ones(1, np.bool_)


def tile_slots(width: int) -> tuple[int, ...]:
    """How many slots of a width a tile may span: where it is one slot later, its width is one of the usual ones."""
    return _TILE_SLOTS.get(width, TILE_SLOTS)


def refined_width(width: int) -> int:
    """The width of the slots that a slot is made again in: the next smaller one of the usual ones."""
    return next((w for w in _REFINED if w < width and width % w == 0), math.gcd(width, REFINED_US))


def may_be_slot(width: int, pane_us: int) -> bool:
    """Whether slots may be so wide: none is of two panes; 0: there are no panes."""
    return width <= SLOT_MAX_US and pane_us % width == 0


@dataclass(frozen=True, slots=True, eq=False)
class CellFile:
    """A file that has tiles, and how many cells are in all of them."""

    name: str
    cells: int


_SLOT_COLUMNS, _STATE = ("slots", "firsts", "lasts", "bounds", "groups", "rows"), "state."


class SlotLimits(NamedTuple):
    """What a slot may have that is made wider: so many rows, within so many log positions, and so many per cell on average."""

    rows: int
    positions: int
    per_cell: int


class CellTile:
    """Cells of one width, by slot and group. Slots without cells are not there; the log positions are those of a slot."""

    def __init__(self, cells: Cells) -> None:
        """Of cells that are sorted by start and group, each pair once."""
        self.file: tuple[CellFile, int] | None = None  # where it is on disk, and its place there
        self.width = int(cells.widths[0])
        self.slots, begins = np.unique(cells.starts, return_index=True)
        self.firsts, self.lasts = np.minimum.reduceat(cells.firsts, begins), np.maximum.reduceat(cells.lasts, begins)
        self.bounds = np.append(begins, len(cells))
        self.row_count = int(cells.rows.sum())
        self.groups = cells.groups.astype(np.int32)
        self.rows = _packed(cells.rows)
        self.state = {name: _packed(field, self.rows) for name, field in cells.state.items()}
        self.sum: CellTile | None = None

    @staticmethod
    def of(width: int, columns: Mapping[str, Numbers], partial: Mergeable) -> CellTile:
        """A tile of the columns that another one had (`columns`); KeyError where they are not those of the partial."""
        tile = CellTile.__new__(CellTile)
        tile.width, tile.file, tile.sum = width, None, None
        tile.slots, tile.firsts, tile.lasts, tile.bounds = (columns[name] for name in _SLOT_COLUMNS[:4])
        tile._take_cells(columns, partial.fields())
        tile.row_count = int(tile.rows.sum())
        return tile

    def _take_cells(self, columns: Mapping[str, Numbers], fields: Iterable[str]) -> None:
        self.groups, self.rows = columns["groups"], columns["rows"]
        found = {name: columns[_STATE + name] for name in fields}
        # No cells are left out of a column, but those of one number stand for all, and none for those of the rows.
        self.state = {name: self.rows if not len(c) else _spread(c, len(self.rows)) for name, c in found.items()}

    def columns(self) -> dict[str, Numbers]:
        """All arrays by name. A column that equals the number of rows is empty; one of zeros alone has one of them."""
        found = {name: getattr(self, name) for name in _SLOT_COLUMNS}
        for name, column in self.state.items():
            short = 0 if column is self.rows else 1 if column.strides == (0,) else None
            found[_STATE + name] = column[:short]
        return found

    def adopt(self, columns: Mapping[str, Numbers], file: CellFile, place: int) -> None:
        """Use the arrays of a file, which are the same."""
        self._take_cells(columns, self.state)
        self.file = file, place

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
        # Copies: kernels would be compiled again for arrays of a file, which cannot be written to.
        state = {name: np.array(self.state[name][at], dtype) for name, (dtype, _) in partial.fields().items()}
        widths = np.full(len(slot), self.width, np.int64)
        groups, rows = self.groups[at].astype(np.int64), self.rows[at].astype(np.int64)
        return Cells(self.slots[slot], widths, groups, self.firsts[slot], self.lasts[slot], rows, state)

    def slot_rows(self, place: int) -> int:
        """How many rows a slot has."""
        return int(self.rows[self.bounds[place] : self.bounds[place + 1]].sum())

    def summands(self, chosen: np.ndarray) -> Summands:
        """Groups and states of the slots that a mask chooses, as they are kept."""
        at = slice(None) if chosen.all() else np.repeat(chosen, np.diff(self.bounds))
        return self.groups[at], {name: column[at] for name, column in self.state.items()}

    def summed(self, partial: Mergeable, start: int, width: int) -> CellTile:
        """One cell per group, for the whole time of the tile."""
        if self.sum is None:
            cells = self.cells(partial)
            lines = combine(cells, partial, None)
            rows = np.zeros(len(lines.groups), np.int64)
            np.add.at(rows, np.searchsorted(lines.groups, cells.groups), cells.rows)
            same = (np.full(len(rows), value) for value in (start, width, self.firsts.min(), self.lasts.max()))
            starts, widths, firsts, lasts = same
            self.sum = CellTile(Cells(starts, widths, lines.groups, firsts, lasts, rows, lines.state))
        return self.sum


class LevelTile(NamedTuple):
    """A tile, when it begins, and how many slots a tile of its level may have; 0: it has finer cells of a wide slot."""

    start: int
    slots: int
    tile: CellTile

    @property
    def is_refined(self) -> bool:
        return not self.slots


def _spread(column: Numbers, count: int) -> Numbers:
    return np.broadcast_to(column, count) if len(column) < count else column


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
        self.slots = tile_slots(width)[0]  # that a tile may have

    @property
    def tile_us(self) -> int:
        return self.width * self.slots

    def level_tiles(self) -> list[LevelTile]:
        return [LevelTile(start, self.slots, tile) for start, tile in self.tiles.items()]

    def put(self, cells: Cells) -> None:
        """Merge cells of other rows in."""
        largest = self._put(cells)
        while largest > TILE_CELLS and self.slots > 1:
            # Each merge writes a whole tile.
            fewer = tile_slots(self.width)
            self.slots = fewer[fewer.index(self.slots) + 1]
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

    def take_sparse(
        self, before: int, most: SlotLimits, edge: int | None = None, wider: Sequence[LevelIndex] = ()
    ) -> list[Cells]:
        """Take out the tiles that end before a time and have few rows, or rows among those of a wider slot, each as one slot.

        None is on both sides of an edge.
        """
        sparse = {
            start: tile.summed(self.partial, start, self.tile_us).cells(self.partial)
            for start, tile in self.tiles.items()
            if start + self.tile_us <= before
            and not (edge is not None and start < edge < start + self.tile_us)
            and (_has_few_rows(tile, most) or any(level.surrounds(start, tile) for level in wider))
        }
        if sparse:
            self.tiles = {start: tile for start, tile in self.tiles.items() if start not in sparse}
            self._order()
        return list(sparse.values())

    def take(self, tiles: Mapping[int, CellTile], slots: int) -> bool:
        """Take tiles in as they are; False where those of a level with other tiles cannot be."""
        if not self.tiles:
            self.slots = slots
        if slots != self.slots or not self.tiles.keys().isdisjoint(tiles):
            return False
        self.tiles |= tiles
        self._order()
        return True

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


def _has_few_rows(tile: CellTile, most: SlotLimits) -> bool:
    rows = most.rows if len(tile.slots) == 1 else min(most.rows, most.per_cell * len(tile))
    return tile.row_count <= rows and int(tile.lasts.max() - tile.firsts.min()) < most.positions


class LevelIndex:
    """The slots of all tiles of a level as arrays, and the sums of its tiles."""

    def __init__(self, level: CellLevel, partial: Mergeable) -> None:
        self.tiles = list(level.tiles.values())
        self.width = level.width
        self.tile_us = level.tile_us
        self.starts = list(level.tiles)
        self.slots, self.firsts, self.lasts = (
            np.concatenate([getattr(tile, name) for tile in self.tiles]) for name in ("slots", "firsts", "lasts")
        )
        self.bounds = np.cumsum([0, *(len(tile.slots) for tile in self.tiles)])  # of the slots of each tile
        self.partial = partial
        self._sum_bytes = sum(tile.sum.nbytes(partial) for tile in self.tiles if tile.sum is not None)

    def surrounds(self, start: int, tile: CellTile) -> bool:
        """Whether a slot has the time of a finer tile, and rows before and after those of the tile in the log.

        A fill of a longer window leaves such a tile: it reads what lies around a part that was sliced for a shorter one. The slot can be
        made again in finer ones only when it has all of these rows (`TileStore.refine`).
        """
        place = int(np.searchsorted(self.slots, start, side="right")) - 1
        if place < 0 or start >= self.slots[place] + self.width:
            return False
        return bool(self.firsts[place] < tile.firsts.min() and tile.lasts.max() < self.lasts[place])

    def chosen_cells(self, chosen: np.ndarray, pane: int | None) -> Iterator[Cells]:
        """The cells of chosen slots; where every slot of a tile is chosen, its sums. No sum is of two panes."""
        for tile, slots in self._chosen(chosen, pane):
            yield tile.cells(self.partial, slots)

    def chosen_summands(self, chosen: np.ndarray) -> Iterator[Summands]:
        """The same where it does not matter when cells are."""
        for tile, slots in self._chosen(chosen, None):
            yield tile.summands(slots)

    def _chosen(self, chosen: np.ndarray, pane: int | None) -> Iterator[tuple[CellTile, np.ndarray]]:
        """The tiles with chosen slots, and which; in place of a tile that is chosen as a whole its sum, where it has one."""
        whole = np.logical_and.reduceat(chosen, self.bounds[:-1])
        some = np.logical_or.reduceat(chosen, self.bounds[:-1])
        if (pane is not None and pane % self.tile_us) or self.kept:
            whole[:] = False  # lists of values are not kept twice
        whole &= np.diff(self.bounds) > 1  # and the cells of one slot are its sum
        for place in np.flatnonzero(some).tolist():
            if whole[place]:
                yield self._summed(place), _ONE
            else:
                yield self.tiles[place], chosen[self.bounds[place] : self.bounds[place + 1]]

    def _summed(self, place: int) -> CellTile:
        tile = self.tiles[place]
        is_new = tile.sum is None
        found = tile.summed(self.partial, self.starts[place], self.tile_us)
        self._sum_bytes += found.nbytes(self.partial) if is_new else 0
        return found

    def slot_rows(self, place: int) -> int:
        """How many rows a slot has."""
        at = int(np.searchsorted(self.bounds, place, side="right")) - 1
        return self.tiles[at].slot_rows(place - int(self.bounds[at]))

    @cached_property
    def _tile_bytes(self) -> int:
        return sum(tile.nbytes(self.partial) for tile in self.tiles) + 3 * self.slots.nbytes

    @property
    def nbytes(self) -> int:
        """Bytes of the tiles and of what is kept beside them."""
        return self._tile_bytes + self._sum_bytes

    @cached_property
    def kept(self) -> int:
        return sum(self.partial.kept(tile.state) for tile in self.tiles)


def _last_end(starts: Ints, ends: Ints, edge: int) -> int:
    """The latest end of slots that are on both sides of a time; the time itself where none is."""
    return int(ends[(starts < edge) & (ends > edge)].max(initial=edge))


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


def _seen_by(look: CellRange, source: CellTile | LevelIndex) -> Slots:
    return Slots.seen_by(look, source.slots, source.width, source.firsts, source.lasts)


def _far_apart(source: CellTile | LevelIndex, slots: Slots) -> Iterator[tuple[int, CutSlot]]:
    """The slots that are cut and have rows far apart in the log, and their places."""
    if source.width > refined_width(source.width):
        for place in np.flatnonzero(slots.cut & (source.lasts - source.firsts >= SLOT_POSITIONS)).tolist():
            first, last = int(source.firsts[place]), int(source.lasts[place])
            yield place, CutSlot(int(source.slots[place]), source.width, first, last, source.slot_rows(place))


class TileStore:
    """The cells of one measure: every row that was folded in is in exactly one of them."""

    def __init__(self, partial: Mergeable, slot_us: int = 0) -> None:
        """`slot_us`: narrower cells become slots of this width once they are not the newest; 0: all stay as they come."""
        self.partial = partial
        self._slot_us = slot_us
        self._levels: dict[int, CellLevel] = {}
        self._recent: list[Cells] = []
        self._newest: Cells | None = None  # those of `_recent` as one
        self.since_us = ALWAYS  # slots that end before it were forgotten
        self.pane_us = slot_us  # no slot is of two panes of this width; 0: there are none
        self.edge_us: int | None = None  # no slot is on both sides of this time
        self._refined: Cache[CutSlot, CellTile] = Cache(most_bytes=REFINED_BYTES)

    def set_edge(self) -> int:
        """Find a time after which all rows are known and that no slot is on both sides of; from now on, none will be."""
        blocks = [*((t.slots, t.slots + t.width) for t in self._tiles()), *((c.starts, c.ends) for c in self._recent)]
        edge = -(-self.since_us // HOUR_US) * HOUR_US  # so that slots before it can be wide
        while (later := max((_last_end(*block, edge) for block in blocks), default=edge)) > edge:
            edge = later
        self.edge_us = edge
        return edge

    def take_older(self, older: TileStore) -> bool:
        """Take in the cells of all rows before the edge, in place of what is known of them; False where a slot is on both sides."""
        assert self.edge_us is not None
        edge, self.edge_us = self.edge_us, None
        blocks = [*((t.slots, t.slots + t.width) for t in self._tiles()), *((c.starts, c.ends) for c in self._recent)]
        if any(_last_end(*block, edge) > edge for block in blocks):
            return False
        self._keep(lambda starts, _ends, _lasts: starts >= edge)
        self.since_us = older.since_us
        self.release()
        self.take_tiles([each for level in older._levels.values() for each in level.level_tiles()], np.arange(0))
        for cells in older._recent:
            self.put(cells)
        return True

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
    def apart(self) -> int:
        """How many cells are in no tile yet."""
        return sum(map(len, self._recent))

    @property
    def apart_bytes(self) -> int:
        return sum(bytes_of(cells, self.partial) for cells in self._recent)

    @property
    def nbytes(self) -> int:
        return self.apart_bytes + self._refined.nbytes + sum(level.index.nbytes for level in self._levels.values())

    @property
    def refined_bytes(self) -> int:
        """Those of finer cells of wide slots."""
        return self._refined.nbytes

    @property
    def span_us(self) -> int:
        """From the first slot to the last."""
        starts = [level.index.slots for level in self._levels.values()] + [cells.starts for cells in self._recent]
        ends = [level.index.slots + width for width, level in self._levels.items()] + [c.ends for c in self._recent]
        return int(max(each.max() for each in ends) - min(each.min() for each in starts)) if ends else 0

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

    @property
    def files(self) -> dict[str, list[int]]:
        """By name, the files with some of the cells, and the places of their tiles there."""
        found: dict[str, list[int]] = {}
        for tile in (*self._tiles(), *self._refined.values()):
            if tile.file is not None:
                found.setdefault(tile.file[0].name, []).append(tile.file[1])
        return found

    @property
    def refined_files(self) -> list[tuple[str, int, tuple[int, ...]]]:
        """The files and places of tiles that are finer cells of a slot, and the slot."""
        filed = ((slot, tile.file) for slot, tile in self._refined.items() if tile.file is not None)
        return [(file.name, place, astuple(slot)) for slot, (file, place) in filed]

    def unfiled(self, settled: bool = False) -> list[LevelTile]:
        """The tiles that no file has; of a file that is mostly of tiles that are no more, they are to be in a new one.

        `settled`: without the one with the newest slot, which the next cells in order replace.
        """
        if any(dtype is object for dtype, _ in self.partial.fields().values()):
            return []
        used = Counter[CellFile]()
        for tile in (*self._tiles(), *self._refined.values()):
            if tile.file is not None:
                used[tile.file[0]] += len(tile)
        found = [
            *(each for level in self._levels.values() for each in level.level_tiles()),
            *(LevelTile(slot.start, 0, tile) for slot, tile in self._refined.items()),
        ]
        newest = max(self._tiles(), key=lambda tile: int(tile.slots[-1]), default=None) if settled else None
        found = [each for each in found if each.tile is not newest]
        return [e for e in found if e.tile.file is None or 2 * used[e.tile.file[0]] < e.tile.file[0].cells]

    def unfiled_cells(self) -> Cells:
        """All cells that are in no file."""
        tiles = (tile.cells(self.partial) for tile in self._tiles() if tile.file is None)
        return concat_cells([no_cells(self.partial), *tiles, *self._recent])

    def take_tiles(
        self,
        tiles: Iterable[LevelTile],
        numbers: Ints,
        refined: Sequence[tuple[str, int, Sequence[int]]] = (),
    ) -> None:
        """Take in tiles of files, with other rows than those that are known. Group g of a file is number numbers[g].

        `refined`: those of them that are finer cells of a slot (`refined_files`).
        """
        by_level: dict[tuple[int, int], dict[int, CellTile]] = {}
        finer = {(name, place): CutSlot(*slot) for name, place, slot in refined}
        # Those of the same process have the same numbers, as most have after a restart.
        same = np.array_equal(numbers, np.arange(len(numbers)))
        for start, slots, tile in tiles:
            slot = finer.get((tile.file[0].name, tile.file[1])) if tile.file is not None else None
            if not same:
                tile.groups, tile.file = numbers[tile.groups].astype(np.int32), None
            if slot is not None:
                self._refined.put(slot, tile, tile.nbytes(self.partial))
            else:
                by_level.setdefault((tile.width, slots), {})[start] = tile
        for (width, slots), found in by_level.items():
            if slots not in tile_slots(width) or not self._level(width).take(found, slots):
                self.put(concat_cells([tile.cells(self.partial) for tile in found.values()]))

    def put(self, cells: Cells) -> None:
        """Fold in cells of other rows, but those that would be forgotten."""
        if self.since_us != ALWAYS:
            cells = cells.take(cells.ends > self.since_us)
        if not len(cells):
            return
        self._newest = None
        self._recent.append(cells)
        sizes = np.cumsum([len(batch) for batch in reversed(self._recent)])
        most = min(RECENT_CELLS, max(FEW_RECENT, len(self) // 32))
        if len(sizes) > 2 * RECENT or sizes[-1] > most:
            # The newest ones stay, but no more than half of the cells that may.
            self._fold(len(sizes) - min(RECENT, int(np.searchsorted(sizes, most // 2, side="right"))))

    def _fold(self, count: int) -> None:
        """Move the oldest batches into tiles."""
        cells = self._in_slots(concat_cells(self._recent[:count]))
        del self._recent[:count]
        newest = int(cells.starts.max())
        for width in np.unique(cells.widths).tolist():
            for part in self._widened(cells.take(cells.widths == width), width, newest):
                self._level(int(part.widths[0])).put(part)
        self._widen(newest)

    def _in_slots(self, cells: Cells) -> Cells:
        """Cells with the times of the slots that they are part of."""
        if not self._slot_us:
            return cells
        starts = np.floor_divide(cells.starts, self._slot_us) * self._slot_us
        return replace(cells, starts=starts, widths=np.full(len(cells), self._slot_us))

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
        limits = self._slot_limits()
        _, slots = np.unique(np.floor_divide(np.unique(cells.starts), wider), return_counts=True)
        most = np.where(slots == 1, limits.rows, np.minimum(limits.rows, limits.per_cell * np.bincount(at)))
        few = np.bincount(at, cells.rows) <= most
        order = np.argsort(at, kind="stable")
        begins = np.flatnonzero(np.diff(at[order], prepend=-1))
        lasts, firsts = (
            np.maximum.reduceat(cells.lasts[order], begins),
            np.minimum.reduceat(cells.firsts[order], begins),
        )
        few &= lasts - firsts < limits.positions
        sparse = few[at] & (starts + 2 * wider <= newest)
        if self.edge_us is not None:
            sparse &= (starts >= self.edge_us) | (starts + wider <= self.edge_us)
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
            wider = [self._levels[w].index for w in widths if w > width]
            sparse = level.take_sparse(newest - level.tile_us, self._slot_limits(), self.edge_us, wider)
            if sparse:
                self._level(level.tile_us).put(concat_cells(sparse))
                if level.tile_us not in widths:
                    insort(widths, level.tile_us)
            if not level.tiles:
                del self._levels[width]

    def _slot_limits(self) -> SlotLimits:
        many = len(self) > MANY_CELLS
        return SlotLimits(WIDE_ROWS, FOREVER, WIDE_ROWS) if many else SlotLimits(SLOT_ROWS, SLOT_POSITIONS, CELL_ROWS)

    def _recent_cells(self) -> Cells:
        if self._newest is None:
            self._newest = concat_cells([no_cells(self.partial), *self._recent])
        return self._newest

    def look(self, look: CellRange, panes: Panes | None) -> tuple[Callable[[], CombinedCells], UncoveredRows]:
        """What gives the sum of the cells that lie wholly inside a range, and the rows of the log that have to be read besides."""
        levels = [level.index for level in self._levels.values()]
        newest = self._recent_cells()
        looks = [Slots.seen_by(look, newest.starts, newest.widths, newest.firsts, newest.lasts)]
        looks += [_seen_by(look, index) for index in levels]
        finer = [each for pair in zip(levels, looks[1:], strict=True) for each in self._finer(look, *pair)]
        rest = uncovered([*looks, *(slots for _, slots in finer)], look)

        def added_up() -> CombinedCells:
            pairs = zip(levels, looks[1:], strict=True)
            own = [newest.take(looks[0].chosen)]
            own += [tile.cells(self.partial, slots.chosen) for tile, slots in finer]
            if panes is None:
                summands = (level.chosen_summands(slots.chosen) for level, slots in pairs)
                return add_up(chain(((c.groups, c.state) for c in own), *summands), self.partial)
            chosen = chain(own, *(level.chosen_cells(slots.chosen, look.pane) for level, slots in pairs))
            return combine(concat_cells([*chosen]), self.partial, panes)

        return added_up, rest

    def _finer(self, look: CellRange, source: CellTile | LevelIndex, slots: Slots) -> Iterator[tuple[CellTile, Slots]]:
        """Finer cells of the slots that are cut, where they are known; those slots are not used then."""
        for place, slot in _far_apart(source, slots):
            tile = self._refined.get(slot)
            if tile is not None:
                slots.seen[place] = slots.cut[place] = False
                own = _seen_by(look, tile)
                yield from self._finer(look, tile, own)
                yield tile, own

    def changes(self, low: int, high: int, head: int) -> tuple[int, int]:
        """Of slots that begin in [low, high]: when the first begins that has rows from a log position on, and the lowest position of any row."""
        newest = self._recent_cells()
        blocks = [(newest.starts, newest.firsts, newest.lasts)]
        blocks += [(each.index.slots, each.index.firsts, each.index.lasts) for each in self._levels.values()]
        changed, first = FOREVER, FOREVER
        for starts, firsts, lasts in blocks:
            inside = (starts >= low) & (starts <= high)
            changed = min(changed, int(starts[inside & (lasts >= head)].min(initial=FOREVER)))
            first = min(first, int(firsts[inside].min(initial=FOREVER)))
        return changed, first

    def unrefined(self, look: CellRange) -> list[CutSlot]:
        """The slots with rows far apart that a look cuts, and that are not known in finer cells."""
        return [slot for level in self._levels.values() for slot in self._unrefined(look, level.index)]

    def _unrefined(self, look: CellRange, source: CellTile | LevelIndex) -> Iterator[CutSlot]:
        for _, slot in _far_apart(source, _seen_by(look, source)):
            tile = self._refined.get(slot)
            if tile is None:
                yield slot
            else:
                yield from self._unrefined(look, tile)

    @property
    def has_wide_slots(self) -> bool:
        """Whether slots may have to be made again in finer ones."""
        wide = (each.index for width, each in self._levels.items() if width > refined_width(width))
        return any(bool((index.lasts - index.firsts >= SLOT_POSITIONS).any()) for index in wide)

    def refine(self, slot: CutSlot, cells: list[Cells]) -> bool:
        """Keep the cells of a slot in finer ones, too; not if rows have come for it meanwhile, or are gone. Whether they are kept."""
        tile = CellTile(sorted_cells(cells, self.partial)) if sum(map(len, cells)) else None
        if tile is None or tile.row_count != slot.rows:
            return False
        self._refined.put(slot, tile, tile.nbytes(self.partial))
        return True

    def release(self) -> None:
        """Forget what is known twice."""
        self._refined.clear()

    def forget_before(self, low_us: int, floor: int) -> None:
        """Drop slots that end before a time, and those with rows below a log position only, which the log has no more."""
        if low_us > max(self.since_us, -FOREVER):
            self.since_us = low_us
        self._keep(lambda _starts, ends, lasts: (ends > self.since_us) & (lasts >= floor))
        for slot, _ in self._refined.items():
            if slot.start + slot.width <= self.since_us:
                self._refined.remove(slot)

    def _keep(self, is_kept: Callable[[Ints, Ints, Ints], np.ndarray]) -> None:
        """Drop all other slots, by their starts, ends and last log positions."""

        def left(tile: CellTile) -> Cells | None:
            kept = is_kept(tile.slots, tile.slots + tile.width, tile.lasts)
            return None if kept.all() else tile.cells(self.partial, kept)

        for level in self._levels.values():
            level.replace(left)
        self._levels = {width: level for width, level in self._levels.items() if level.tiles}
        recent = [cells.take(is_kept(cells.starts, cells.ends, cells.lasts)) for cells in self._recent]
        self._recent, self._newest = [cells for cells in recent if len(cells)], None

    def renumber(self, numbers: Ints) -> None:
        """Group g is number numbers[g] from now on."""
        cells = self.view()
        self._levels, self._recent, self._newest = {}, [], None
        self.release()
        self.put(replace(cells, groups=numbers[cells.groups]))
