"""The object that owns the answers, as operators see it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from penstock.catalog.model import QueryDefinition
from penstock.cycle.folder import DataFolder
from penstock.expr.windows import AnyWindow
from penstock.operators.aggregate.rollups.files import RollupFiles
from penstock.operators.resample.sample_cache import SampleCache
from penstock.operators.select.current_rows import CurrentRows
from penstock.operators.select.storage_choice import StorageChoice
from penstock.settings import Settings
from penstock.views.answer_store import AnswerStore
from penstock.views.feed import CommitFeed, Mark
from penstock.views.query_at import QueryAt
from penstock.views.window_history import WindowHistory


class AnswerOwner(Protocol):
    """Answers as of the last cycle (`store`), kept cycles (`feed`), and what operators keep beside them."""

    store: AnswerStore
    feed: CommitFeed
    folder: DataFolder
    settings: Settings
    rolled_files: RollupFiles
    windows: WindowHistory
    storage_choice: StorageChoice
    ready: CurrentRows
    samples: SampleCache

    @property
    def locked(self) -> Callable[[], AbstractContextManager[AnswerStore]]: ...

    def query_at(self, query: QueryDefinition, mark: Mark) -> tuple[QueryAt, AnyWindow]:
        """A query that kernels run, and its window at a kept cycle; cycle_gone where it had no answer there."""
        ...

    def answers_from(self, query_id: int) -> int | str:
        """The oldest kept cycle that has an answer of a query."""
        ...
