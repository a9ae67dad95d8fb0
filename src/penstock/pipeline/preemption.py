"""Take slots back from statements while a cycle waits for one.

A statement can have more tasks than Spark has slots, and Spark takes no slot away. Where tasks of a cycle or of a
standing query wait at two looks in a row, some tasks of the statement with the most of them are ended. Spark runs
those again later, and gives the free slots to the pool that comes first.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext

LOOK_S = 0.5
TASKS_MAX = 1_000
_looking = threading.Lock()


class Preemption:
    """Checks for waiting cycles, in one statement's thread at a time."""

    def __init__(self, context: SparkContext, adhoc_pool: str) -> None:
        self._context = context
        self._adhoc = adhoc_pool
        self._waited = False

    def look(self) -> int:
        """Free slots if that is due; how many."""
        if not _looking.acquire(blocking=False):
            return 0
        try:
            # Whatever goes wrong here, the next look is soon, and statements have an end.
            with contextlib.suppress(Py4JError, ConnectionError, EOFError):
                return self._free_slots()
        finally:
            _looking.release()
        return 0

    def _free_slots(self) -> int:
        store: Any = self._context._jsc.sc().statusStore()
        stages = _listed(store.activeStages())
        waits = any(_pending(stage) > 0 for stage in stages if stage.schedulingPool() != self._adhoc)
        waited, self._waited = self._waited, waits
        if not (waits and waited):
            return 0
        largest = max(
            (s for s in stages if s.schedulingPool() == self._adhoc), key=lambda s: s.numActiveTasks(), default=None
        )
        if largest is None:
            return 0
        tasks = _listed(store.taskList(largest.stageId(), largest.attemptId(), TASKS_MAX))
        # The newest have the least to lose; a cycle has a task per processor.
        running = sorted((t.taskId() for t in tasks if t.status() == "RUNNING"), reverse=True)
        ended = running[: self._context.defaultParallelism]
        for task in ended:
            self._context._jsc.sc().killTaskAttempt(task, True, "a cycle waits for its slot")
        self._waited = False
        return len(ended)


def _pending(stage: Any) -> int:
    return int(stage.numTasks() - stage.numActiveTasks() - stage.numCompleteTasks())


def _listed(found: Any) -> list[Any]:
    """A sequence of Scala's."""
    return [found.apply(place) for place in range(found.size())]
