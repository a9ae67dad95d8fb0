"""What a source's batch does when the log does not take it: a broken disk is waited for, a batch that breaks the log is not."""

from __future__ import annotations

import errno
from collections.abc import Callable
from concurrent.futures import Future

import pytest

from penstock.errors import error
from penstock.streams.ingest.input_counts import InputCounts
from penstock.streams.ingest.readings import IngestReceipt
from penstock.streams.log.atomic_file import FolderNotSynced, as_storage_error
from penstock.streams.sources import push_delivery
from penstock.streams.sources.push_delivery import PushDelivery


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push_delivery, "_RETRY_S", 0.0)


def failed(problem: Exception) -> Future[IngestReceipt]:
    future: Future[IngestReceipt] = Future()
    future.set_exception(problem)
    return future


def raised(problem: Exception) -> Future[IngestReceipt]:
    raise problem


@pytest.mark.parametrize("fail", [failed, raised])
@pytest.mark.parametrize(
    "cause", [OSError(errno.EIO, "broken"), FolderNotSynced(errno.EIO, "broken"), error("disk_full")]
)
def test_nothing_is_given_up_for_a_disk_that_fails(
    fail: Callable[[Exception], Future[IngestReceipt]], cause: Exception
) -> None:
    counts = InputCounts()
    works = False

    def push() -> Future[IngestReceipt]:
        if not works:
            return fail(as_storage_error(cause))
        future: Future[IngestReceipt] = Future()
        future.set_result(IngestReceipt(1))
        return future

    delivery = PushDelivery(push, "probes", 1, counts, lambda: None)
    assert [delivery.advance() for _ in range(20)] == [False] * 20
    assert counts.as_dict()["refused"] == {} and counts.last_problem
    works = True
    assert delivery.advance() or delivery.advance()
    assert counts.as_dict()["accepted"] == 1


def test_a_batch_that_cannot_be_stored_at_all_is_refused_in_the_end() -> None:
    counts = InputCounts()
    delivery = PushDelivery(lambda: raised(TypeError("what is this?")), "probes", 1, counts, lambda: None)
    assert [delivery.advance() for _ in range(6)][-1]
    assert counts.as_dict()["refused"] == {"internal_error": 1}
