"""The rows of the log that one answer may read in the server process; Spark's workers read the rest.

A task is a small picklable object that is called in a worker and gives what the server would have read or computed itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from prometheus_client import CollectorRegistry, Counter, Gauge

from penstock.errors import PenstockError

Task: TypeAlias = Callable[[], Any]
RunTasks: TypeAlias = Callable[[Sequence[Task]], list[Any]]
"""Run tasks in Spark's workers; their results in the same order."""


class BudgetExceeded(PenstockError):
    """An answer needs more rows of the log than it may read here, and no task can read them for it."""

    def __init__(self, detail: str, hint: str = "make the window shorter, or raise answer_read_max_rows") -> None:
        super().__init__("over_budget", detail, hint=hint)


class AnswerReads:
    """What all answers of one server have read of the log, for /metrics."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._lock = threading.Lock()
        self.most = 0  # of one answer
        self.rows = Counter(
            "penstock_answer_rows_read",
            "Rows of the log that answers read in the server: to find the answer, or because they are in it.",
            ("purpose",),
            registry=self.registry,
        )
        self.jobs = Counter(
            "penstock_answer_jobs", "Jobs of Spark that read history for an answer.", registry=self.registry
        )
        most = Gauge(
            "penstock_answer_rows_read_max",
            "Most rows that one answer has read in the server to be found; at most answer_read_max_rows.",
            registry=self.registry,
        )
        most.set_function(lambda: self.most)

    def note(self, purpose: str, rows: int) -> None:
        self.rows.labels(purpose).inc(rows)

    def note_most(self, rows: int) -> None:
        with self._lock:
            self.most = max(self.most, rows)


class RowBudget:
    """The budget of one answer.

    `most`: rows that it may read to be found (`answer_read_max_rows`). `most_own`: rows of the answer itself that it may
    read (`result_max_rows`).
    """

    def __init__(self, most: int, most_own: int, reads: AnswerReads, run_tasks: RunTasks | None = None) -> None:
        self.most = most
        self.most_own = most_own
        self.jobs = 0
        self._reads = reads
        self._run_tasks = run_tasks
        self._read = 0
        self._read_own = 0

    def affords(self, rows: int, own: bool = False) -> bool:
        """Whether so many more rows may be read here."""
        return self._read_own + rows <= self.most_own if own else self._read + rows <= self.most

    def take(self, rows: int, own: bool = False) -> None:
        """Count rows that are read now. `own`: they are in the answer."""
        if own:
            self._read_own += rows
            self._reads.note("answer", rows)
            return
        if not self.affords(rows):
            raise BudgetExceeded(f"the answer needs more than {self.most:,} rows of the log (answer_read_max_rows)")
        self._read += rows
        self._reads.note("search", rows)
        self._reads.note_most(self._read)

    def run(self, tasks: Sequence[Task]) -> list[Any]:
        """Have Spark's workers read instead."""
        if self._run_tasks is None:
            raise BudgetExceeded(f"the answer needs more than {self.most:,} rows of the log (answer_read_max_rows)")
        self.jobs += 1
        self._reads.jobs.inc()
        return self._run_tasks(tasks)

    def notices(self) -> tuple[str, ...]:
        """What a client is told where Spark read."""
        if not self.jobs:
            return ()
        return (f"the answer needs more than {self.most:,} rows of the log: Spark read them (answer_read_max_rows)",)
