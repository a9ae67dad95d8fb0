"""A small pool of threads that runs steps of many tasks when they are due, and lets no task block another.

Tasks are taken in the order of their due times, so a task that always wants more goes to the end of the line
after each step: round robin. A step that takes longer than the limit keeps its thread to itself (the thread
is abandoned, the task reported as hung) and another thread takes its place. Threads are bounded: a group
with many hung or slow tasks waits until one comes back, and beyond a total of hung ones so does every group that
has any. The pool itself is always replaced, so that one more group can hang without stopping the others.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from penstock.services import Service

_LOGGER = logging.getLogger(__name__)


class Task:
    """What the pool keeps in mind about one thing that is stepped. Subclasses add what the step needs."""

    __slots__ = ("again_s", "due_s", "group", "hung", "running", "ticket")

    def __init__(self, group: int) -> None:
        self.group = group
        self.due_s = math.inf  # monotonic time of the queued step; infinite while none is queued
        self.again_s = math.inf  # asked for while running
        self.running = False
        self.hung = False  # its step runs, for longer than the limit
        self.ticket = 0


TaskT = TypeVar("TaskT", bound=Task)


@dataclass(frozen=True, slots=True)
class PollLimits:
    """Sizes of the pool. `tick_s` rounds due times up, so that steps come in groups and threads can sleep."""

    threads: int = 4
    threads_max: int = 32
    hang_s: float = 5.0
    slow_s: float = 0.05
    stuck_per_group: int = 8
    stuck_max: int = 32
    tick_s: float = 0.01
    held_s: float = 1.0
    idle_s: float = 5.0


@dataclass(slots=True, eq=False)
class _Worker(Generic[TaskT]):
    task: TaskT | None = None
    since_s: float = 0.0
    abandoned: bool = False
    service: Service | None = None


class Poller(Generic[TaskT]):
    """`step(task)` answers the seconds until its next step, or None for none. It must not raise.

    `on_hung(task)` and `on_held(task)` tell that a step takes too long, or waits because of others that do.
    """

    def __init__(
        self,
        step: Callable[[TaskT], float | None],
        on_hung: Callable[[TaskT], None],
        on_held: Callable[[TaskT], None],
        limits: PollLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._step = step
        self._on_hung = on_hung
        self._on_held = on_held
        self._limits = limits or PollLimits()
        self._changed = threading.Condition(threading.Lock())
        self._heap: list[tuple[float, int, TaskT]] = []
        self._tickets = itertools.count(1)
        self._workers: list[_Worker[TaskT]] = []
        self._stuck: Counter[int] = Counter()  # hung tasks by group
        self._slow: Counter[int] = Counter()  # tasks by group that are on their way to it
        self._running = 0
        self._closing = False
        with self._changed:
            for _ in range(self._limits.threads):
                self._start_worker()
        self._watchdog = Service("poll watchdog", self._watch)
        self._watchdog.start()

    def schedule(self, task: TaskT, delay_s: float = 0.0) -> None:
        """Step the task no later than that. An earlier step that is queued already stays."""
        self.schedule_many([task], delay_s)

    def schedule_many(self, tasks: list[TaskT], delay_s: float = 0.0) -> None:
        now_s = self._clock()
        with self._changed:
            for task in tasks:
                self._queue(task, now_s + delay_s)
            self._changed.notify()

    def stuck(self) -> int:
        """Threads that wait for a sensor beyond the limit."""
        with self._changed:
            return sum(self._stuck.values())

    def drain(self, timeout_s: float) -> bool:
        """Wait until nothing is queued and nothing but hung steps runs; False when the time was too short."""
        deadline_s = self._clock() + timeout_s
        while self._clock() < deadline_s:
            with self._changed:
                queued = any(ticket == task.ticket and task.due_s < math.inf for _, ticket, task in self._heap)
                if not queued and self._running == sum(self._stuck.values()):
                    return True
            time.sleep(0.005)
        return False

    def close(self, timeout_s: float = 2.0) -> None:
        """End every thread that can end. Hung ones are left behind; they cannot keep the process alive."""
        deadline_s = self._clock() + timeout_s
        self._watchdog.stop()
        with self._changed:
            self._closing = True
            self._heap.clear()
            self._changed.notify_all()
        for service in self.services():
            service.join(max(0.0, deadline_s - self._clock()))

    def services(self) -> list[Service]:
        """Its threads, those that a hung step keeps left out, and the one that watches them."""
        with self._changed:
            return [*(w.service for w in self._workers if w.service is not None), self._watchdog]

    def _queue(self, task: TaskT, due_s: float) -> None:
        tick_s = self._limits.tick_s
        due_s = math.ceil(due_s / tick_s) * tick_s
        if self._closing:
            return
        if task.running:
            task.again_s = min(task.again_s, due_s)
        elif due_s < task.due_s:
            task.due_s = due_s
            task.ticket = next(self._tickets)
            heapq.heappush(self._heap, (due_s, task.ticket, task))

    def _start_worker(self) -> None:
        worker: _Worker[TaskT] = _Worker()
        # The least free number: names are labels of metrics, and must stay few however many threads hang.
        taken = {w.service.name for w in self._workers if w.service is not None}
        name = next(name for number in itertools.count(1) if (name := f"poll {number}") not in taken)
        worker.service = Service(name, partial(self._work, worker), back_off_max_s=2.0)
        self._workers.append(worker)
        worker.service.start()

    def _work(self, worker: _Worker[TaskT]) -> float | None:
        """Step the next due task; None when this thread is to end."""
        task = self._take(worker)
        if task is None:
            return None
        try:
            delay_s = self._step(task)
        except BaseException:  # a sensor of one's own may say SystemExit
            _LOGGER.exception("a step of the stream manager failed")
            delay_s = None
        with self._changed:
            task.running = task.hung = False
            worker.task = None
            self._running -= 1
            due_s = min(math.inf if delay_s is None else self._clock() + delay_s, task.again_s)
            task.again_s = math.inf
            if due_s < math.inf:
                self._queue(task, due_s)
            if worker.abandoned:
                self._stuck[task.group] -= 1
                self._changed.notify()
                return None
        return 0.0

    def _take(self, worker: _Worker[TaskT]) -> TaskT | None:
        """The next due task, waiting for one; None when this thread is to end."""
        while True:
            held: list[TaskT] = []
            with self._changed:
                if self._closing:
                    return None
                now_s = self._clock()
                task = self._pop_due(now_s, held)
                if task is not None:
                    task.running = True
                    self._running += 1
                    worker.task, worker.since_s = task, now_s
                    if self._heap and self._heap[0][0] <= now_s:
                        self._changed.notify()
                elif not held:
                    idle_s = self._limits.idle_s
                    wait_s = min(self._heap[0][0] - now_s, idle_s) if self._heap else idle_s
                    if not self._changed.wait(wait_s) and self._is_surplus():
                        self._workers.remove(worker)
                        return None
            for waiting in held:
                self._on_held(waiting)
            if task is not None:
                return task

    def _pop_due(self, now_s: float, held: list[TaskT]) -> TaskT | None:
        """The task that has been due longest. Those that must wait for a hung one go back into the queue."""
        while self._heap and self._heap[0][0] <= now_s:
            _, ticket, task = heapq.heappop(self._heap)
            if ticket != task.ticket or task.due_s == math.inf:
                continue
            task.due_s = math.inf
            hold_s = self._hold_s(task)
            if not hold_s:
                return task
            if hold_s == self._limits.held_s:
                held.append(task)
            self._queue(task, now_s + hold_s)
        return None

    def _hold_s(self, task: TaskT) -> float:
        """How long a due task must wait because others of its group hang or are slow; 0 where it need not."""
        limits = self._limits
        stuck = self._stuck[task.group]
        if stuck >= limits.stuck_per_group or (stuck and sum(self._stuck.values()) >= limits.stuck_max):
            return limits.held_s
        return limits.slow_s if stuck + self._slow[task.group] >= limits.stuck_per_group else 0.0

    def _is_surplus(self) -> bool:
        return len(self._workers) > self._limits.threads and (
            not self._heap or self._heap[0][0] > self._clock() + self._limits.slow_s
        )

    def _watch(self) -> float:
        """Abandon threads with a step that hangs, and add threads while slow steps keep due tasks waiting."""
        limits = self._limits
        hung: list[TaskT] = []
        with self._changed:
            now_s = self._clock()
            for worker in list(self._workers):
                if worker.task is not None and now_s - worker.since_s > limits.hang_s:
                    worker.abandoned = worker.task.hung = True
                    self._workers.remove(worker)
                    self._stuck[worker.task.group] += 1
                    hung.append(worker.task)
            if not self._closing:
                self._add_workers(now_s)
        for task in hung:
            self._on_hung(task)
        return min(limits.slow_s / 2, limits.hang_s / 4)

    def _add_workers(self, now_s: float) -> None:
        limits = self._limits
        slow = [w.task.group for w in self._workers if w.task is not None and now_s - w.since_s > limits.slow_s]
        self._slow = Counter(slow)
        while len(self._workers) < limits.threads:
            self._start_worker()
        waiting = bool(self._heap) and self._heap[0][0] < now_s - limits.slow_s
        if waiting and len(slow) == len(self._workers) < limits.threads_max:
            self._start_worker()
