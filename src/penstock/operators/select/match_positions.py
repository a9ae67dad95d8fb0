"""The rows that match one query, from commit records, lists, bit matrices, or by evaluation over the log."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from penstock.expr.bits import set_bits
from penstock.expr.expression import columns_of
from penstock.expr.predicate_index import PredicateIndex
from penstock.expr.windows import FOREVER
from penstock.operators.base.blocks import Blocks, add_positions, cut_below, size_of
from penstock.operators.base.log_reader import TASK_ROWS, LogReader, TimedPositions, no_rows, offsets_in
from penstock.operators.base.ranges import Range, Ranges, from_position, inside, joined, outside
from penstock.operators.select.match_store import MatchStoreAt
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
            add_positions(self._blocks, positions)

    def forget_below(self, position: int) -> None:
        if not self._ranges or self._ranges[0][0] >= position:
            return
        with self._lock:
            self._ranges = from_position(self._ranges, position)
            cut_below(self._blocks, position)

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
        tasks = [log_reader.source.task(evaluate_matches, self.plan, *piece) for piece in pieces]
        return np.concatenate(log_reader.run(tasks))


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


@dataclass(frozen=True, slots=True)
class MatchPositions:
    """A query's matches as of one cycle, safe to read while the next one is folded in.

    In the ranges `covered` records, lists and bit matrices have all matches; elsewhere, and where a bit matrix is lost,
    the predicate is evaluated. Rows below `reach` are older than any window of the query.
    """

    query_id: int
    blocks: Blocks
    view: MatchStoreAt
    covered: Ranges
    reach: int
    evaluated: EvaluatedMatches
    evaluate: MatchEvaluator
    keep: bool = True

    def between(self, first: int, end: int) -> Ints:
        """Matches in [first, end), ascending."""
        first = max(first, self.reach)
        if first >= end:
            return np.empty(0, np.int64)
        found = self._known(first, end)
        gaps = self._gaps(first, end)
        if gaps:
            found += self.evaluated.between(gaps, self.evaluate, self.keep)
        found = [part for part in found if len(part)]
        if not found:
            return np.empty(0, np.int64)
        return found[0] if len(found) == 1 else np.unique(np.concatenate(found))

    def _known(self, first: int, end: int) -> list[Ints]:
        known = [offsets_in(self.blocks, first, end, 0)] if self.blocks else []
        return known + self.view.positions(self.query_id, first, end)

    def _gaps(self, first: int, end: int) -> list[Range]:
        gaps = outside(self.covered, first, end)
        lost = self.view.missing(self.query_id, first, end)
        return list(joined([*gaps, *lost])) if lost else gaps

    def to_evaluate(self, log_reader: LogReader, first: int, end: int, low: int) -> int:
        """How many rows of [first, end) with ts from `low` on have to be evaluated."""
        first = max(first, self.reach)
        ranges = log_reader.ranges(first, end, low, FOREVER) if first < end else []
        return sum(high - start for a, b in ranges for start, high in self._gaps(a, b))

    def times(self, log_reader: LogReader, end: int, low: int, high: int, first: int) -> TimedPositions:
        """Matches in [first, end) with ts in [low, high], in log order."""
        first = max(first, self.reach)
        found: list[TimedPositions] = []
        at = first
        for kept in self.view.overlapping(first, end):
            found += self._from_log(log_reader, at, min(kept.first, end), low, high)
            at = kept.end
            if kept.name.max_ts >= low and kept.name.min_ts <= high:
                positions = self.between(max(first, kept.first), min(end, kept.end))
                offsets = positions - kept.first
                times = kept.sheet.times[offsets]
                inside = (times >= low) & (times <= high)
                found.append(TimedPositions(positions[inside], times[inside], kept.sheet.vids[offsets[inside]]))
        found += self._from_log(log_reader, at, end, low, high)
        return TimedPositions.together(found) if found else no_rows()

    def _from_log(self, log_reader: LogReader, first: int, end: int, low: int, high: int) -> list[TimedPositions]:
        """The same where no bit matrix has the times."""
        if first >= end:
            return []
        lost = log_reader.lost(first, end)
        if lost is not None and (self._gaps(lost, end) or any(map(len, self._known(lost, end)))):
            raise log_reader.missing(lost)
        found = []
        for start, stop in log_reader.ranges(first, end, low, high):
            positions = self.between(start, stop)
            if len(positions):
                found.append(log_reader.timed(positions, low, high))
        return found
