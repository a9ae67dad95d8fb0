"""A cancellation: told once, noticed by all that work for its statement, and a deadline."""

from __future__ import annotations

import threading
import time
from contextvars import copy_context

import pytest

from penstock.cancellation import Cancellation, cancelled_by, check, check_cancelled, current_cancellation
from penstock.errors import PenstockError


def test_work_without_a_cancellation_is_never_ended() -> None:
    assert current_cancellation() is None
    check()
    check_cancelled()


def test_what_is_cancelled_ends_in_the_thread_that_works_for_it() -> None:
    cancellation, caught = Cancellation(), []

    def work() -> None:
        with pytest.raises(PenstockError) as failure:
            while True:
                check()
                time.sleep(0.001)
        caught.append(failure.value)

    with cancelled_by(cancellation):
        thread = threading.Thread(target=copy_context().run, args=(work,))
    thread.start()
    assert cancellation.cancel("by a test") and not cancellation.cancel("twice")
    thread.join(60)
    assert (caught[0].condition, caught[0].sqlstate, caught[0].message) == ("statement_cancelled", "57014", "by a test")


def test_a_deadline_ends_work_but_for_what_may_take_longer() -> None:
    cancellation = Cancellation()
    cancellation.limit(0)
    with cancelled_by(cancellation):
        check_cancelled()
        with pytest.raises(PenstockError, match="took longer than 0 s") as caught:
            check()
        assert caught.value.condition == "statement_timeout"
        with pytest.raises(PenstockError):
            check_cancelled()


def test_a_callback_comes_once_also_when_it_comes_late_and_not_when_it_was_taken_back() -> None:
    cancellation, called = Cancellation(), []
    cancellation.on_stop(lambda: called.append("early"))
    forget = cancellation.on_stop(lambda: called.append("forgotten"))
    forget()
    cancellation.expire()
    cancellation.cancel("again")
    cancellation.on_stop(lambda: called.append("late"))
    assert called == ["early", "late"]


def test_ids_cannot_be_counted_through() -> None:
    ids = {Cancellation().id for _ in range(100)}
    assert len(ids) == 100 and all(len(found) == 16 for found in ids)
