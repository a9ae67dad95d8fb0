"""The pool under the manager: due order, hung steps, and threads that end."""

from __future__ import annotations

import threading
import time

from penstock.streams.polling import Poller, PollLimits, Task
from tests.sensors.world import wait_until


class Step(Task):
    __slots__ = ("name", "times")

    def __init__(self, name: str, group: int = 0) -> None:
        super().__init__(group)
        self.name = name
        self.times: list[float] = []


def ignore(task: Step) -> None:
    return None


def test_steps_run_in_the_order_in_which_they_are_due() -> None:
    order: list[str] = []

    def step(task: Step) -> float | None:
        order.append(task.name)
        return None

    poller: Poller[Step] = Poller(step, ignore, ignore, PollLimits(threads=1))
    for name, delay_s in (("c", 0.09), ("a", 0.03), ("b", 0.06)):
        poller.schedule(Step(name), delay_s)
    wait_until(lambda: order == ["a", "b", "c"])
    poller.close()


def test_a_task_never_runs_twice_at_once_and_a_wish_during_its_step_is_kept() -> None:
    running = threading.Semaphore(1)
    count = [0]

    def step(task: Step) -> float | None:
        assert running.acquire(blocking=False)
        time.sleep(0.01)
        count[0] += 1
        running.release()
        return None

    poller: Poller[Step] = Poller(step, ignore, ignore, PollLimits(threads=4))
    task = Step("x")
    for _ in range(10):
        poller.schedule(task)
        time.sleep(0.004)
    assert poller.drain(2.0)
    assert 2 <= count[0] <= 10
    poller.close()


def test_an_earlier_wish_wins_over_a_later_one() -> None:
    begin_s = time.monotonic()
    ran: list[float] = []

    def step(task: Step) -> float | None:
        ran.append(time.monotonic() - begin_s)
        return None

    poller: Poller[Step] = Poller(step, ignore, ignore)
    task = Step("x")
    poller.schedule(task, 30.0)
    poller.schedule(task, 0.05)
    wait_until(lambda: len(ran) == 1)
    assert 0.04 < ran[0] < 1.0
    assert poller.drain(1.0)
    poller.close()


def test_a_step_that_fails_with_a_mistake_of_ours_does_not_take_its_thread_along() -> None:
    def step(task: Step) -> float | None:
        task.times.append(0)
        if task.name == "bad":
            raise RuntimeError
        return 0.0 if len(task.times) < 5 else None

    poller: Poller[Step] = Poller(step, ignore, ignore, PollLimits(threads=1))
    bad, good = Step("bad"), Step("good")
    poller.schedule_many([bad, good])
    wait_until(lambda: len(good.times) == 5)
    poller.close()


def test_extra_threads_go_when_they_are_not_needed() -> None:
    gate = threading.Event()

    def step(task: Step) -> float | None:
        gate.wait(2.0)
        return None

    limits = PollLimits(threads=1, slow_s=0.01, hang_s=10.0, idle_s=0.05)
    poller: Poller[Step] = Poller(step, ignore, ignore, limits)
    before = threading.active_count()
    poller.schedule_many([Step(str(i)) for i in range(6)])
    wait_until(lambda: threading.active_count() >= before + 5)
    gate.set()
    wait_until(lambda: threading.active_count() <= before)
    poller.close()
