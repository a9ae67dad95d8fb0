"""Readings that are pushed to ingest until they are stored or refused for good, from a sensor or a broker."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future

from penstock.errors import PenstockError
from penstock.streams.ingest.input_counts import InputCounts
from penstock.streams.ingest.readings import IngestReceipt

_LOGGER = logging.getLogger(__name__)
_RETRY_S = 1.0
_PASSING = {"disk_full", "too_busy", "not_ready", "engine_failed", "clock_untrusted"}


def will_pass(cause: BaseException) -> bool:
    """Whether the same thing may well work later: the disk is full or broken, the log is busy or not there yet.

    A broken disk may only work after a restart; given up, the readings would be lost to a fault that is not theirs.
    """
    if isinstance(cause, PenstockError):
        return cause.condition in _PASSING or isinstance(cause.__cause__, OSError)
    return isinstance(cause, OSError)


_ATTEMPTS = 5  # at what does not look as if it would pass


class PushDelivery:
    """`count` readings that are pushed until they are stored or refused for good. `advance` is called from one thread."""

    def __init__(
        self,
        push: Callable[[], Future[IngestReceipt]],
        table: str,
        count: int,
        counts: InputCounts,
        wake: Callable[[], None],
    ) -> None:
        self._push = push
        self._table = table
        self._count = count
        self._counts = counts
        self._wake = wake
        self._future: Future[IngestReceipt] | None = None
        self._retry_at_s = 0.0
        self._attempts = 0
        self._done = False
        self.advance()

    @property
    def is_sent(self) -> bool:
        """Whether ingest has them, stored or not."""
        return self._done or self._future is not None

    def advance(self) -> bool:
        """Whether everything is on disk or refused for good. Tries again what could not be written; never raises."""
        if self._done:
            return True
        try:
            if self._future is None:
                if time.monotonic() < self._retry_at_s:
                    return False
                self._future = self._push()
                self._future.add_done_callback(lambda _: self._wake())
            if not self._future.done():
                return False
            self._take(self._future.result())
            self._done = True
        except Exception as cause:
            self._future = None
            self._failed(cause)
        return self._done

    def _take(self, receipt: IngestReceipt) -> None:
        duplicates = sum(r.condition == "duplicate_reading" for r in receipt.refused)
        self._counts.stored(receipt.accepted, duplicates)
        for refusal in receipt.refused:
            if refusal.condition != "duplicate_reading":
                self._counts.refuse(refusal.condition, refusal.message)

    def _failed(self, cause: Exception) -> None:
        self._retry_at_s = time.monotonic() + _RETRY_S
        condition = cause.condition if isinstance(cause, PenstockError) else "internal_error"
        if will_pass(cause):
            self._counts.wait_for(str(cause))
            return
        self._attempts += 1
        if condition == "internal_error" and self._attempts < _ATTEMPTS:
            if self._attempts == 1:
                _LOGGER.warning(
                    "readings of table %s could not be stored, they are tried again", self._table, exc_info=cause
                )
            self._counts.wait_for(str(cause))
            return
        # Kept, it would come back for ever and hold up everything behind it.
        level = logging.INFO if condition == "table_not_found" else logging.ERROR
        _LOGGER.log(level, "%d readings of table %s were refused: %s", self._count, self._table, cause)
        self._counts.refuse(condition, str(cause), self._count)
        self._done = True
