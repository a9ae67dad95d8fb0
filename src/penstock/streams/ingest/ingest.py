"""Ingest: readings that clients and sensors send become rows of the log, or are refused one by one.

A push goes through `readings` (names and types), `StaticRows.find` (which sensor), `rules` (time and order),
and `StreamLog.append`. Check and append of a table are one step under its lock, so the order in which readings
were judged is the order of the log. Good readings of a push are stored whatever becomes of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.catalog.model import TIME_COLUMN, Table
from penstock.catalog.rows import Int32s, Int64s, StaticRows
from penstock.catalog.state import CatalogState
from penstock.clock import Clock, format_timestamp
from penstock.clock_guard import FOLLOWED_US, ClockStatus, clock_status
from penstock.errors import CONDITIONS, error, suggest
from penstock.settings import Settings
from penstock.streams.ingest.idempotency import HOUR_US, pack_receipt
from penstock.streams.ingest.readings import (
    Discovery,
    IngestReceipt,
    ReadingRefusal,
    Readings,
    read_readings,
    read_resolved,
    require_stream,
)
from penstock.streams.ingest.rules import ACCEPTED, AHEAD, BEFORE, DUPLICATE, NO_TIME, TOO_LATE, key_fields, warm_up
from penstock.streams.ingest.sensor_order import Verdict
from penstock.streams.ingest.table_states import IngestTables, TableIngest
from penstock.streams.log.stream_log import StreamLog
from penstock.streams.log.table_log import CommitFailures, LogMoved, rows_to_log
from penstock.types import format_duration


@dataclass(frozen=True, slots=True)
class CheckedPush:
    """Readings of one push after the rules, and what they were checked against: `seen` of the log, `ingest` of the table."""

    table: Table
    ingest: TableIngest
    readings: Readings
    vids: Int32s
    verdict: Verdict
    seen: CommitFailures
    key: str | None


class Ingest:
    """All pushes go through here. Thread-safe; pushes to different tables do not wait for one another.

    `state` gives the catalog's current state. The catalog must apply an entry inside `StreamLog.still`: a push that
    looked at the state before an entry and came to the log after it looks again.
    """

    def __init__(
        self,
        log: StreamLog,
        state: Callable[[], CatalogState],
        clock: Clock,
        settings: Settings,
        discovery: Discovery | None = None,
    ) -> None:
        self._log = log
        self._discovery = discovery
        self._state = state
        self._clock = clock
        self.tables = IngestTables(log, state, clock, settings.idempotency_keep_hours * HOUR_US)

    # -- pushing

    def push(
        self,
        table: str,
        data: pa.Table | pa.RecordBatch | Sequence[Mapping[str, Any]],
        idempotency_key: str | None = None,
    ) -> Future[IngestReceipt]:
        """Store readings; the receipt comes when the accepted ones are synced.

        Raises at once for what concerns the push as a whole (table_not_found, a wrong set of Arrow columns,
        too_busy); the future fails with disk_full. A failed push has stored nothing.
        """

        def read(found: Table) -> tuple[Readings, Callable[[StaticRows], Int32s]]:
            readings = read_readings(found, data)
            return readings, lambda rows: rows.find(readings.keys, readings.count)

        return self._push(lambda: self._table_named(table), read, idempotency_key)

    def push_resolved(
        self, table: Table, sids: Int32s, ts_us: Int64s | None, columns: Sequence[pa.Array]
    ) -> Future[IngestReceipt]:
        """Store readings of sensors known by sid; columns in the order of the stream's fields.

        A time may be `rules.NO_TIME`. Readings of a sensor that was deleted meanwhile are refused.
        """

        def read(found: Table) -> tuple[Readings, Callable[[StaticRows], Int32s]]:
            readings = read_resolved(found, len(sids), ts_us, columns)
            ingest = self.tables.of(found)
            return readings, lambda rows: ingest.current_vids(self._state().position, rows)[sids]

        return self._push(lambda: self._table_with(table.id, table.name), read, None)

    # -- looking

    def counters(self, table: str) -> dict[str, Any]:
        """Since the start of the server: accepted, refused by condition, late, clamped, unordered, deduplicated."""
        return self.tables.counters(self._table_named(table).id).as_dict()

    def sensors(self, table: str) -> dict[str, Int64s]:
        """By sid: newest time (`rules.NO_TIME`: none), and counts since the start of the server."""
        ingest = self.tables.of(self._table_named(table))
        with ingest.order.lock:
            counts = ingest.order.counts.copy()
            newest = ingest.order.newest.copy()
        names = ("accepted", "refused", "late", "clamped", "deduplicated")
        return {"newest": newest, **{name: counts[:, i] for i, name in enumerate(names)}}

    def restore(self, tables: Iterable[Table]) -> None:
        """Read what must be known of the log now rather than at a table's first push; load compiled code too."""
        warm_up()
        pa.array([0])  # the first one imports pandas: most of a second, which no sender should wait for
        for table in tables:
            if table.stream is not None:
                self.tables.of(table)

    # -- inside

    def _push(
        self,
        lookup: Callable[[], Table],
        read: Callable[[Table], tuple[Readings, Callable[[StaticRows], Int32s]]],
        key: str | None,
    ) -> Future[IngestReceipt]:
        readings: Readings | None = None
        table: Table | None = None
        while True:
            latest = lookup()
            require_stream(latest)
            ingest = self.tables.of(latest)
            if key is not None:
                with ingest.order.lock:
                    known = ingest.keys.find(key, self._clock.now_us())
                if known is not None:
                    return known
            if readings is None or latest != table:
                table = latest
                readings, resolve = read(table)
            if self._discovery is not None and readings.keys:
                # Before the lock: adding a sensor journals, and the journal waits for pushes under way.
                ingest.counters.note("discovered", self._discovery.add_unknown(table, readings, self._rows_of(table)))
            with ingest.order.lock:
                try:
                    return self._judge(table, lookup, ingest, readings, resolve, key)
                except LogMoved:
                    continue

    def _judge(
        self,
        table: Table,
        lookup: Callable[[], Table],
        ingest: TableIngest,
        readings: Readings,
        resolve: Callable[[StaticRows], Int32s],
        key: str | None,
    ) -> Future[IngestReceipt]:
        """Check readings and queue the good ones, as one step. Raises LogMoved with nothing changed."""
        order = ingest.order
        clock = clock_status(self._clock)
        now = clock.now_us
        seen = self._log.seen(table.id)
        if key is not None and (known := ingest.keys.find(key, now)) is not None:
            return known
        if lookup() != table:
            raise LogMoved
        check_clock(table, readings.times, clock)
        order.settle(seen.failures)
        try:
            rows = self._state().rows(table.id)
            vids = resolve(rows)
            sids = _sids_of(rows.sids, vids, readings)
        except Exception:
            # The state may have moved under our hands; then the problem is not the sender's.
            if self._log.seen(table.id) != seen:
                raise LogMoved from None
            raise
        verdict = order.check(table, sids, readings.times, readings.fields, now)
        try:
            return self._queue(CheckedPush(table, ingest, readings, vids, verdict, seen, key), now)
        except BaseException:
            order.take_back(verdict)
            raise

    def _queue(self, push: CheckedPush, now: int) -> Future[IngestReceipt]:
        table, readings, verdict, key = push.table, push.readings, push.verdict, push.key
        good = verdict.code == ACCEPTED
        accepted = int(good.sum())
        refused = refuse(table, readings, push.vids, verdict) if accepted < readings.count else ()
        receipt = IngestReceipt(accepted, refused)
        answer: Future[IngestReceipt] = Future()
        if accepted == 0:
            if self._log.seen(table.id) != push.seen:
                raise LogMoved
            stored: Future[int] = Future()
            stored.set_result(self._log.head(table.id))
        else:
            batch = rows_to_log(table, push.vids, verdict.times, readings.fields)
            if accepted < readings.count:
                batch = batch.filter(pa.array(good))
            body = pack_receipt(receipt) if key is not None else None
            stored = self._log.append(table, batch, key, receipt=body, seen=push.seen)
            push.ingest.order.under_way.append((stored, verdict))
        if key is not None:
            push.ingest.keys.begin(key, now, answer)
        stored.add_done_callback(lambda future: _finish(future, answer, push, receipt))
        return answer

    def _rows_of(self, table: Table) -> Callable[[], StaticRows]:
        return lambda: self._state().rows(table.id)

    def _table_named(self, name: str) -> Table:
        tables = self._state().tables
        found = tables.get(name)
        if found is None:
            raise error("table_not_found", table=name, hint=suggest(name, tables))
        return found

    def _table_with(self, table_id: int, name: str) -> Table:
        found = self._state().tables_by_id.get(table_id)
        if found is None:
            raise error("table_not_found", table=name)
        return found


