"""The standing queries that kernels run: their answers are folded from committed cycles, trimmed and kept current."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from weakref import WeakSet

from penstock.catalog.journal import JournalReader
from penstock.catalog.model import QueryDefinition
from penstock.catalog.state import CatalogState
from penstock.clock import SECOND
from penstock.cycle.commits import CommitRecord, CommitStore
from penstock.cycle.definitions import loading
from penstock.cycle.folder import DataFolder, place_sheets
from penstock.disk_sync import replace_file
from penstock.errors import PenstockError, error, suggest
from penstock.expr.windows import AnyWindow
from penstock.operators.aggregate.cell_files import FileBatch
from penstock.operators.aggregate.rollups.files import RollupFiles
from penstock.operators.base.answer import AnswerAt, first_rows
from penstock.operators.base.finality import FinalRows, final_to
from penstock.operators.base.log_access import Listings, LogAccess
from penstock.operators.base.row_budget import AnswerReads, RowBudget, RunTasks
from penstock.operators.base.view import Budget, QueryAt, classify, only_strategy, view_of
from penstock.operators.join.algorithm_choice import COSTS_FILE, JoinChoices
from penstock.operators.join.result_files import ResultFiles
from penstock.operators.resample.answer_at import resample_marks
from penstock.operators.resample.sample_cache import SampleCache
from penstock.operators.select.current_rows import CurrentRows
from penstock.operators.select.durability import may_wait
from penstock.operators.select.storage_choice import READY_MAX_ROWS, READY_SECONDS, StorageChoice
from penstock.operators.select.strategy_costs import Strategy
from penstock.settings import Settings
from penstock.sql.plan import Plan, has_latch, own_windows_of, plan_from_json
from penstock.streams.log.compaction import GRACE_S
from penstock.streams.log.release_memory import give_back_memory
from penstock.streams.log.segments import Segment, list_readable
from penstock.views.answer_store import AnswerStore
from penstock.views.feed import CommitFeed, JoinMark, Mark, SharedEvents
from penstock.views.follower import LAG_MAX
from penstock.views.next_edge import next_edge
from penstock.views.query_state import is_finished
from penstock.views.results import Behind, Result
from penstock.views.retention import now_at, still_read, trim
from penstock.views.window_history import WindowHistory

_log = logging.getLogger("penstock.queries")
QUERIES_PER_TRIM = 2000
SETTLE_AFTER = 5000
ORPHAN_CYCLES = 2 * LAG_MAX
FILES_PER_CYCLE = 4
"""So many files of cells are written after a cycle: at 8 MB each they take some tens of milliseconds."""


@dataclass(frozen=True, slots=True)
class Intervals:
    """Cycles between two rounds of tidying, and the patience of a reader. Tests of short lives give smaller ones."""

    trim_cycles: int = 20
    snapshot_cycles: int = 200
    own_writes_s: float = 5.0
    """How long a reader waits at most for a cycle that includes its own writes."""
    ready_s: float = 10.0
    """How long a reader waits at most for a query that still fills its window."""
    replaced_s: float = GRACE_S
    """How long files of the log stay after a merged one has replaced them."""


class Followed(Protocol):
    """A subscriber: it uses its query until it is closed."""

    name: str
    closed: bool


class StandingQueries:
    """Answers of all standing queries that kernels run. The engine's commits feed it; any thread may read it."""

    def __init__(
        self,
        folder: DataFolder,
        commits: CommitStore,
        settings: Settings,
        catalog: Callable[[], CatalogState] | None = None,
        intervals: Intervals = Intervals(),
        run_tasks: RunTasks | None = None,
    ) -> None:
        self.folder = folder
        self.reads = AnswerReads()
        self.run_tasks = run_tasks
        self._catalog = catalog
        self.commits = commits
        self.settings = settings
        self.intervals = intervals
        self._keep = max(2, settings.cycles_keep)  # readers of other queries read the cycle before the last
        self.feed = CommitFeed(self._keep)
        self.events = SharedEvents()
        self._lock = threading.RLock()
        self.listings = Listings(folder.log)
        self.rolled_files = RollupFiles(folder.root)
        self.windows = WindowHistory()
        place_sheets(folder, settings.spark_master)
        self.store = self._new_store()
        self.result_files = ResultFiles(folder)
        self.finished: frozenset[int] = frozenset()
        self.storage_choice = StorageChoice()
        self.ready = CurrentRows()
        self.samples = SampleCache()
        self._used_us: dict[int, int] = {}  # by query, NOW of the cycle when it was last used or defined
        self._followers: WeakSet[Followed] = WeakSet()  # changed and looked through under the lock only
        self._torn = False  # whether the store has part of a cycle
        self._defined = 0  # definitions since memory was given back
        self.snapshot_due = False  # whether there is something that took long to make, and that no record has
        self._join_choices = b"{}"  # as the planner may read them
        self._files_left = 0  # so many files of cells are to be written before the snapshot that is due

    def load(self, known: CatalogState | None = None) -> None:
        """Fold what the commit records hold: after this every answer is what it was before the restart.

        `known`: the definitions, where nothing can change them meanwhile.
        """
        if self._load(known):
            self._sweep_files()
        if known is not None:
            for query_id, (_, changed) in known.query_positions.items():
                if changed > self.store.state.position:
                    # The first cycle meets it: a plan of a newer version refuses the start before that.
                    plan_from_json(known.queries_by_id[query_id].plan)

    def _load(self, known: CatalogState | None = None) -> bool:
        """Whether the newest snapshot was read: only then it is known which files it names."""
        self.result_files.begin_loading()
        snapshot, cycles = self.commits.foundation()
        newest = max(self.commits.snapshots(), default=0)
        cells = self._read_snapshot(newest) if newest in cycles else None
        with self._lock:
            self.store.slices.waits_for_cells = cells is not None
        if snapshot is not None:
            if known is not None:
                self.store.take_definitions(known, snapshot.end.journal)
            with loading():
                self._fold(snapshot)
        for cycle in cycles:
            self._fold(self.commits.read(cycle))
            if cycle == newest and cells is not None:
                with self._lock:
                    self.store.slices.take_cells(cells)
                    for query_id in self.store.answers:  # what is FILLING was not known before
                        self.store.note_fill(query_id, self.settings.answer_read_max_rows)
        self.result_files.remove_orphans(self.commits)
        with self._lock:
            # The planner begins with the default of each join, whatever ran in the cycles that were read now.
            self.store.joins.choices = JoinChoices()
        return cells is not None or newest not in cycles

    def _sweep_files(self) -> None:
        """Remove files of cells that are not used. Only the follower writes such files, so none comes meanwhile."""
        with self._lock:
            used = self.store.slices.used_files()
        self.store.slices.files.sweep(used)

    def _read_snapshot(self, cycle: int) -> CommitRecord | None:
        """The newest snapshot, for its cells: they have the history that Spark sliced since the snapshot that the start begins with."""
        try:
            return self.commits.read_snapshot(cycle)
        except PenstockError as failure:
            _log.warning("histories are filled again: %s", failure)
            return None

    def _new_store(self) -> AnswerStore:
        def listed(table_id: int) -> list[Segment]:
            """At least what is committed: rows that come later are in no file that was there before them."""
            offset = self.store.offset if hasattr(self, "store") else None
            try:
                return self.listings.segments(table_id, offset.data.get(table_id, 0) if offset is not None else 0)
            except PenstockError:
                return list_readable(self.folder.log, table_id)

        store = AnswerStore(JournalReader(self.folder.root), self.folder, listed, self._catalog)
        store.slices.series_slots_max = self.settings.series_slots_max
        return store

    def budget(self, name: str) -> Budget:
        """Which share of a processor the events of a query come from; that of aggregates where it is not known yet."""
        with self._lock:
            query = self._query(name)
            answer = self.store.answers.get(query.id) if query is not None else None
        return view_of(answer.operator).budget(answer.plan) if answer is not None else "aggregates"

    def finish_ms(self, query_id: int) -> float | None:
        """How long the mining functions of a query take when a slot closes."""
        with self._lock:
            found = self.store.slices.finish.answer_ms(query_id)
        return round(found, 3) if found is not None else None

    def take(self, record: CommitRecord) -> None:
        """Fold a committed cycle into the answers and wake subscribers and other waiting clients."""
        with self._lock:
            if not self._torn and record.cycle <= self.store.cycle:
                return  # it was among the records that were read again after a failure
            if self._torn or record.cycle != self.store.cycle + 1:
                # An earlier cycle was committed but not folded to its end; the records know everything.
                self.store = self._new_store()
                self.feed.clear()
                self.windows.clear()
                self.ready.clear()
                self.samples.clear()
                self._load()
            else:
                self._fold(record)
        try:
            self._tidy(record)
        except (OSError, PenstockError) as failure:  # all of it is soft: a full disk stops ingest, not answers
            _log.warning("after cycle %d: %s", record.cycle, failure)
        except Exception:
            _log.exception("after cycle %d", record.cycle)

    def _tidy(self, record: CommitRecord) -> None:
        """What keeps memory and folder small and answers current, and the hint for the planner."""
        with self._lock:
            gone = self._give_up_passed(self.settings.answers_memory_mb << 20)
            self.store.limit_slices(self.settings)
            self.samples.tidy(self.store.spark_plans)
        for path in gone:  # freeing a hundred megabytes takes its time: not while others wait
            path.unlink(missing_ok=True)
        self._move_on()
        if record.cycle % self.intervals.trim_cycles == 0:
            with self._lock:
                self.store.matches.merge_lists()
            # It goes through all queries, and most of what it finds can wait.
            if record.cycle % (self.intervals.trim_cycles * (1 + len(self.store.answers) // QUERIES_PER_TRIM)) == 0:
                self._trim()
            self._limit_bounded()
        if self._defined >= SETTLE_AFTER:
            # What a thousand definitions at a time leave behind lies between those that stay.
            self._defined = 0
            give_back_memory()
        if self.snapshot_due or record.cycle % self.intervals.snapshot_cycles == 0:
            goes_on = self._write_settled()
            with self._lock:  # what a fill asks for meanwhile is in the snapshot below
                self.snapshot_due = goes_on
            if not goes_on:
                self._write_snapshot(record.cycle)
        self._write_next_edge(record)
        self._write_join_choices()

    def _limit_bounded(self) -> None:
        """Hold queries to the bytes that they may have: first what can be made again goes, then the query fails."""
        with self._lock:
            for query_id, most in self.store.bounded.items():
                if self.memory_of(query_id) <= most:
                    continue
                self.ready.forget(query_id)
                self.samples.forget(query_id)
                for state in self.store.states.values():
                    state.release(query_id)
                used = self.memory_of(query_id)
                if used > most:
                    told = f"its state takes {used:,} bytes, more than the {most:,} of its option bounded"
                    self.store.fail_unbounded(query_id, told)

    def _write_settled(self) -> bool:
        """Write cells to files that the next cycles leave alone, as many as a cycle has time for; whether it is to go on.

        It ends after as many files as there were to write at first: readings out of order may touch more and more of them.
        """
        with self._lock:
            batches = self.store.slices.unfiled(settled=True)
        left = min(self._files_left or len(batches), len(batches))
        written = self._write_files(batches[: min(left, FILES_PER_CYCLE)])
        self._files_left = max(0, left - FILES_PER_CYCLE) if written else 0
        return self._files_left > 0

    def _write_files(self, batches: Sequence[FileBatch]) -> bool:
        """Write cells to files; False where the disk does not take them: they go into the snapshot."""
        for batch in batches:
            mapped = self.store.slices.files.write(batch)
            if mapped is None:
                return False
            with self._lock:
                mapped.adopt()
        return True

    def _write_snapshot(self, cycle: int) -> None:
        with self._lock:
            batches = self.store.slices.unfiled()
        self._write_files(batches)  # beside the lock; what comes meanwhile goes into the snapshot
        with self._lock:
            self.result_files.compact(self.store)
            snapshot = self.store.to_snapshot()
        self.commits.write_snapshot(snapshot)
        self.commits.prune(cycle - self._keep)
        self.result_files.remove_dropped(self.store, self.commits.oldest_snapshot)
        self._sweep_files()

    def _give_up_passed(self, most_bytes: int) -> list[Path]:
        """Drop the bit matrices that no window reaches; returns their files."""
        store = self.store

        def now_of(table_id: int) -> int | None:
            return store.now_of(store.state.tables_by_id[table_id], None)

        return store.matches.give_up_passed(now_of, store.window_index.spans, most_bytes)

    def write_snapshot(self) -> None:
        """Cover all records up to the last cycle."""
        with self._lock:
            self.commits.write_snapshot(self.store.to_snapshot())

    def _fold(self, record: CommitRecord) -> None:
        with self._lock:
            self._torn = True
            if record.resumes:
                self.feed.clear()  # subscribers of retired cycles begin with the whole answer
            store = self.store
            store.apply(record)
            self.result_files.note(store)
            self._defined += len(store.touched)
            for query_id in store.touched:
                answer = store.answers.get(query_id)
                answering = answer is not None and answer.answers
                store.note_fill(query_id, self.settings.answer_read_max_rows)
                self.windows.note(record.cycle, query_id, answer.window if answer is not None and answering else None)
                if answer is None:
                    self.storage_choice.forget(query_id)
                    self.ready.forget(query_id)
                    self._used_us.pop(query_id, None)
                elif store.state.query_positions[query_id][1] > record.start.journal:
                    self._used_us[query_id] = record.end.now_us
            # Under the lock: a reader that sees a query in the store finds it in the newest mark.
            mark = Mark(
                record.cycle,
                record.end,
                store.window_index.nows.at(record.cycle, store.state, store.newest),
                {query_id: self._join_mark(query_id) for query_id in store.window_index.joins},
                resample_marks(store),
                store.watermarks(),
                {query_id: store.query_now(store.answers[query_id]) for query_id in store.window_index.clocked},
            )
            self.feed.append(mark)
            self.finished = self._finished(mark)
            self._torn = False

    def _move_on(self) -> None:
        """Bring the answers up to date that are kept current, as many as a cycle has time for."""
        with self._lock:
            for query_id in self.storage_choice.calm_down(self.store.cycle):
                self.ready.forget(query_id)
            wanted = [*self.storage_choice.ready(), *self.store.complete]
            names = [self.store.state.queries_by_id[q].name for q in wanted if q in self.store.answers]
        until = time.monotonic() + READY_SECONDS
        for name in names:
            if time.monotonic() > until:
                break
            try:
                held = self.held(name, asked=False, budget=self.new_budget(jobs=False))  # folding waits for no job
                began = time.thread_time()
                rows = len(held.inside())
                self.storage_choice.note_ms(held.query_id, (time.thread_time() - began) * 1000, "move_ms")
                if rows > READY_MAX_ROWS:
                    self.storage_choice.too_large(held.query_id)
            except PenstockError:
                pass  # it is paused or was dropped: a client that asks gets an error
            except Exception as failure:  # other queries are not affected
                _log.warning('the answer of "%s" cannot be kept current: %r', name, failure)

    def strategy_of(self, query_id: int) -> Strategy:
        """How a query's answer is kept right now."""
        with self._lock:
            answer = self.store.answers.get(query_id)
            return self.storage_choice.of(query_id, answer, only_strategy(answer)) if answer is not None else "complete"

    def strategy_reason(self, query_id: int) -> str:
        with self._lock:
            answer = self.store.answers.get(query_id)
            if answer is None:
                return "Spark keeps the last answer"
            return only_strategy(answer) or self.storage_choice.why(query_id, answer)

    def plan_of(self, definition: QueryDefinition) -> Plan:
        """The plan of a query as the answers have it, which takes no time; as it is stored where they do not know it."""
        with self._lock:
            answer = self.store.answers.get(definition.id)
            known = self.store.spark_plans.get(definition.id) or (answer.whole if answer is not None else None)
        return known or plan_from_json(definition.plan)

    def memory_of(self, query_id: int) -> int:
        """Bytes that a query's answer takes in memory, with its share of what several queries share."""
        with self._lock:
            operator = self.store.operators.get(query_id)
            kept = view_of(operator).memory(self.store, query_id) if operator is not None else 0
            return kept + self.ready.size(query_id)[1] + self.samples.memory_of(query_id)

    def _join_mark(self, query_id: int) -> JoinMark:
        results = self.store.joins.queries[query_id].results
        return JoinMark(results.generation, results.count, self.store.query_now(self.store.answers[query_id]))

    def _finished(self, mark: Mark) -> frozenset[int]:
        """The queries with windows that have closed for good; one with branches, if all of these are such."""
        found = {q for q in self.store.window_index.ending if self._is_finished(q, mark)}
        known = self.store.state.queries_by_id
        above = {whole for q in found if (whole := known[q].branch_of) is not None}
        return frozenset(found | {q for q in above if found.issuperset(known[q].branches)})

    def _is_finished(self, query_id: int, mark: Mark) -> bool:
        answer = self.store.answers[query_id]
        now_us = now_at(self.store, mark, query_id, answer)
        windows = (answer.window, *own_windows_of(answer.scalars))
        return all(is_finished(window, now_us, answer.start_us) for window in windows)

    def _trim(self) -> None:
        with self._lock:
            trim(self.store, self.feed.mark(self.feed.oldest()), self.windows, self.folder.log)
            assert self.store.offset is not None
            self.store.matches.remove_orphans(self.store.offset.data, self.store.cycle, ORPHAN_CYCLES)
            self.store.matches.forget_evaluated(self.settings.answers_memory_mb << 20)

    def _write_next_edge(self, record: CommitRecord) -> None:
        """Tell the planner from when on time alone can change an answer: a soft hint, at most one edge a second."""
        with self._lock:
            edge = next_edge(self.store, record.start.data != record.end.data)
        (self.folder.tmp / "next_edge").write_text(str(edge))

    def _write_join_choices(self) -> None:
        """Tell the planner which algorithm each join runs by: soft as well."""
        with self._lock:
            choices = self.store.joins.choices
            if not choices.settle():
                return
            choices.forget(self.store.joins.queries)
            text = choices.to_json()
        if text != self._join_choices:
            with contextlib.suppress(OSError):  # a full disk costs time, not rows
                replace_file(self.folder.tmp / COSTS_FILE, text)
                self._join_choices = text

    def protected(self, table_id: int) -> int:
        """The first position of a table that a cycle or a fill may still read."""
        with self._lock:
            return 0 if self._has_new_latch(table_id) else still_read(self.store, table_id)

    def _has_new_latch(self, table_id: int) -> bool:
        """Whether a new query with LATCH waits for its first cycle: its state is to have all rows that are there now."""
        state, known = self._catalog() if self._catalog is not None else self.store.state, self.store.state.position
        table = state.tables_by_id.get(table_id)
        new = [state.queries_by_id[q] for q, (came, _) in list(state.query_positions.items()) if came > known]
        return table is not None and any(has_latch(q.stored_plan) and table.name in q.reads_tables for q in new)

    def retained(self, table_id: int) -> int:
        """Where a table's readings begin: as committed, so that files go only after the mark itself."""
        with self._lock:
            return self.store.state.retention(table_id) if table_id in self.store.state.tables_by_id else 0

    # -- answers

    @contextlib.contextmanager
    def locked(self) -> Iterator[AnswerStore]:
        """The store at a committed cycle, for as long as the block runs."""
        with self._lock:
            yield self.store

    def held(
        self, name: str, as_of: int | None = None, asked: bool = True, budget: RowBudget | None = None
    ) -> AnswerAt:
        """A query's answer at the last committed cycle, or at an older kept one. `asked`: it counts as an invocation."""
        with self._lock:
            query = self._query(name)
            if query is None:
                raise error("query_not_found", query=name, hint=suggest(name, self.store.state.queries))
            last = self.feed.last()
            assert last is not None
            if asked and query.id in self.store.answers:
                self._used_us[query.id] = last.end.now_us
            newest = self._stands_at(query)
            if as_of is None and self._is_coming(query):
                raise self._not_yet(query)
            if as_of is not None and newest < as_of <= last.cycle:
                detail = f'query "{name}" is LAGGING: it stands at cycle {newest}, and has not come to cycle {as_of}'
                raise error("not_ready", detail=detail, hint="ask again in a moment")
            if as_of is not None and as_of > newest:
                raise PenstockError("cycle_gone", f"cycle {as_of} has not come yet; the newest is {newest}")
            mark = (
                last if as_of is None and newest == last.cycle else self.feed.mark(newest if as_of is None else as_of)
            )
            return view_of(self.store.operators[query.id]).at(self, query, mark, self.log_access(budget), asked)

    def _stands_at(self, query: QueryDefinition) -> int:
        """The cycle at which a query stands: the last one, or an earlier one where it is behind. Called under the lock."""
        last, offset = self.feed.last(), self.store.offset
        assert last is not None
        if offset is None or offset.late is None or not may_wait(self.store.state, query):
            return last.cycle
        return last.cycle - offset.late.behind

    def _is_coming(self, query: QueryDefinition) -> bool:
        """Whether a query stands at a cycle where it had no answer yet, or that is no longer kept. Called under the lock."""
        cycle, last = self._stands_at(query), self.feed.last()
        behind = last is not None and cycle < last.cycle
        return behind and (cycle < self.feed.oldest() or self.windows.at(query.id, cycle) is None)

    def _not_yet(self, query: QueryDefinition) -> PenstockError:
        detail = f'query "{query.name}" is LAGGING, and has come to no cycle with an answer yet'
        return error("not_ready", detail=detail, hint="ask again in a moment")

    def behind(self, query: QueryDefinition) -> Behind | None:
        """How far a query stands behind the cycles; None where it does not."""
        with self._lock:
            offset, last = self.store.offset, self.feed.last()
            known = self.store.state.queries_by_id.get(query.id)
            if (
                offset is None
                or offset.late is None
                or last is None
                or known is None
                or not may_wait(self.store.state, known)
            ):
                return None
            cycle = max(last.cycle - offset.late.behind, self.feed.oldest())
            mark = self.feed.mark(cycle)
            tables = [t.id for t in (self.store.state.tables.get(n) for n in query.reads_tables) if t is not None]
            rows = sum(offset.data.get(t, 0) - offset.late.read.get(t, 0) for t in tables)
            return Behind(cycle, rows, (last.end.now_us - mark.end.now_us) / SECOND)

    def behind_of(self, name: str) -> Behind | None:
        """The same by name; None where there is no such query any more."""
        with self._lock:
            query = self._query(name)
            return self.behind(query) if query is not None else None

    def newest_cycle(self, name: str) -> int | None:
        """The cycle at which a query stands; None before the first cycle."""
        with self._lock:
            query, last = self._query(name), self.feed.last()
            if last is None or query is None:
                return None if last is None else last.cycle
            return self._stands_at(query)

    def used_since(self, now_us: int) -> set[int]:
        """The queries that were asked, or that came, since a NOW; others are forgotten. Called under the lock."""
        self._used_us = {q: at for q, at in self._used_us.items() if at > now_us}
        return set(self._used_us)

    def follow(self, follower: Followed) -> None:
        """A subscriber uses its query from now on."""
        with self._lock:
            self._followers.add(follower)

    def followed(self) -> set[str]:
        """The names of the queries that have subscribers."""
        with self._lock:
            return {follower.name for follower in self._followers if not follower.closed}

    def query_at(self, query: QueryDefinition, mark: Mark) -> tuple[QueryAt, AnyWindow]:
        """A query that kernels run, and its window at a kept cycle; cycle_gone where it had no answer there."""
        window = self.windows.at(query.id, mark.cycle)
        if window is None:
            raise error("cycle_gone", cycle=mark.cycle, oldest=f"{self.answers_from(query.id)}, for this query")
        return QueryAt(query.id, query.name, self.store.answers[query.id], mark), window

    def new_budget(self, jobs: bool = True, most: int | None = None) -> RowBudget:
        """What one answer may read of the log in this process (`most`; None: the setting). `jobs`: Spark's workers may read what is more."""
        most = self.settings.answer_read_max_rows if most is None else most
        return RowBudget(most, self.settings.result_max_rows, self.reads, self.run_tasks if jobs else None)

    def log_access(self, budget: RowBudget | None = None) -> LogAccess:
        """How one answer at the last cycle opens the log. Called under the lock."""
        journal = self.store.offset.journal if self.store.offset is not None else 0
        return LogAccess(self.folder.log, self.listings, budget or self.new_budget(), journal)

    def answers_from(self, query_id: int) -> int | str:
        """The oldest kept cycle that has an answer of a query."""
        return self.next_answer(query_id, self.feed.oldest() - 1) or "still to come"

    def invoke(self, name: str, as_of: int | None = None, limit: int | None = None, only_final: bool = False) -> Result:
        """The answer for the window as of the last cycle (or an older, kept one), or what of it is final."""
        self.wait_ready(name)
        budget, final = self.new_budget(), self.final_rows(name)
        with self._lock:
            held = self.held(name, as_of, budget=budget)
            behind = self.behind_of(name) if as_of is None else None
        if only_final and held.finishes_later:
            rows = first_rows(held.final_rows(), limit, self.settings.result_max_rows)
        else:
            rows = held.select(limit, self.settings.result_max_rows)
        notices = (*(held.note.notices if held.note is not None else ()), *budget.notices())
        notices += (behind.notice(name),) if behind is not None else ()
        return Result(
            rows,
            cycle=held.stands_for,
            now_us=held.now_us,
            notices=notices,
            rolled_up=held.note,
            final_to_us=final_to(final, held),
            behind=behind,
        )

    def final_rows(self, name: str) -> FinalRows:
        """When the rows of a query are final."""
        with self._lock:
            query = self._query(name)
            if query is None:
                raise error("query_not_found", query=name, hint=suggest(name, self.store.state.queries))
            return classify(self.plan_of(query), self.store.state).final

    def next_answer(self, query_id: int, after: int) -> int | None:
        """The first kept cycle after one that has an answer: those in which the query rested have none."""
        with self._lock:
            query, last = self.store.state.queries_by_id.get(query_id), self.feed.last()
            found = view_of(self.store.operators[query_id]).first_answer(self, query_id, after)
            if found is None or last is None:
                return None
            return found if found <= (self._stands_at(query) if query is not None else last.cycle) else None

    # -- whether there is an answer

    def _query(self, name: str) -> QueryDefinition | None:
        query = self.store.state.queries.get(name)
        return query if query is not None and query.id in self.store.operators else None

    def is_resting(self, name: str) -> bool:
        """Whether a query answers nothing for now: it is paused, or reads again what it missed."""
        with self._lock:
            query = self._query(name)
            return query is not None and view_of(self.store.operators[query.id]).is_resting(self.store, query)

    def check_failed(self, name: str) -> None:
        """Raise what a FAILED query failed with."""
        with self._lock:
            query = self._query(name)
            failure = view_of(self.store.operators[query.id]).failure(self.store, query) if query is not None else None
            if failure is not None:
                raise failure

    def is_ready(self, name: str, timeout_s: float) -> bool:
        """Whether a query has read its history, waiting for that a while. Raises where it never will."""
        self.feed.wait(lambda: self._is_settled(name), timeout_s)
        with self._lock:
            self.check_failed(name)
            query = self._query(name)
            if query is not None and query.paused:
                raise error("not_ready", detail=f'query "{name}" is PAUSED', hint=f"ALTER QUERY {name} RESUME")
            if query is None:
                return True
            return view_of(self.store.operators[query.id]).is_ready(self.store, query) and not self._is_coming(query)

    def _is_settled(self, name: str) -> bool:
        """Whether nothing is to be waited for: there is an answer, or there will be none."""
        with self._lock:
            query = self._query(name)
            if query is None or query.paused:
                return True
            view = view_of(self.store.operators[query.id])
            return view.is_ready(self.store, query) or view.failure(self.store, query) is not None

    def _fills_long(self, name: str) -> bool:
        with self._lock:
            query = self._query(name)
            return query is not None and view_of(self.store.operators[query.id]).fills_long(self.store, query)

    def wait_ready(self, name: str, timeout_s: float | None = None) -> None:
        """Wait a little for a query that is still filling its window; then raise an error with its state.

        Where Spark reads its history, the error comes at once.
        """
        with self._lock:
            query = self._query(name)
        if query is None:
            return
        view = view_of(self.store.operators[query.id])
        if timeout_s is None:
            timeout_s = view.first_wait_s or self.intervals.ready_s
        self.feed.wait(lambda: self._is_settled(name) or self._fills_long(name), timeout_s)
        if not self.is_ready(name, 0.0):
            with self._lock:
                raise self._not_yet(query) if self._is_coming(query) else view.not_ready(self.store, query)
