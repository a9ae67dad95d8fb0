"""The rows that match one query, from commit records, lists, bit matrices, or by evaluation over the log."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.expr.windows import FOREVER
from penstock.operators.base.blocks import Blocks
from penstock.operators.base.log_reader import LogReader, TimedPositions, no_rows, offsets_in
from penstock.operators.base.ranges import Range, Ranges, joined, outside
from penstock.operators.select.evaluated_matches import EvaluatedMatches, MatchEvaluator
from penstock.operators.select.match_store import MatchStoreAt
from penstock.operators.select.position_lists import Ints


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