def _finish(
    stored: Future[int],
    answer: Future[IngestReceipt],
    push: CheckedPush,
    receipt: IngestReceipt,
) -> None:
    """Runs in the log's thread once the rows are synced or have failed."""
    problem = stored.exception()
    done = None if problem is not None else IngestReceipt(receipt.accepted, receipt.refused, stored.result())
    if push.key is not None:
        push.ingest.keys.finish(push.key, done)
    if done is None:
        push.ingest.counters.note("failed", receipt.accepted)
        answer.set_exception(problem)
    else:
        push.ingest.counters.add(push.verdict, receipt.refused)
        answer.set_result(done)


def _sids_of(sid_of: Int32s, vids: Int32s, readings: Readings) -> Int32s:
    sids = np.full(len(vids), -1, dtype=np.int32)
    known = vids >= 0
    if known.all():
        np.take(sid_of, vids, out=sids)
    else:
        sids[known] = sid_of[vids[known]]
    if readings.bad:
        sids[list(readings.bad)] = -1
    return sids


def check_clock(table: Table, times: Int64s | None, clock: ClockStatus) -> None:
    """Raise clock_untrusted for readings that may well be right once the clock is; their senders try again.

    At a start that trusts no clock these are readings that the server would stamp, and readings past NOW. While a
    step that will be followed is held, they are readings between NOW and the wall clock: the sensors may know better.
    """
    if clock.state == "followed":
        return
    ahead = table.options.max_ahead_us
    given = np.empty(0, np.int64) if times is None else times
    past_now = given > clock.now_us + ahead
    if clock.state == "untrusted":
        doubtful = times is None or bool((past_now | (given == NO_TIME)).any())
    else:
        followed_soon = 0 < clock.step_us <= FOLLOWED_US
        doubtful = followed_soon and bool((past_now & (given <= clock.wall_us + ahead)).any())
    if doubtful:
        raise error("clock_untrusted", detail=clock.sentence, hint="send the readings again later")


