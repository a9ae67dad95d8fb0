"""The predicate index: it evaluates many queries' predicates over a batch of one stream's rows.

Predicates are brought to a normal form (`normal_form`), each distinct factor is evaluated once per batch (`factors`), each
distinct static predicate once per static version (`StaticMasks`), and a query's answer is the AND of packed bit vectors.
Queries of equal meaning share one answer. Queries come and go without touching the others. Static versions are append-only,
so the mask of a static predicate only grows; a new version costs its own evaluation and nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from penstock.errors import PenstockError
from penstock.expr.bits import Words, bitmaps_of_rows, list_rows, words_for
from penstock.expr.evaluate import Columns, Functions
from penstock.expr.expression import Expr
from penstock.expr.factors import PreparedBatch, Selections
from penstock.expr.lazy_factors import FactorFigures, Ordering
from penstock.expr.normal_form import ALWAYS, Term, normal_form
from penstock.expr.rare_masks import RareAnswers, RareVersions, RowLists
from penstock.expr.slots import Masks
from penstock.expr.vector_kernels import Int32s, Int64s, rows_of_masks, sort_by_gap

NO_MASK = -1
# Bytes of bit vectors (answers that become bitmaps, rows by static mask) held at once; more go in several rounds.
_VECTORS_MAX_BYTES = 64 << 20


class StaticMasks:
    """Distinct static predicates with reference counts; a predicate's number is its row in `masks`."""

    def __init__(self) -> None:
        self._selections = Selections()
        self._numbers: dict[Term, int] = {}
        self._terms: dict[int, Term] = {}
        self._uses: Counter[int] = Counter()
        self._bits = np.zeros((8, 1), np.uint64)
        self._behind: dict[int, set[int]] = {}  # masks by the versions that they cover
        self._known: dict[int, int] = {}

    def acquire(self, predicate: Expr | None) -> int:
        """The number of a predicate's mask, NO_MASK for none."""
        term = normal_form(predicate)
        if term == ALWAYS:
            return NO_MASK
        number = self._numbers.get(term)
        if number is None:
            number = self._selections.add(term)
            self._numbers[term], self._terms[number] = number, term
            self._cover(number, 0)
            if number >= len(self._bits):
                self._bits = np.pad(self._bits, ((0, 8 + len(self._bits) // 8), (0, 0)))
        self._uses[number] += 1
        return number

    def release(self, number: int) -> None:
        if number == NO_MASK:
            return
        self._uses[number] -= 1
        if not self._uses[number]:
            del self._numbers[self._terms.pop(number)], self._uses[number]
            self._behind[self._known.pop(number)].discard(number)
            self._selections.remove(number)

    def _cover(self, number: int, count: int) -> None:
        self._known[number] = count
        self._behind.setdefault(count, set()).add(number)

    def masks(self, versions: pa.Table) -> Words:
        """Row n, bit v: whether version v passes predicate n. At least as wide as there are versions."""
        count = versions.num_rows
        missing = words_for(count) - self._bits.shape[1]
        if missing > 0:
            # Room to grow: a table of many sensors is often filled row by row.
            self._bits = np.pad(self._bits, ((0, 0), (0, missing + words_for(count) // 8)))
        for known in [k for k in self._behind if k < count]:
            self._extend(versions, known, self._behind.pop(known))
        return self._bits

    def _extend(self, versions: pa.Table, known: int, numbers: set[int]) -> None:
        """Cover the versions from `known` on, beginning at a whole word."""
        if not numbers:
            return
        count, word = versions.num_rows, known // 64
        new = versions.slice(64 * word)
        chosen = np.array(sorted(numbers), np.int64)
        bits = np.zeros((len(chosen), self._bits.shape[1] - word), np.uint64)
        prepared = self._selections.factors.prepare(new, new.num_rows)
        self._selections.answer(prepared, chosen, Masks.none(len(chosen)), (bits, np.zeros(len(chosen), np.int64)))
        self._bits[chosen, word:] = bits
        for number in numbers:
            self._cover(number, count)


@dataclass(frozen=True, slots=True)
class Matrix:
    """Which rows of the batch each query selects. Queries of equal meaning share a row of the matrix.

    Bit i % 64 of word i // 64 is row i of the batch; bits past the end are 0. Some rows may belong to no query. Rows of the
    matrix after the last one of `words` are lists.
    """

    numbers: npt.NDArray[np.int64]  # the queries, ascending
    row_of: npt.NDArray[np.int32]  # beside `numbers`: the query's row of the matrix
    counts: npt.NDArray[np.int64]  # per row of the matrix: how many bits are set
    words: Words  # shape (rows, words)
    failed: dict[int, PenstockError] = field(default_factory=dict)  # queries without an answer; not in `numbers`
    lists: RowLists = field(default_factory=RowLists.none)

    def rows(self, chosen: Int64s) -> npt.NDArray[np.uint32]:
        """The rows of the batch that some rows of the matrix name, one row of the matrix after the other."""
        return list_rows(self.words, (self.lists.starts, self.lists.offsets), chosen, self.counts[chosen])

    def bits(self, chosen: Int64s) -> Words:
        """Some rows of the matrix as bits."""
        out = np.zeros((len(chosen), self.words.shape[1]), np.uint64)
        is_list = chosen >= len(self.words)
        out[~is_list] = self.words[chosen[~is_list]]
        for place in np.flatnonzero(is_list).tolist():
            rows = self.lists.at(int(chosen[place]) - len(self.words))
            np.bitwise_or.at(out[place], rows >> 6, np.uint64(1) << (rows & 63).astype(np.uint64))
        return out


def _vectors_at_once(rows: int) -> int:
    """How many bit vectors of this number of rows may be in memory at once."""
    return max(1, _VECTORS_MAX_BYTES // (8 * max(words_for(rows), 1)))


@dataclass(frozen=True, slots=True)
class _Layout:
    """The index as arrays, valid until a query is added or removed. Rows of the matrix with the same mask stand together."""

    numbers: Int64s  # the queries, ascending
    row_of: Int32s  # beside `numbers`
    selections: Int64s  # by row of the matrix
    masks: Int32s  # by row of the matrix: its place in `used_masks`, or -1
    used_masks: Int64s

    def rows_by_mask(self) -> Int64s:
        """Where the rows of the matrix with each mask begin."""
        return np.searchsorted(self.masks, np.arange(len(self.used_masks) + 1))


class PredicateIndex:
    """Standing predicates on one sensor table. Not safe for use by several threads at once."""

    def __init__(
        self,
        queries: Iterable[tuple[int, Expr | None, Expr | None]] = (),
        functions: Functions | None = None,
        ordering: Ordering | None = None,
    ) -> None:
        """`ordering` decides which of the factors that cost much goes first; without it, what is learned."""
        self._selections = Selections(functions, ordering)
        self._statics = StaticMasks()
        self._answers: dict[tuple[int, ...], int] = {}  # by static mask and terms: the number of its selection
        self._answer_of: dict[int, int] = {}  # by query
        self._masks: dict[int, int] = {}  # by answer
        self._uses: Counter[int] = Counter()  # by answer
        self._known: _Layout | None = None
        self._rare: tuple[_Layout, int, RareVersions] | None = None  # with the layout and the versions that it is of
        for query_id, static, stream in queries:
            self.add(query_id, static, stream)

    def __len__(self) -> int:
        return len(self._answer_of)

    def add(self, query_id: int, static: Expr | None, stream: Expr | None) -> None:
        """Put a query in, in place of one with the same id. `static` may use static columns only."""
        if query_id in self._answer_of:
            self.remove(query_id)
        mask, slots = self._statics.acquire(static), self._selections.factors.acquire_all(normal_form(stream))
        # Terms that are in use are known by their slots, which take a tenth of the room.
        signature = (mask, *slots)
        answer = self._answers.get(signature)
        if answer is None:
            answer = self._answers[signature] = self._selections.add_slots(slots)
            self._masks[answer] = mask
        else:
            self._selections.factors.release_all(slots)
        self._answer_of[query_id] = answer
        self._uses[answer] += 1
        self._known = None

    def remove(self, query_id: int) -> None:
        answer = self._answer_of.pop(query_id)
        mask = self._masks[answer]
        self._statics.release(mask)
        self._uses[answer] -= 1
        if not self._uses[answer]:
            del self._answers[mask, *self._selections.slots(answer)], self._masks[answer], self._uses[answer]
            self._selections.remove(answer)
        self._known = None

    def _layout(self) -> _Layout:
        if self._known is None:
            count = len(self._answer_of)
            numbers = np.fromiter(self._answer_of.keys(), np.int64, count)
            answers = np.fromiter(self._answer_of.values(), np.int64, count)
            used = np.fromiter(self._masks.keys(), np.int64, len(self._masks))
            masks = np.fromiter(self._masks.values(), np.int64, len(self._masks))
            order = np.argsort(masks, kind="stable")
            used, masks = used[order], masks[order]
            used_masks = np.unique(masks[masks != NO_MASK])
            places = np.where(masks == NO_MASK, -1, np.searchsorted(used_masks, masks)).astype(np.int32)
            rows = np.empty(int(used.max(initial=-1)) + 1, np.int32)
            rows[used] = np.arange(len(used), dtype=np.int32)
            by_number = np.argsort(numbers)
            self._known = _Layout(numbers[by_number], rows[answers[by_number]], used, places, used_masks)
        return self._known

    def match_matrix(self, columns: Columns, vids: Int32s, versions: pa.Table, rare: bool = False) -> Matrix:
        """Every query's answer as a row of bits; with `rare` as a list where its static predicate selects few rows.

        `columns` holds the stream's columns, `vids` each row's static version, `versions` the static columns by
        vid. Static columns are gathered only for factors that mix them with stream columns.
        """
        layout = self._layout()
        batch, at_once = self._look_at(columns, vids, versions), _vectors_at_once(len(vids))
        listing = self._list_rare(batch, layout, versions.num_rows) if rare and len(layout.used_masks) else None
        is_list = listing[1] if listing is not None else np.zeros(len(layout.selections), np.bool_)
        as_bits, as_list = np.flatnonzero(~is_list), np.flatnonzero(is_list)
        words = np.zeros((len(as_bits), words_for(len(vids))), np.uint64)
        counts = np.zeros(len(as_bits), np.int64)
        step = max(len(words), 1) if len(np.unique(layout.masks[as_bits])) <= at_once else at_once
        rows = listing[0] if listing is not None else None
        for first in range(0, max(len(words), 1), step):
            part = slice(first, first + step)
            self._answer(batch, layout, as_bits[part], (words[part], counts[part]), rows)
            rows = None
        lists = listing[0].lists(as_list) if listing is not None else RowLists.none()
        row_of = layout.row_of
        if len(as_list):
            places = np.empty(len(layout.selections), np.int32)
            places[as_bits], places[as_list] = np.arange(len(as_bits)), np.arange(len(as_bits), len(places))
            row_of, counts = places[row_of], np.append(counts, np.diff(lists.starts))
        failed = self._failed(batch, layout)
        if not failed:
            return Matrix(layout.numbers, row_of, counts, words, lists=lists)
        kept = ~np.isin(layout.numbers, list(failed))
        return Matrix(layout.numbers[kept], row_of[kept], counts, words, failed, lists)

    def _list_rare(
        self, batch: _Batch, layout: _Layout, versions: int
    ) -> tuple[RareAnswers, npt.NDArray[np.bool_]] | None:
        """What lists the answers with rare masks, and which rows of the matrix these are."""
        if self._rare is None or self._rare[0] is not layout or self._rare[1] != versions:
            self._rare = layout, versions, RareVersions.of(batch.masks, layout.used_masks, versions)
        known = self._rare[2]
        is_rare = known.in_batch(batch.edges, len(batch.vids))
        if not is_rare.any():
            return None
        # Those that need factors that cost much say with bits which rows these are for.
        is_listed = (layout.masks >= 0) & is_rare[layout.masks] & ~self._selections.are_lazy(layout.selections)
        return RareAnswers(known, is_rare, batch.vids, layout.rows_by_mask(), layout.selections), is_listed

    def match(self, columns: Columns, vids: Int32s, versions: pa.Table) -> Iterator[tuple[int, BitMap | PenstockError]]:
        """Every query that has rows in the batch, with their offsets, or why it cannot be answered.

        Queries with equal predicates share one bitmap: do not change it in place. Arguments as for `match_matrix`.
        """
        rows, layout = len(vids), self._layout()
        if not rows or not len(layout.numbers):
            return
        batch = self._look_at(columns, vids, versions)
        failed: dict[int, PenstockError] = {}
        everything = BitMap(range(rows))
        by_row = np.argsort(layout.row_of, kind="stable")
        edges = np.searchsorted(layout.row_of[by_row], np.arange(len(layout.selections) + 1))
        words = np.empty((min(_vectors_at_once(rows), len(layout.selections)), words_for(rows)), np.uint64)
        for first in range(0, len(layout.selections), len(words)):
            words[:] = 0
            counts = np.zeros(min(len(words), len(layout.selections) - first), np.int64)
            rows_here = np.arange(first, first + len(counts))
            self._answer(batch, layout, rows_here, (words[: len(counts)], counts))
            fresh = {q: failure for q, failure in self._failed(batch, layout).items() if q not in failed}
            yield from fresh.items()
            failed |= fresh
            for i, bitmap in bitmaps_of_rows(words, counts):
                answer = everything if counts[i] == rows else bitmap
                for query_id in layout.numbers[by_row[edges[first + i] : edges[first + i + 1]]].tolist():
                    if query_id not in failed:
                        yield query_id, answer

    def _look_at(self, columns: Columns, vids: Int32s, versions: pa.Table) -> _Batch:
        masks = self._statics.masks(versions)
        order, edges = sort_by_gap(vids, masks.shape[1] * 64)
        prepared = self._selections.factors.prepare(_Columns(columns, vids, versions), len(vids))
        return _Batch(prepared, masks, vids, order, edges)

    def _answer(
        self,
        batch: _Batch,
        layout: _Layout,
        chosen: Int64s,
        out: tuple[Words, Int64s],
        rare: RareAnswers | None = None,
    ) -> None:
        """Write the answers of some rows of the matrix, and list the rare ones on the way."""
        numbers = layout.masks[chosen]
        used = np.unique(numbers[numbers >= 0])
        rows = np.zeros((len(used), words_for(len(batch.vids))), np.uint64)
        rows_of_masks(batch.masks, layout.used_masks[used], batch.vids, batch.order, batch.edges, rows)
        places = np.where(numbers >= 0, np.searchsorted(used, numbers), -1).astype(np.int32)
        self._selections.answer(batch.prepared, layout.selections[chosen], Masks(places, rows), out, rare)

    def take_figures(self, most: int) -> dict[Expr, FactorFigures]:
        """What became of factors that cost much since this was asked; only of so many, those that took longest."""
        return self._selections.factors.take_figures(most)

    def _failed(self, batch: _Batch, layout: _Layout) -> dict[int, PenstockError]:
        """Queries with a row at which what a user's function failed to give decides."""
        failed = self._selections.failed(batch.prepared, layout.selections)
        if not failed:
            return {}
        broken = np.isin(layout.row_of, list(failed))
        pairs = zip(layout.numbers[broken].tolist(), layout.row_of[broken].tolist(), strict=True)
        return {query_id: failed[row] for query_id, row in pairs}


@dataclass(frozen=True, slots=True)
class _Batch:
    """Rows with evaluated columns, and their order by static version."""

    prepared: PreparedBatch
    masks: Words
    vids: Int32s
    order: Int32s
    edges: Int64s


class _Columns(Mapping[str, Any]):
    """The batch's columns; static columns are gathered at their first use."""

    def __init__(self, columns: Columns, vids: Int32s, versions: pa.Table) -> None:
        self._columns, self._vids, self._versions = columns, vids, versions
        self._gathered: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        try:
            return self._columns[name]
        except KeyError:
            if name not in self._gathered:
                self._gathered[name] = self._versions[name].take(pa.array(self._vids)).combine_chunks()
            return self._gathered[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._gathered)

    def __len__(self) -> int:
        return len(self._gathered)
