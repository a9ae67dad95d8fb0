"""What pages show of the server and its sensors, gathered once for all open pages, never more than once in `EVERY_S`."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import pyarrow as pa

from penstock.answers.latest_readings import Latest, Recent
from penstock.catalog.model import QueryDefinition, Table
from penstock.clock import SECOND
from penstock.database.database import Database
from penstock.errors import PenstockError
from penstock.server.http.thread_pools import Pool

State = Literal["live", "silent", "failing", "off"]
STATES: tuple[State, ...] = get_args(State)
# Beyond this, one by one is nothing for the eye, and every second of it costs.
SENSORS_MAX = 2_000
SILENT_AFTER_S = 30.0
MISSED = 5.0  # so many of a sensor's usual pauses without a reading are silence
_FAILING = {"backing off", "hung"}
_NUMERIC = {"INT", "BIGINT", "DOUBLE", "FLOAT", "BOOLEAN"}
_PLACES = (("x", "y"), ("lon", "lat"), ("lng", "lat"), ("longitude", "latitude"), ("easting", "northing"))
_LABELS = ("label", "name", "title", "location", "place", "room", "site")


@dataclass(frozen=True, slots=True)
class SensorFacts:
    """One sensor at one moment. `trail` is the shown field, a value per second."""

    sid: int
    key: dict[str, Any]
    name: str
    label: str | None
    place: tuple[float, float] | None
    static: dict[str, Any]
    address: str | None
    state: State
    says: str
    values: dict[str, Any]
    last_us: int | None
    rate: float
    counts: dict[str, int]
    last_error: str | None
    trail: list[tuple[int, float]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class TableFacts:
    """A sensor table and its sensors; `sensors` is empty where there are more than can be shown."""

    name: str
    count: int
    shown_field: str | None
    fields: tuple[str, ...]
    sensors: tuple[SensorFacts, ...]

    def counted(self) -> dict[State, int]:
        states = Counter(sensor.state for sensor in self.sensors)
        return {state: states[state] for state in STATES}


def table_facts(database: Database, latest: Latest, table: Table) -> TableFacts:
    """Everything about the sensors of one table, now."""
    assert table.stream is not None
    rows = database.catalog.state.rows(table.id)
    count = rows.current().num_rows
    numeric = [f.name for f in table.stream.fields if str(f.type) in _NUMERIC or str(f.type).startswith("DECIMAL")]
    fields = tuple(f.name for f in table.stream.fields)
    shown = numeric[0] if numeric else None
    if count > SENSORS_MAX:
        return TableFacts(table.name, count, shown, fields, ())
    recent = latest.look(table, rows.sids, database.log.head(table.id))
    current = rows.current()
    keys = zip(*(current.column(k).to_pylist() for k in table.key), strict=True)
    sids = dict(zip(keys, current.column("_sid").to_pylist(), strict=True))
    # The catalog has a changed row last; to the eye it stays where it was.
    told = sorted(database.sensors(table.name), key=lambda facts: tuple(facts["key"].values()))
    now_us = database.clock.now_us()
    if table.options.time == "valid":
        # Their own times may be of another day: the newest of them is the present.
        newest = max((s["last_reading_us"] or 0 for s in told), default=now_us)
        now_us = min(now_us, max(newest, int(recent.newest_us.max(initial=0))))
    place, label = place_columns(table), _label_column(table)
    sensors: list[SensorFacts] = []
    for facts in told:
        sid = sids.get(tuple(facts["key"].values()))
        if sid is None:
            continue  # a row may come between the two looks
        last_us, static = _last(facts, recent, sid), facts["values"]
        at = [static[name] for name in place or () if static[name] is not None]
        found = SensorFacts(
            sid=sid,
            key=facts["key"],
            name=", ".join(str(v) for v in facts["key"].values()),
            label=None if label is None else static[label],
            place=(float(at[0]), float(at[1])) if len(at) == 2 else None,
            static=static,
            address=facts["address"],
            state=state_of(facts["state"], last_us, facts["rows_per_s"], now_us),
            says=facts["state"],
            values=recent.values.get(sid, {}),
            last_us=last_us,
            rate=facts["rows_per_s"],
            counts={n: facts[n] for n in ("readings", "refused", "late", "clamped", "deduplicated", "errors")},
            last_error=facts["last_error"],
            trail=recent.line(shown, sid) if shown is not None else [],
        )
        sensors.append(found)
    return TableFacts(table.name, count, shown, fields, tuple(sensors))


def _last(facts: dict[str, Any], recent: Recent, sid: int) -> int | None:
    """The newest reading that is stored: cycles may be behind what the log has."""
    stored = int(recent.newest_us[sid]) if sid < len(recent.newest_us) and sid in recent.values else None
    return max((t for t in (facts["last_reading_us"], stored) if t is not None), default=None)


def place_columns(table: Table) -> tuple[str, str] | None:
    """The two static columns that say where a sensor stands, by their names."""
    numbers = {c.name.lower(): c.name for c in table.columns if str(c.type) in _NUMERIC}
    for east, north in _PLACES:
        if east in numbers and north in numbers:
            return numbers[east], numbers[north]
    return None


def _label_column(table: Table) -> str | None:
    texts = [c.name for c in table.columns if str(c.type) == "TEXT" and c.name not in table.key]
    named = [n for n in texts if n.lower() in _LABELS]
    return named[0] if named else texts[0] if texts else None


def state_of(says: str, last_us: int | None, rate: float, now_us: int) -> State:
    """Live, or silent for longer than it usually pauses, or failing to be read, or not observed by any query."""
    if says in _FAILING:
        return "failing"
    if last_us is None:
        return "off" if says in ("closed", "pushed", "idle") else "silent"
    patience_s = max(SILENT_AFTER_S, MISSED / rate) if rate > 0 else 2 * SILENT_AFTER_S
    if now_us - last_us > patience_s * SECOND:
        return "off" if says == "closed" else "silent"
    return "live"


EVERY_S = 1.0
ALARMS_SHOWN = 50
_ALARM_WORDS = ("alarm", "alert")


@dataclass(frozen=True, slots=True)
class Alarm:
    """The answer of a standing query that has "alarm" or "alert" in its name or description."""

    query: str
    count: int
    rows: tuple[dict[str, Any], ...]  # the newest ones


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """The server at one moment."""

    now_us: int
    status: dict[str, Any]
    cycles: list[dict[str, Any]]
    tables: tuple[TableFacts, ...]
    alarms: tuple[Alarm, ...]
    failed: dict[str, str]  # queries, and why


class StatusCache:
    """Gathers the status at most once a second. All pages that ask within that second get the same one."""

    def __init__(self, database: Database, pool: Pool) -> None:
        self._database = database
        self._pool = pool
        self.latest = Latest(database.log.folder)
        self._moment: ServerStatus | None = None
        self._taken_s = 0.0
        self._changes, self._included = 0, 0  # what pages have changed, and what of that was gathered
        self._turn = asyncio.Lock()

    async def current(self) -> ServerStatus:
        async with self._turn:
            old = time.monotonic() - self._taken_s >= EVERY_S * 0.9 or self._included < self._changes
            if self._moment is None or old:
                changes = self._changes  # one that comes meanwhile may be missing
                self._moment = await self._pool.run(self._gather)
                self._taken_s, self._included = time.monotonic(), changes
            return self._moment

    def expire(self) -> None:
        """Gather anew at the next request, because a page has changed something."""
        self._changes += 1

    def _gather(self) -> ServerStatus:
        database = self._database
        self.latest.forget(database.catalog.state.tables_by_id)
        tables = tuple(table_facts(database, self.latest, table) for table in database.sensor_tables())
        return ServerStatus(
            now_us=database.clock.now_us(),
            status=database.status(),
            cycles=database.costs.cycles(),
            tables=tables,
            alarms=tuple(self._alarms()),
            failed=self._failed(),
        )

    def _alarms(self) -> list[Alarm]:
        """Queries with "alarm" or "alert" in their name or description, and what they say now."""
        found = []
        for definition in list(self._database.catalog.state.queries.values()):
            text = f"{definition.name} {definition.description or ''}".lower()
            if definition.paused or not any(word in text for word in _ALARM_WORDS):
                continue
            try:
                seen = look_at(self._database, definition, ALARMS_SHOWN)
            except PenstockError:
                continue  # it fails, which `failed` says, or was dropped a moment ago
            if seen is not None:
                # Answers come oldest first.
                found.append(Alarm(definition.name, seen.count, tuple(reversed(seen.rows.to_pylist()))))
        return found

    def _failed(self) -> dict[str, str]:
        with self._database.standing.locked() as store:
            known = store.state.queries_by_id
            return {known[q].name: a.error for q, a in store.answers.items() if a.error is not None and q in known}


@dataclass(frozen=True, slots=True)
class AnswerPreview:
    """The newest `rows` of `count`, as of a cycle."""

    rows: pa.Table
    count: int
    cycle: int
    now_us: int | None


def look_at(database: Database, definition: QueryDefinition, newest: int) -> AnswerPreview | None:
    """The newest rows of a query's answer; None where there is no answer yet, or not now.

    A preview is not a use of the query: how the answer is stored stays as it is, and a large one costs no more than
    the rows that are shown.
    """
    if definition.paused:
        return None
    if not database.standing.store.knows(definition.id) or not database.standing.is_ready(definition.name, 0.0):
        return None
    held = database.standing.held(definition.name, asked=False)
    ids = held.inside()
    return AnswerPreview(held.rows(ids[max(0, len(ids) - newest) :]), len(ids), held.stands_for, held.now_us)
