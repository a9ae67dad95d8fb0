"""One part of the join steps of a cycle, in a Spark worker."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import orjson

from penstock.cycle.commit_files import ResultRow
from penstock.cycle.definitions import Definitions
from penstock.cycle.folder import DataFolder
from penstock.cycle.result_rows import told
from penstock.errors import PenstockError
from penstock.operators.join.algorithms import NAMES, OURS, default_of, run_step, runnable
from penstock.operators.join.kernels import run_cache
from penstock.operators.join.kernels.choice import expected_ms, explained, step_size
from penstock.operators.join.kernels.combinations import Combinations
from penstock.operators.join.kernels.keys import Ints
from penstock.operators.join.steps import join_sharing
from penstock.operators.join.steps.benefit import benefit_of
from penstock.operators.join.steps.buffers import (
    BufferFolder,
    buffer_folders,
    forget_removed,
    newest_time,
    remove_unused,
)
from penstock.operators.join.steps.join_sharing import SharedJoin, shared_joins
from penstock.operators.join.steps.key_ranges import RANGES, WHOLE
from penstock.operators.join.steps.members import MemberResults
from penstock.operators.join.steps.orphaned_buffers import clean_now_and_then, remove_idle
from penstock.operators.join.steps.prepared_join import PreparedJoin
from penstock.operators.join.steps.prepared_joins import (
    equal_joins,
    prepared_join,
    reaches,
    running_joins,
    spare_streams,
)
from penstock.operators.join.steps.results import Results, as_error, bitmaps, result_table
from penstock.operators.join.steps.rows import NewRows, SliceReader, StreamRows
from penstock.operators.join.steps.tables import join_with_tables
from penstock.operators.join.steps.units import LIVE, JoinUnit

CORES = os.cpu_count() or 1
_log = logging.getLogger(__name__)


class JoinTask:
    """The join units of one Spark task: they share what is read and the buffers."""

    def __init__(self, folder: DataFolder, definitions: Definitions, memory_bytes: int) -> None:
        self._folder = folder
        self._root = folder.buffers
        self._definitions = definitions
        self._memory_bytes = memory_bytes
        # Each worker of the host has its own, and there are as many as cores.
        run_cache.allow(memory_bytes // 4 // CORES)
        self._reader = SliceReader(folder.log, definitions, memory_bytes)
        self._rows = NewRows(self._root, self._reader)
        self._used: dict[BufferFolder, tuple[int, int]] = {}
        self._share = WHOLE  # the narrowest of its units

    def run(self, unit: JoinUnit) -> Iterator[ResultRow]:
        self._share = min(self._share, unit.share, key=lambda s: s.size)
        if not self._definitions.skipped.isdisjoint(unit.queries):
            unit = replace(unit, queries=tuple(q for q in unit.queries if q not in self._definitions.skipped))
        groups = self._groups(unit)
        for group in groups:
            yield from self._run_group(group, unit)
        grouped = {number for group in groups for number in group.numbers}
        for query_id, *equal in self._equal([q for q in unit.queries if q not in grouped]):
            for row in _or_its_error(query_id, self._run_query(query_id, unit, len(equal))):
                yield row
                for number in equal:
                    yield number, *row[1:]

    def _run_group(self, group: SharedJoin, unit: JoinUnit) -> Iterator[ResultRow]:
        """A group as one step, or its members one after the other: other parts of the step may do otherwise."""
        benefit = benefit_of(group)
        if benefit.together:
            try:
                # No row is given out before all are known: after a failure each member runs alone, and only the cause fails.
                said = list(self._run_shared(group, unit, group))
            except OSError:
                raise
            except Exception as failure:
                benefit.stay_apart()
                if not isinstance(failure, PenstockError):
                    _log.warning("joins %s cannot run as one: %r", sorted(group.numbers), failure)
            else:
                yield from said
                return
        began = time.perf_counter()
        for number in sorted(group.numbers):
            yield from _or_its_error(number, self._run_shared(group.apart(number), unit, group))
        benefit.ran_apart(time.perf_counter() - began, unit.rows)

    def _groups(self, unit: JoinUnit) -> list[SharedJoin]:
        """The groups that run as one in a unit. Members have the same tables and key; a join that fills runs alone."""
        if unit.generation != LIVE:
            return []
        present = set(unit.queries)
        return [g for g in shared_joins(running_joins(self._definitions)) if g.numbers <= present]

    def _equal(self, queries: list[int]) -> list[list[int]]:
        """Joins that find the same, as an outer join or one with a hint may find it too, are run once."""
        if len(queries) < 2 or not join_sharing.SHARING:
            return [[query_id] for query_id in queries]
        first_of, found = equal_joins(self._definitions), dict[int, list[int]]()
        for query_id in queries:
            found.setdefault(first_of.get(query_id, query_id), []).append(query_id)
        return list(found.values())

    def _run_shared(self, shared: SharedJoin, unit: JoinUnit, group: SharedJoin) -> Iterator[ResultRow]:
        """One step for all members of a group, or for one of them apart from the others."""
        join, functions, started = shared.join, self._definitions.functions(), time.perf_counter()
        leader = min(group.numbers)
        step = self._begun(join, unit, leader, self._rows.hot_keys(group.join, unit))
        members = {number: prepared_join(self._definitions, number) for number in sorted(shared.numbers)}
        results = MemberResults(self._folder, shared, members, self._definitions.state, functions)
        for found in self._combinations(join, step, unit):
            results.add(found)
        results.settle()
        if join.keyed or unit.part == 0:
            self._publish(join, step.rows)
        (described, costs), given_to = step.ended(results.combinations), results.rows
        if shared is group:
            given, buffered = sum(given_to.values()), sum(r.near() for r in step.rows)
            seconds = time.perf_counter() - started
            benefit_of(group).ran_together(seconds, unit.rows, results.combinations, given, buffered)
            described |= {"shared_with": len(members) - 1, "combinations": results.combinations}
        else:
            described["apart_from"] = len(group.members) - 1
        for number, packed in results.packed():
            for kind, count, payload in packed:
                yield number, kind, count, unit.generation, payload
            said = {**described, "unit": min(shared.numbers), "group": leader, "results": given_to[number]}
            if number == said["unit"]:
                said |= costs
            yield number, "join_info", 0, unit.part, orjson.dumps(said)
        for number, failure in results.failed.items():
            yield number, "error", 0, 0, told(failure)

    def _run_query(self, query_id: int, unit: JoinUnit, equal: int) -> Iterator[ResultRow]:
        """Run a join by itself; `equal` is the number of other joins with the same results."""
        join, functions = prepared_join(self._definitions, query_id), self._definitions.functions()
        step = self._begun(join, unit, query_id, self._rows.hot_keys(join, unit))
        results, partnered, total = Results(self._folder, query_id), [], 0
        for found in self._with_tables(join, self._combinations(join, step, unit)):
            total += len(found)
            if join.plan.missing != "inner":
                partnered.append(np.unique(found.pos[0]))
            if join.plan.missing != "anti":
                results.add(result_table(join, found, functions))
        if join.plan.missing != "inner":
            yield from bitmaps(query_id, "partnered", partnered)
            if unit.part == 0:
                yield from bitmaps(query_id, "match", self._first_rows(join, unit))
        described, costs = step.ended(
            total
        )  # before the results are given away: what is done with them is no cost of the join
        for kind, count, payload in results.packed():
            yield query_id, kind, count, unit.generation, payload
        if join.keyed or unit.part == 0:
            self._publish(join, step.rows)
        described |= {"unit": query_id, "results": total}
        if unit.generation == LIVE:
            described |= {"group": query_id, **costs}
        if equal:
            described |= {"shared_with": equal, "combinations": total}
        yield query_id, "join_info", 0, unit.part, orjson.dumps(described)

    def _begun(self, join: PreparedJoin, unit: JoinUnit, number: int, hot: Ints) -> StepRun:
        """The step of a join that the planner knows by a number. `hot`: keys that make one part wait for the other."""
        hint, stamped = join.plan.algorithm, unit.algorithms.get(number)
        stamped = stamped if stamped in NAMES else None  # another version may have known others
        algorithm = hint or stamped or default_of(join.keyed, bool(join.join.links))
        if len(join.streams) == 1:
            algorithm = "scan"
        algorithm = runnable(algorithm, join.stated, join.keyed)
        if len(hot) and hint is None and algorithm not in OURS:
            algorithm = "sorted_runs"
        rows = self._rows.of(join, unit, hot if algorithm in OURS else hot[:0])
        return StepRun(join, rows, algorithm, stamped is not None, len(hot) > 0)

    def _combinations(self, join: PreparedJoin, step: StepRun, unit: JoinUnit) -> Iterator[Combinations]:
        # Without a key the papers' algorithms have no parts.
        if step.algorithm in OURS or join.keyed or unit.part == 0:
            yield from run_step(step.algorithm, join.join, step.rows, join.stated, self._definitions.functions())

    def _with_tables(self, join: PreparedJoin, combinations: Iterator[Combinations]) -> Iterator[Combinations]:
        functions = self._definitions.functions()
        for found in combinations:
            yield from join_with_tables(join, found, self._definitions.state, functions)

    def _first_rows(self, join: PreparedJoin, unit: JoinUnit) -> list[Ints]:
        """New rows of the first input, also those that no key can match: rows without a partner are answers."""
        alone = replace(join.streams[0], keys=(), columns=())
        return [self._reader.read(alone, piece).pos for piece in unit.tables[alone.table_id].slices]

    def _publish(self, join: PreparedJoin, rows: list[StreamRows]) -> None:
        """Leave buffers for the next step. All of it is soft: a full memory costs time, not results."""
        if len(rows) == 1:
            return  # no stream looks for partners in it
        reach = join.reach()
        furthest = reaches(self._definitions)
        newest = [newest_time([*r.kept, r.fresh]) for r in rows]
        latest = max((t for t in newest if t is not None), default=0)
        # A stream that lags by more than its window is served from the log when it speaks again.
        behind = min((t for t in newest if t is not None and t >= latest - reach), default=latest)
        with contextlib.suppress(OSError):
            for r in rows:
                # Another join of the same stream may reach further back.
                oldest = behind - furthest.get(r.folder.path.name, reach)
                mine = [(h.run, h.cells.share) for h in r.read_back() if r.folder.share.has(h.cells.share)]
                for run, share in (*mine, (r.own, r.folder.share)):
                    if run.first < run.end and (len(run) == 0 or run.max_ts >= oldest):
                        r.folder.publish(run, share)
                keep_from, start = self._used.get(r.folder, (oldest, r.start))
                self._used[r.folder] = (min(keep_from, oldest), min(start, r.start))

    def finish(self, owns_cleaning: bool) -> None:
        """After all units: drop what time has passed, keep to the memory that is allowed."""
        with contextlib.suppress(OSError):
            for folder, (keep_from, start) in self._used.items():
                folder.tidy(keep_from, start)
            aside = min(run_cache.held_bytes() * CORES, self._memory_bytes // 4)
            room = (self._memory_bytes - aside) * self._share.size // RANGES
            known = {folder.path for folder in self._used}
            others = [f for f in buffer_folders(self._root, self._share) if f.path not in known]
            for folder in (*self._used, *others):
                room = folder.shrink(room)
            if owns_cleaning:
                remove_unused(self._root, set(reaches(self._definitions)))
                remove_idle(self._root, spare_streams(self._definitions))
            clean_now_and_then(self._root, self._folder.root)
            forget_removed()


@dataclass(slots=True)
class StepRun:
    """One part of a step of one join: by which algorithm it runs, what it cost, and what others are expected to cost."""

    join: PreparedJoin
    rows: list[StreamRows]
    algorithm: str
    stamped: bool  # whether the planner chose
    hot: bool
    began: float = field(default_factory=time.perf_counter)

    def ended(self, results: int) -> tuple[dict[str, object], dict[str, object]]:
        """What the step did, for EXPLAIN; and what the server learns from, the expected costs of all that could have run."""
        ms, join = (time.perf_counter() - self.began) * 1000, self.join
        expected: dict[str, float] = {}
        if len(self.rows) > 1:
            expected = expected_ms(join.join, step_size(join.join, self.rows), join.keyed, join.uniform, results)
        done: dict[str, object] = {
            "algorithm": self.algorithm,
            "why": self._why(expected),
            "expected_ms": round(expected.get(self.algorithm, 0.0), 3),
            "ms": round(ms, 3),
            "new_rows": sum(len(r.starts) for r in self.rows),
            "buffered_rows": sum(r.near() for r in self.rows),
            "rows_read_back": sum(r.rows_read_back for r in self.rows),
        }
        if len(self.rows) == 1 or join.plan.algorithm is not None:
            return done, {}
        # The first step of an algorithm in a worker waits for its compiled code.
        measured = self.algorithm in _WARM and not done["rows_read_back"]
        _WARM.add(self.algorithm)
        possible = (name for name in expected if name in OURS or not self.hot)
        return done, {"costs": {n: round(expected[n], 4) for n in possible}, "measured": measured}

    def _why(self, expected: Mapping[str, float]) -> str:
        if len(self.rows) == 1:
            return "each new row of the one stream is a combination"
        if self.join.plan.algorithm is not None:
            return "the hint asks for it"
        if self.hot:
            return "hot keys are shared out between the parts"
        what = "an equality connects all streams" if self.join.keyed else "no equality connects all streams"
        if self.join.join.links:
            what = "equalities connect some streams, which are looked up"
        chosen = "the planner chose it" if self.stamped else what
        return f"{chosen}; {explained(expected, self.algorithm)}"


_WARM: set[str] = set()


def _or_its_error(query_id: int, said: Iterator[ResultRow]) -> Iterator[ResultRow]:
    """The rows of a query, or its error, so that others go on. An error of the disk is raised: the cycle is tried again."""
    try:
        yield from said
    except OSError:
        raise
    except Exception as failure:
        yield query_id, "error", 0, 0, told(as_error(failure))
