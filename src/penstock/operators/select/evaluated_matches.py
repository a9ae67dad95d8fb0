"""Matches that the server evaluates on request, and keeps, where neither a record nor a bit matrix has them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from pyroaring import BitMap

from penstock.cycle.positions import BLOCK_ROWS
from penstock.expr.bits import set_bits
from penstock.expr.expression import columns_of
from penstock.expr.predicate_index import PredicateIndex
from penstock.operators.base.log_reader import TASK_ROWS, LogReader, LogSource, offsets_in
from penstock.operators.base.ranges import Range, Ranges, from_position, inside, joined, outside
from penstock.operators.join.partnered_rows import Blocks
from penstock.operators.select.position_lists import Ints
from penstock.sql.plan import SelectPlan

EVALUATE_ROWS = 1 << 18


class EvaluatedMatches:
    """One query's evaluated matches. Thread-safe: two threads that miss the same rows both evaluate them."""

    __slots__ = ("_blocks", "_lock", "_ranges")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ranges: Ranges = ()
        self._blocks: Blocks = {}

    def between(self, wanted: list[Range], evaluate: Callable[[int, int], Ints], keep: bool) -> list[Ints]:
        """The matches in some ranges, ascending each."""
        found: list[Ints] = []
        for first, end in wanted:
            with self._lock:
                missing = outside(self._ranges, first, end)
                found += [offsets_in(self._blocks, low, high, 0) for low, high in inside(self._ranges, first, end)]
            for low, high in missing:
                positions = evaluate(low, high)
                found.append(positions)
                if keep:
                    self._keep(low, high, positions)
        return found

    def _keep(self, first: int, end: int, positions: Ints) -> None:
        with self._lock:
            self._ranges = joined([*self._ranges, (first, end)])
            for block in np.unique(positions // BLOCK_ROWS * BLOCK_ROWS).tolist():
                mine = positions[(positions >= block) & (positions < block + BLOCK_ROWS)] - block
                self._blocks[block] = self._blocks.get(block, BitMap()) | BitMap(mine.astype(np.uint32))

    def forget_below(self, position: int) -> None:
        if not self._ranges or self._ranges[0][0] >= position:
            return
        with self._lock:
            self._ranges = from_position(self._ranges, position)
            for block in [b for b in self._blocks if b < position]:
                left = BitMap(self._blocks.pop(block))
                left.remove_range(0, min(position - block, BLOCK_ROWS))
                if left:
                    self._blocks[block] = left

    def __bool__(self) -> bool:
        """Whether anything is kept."""
        return bool(self._ranges)

    def clear(self) -> None:
        with self._lock:
            self._ranges, self._blocks = (), {}

    @property
    def nbytes(self) -> int:
        with self._lock:
            return size_of(self._blocks)


def size_of(blocks: Blocks) -> int:
    """Bytes of memory that bitmaps take."""
    size = 0
    for found in blocks.values():
        facts = found.get_statistics()
        size += int(facts["n_bytes_array_containers"]) + int(facts["n_bytes_run_containers"])
        size += int(facts["n_bytes_bitset_containers"])
    return size


@dataclass(frozen=True, slots=True)
class MatchEvaluator:
    """Evaluates one query over rows of the log, as workers do."""

    plan: SelectPlan
    reader: Callable[[], LogReader]

    def __call__(self, first: int, end: int) -> Ints:
        """The positions in [first, end) that match; rows that retention has taken do not."""
        log_reader = self.reader()
        if log_reader.affords(end - first):
            return evaluate_matches(log_reader, self.plan, first, end)
        pieces = [(low, min(end, low + TASK_ROWS)) for low in range(first, end, TASK_ROWS)]
        return np.concatenate(log_reader.run([_MatchTask(log_reader.source, self.plan, piece) for piece in pieces]))


@dataclass(frozen=True, slots=True)
class _MatchTask:
    """`evaluate_matches` in a worker."""

    source: LogSource
    plan: SelectPlan
    positions: Range

    def __call__(self) -> Ints:
        return evaluate_matches(self.source.open(), self.plan, *self.positions)


def evaluate_matches(log_reader: LogReader, plan: SelectPlan, first: int, end: int) -> Ints:
    """The positions in [first, end) that match a plan."""
    index = PredicateIndex([(1, plan.static_predicate, plan.stream_predicate)])
    wanted = columns_of(plan.stream_predicate) if plan.stream_predicate is not None else set()
    found = [np.empty(0, np.int64)]
    for low in range(first, end, EVALUATE_ROWS):
        for start, vids, columns in log_reader.runs(low, min(end, low + EVALUATE_ROWS), wanted):
            matrix = index.match_matrix(columns, vids, log_reader.static.versions())
            found.append(set_bits(matrix.words[matrix.row_of[0]]) + start)
    return np.concatenate(found)
