"""What the server needs from the database behind it. `queries.database.Database` is the real one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import pyarrow as pa
from prometheus_client.core import Metric

from penstock.security.audit import Audit
from penstock.security.users import Users
from penstock.streams.ingest.input_counts import InputCounts
from penstock.streams.ingest.line_points import LineReport
from penstock.streams.ingest.receipt import IngestReceipt
from penstock.views.results import Event, Health, Result

Params = Sequence[Any] | Mapping[str, Any] | None


class SubscriptionSource(Protocol):
    """One subscriber's place in a query's results.

    It may have an attribute `cycle`: everything up to that cycle was delivered, rows or none. Pings carry it.
    """

    def next(self, timeout_s: float) -> Event | None:
        """The next event in order of cycles, waiting up to `timeout_s` (0: not at all); None if there is none.

        Raises query_not_found once the query was dropped and everything before that was delivered.
        """

    def on_ready(self, callback: Callable[[], None]) -> None:
        """Call `callback`, from any thread and quickly, whenever `next(0)` may have something new to say.

        That a call came does not promise an event. This lets a thousand subscribers wait without a thread each.
        """

    def close(self) -> None:
        """Let go; harmless when repeated."""


class Backend(Protocol):
    """Every method may block and may be called from any thread; each raises PenstockError for a user's mistake.

    `execute` and `register` refuse what `security.caller.current_caller` may not do, and write changes to `audit`.
    `execute` and `invoke` end when `cancellation.current_cancellation` says so.
    """

    users: Users
    audit: Audit
    ways_in: dict[str, InputCounts]  # by name (queries.inputs); there once it has started

    def start(self, progress: Callable[[str], None]) -> None: ...

    def stop(self) -> None: ...

    def execute(self, sql: str, params: Params = None, owner: str | None = None) -> Result:
        """Run one or more statements; the last one's result. Queries without another owner are `owner`'s."""

    def push(
        self, table: str, data: pa.Table | list[dict[str, Any]], idempotency_key: str | None = None
    ) -> IngestReceipt:
        """Store readings; returns when the accepted ones are on disk. Text is cast to the field's type."""

    def write_lines(self, body: bytes, precision: str = "ns") -> LineReport:
        """Store points of InfluxDB's line protocol; returns when the good ones are on disk."""

    def invoke(self, name: str, as_of: int | str | None = None, limit: int | None = None) -> Result:
        """The answer of a standing query, now, at a cycle, or at a time or NOW - d as text."""

    def subscribe(self, name: str, from_cycle: int | None = None, changes: bool = False) -> SubscriptionSource:
        """Start with the current answer, or with the results of `from_cycle` itself (which may lie ahead)."""

    def register(
        self,
        queries: Sequence[Mapping[str, Any]],
        on_error: Literal["none", "rest"] = "none",
        owner: str | None = None,
    ) -> list[dict[str, Any]]:
        """Create queries with one sync; per query `{"index", "name", "error": None or the body of an error}`.

        Each has `name` and `sql`, perhaps owner, description and strategy.
        """

    def queries(self) -> list[dict[str, Any]]:
        """Each standing query's definition, state and cost, by name."""

    def query(self, name: str) -> dict[str, Any]:
        """One of `queries`, or query_not_found."""

    def costliest(self, count: int) -> list[dict[str, Any]]:
        """The queries that cost most, as `query` describes them."""

    def answer_reads(self) -> Iterable[Metric]:
        """What answers have read of the log in this process."""

    def tables(self) -> list[dict[str, Any]]:
        """Each table's `name`, `columns`, `key`, `stream` and `options`, by name.

        Columns (`[{"name", "type"}]`) are flat: static ones, the stream's fields, ts. `stream` is None or has
        `name` and `fields`.
        """

    def table(self, name: str) -> dict[str, Any]:
        """One of `tables`, or table_not_found."""

    def sensors(self, table: str) -> list[dict[str, Any]]:
        """Each sensor of a table: `key` and `values` (static columns by name), `address`, `state` and more."""

    def running_statements(self) -> list[dict[str, Any]]:
        """The statements that run now and that the caller may see; `started` in microseconds."""

    def cancel_statement(self, statement_id: str) -> None:
        """End one of these, or statement_not_found."""

    def health(self) -> Health: ...

    def status(self) -> dict[str, Any]: ...

    def backup(self, target: Path, link: bool = False) -> list[str]:
        """Write a data folder that `penstock serve` can open to `target`, while everything goes on.

        What comes back names the files that were damaged before; with `link`, immutable files are hard links.
        """
