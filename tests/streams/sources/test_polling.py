"""The pool under the manager: due order, hung steps, and threads that end."""

from __future__ import annotations

import threading
import time

from penstock.streams.sources.polling import Poller, PollLimits, Task
from tests.sensors.world import PATIENCE_S, wait_until


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
    now_s = [0.0]

    def step(task: Step) -> float | None:
        order.append(task.name)
        return None

    poller: Poller[Step] = Poller(step, ignore, ignore, PollLimits(threads=1), clock=lambda: now_s[0])
    for name, delay_s in (("c", 0.09), ("a", 0.03), ("b", 0.06)):
        poller.schedule(Step(name), delay_s)
    now_s[0] = 1.0
    wait_until(lambda: order == ["a", "b", "c"])
    poller.close()


def test_a_task_never_runs_twice_at_once_and_a_wish_during_its_step_is_kept() -> None:
    gate = threading.Event()
    began: list[str] = []

    def step(task: Step) -> float | None:
        began.append(task.name)
        if task.name == "x":
            gate.wait()
        return None

    poller: Poller[Step] = Poller(step, ignore, ignore, PollLimits(threads=4, hang_s=600))
    task = Step("x")
    poller.schedule(task)
    wait_until(lambda: began == ["x"])
    for _ in range(10):
        poller.schedule(task)
    poller.schedule(Step("later"))  # when it runs, somebody has passed by what was due before it
    wait_until(lambda: began == ["x", "later"])
    gate.set()
    wait_until(lambda: began == ["x", "later", "x"])
    assert poller.drain(PATIENCE_S)
    assert began == ["x", "later", "x"]
    poller.close()


def test_an_earlier_wish_wins_over_a_later_one() -> None:
    begin_s = time.monotonic()
    ran: list[float] = []

    def step(task: Step) -> float | None:
        ran.append(time.monotonic() - begin_s)
        return None

    poller: Poller[Step] = Poller(step, ignore, ignore)
    task = Step("x")
    poller.schedule(task, 3000.0)
    poller.schedule(task, 0.05)
    wait_until(lambda: len(ran) == 1)
    assert ran[0] > 0.04
    assert poller.drain(PATIENCE_S)
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
        gate.wait()
        return None

    limits = PollLimits(threads=1, slow_s=0.01, hang_s=600, idle_s=0.05)
    others = set(threading.enumerate())
    poller: Poller[Step] = Poller(step, ignore, ignore, limits)
    poller.schedule_many([Step(str(i)) for i in range(6)])
    wait_until(lambda: len(set(threading.enumerate()) - others) >= 7)
    gate.set()
    wait_until(lambda: len(set(threading.enumerate()) - others) == 2)  # one, and the watchdog
    poller.close()
