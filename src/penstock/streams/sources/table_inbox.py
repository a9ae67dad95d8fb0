"""What the source of a whole table hands over: counted, and pushed until the log has it or has refused it for good."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from penstock.catalog.model import Table
from penstock.catalog.state import CatalogState
from penstock.errors import PenstockError
from penstock.streams.ingest.input_counts import InputCounts
from penstock.streams.ingest.readings import IngestReceipt
from penstock.streams.sources.sensor_forwarder import will_pass

_LOGGER = logging.getLogger("penstock.sources")
_RETRY_S = 1.0
_ATTEMPTS = 5  # at what does not look as if it would pass

Push = Callable[[str, Sequence[Mapping[str, Any]]], "Future[IngestReceipt]"]


class PushDelivery:
    """Rows that are pushed until they are stored or refused for good. `advance` is called from one thread."""

    def __init__(
        self, push: Push, table: str, rows: Sequence[Mapping[str, Any]], counts: InputCounts, wake: Callable[[], None]
    ) -> None:
        self._push = push
        self._table = table
        self._rows = rows
        self._counts = counts
        self._wake = wake
        self._future: Future[IngestReceipt] | None = None
        self._retry_at_s = 0.0
        self._attempts = 0
        self._done = False
        self.advance()

    def advance(self) -> bool:
        """Whether everything is on disk or refused for good. Tries again what could not be written; never raises."""
        if self._done:
            return True
        try:
            if self._future is None:
                if time.monotonic() < self._retry_at_s:
                    return False
                self._future = self._push(self._table, self._rows)
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
            self._counts.wait_for(str(cause))
            return
        # Kept, it would come back for ever and hold up everything behind it.
        if condition != "table_not_found":
            _LOGGER.error("%d readings of table %s were refused: %s", len(self._rows), self._table, cause)
        self._counts.refuse(condition, str(cause), len(self._rows))
        self._done = True


class TableInbox(InputCounts):
    """Where the source of one table puts what came, and what it has to know of the table."""

    def __init__(self, table: Table, push: Push, state: Callable[[], CatalogState]) -> None:
        super().__init__()
        self._id = table.id
        self._name = table.name
        self._push = push
        self._state = state

    def table(self) -> Table | None:
        """The table as it is defined now; None once it was dropped."""
        return self._state().tables_by_id.get(self._id)

    def addresses(self) -> tuple[int, Mapping[str, Mapping[str, Any]]]:
        """A number that changes when sensors do, and each sensor's key by its address."""
        table = self.table()
        if table is None:
            return -1, {}
        rows = self._state().rows(self._id)
        # Every change of rows makes a version or ends a live one.
        version = hash((rows.count, len(rows.live_sids())))
        current = rows.current()
        keys = [current.column(name).to_pylist() for name in table.key]
        addresses = current.column("_address").to_pylist()
        return version, {
            address: dict(zip(table.key, key, strict=True))
            for address, key in zip(addresses, zip(*keys, strict=True), strict=True)
            if address
        }

    def push(self, rows: Sequence[Mapping[str, Any]], wake: Callable[[], None]) -> PushDelivery:
        """Start storing rows; `wake` is called, from any thread, when `advance` may have news."""
        return PushDelivery(self._push, self._name, rows, self, wake)