def refuse(table: Table, readings: Readings, vids: Any, verdict: Verdict) -> tuple[ReadingRefusal, ...]:
    """A refusal for every reading that is not accepted, in the order sent: from the codes of `rules` to what a sender reads."""
    options = table.options
    found: list[ReadingRefusal] = []
    for index in np.flatnonzero(verdict.code != ACCEPTED).tolist():
        if index in readings.bad:
            found.append(readings.bad[index])
            continue
        code, known = int(verdict.code[index]), vids[index] >= 0
        ts = format_timestamp(int(verdict.times[index])) if known else ""  # without a sensor it may have no time
        if not known:
            condition, facts = "sensor_not_found", {"table": table.name, "key": _sensor(table, readings, index)}
        elif code == AHEAD:
            condition, facts = "too_far_ahead", {"ts": ts, "max_ahead": format_duration(options.max_ahead_us)}
        elif code == BEFORE:
            condition, facts = "before_retention", {"ts": ts, "retention": format_duration(options.retention_us or 0)}
        elif code == TOO_LATE:
            condition, facts = "too_late", {"ts": ts, "watermark": format_timestamp(int(verdict.old_newest[index]))}
        elif code == DUPLICATE:
            assert options.deduplicate is not None
            within = format_duration(options.deduplicate.within_us)
            condition, facts = "duplicate_reading", {"key": _key(table, readings, verdict, index), "within": within}
        else:
            newest = format_timestamp(int(verdict.old_newest[index]))
            condition, facts = "out_of_order", {"ts": ts, "newest": newest}
        found.append(ReadingRefusal(index, condition, CONDITIONS[condition].template.format(**facts)))
    return tuple(found)


def _sensor(table: Table, readings: Readings, index: int) -> str:
    if not readings.keys:
        return "that number; it was deleted"
    return ", ".join(f"{n} = {_show(k[index])}" for n, k in zip(table.key, readings.keys, strict=True))


def _key(table: Table, readings: Readings, verdict: Verdict, index: int) -> str:
    assert table.stream is not None
    by_name = {f.name: column for f, column in zip(table.stream.fields, readings.fields, strict=True)}
    shown = {n: _show(by_name[n][index]) for n in key_fields(table) if n != TIME_COLUMN}
    ts = format_timestamp(int(verdict.times[index]))
    return ", ".join(f"{n} = {shown.get(n, ts)}" for n in key_fields(table)) or "the same sensor"


def _show(value: pa.Scalar) -> str:
    shown = value.as_py()
    return "NULL" if shown is None else f"'{shown}'" if isinstance(shown, str) else str(shown)
