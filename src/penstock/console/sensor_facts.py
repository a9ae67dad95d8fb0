"""Sensors as the pages show them: what they are called, where they stand, what they last said, and how they are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from penstock.answers.latest_readings import Latest, Recent
from penstock.catalog.model import Table
from penstock.clock import SECOND
from penstock.database.database import Database

State = Literal["live", "silent", "failing", "off"]
# Beyond this, one by one is nothing for the eye, and every second of it costs.
SENSORS_MAX = 2_000
SILENT_AFTER_S = 30.0
MISSED = 5.0  # so many of a sensor's usual pauses without a reading are silence
_FAILING = {"backing off", "hung"}
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
        found: dict[State, int] = {"live": 0, "silent": 0, "failing": 0, "off": 0}
        for sensor in self.sensors:
            found[sensor.state] += 1
        return found


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
    drawn = ShownColumns(shown, place_columns(table), _label_column(table))
    sensors = tuple(
        _sensor(sid, {**facts, "last_reading_us": _last(facts, recent, sid)}, recent, drawn, now_us)
        for facts in told
        if (sid := sids.get(tuple(facts["key"].values()))) is not None  # a row may come between the two looks
    )
    return TableFacts(table.name, count, shown, fields, sensors)


def _last(facts: dict[str, Any], recent: Recent, sid: int) -> int | None:
    """The newest reading that is stored: cycles may be behind what the log has."""
    stored = int(recent.newest_us[sid]) if sid < len(recent.newest_us) and sid in recent.values else None
    return max((t for t in (facts["last_reading_us"], stored) if t is not None), default=None)


_NUMERIC = {"INT", "BIGINT", "DOUBLE", "FLOAT", "BOOLEAN"}


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


@dataclass(frozen=True, slots=True)
class ShownColumns:
    """What of a table's sensors is drawn: a field of the stream, and the static columns of place and label."""

    field: str | None
    place: tuple[str, str] | None
    label: str | None


def _sensor(
    sid: int,
    facts: dict[str, Any],
    recent: Recent,
    shown: ShownColumns,
    now_us: int,
) -> SensorFacts:
    static, place = facts["values"], shown.place
    at = (static[place[0]], static[place[1]]) if place is not None else None
    return SensorFacts(
        sid=sid,
        key=facts["key"],
        name=", ".join(str(v) for v in facts["key"].values()),
        label=None if shown.label is None else static[shown.label],
        place=(float(at[0]), float(at[1])) if at is not None and None not in at else None,
        static=static,
        address=facts["address"],
        state=state_of(facts["state"], facts["last_reading_us"], facts["rows_per_s"], now_us),
        says=facts["state"],
        values=recent.values.get(sid, {}),
        last_us=facts["last_reading_us"],
        rate=facts["rows_per_s"],
        counts={n: facts[n] for n in ("readings", "refused", "late", "clamped", "deduplicated", "errors")},
        last_error=facts["last_error"],
        trail=recent.line(shown.field, sid) if shown.field is not None else [],
    )


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
