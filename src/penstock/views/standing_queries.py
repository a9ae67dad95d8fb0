"""The standing queries that kernels run: their answers are folded from committed cycles, trimmed and kept current."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from penstock.catalog.journal import JournalReader
from penstock.catalog.state import CatalogState
from penstock.cycle.commits import CommitRecord, CommitStore
from penstock.cycle.folder import DataFolder, place_sheets
from penstock.errors import PenstockError
from penstock.operators.aggregate.rollups.files import RollupFiles
from penstock.operators.base.listings import Listings
from penstock.operators.base.row_budget import AnswerReads, RunTasks
from penstock.operators.base.view import only_strategy, view_of
from penstock.operators.join.result_files import ResultFiles
from penstock.operators.resample.answer_at import resample_marks
from penstock.operators.resample.sample_cache import SampleCache
from penstock.operators.select.current_rows import CurrentRows
from penstock.operators.select.storage_choice import READY_MAX_ROWS, READY_SECONDS, StorageChoice, Strategy
from penstock.settings import Settings
from penstock.sql.plan import has_latch, own_windows_of
from penstock.streams.log.segments import Segment, list_readable
from penstock.views.answer_store import AnswerStore
from penstock.views.feed import CommitFeed, JoinMark, Mark, SharedEvents
from penstock.views.intervals import Intervals
from penstock.views.kept_answers import KeptAnswers
from penstock.views.memory import (
    forget_evaluated,
    give_up_passed,
    merge_lists,
    remove_orphans,
)
from penstock.views.next_edge import next_edge
from penstock.views.query_state import QueryState, is_finished
from penstock.views.retention import now_at, still_read, trim
from penstock.views.window_history import WindowHistory, WindowsAt

_log = logging.getLogger("penstock.queries")
QUERIES_PER_TRIM = 2000


class StandingQueries(KeptAnswers):
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
        self._torn = False  # whether the store has part of a cycle

    def load(self) -> None:
        """Fold what the commit records hold: after this every answer is what it was before the restart."""
        self.result_files.begin_loading()
        snapshot, cycles = self.commits.foundation()
        if snapshot is not None:
            self._fold(snapshot)
        for cycle in cycles:
            self._fold(self.commits.read(cycle))
        self.result_files.remove_orphans(self.commits)

    def _new_store(self) -> AnswerStore:
        def listed(table_id: int) -> list[Segment]:
            """At least what is committed: rows that come later are in no file that was there before them."""
            offset = self.store.offset if hasattr(self, "store") else None
            try:
                return self.listings.segments(table_id, offset.data.get(table_id, 0) if offset is not None else 0)
            except PenstockError:
                return list_readable(self.folder.log, table_id)

        return AnswerStore(JournalReader(self.folder.root), self.folder, listed, self._catalog)

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
                self.load()
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
            gone = give_up_passed(self.store, self.settings.answers_memory_mb << 20)
            self.store.limit_slices(self.settings.slices_memory_mb, self.settings.exact_values_max)
            self.samples.tidy(self.store.spark_plans)
        for path in gone:  # freeing a hundred megabytes takes its time: not while others wait
            path.unlink(missing_ok=True)
        self._move_on()
        if record.cycle % self.intervals.trim_cycles == 0:
            with self._lock:
                merge_lists(self.store)
            # It goes through all queries, and most of what it finds can wait.
            if record.cycle % (self.intervals.trim_cycles * (1 + len(self.store.answers) // QUERIES_PER_TRIM)) == 0:
                self._trim()
        if record.cycle % self.intervals.snapshot_cycles == 0:
            with self._lock:
                self.result_files.compact(self.store)
                snapshot = self.store.to_snapshot()
            self.commits.write_snapshot(snapshot)
            self.commits.prune(record.cycle - self._keep)
            self.result_files.remove_dropped(self.store, self.commits.oldest_snapshot)
        self._write_next_edge(record)

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
            for query_id in store.touched:
                answer = store.answers.get(query_id)
                answering = answer is not None and answer.answers
                self.windows.note(record.cycle, query_id, answer.window if answer is not None and answering else None)
                if answer is None:
                    self.storage_choice.forget(query_id)
                    self.ready.forget(query_id)
            # Under the lock: a reader that sees a query in the store finds it in the newest mark.
            mark = Mark(
                record.cycle,
                record.end,
                store.window_index.nows.at(record.cycle, store.state, store.newest),
                WindowsAt(self.windows, record.cycle),
                {query_id: self._join_mark(store.answers[query_id]) for query_id in store.window_index.joins},
                resample_marks(store),
            )
            self.feed.append(mark)
            self.finished = frozenset(q for q in store.window_index.ending if self._is_finished(q, mark))
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
                if len(held.inside()) > READY_MAX_ROWS:
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

    def memory_of(self, query_id: int) -> int:
        """Bytes that a query's answer takes in memory, with its share of what several queries share."""
        with self._lock:
            operator = self.store.operators.get(query_id)
            kept = view_of(operator).memory(self.store, query_id) if operator is not None else 0
            return kept + self.ready.size(query_id)[1] + self.samples.memory_of(query_id)

    def rows_kept(self, query_id: int) -> int:
        """How many of a query's matches are kept: those of its window, and older ones that are not trimmed yet."""
        with self._lock:
            operator = self.store.operators.get(query_id)
            return view_of(operator).rows_kept(self.store, query_id) if operator is not None else 0

    def _join_mark(self, answer: QueryState) -> JoinMark:
        assert answer.results is not None
        return JoinMark(answer.results.generation, answer.results.count, self.store.query_now(answer))

    def _is_finished(self, query_id: int, mark: Mark) -> bool:
        answer = self.store.answers[query_id]
        now_us = now_at(self.store, mark, query_id, answer)
        windows = (answer.window, *own_windows_of(answer.scalars))
        return all(is_finished(window, now_us, answer.start_us) for window in windows)

    def _trim(self) -> None:
        with self._lock:
            trim(self.store, self.feed.mark(self.feed.oldest()), self.windows, self.folder.log)
            remove_orphans(self.store, self.folder.sheets)
            forget_evaluated(self.store, self.settings.answers_memory_mb << 20)

    def _write_next_edge(self, record: CommitRecord) -> None:
        """Tell the planner from when on time alone can change an answer: a soft hint, at most one edge a second."""
        with self._lock:
            edge = next_edge(self.store, record.start.data != record.end.data)
        (self.folder.tmp / "next_edge").write_text(str(edge))

    def protected(self, table_id: int) -> int:
        """The first position of a table that a cycle or a fill may still read."""
        with self._lock:
            return 0 if self._has_new_latch(table_id) else still_read(self.store, table_id)

    def _has_new_latch(self, table_id: int) -> bool:
        """Whether a query waits for its first cycle whose state is to have all rows that are there now."""
        state, known = self._catalog() if self._catalog is not None else self.store.state, self.store.state.position
        table = state.tables_by_id.get(table_id)
        new = [state.queries_by_id[q] for q, (came, _) in list(state.query_positions.items()) if came > known]
        return table is not None and any(has_latch(q.stored_plan) and table.name in q.reads_tables for q in new)

    def retained(self, table_id: int) -> int:
        """Where a table's readings begin: as committed, so that files go only after the mark itself."""
        with self._lock:
            return self.store.state.retention(table_id) if table_id in self.store.state.tables_by_id else 0
