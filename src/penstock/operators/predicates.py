"""The predicate index: many queries' predicates against a batch of one stream's rows.

A predicate is an AND of factors. Each distinct factor is evaluated once per batch (`factors`), each distinct static
predicate once per static version, and a query's answer is the AND of packed bit vectors. Queries come and go
without touching the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from penstock.operators.bits import CONTAINER_BYTES, CONTAINER_ROWS, bitmap_of, full, words_for
from penstock.operators.conjunctions import HEADER, and_factors, and_words
from penstock.operators.evaluate import Columns, Functions
from penstock.operators.expr import Expr
from penstock.operators.factors import FactorSet, conjuncts
from penstock.operators.gaps import sort_by_gap
from penstock.operators.matrix import Matrix
from penstock.operators.static_masks import StaticMasks

Int32s = npt.NDArray[np.int32]

# Bytes of factor vectors held at once; beyond it the queries are answered in several rounds.
_VECTORS_MAX_BYTES = 128 << 20
# Answers that one kernel call writes before they become bitmaps.
_ANSWERS_PER_CALL = 256

_Signature = tuple[int, tuple[int, ...]]


class PredicateIndex:
    """Standing predicates on one sensor table. Not safe for use by several threads at once."""

    def __init__(
        self,
        queries: Iterable[tuple[int, Expr | None, Expr | None]] = (),
        functions: Functions | None = None,
    ) -> None:
        self._factors = FactorSet(functions)
        self._statics = StaticMasks()
        self._signature_of: dict[int, _Signature] = {}
        self._rows_of: dict[_Signature, int] = {}
        self._members: list[list[int]] = []
        self._free: list[int] = []
        self._masks = np.full(16, -1, np.int64)  # per signature: its static mask, -1 for none
        self._slots = np.full((16, 4), -1, np.int64)  # per signature: its factors, -1 for none
        for query_id, static, stream in queries:
            self.add(query_id, static, stream)

    def __len__(self) -> int:
        return len(self._signature_of)

    def __contains__(self, query_id: int) -> bool:
        return query_id in self._signature_of

    def add(self, query_id: int, static: Expr | None, stream: Expr | None) -> None:
        """Put a query in, in place of one with the same id. `static` may use static columns only."""
        if query_id in self._signature_of:
            self.remove(query_id)
        slots = tuple(sorted(self._factors.acquire(factor) for factor in set(conjuncts(stream))))
        signature = (self._statics.acquire(static), slots)
        self._signature_of[query_id] = signature
        row = self._rows_of.get(signature)
        if row is None:
            row = self._new_row(signature)
        self._members[row].append(query_id)

    def remove(self, query_id: int) -> None:
        signature = self._signature_of.pop(query_id)
        self._statics.release(signature[0])
        for slot in signature[1]:
            self._factors.release(slot)
        row = self._rows_of[signature]
        self._members[row].remove(query_id)
        if not self._members[row]:
            del self._rows_of[signature]
            self._free.append(row)

    def _new_row(self, signature: _Signature) -> int:
        mask, slots = signature
        if self._free:
            row = self._free.pop()
        else:
            row = len(self._members)
            self._members.append([])
        height, width = self._slots.shape
        if row >= height or len(slots) > width:
            grown = np.full((max(height, 2 * row), max(width, len(slots))), -1, np.int64)
            grown[:height, :width] = self._slots
            self._slots = grown
            self._masks = np.concatenate([self._masks, np.full(len(grown) - height, -1, np.int64)])
        self._slots[row] = -1
        self._slots[row, : len(slots)] = slots
        self._masks[row] = mask
        self._rows_of[signature] = row
        return row

    def match(self, columns: Columns, vids: Int32s, versions: pa.Table) -> Iterator[tuple[int, BitMap]]:
        """Every query that has rows in the batch, with their offsets. Queries with equal predicates share one
        bitmap: do not change it in place.

        `columns` holds the stream's columns, `vids` each row's static version, `versions` the static columns by
        vid. Static columns are gathered only for factors that mix them with stream columns.
        """
        rows = len(vids)
        if rows == 0 or not self._signature_of:
            return
        used = np.array(sorted(self._rows_of.values(), key=lambda row: int(self._masks[row])), np.int64)
        everything = BitMap(range(rows))
        masks = self._statics.masks(versions)
        parts: dict[int, list[tuple[int, int, bytes]]] = {}
        for number, start in enumerate(range(0, rows, CONTAINER_ROWS)):
            block = _Block(columns, vids[start : start + CONTAINER_ROWS], versions, start)
            for row, count, content in self._match_block(block, used, masks):
                if rows <= CONTAINER_ROWS:
                    answer = everything if count == rows else BitMap.deserialize(content)
                    for query_id in self._members[row]:
                        yield query_id, answer
                else:
                    parts.setdefault(row, []).append((number, count, content[HEADER:]))
        for row, containers in parts.items():
            answer = everything if sum(c[1] for c in containers) == rows else bitmap_of(containers)
            for query_id in self._members[row]:
                yield query_id, answer

    def match_matrix(self, columns: Columns, vids: Int32s, versions: pa.Table) -> Matrix:
        """Every query's answer as a row of bits; arguments as for `match`."""
        rows = len(vids)
        used = np.array(sorted(self._rows_of.values(), key=lambda row: int(self._masks[row])), np.int64)
        place = {int(row): i for i, row in enumerate(used)}
        numbers = np.array(sorted(self._signature_of), np.int64)
        row_of = np.array([place[self._rows_of[self._signature_of[q]]] for q in numbers.tolist()], np.int32)
        words = np.zeros((len(used), words_for(rows)), np.uint64)
        counts = np.zeros(len(used), np.int64)
        masks = self._statics.masks(versions)
        for start in range(0, rows if len(used) else 0, CONTAINER_ROWS):
            block = _Block(columns, vids[start : start + CONTAINER_ROWS], versions, start)
            order, edges = sort_by_gap(block.vids, masks.shape[1] * 64)
            everything = full(block.rows)
            done = 0
            for part, slots, vectors in self._rounds(block, used):
                found = words[done : done + len(part), start // 64 : start // 64 + len(everything)]
                chosen = self._masks[part]
                and_words(vectors, slots, chosen, masks, block.vids, order, edges, everything, found, counts[done:])
                done += len(part)
        return Matrix(numbers, row_of, counts, words)

    def _match_block(
        self, block: _Block, used: npt.NDArray[np.int64], masks: npt.NDArray[np.uint64]
    ) -> Iterator[tuple[int, int, bytes]]:
        rows = block.rows
        order, edges = sort_by_gap(block.vids, masks.shape[1] * 64)
        everything = full(rows)
        size = HEADER + CONTAINER_BYTES
        out = np.empty((min(_ANSWERS_PER_CALL, len(used)), size), np.uint8)
        counts = np.empty(len(out), np.int64)
        lengths = np.empty(len(out), np.int64)
        for part, slots, vectors in self._rounds(block, used):
            for first in range(0, len(part), len(out)):
                some = part[first : first + len(out)]
                chosen = slots[first : first + len(out)]
                and_factors(
                    vectors,
                    chosen,
                    self._masks[some],
                    masks,
                    block.vids,
                    order,
                    edges,
                    everything,
                    out,
                    counts,
                    lengths,
                )
                for i in np.flatnonzero(counts[: len(some)]):
                    yield int(some[i]), int(counts[i]), out[i, : lengths[i]].tobytes()

    def _rounds(
        self, block: _Block, used: npt.NDArray[np.int64]
    ) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.uint64]]]:
        """The signatures, the places of their factors, and the factors' vectors, as many at a time as fit."""
        vector_bytes = 8 * words_for(block.rows)
        if self._factors.capacity * vector_bytes <= _VECTORS_MAX_BYTES:
            yield used, self._slots[used], self._factors.evaluate(block, block.rows)
            return
        step = max(1, _VECTORS_MAX_BYTES // vector_bytes // self._slots.shape[1])
        for first in range(0, len(used), step):
            part = used[first : first + step]
            slots = self._slots[part]
            wanted = np.unique(slots[slots >= 0])
            places = np.where(slots >= 0, np.searchsorted(wanted, slots), -1)
            yield part, places, self._factors.evaluate(block, block.rows, wanted)


class _Block(Mapping[str, Any]):
    """One container's worth of the batch: stream columns are cut, static ones gathered when first asked for."""

    def __init__(self, columns: Columns, vids: Int32s, versions: pa.Table, start: int) -> None:
        self.vids, self.rows = vids, len(vids)
        self._columns, self._versions, self._start = columns, versions, start
        self._known: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._known:
            try:
                self._known[name] = self._columns[name].slice(self._start, self.rows)
            except KeyError:
                self._known[name] = self._versions[name].take(pa.array(self.vids)).combine_chunks()
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)
