"""The world as it was acknowledged: static rows with their versions, the logs, the queries; and their answers.

Commands come in the order the database took them. An answer depends on a prefix: how many rows of each log, which
journal entries, and the cycle's NOW.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tests.oracle.compare import canonical
from tests.oracle.expressions import order, value, wrap
from tests.oracle.questions import FROM_REGISTRATION, Aggregate, LastRows, Query, Table, TimeSpan, WindowSpec


@dataclass(frozen=True)
class Version:
    """One version of a sensor's static row. Its place in the list is its vid."""

    sid: int
    values: dict[str, Any]


@dataclass(frozen=True)
class Logged:
    """One row of a log; its place in the list is its position."""

    vid: int
    ts: int
    fields: dict[str, Any]


@dataclass(frozen=True)
class Pushed:
    """What a push should be answered with."""

    accepted: int
    refused: dict[int, str]


@dataclass
class _TableState:
    table: Table
    id: int
    versions: list[Version] = field(default_factory=list)
    current: dict[Any, int] = field(default_factory=dict)  # key -> vid of live sensors
    log: list[Logged] = field(default_factory=list)
    newest: dict[int, int] = field(default_factory=dict)  # sid -> newest ts
    latest: int | None = None  # newest ts of the table
    sensors: int = 0
    kept_from: list[tuple[int, int]] = field(default_factory=list)  # (journal position, first log position kept)


@dataclass
class _QueryState:
    query: Query
    start_us: int | None
    windows: list[tuple[int, WindowSpec]]  # from which journal position on
    dropped: int | None = None


Heads = Mapping[Any, int]


class World:
    """Apply commands in order, then ask. `pos` is the journal position that the database gave a command; by
    default they are counted 1, 2, 3, ..."""

    def __init__(self) -> None:
        self.position = 0
        self._tables: dict[str, _TableState] = {}
        self._queries: dict[str, _QueryState] = {}

    # -- definitions and static rows

    def create_table(self, table: Table, pos: int | None = None, id: int | None = None) -> None:
        self._move(pos)
        self._tables[table.name] = _TableState(table, len(self._tables) + 1 if id is None else id)

    def insert(self, table: str, rows: Sequence[Sequence[Any]], pos: int | None = None) -> None:
        """New sensors; each gets a sid and a vid of its own, even when its key lived before."""
        self._move(pos)
        state = self._tables[table]
        for row in rows:
            values = dict(zip([n for n, _ in state.table.static], row, strict=True))
            key = values[state.table.key]
            assert key not in state.current, f"{table} has {key} already"
            self._add_version(state, Version(state.sensors, values), key)
            state.sensors += 1

    def update(self, table: str, key: Any, changes: Mapping[str, Any], pos: int | None = None) -> None:
        self._move(pos)
        state = self._tables[table]
        old = state.versions[state.current.pop(key)]
        values = old.values | dict(changes)
        self._add_version(state, Version(old.sid, values), values[state.table.key])

    def delete(self, table: str, key: Any, pos: int | None = None) -> None:
        """The sensor takes no more readings; those it has stay in every answer."""
        self._move(pos)
        del self._tables[table].current[key]

    def retain(self, table: str, first: int, pos: int | None = None) -> None:
        """Rows before log position `first` are gone."""
        self._move(pos)
        self._tables[table].kept_from.append((self.position, first))

    @staticmethod
    def _add_version(state: _TableState, version: Version, key: Any) -> None:
        state.current[key] = len(state.versions)
        state.versions.append(version)

    def _move(self, pos: int | None) -> None:
        self.position = self.position + 1 if pos is None else pos

    # -- readings

    def push(self, table: str, readings: Sequence[Mapping[str, Any]], now_us: int) -> Pushed:
        """Readings as sent: the key column, the fields, and `ts` in microseconds for a valid-time table."""
        state = self._tables[table]
        refused: dict[int, str] = {}
        for index, reading in enumerate(readings):
            condition = self._push_one(state, reading, now_us)
            if condition is not None:
                refused[index] = condition
        return Pushed(len(readings) - len(refused), refused)

    def _push_one(self, state: _TableState, reading: Mapping[str, Any], now_us: int) -> str | None:
        table = state.table
        vid = state.current.get(reading[table.key])
        if vid is None:
            return "sensor_not_found"
        newest = state.newest.get(state.versions[vid].sid, -math.inf)
        if table.time == "transaction":
            # Monotone over the whole table, even if the clock steps back.
            ts = now_us if state.latest is None else max(now_us, state.latest)
        else:
            ts = reading["ts"]
            if ts > now_us + table.max_ahead_us:
                return "too_far_ahead"
            if ts < newest and table.out_of_order == "refuse":
                return "out_of_order"
            if ts < newest and table.out_of_order == "clamp":
                ts = int(newest)
        self.log_row(table.name, vid, ts, {name: reading.get(name) for name, _ in table.fields})
        return None

    def log_row(self, table: str, vid: int, ts: int, fields: Mapping[str, Any]) -> None:
        """One row as the log holds it, whatever rule let it in."""
        state = self._tables[table]
        sid = state.versions[vid].sid
        state.newest[sid] = max(ts, state.newest.get(sid, ts))
        state.latest = ts if state.latest is None else max(ts, state.latest)
        state.log.append(Logged(vid, ts, dict(fields)))

    def load_log(self, table: str, rows: pa.Table) -> None:
        """Take over the database's own log (columns _vid, ts and the fields), for tests in which several senders
        raced and only the log knows who won. Answers then judge everything behind the log."""
        state = self._tables[table]
        state.log.clear()
        state.newest.clear()
        state.latest = None
        ts = rows["ts"].cast(pa.int64()).to_pylist()
        names = [name for name, _ in state.table.fields]
        columns = [rows[name].to_pylist() for name in names]
        for at, vid in enumerate(rows["_vid"].to_pylist()):
            self.log_row(table, vid, ts[at], {n: c[at] for n, c in zip(names, columns, strict=True)})

    def heads(self) -> dict[str, int]:
        return {name: len(state.log) for name, state in self._tables.items()}

    def table_id(self, table: str) -> int:
        return self._tables[table].id

    def log_table(self, table: str) -> pa.Table:
        """The log with every row's static values beside it: what `spark_sql` reads."""
        state = self._tables[table]
        rows = [self._flat(state, position) for position in range(len(state.log))]
        types = {"_pos": pa.int64(), "_sid": pa.int64()} | {c.name: _ARROW[c.type] for c in state.table.columns()}
        return pa.table({n: pa.array([r[n] for r in rows], t) for n, t in types.items()})

    def flat_table(self, table: str, log: pa.Table) -> pa.Table:
        """The same from a log that is too long for rows of Python: columns _vid, ts and the fields."""
        state = self._tables[table]
        versions = [v.values | {"_sid": v.sid} for v in state.versions]
        vids = log["_vid"].combine_chunks()
        static = {"_sid": pa.int64()} | {n: _ARROW[t] for n, t in state.table.static}
        columns = {n: pa.array([v[n] for v in versions], t).take(vids) for n, t in static.items()}
        fields = {name: log[name] for name in ("ts", *(n for n, _ in state.table.fields))}
        return pa.table({"_pos": pa.array(range(log.num_rows), pa.int64())} | columns | fields)

    # -- queries

    def create_query(
        self, name: str, query: Query, now_us: int, pos: int | None = None, start_us: int | None = None
    ) -> None:
        """`start_us` may say what the database took as START; by default it is worked out from the log as it is."""
        self._move(pos)
        start = self.now_of(query, self.heads(), now_us) if start_us is None else start_us
        self._queries[name] = _QueryState(query, start, [(self.position, query.window or FROM_REGISTRATION)])

    def set_start(self, name: str, start_us: int | None) -> None:
        """What the database took as START, None included."""
        self._queries[name].start_us = start_us

    def alter_window(self, name: str, window: WindowSpec, pos: int | None = None) -> None:
        self._move(pos)
        self._queries[name].windows.append((self.position, window))

    def drop_query(self, name: str, pos: int | None = None) -> None:
        self._move(pos)
        self._queries[name].dropped = self.position

    def live_queries(self, journal_pos: int) -> list[str]:
        return [
            name
            for name, state in self._queries.items()
            if state.windows[0][0] <= journal_pos and (state.dropped is None or state.dropped > journal_pos)
        ]

    def definition(self, name: str, journal_pos: int) -> tuple[Query, int | None]:
        """The query with its window as of a journal position, and its START."""
        state = self._queries[name]
        window = [w for pos, w in state.windows if pos <= journal_pos][-1]
        return state.query.with_window(window), state.start_us

    # -- answers

    def now_of(self, query: Query, heads: Heads, now_us: int) -> int | None:
        """The cycle's NOW, or for valid time the newest ts of sensors whose static values pass; None without any."""
        if query.table.time == "transaction":
            return now_us
        log = self._tables[query.table.name].log
        return max((log[position].ts for position in self._of_passing_sensors(query, heads)), default=None)

    def answer(self, name: str, heads: Heads, journal_pos: int, now_us: int) -> Counter[tuple[Any, ...]]:
        """The rows of a standing query at an offset. `heads` by table name or id."""
        query, start = self.definition(name, journal_pos)
        return self.evaluate(query, heads, now_us, start, journal_pos)

    def evaluate(
        self, query: Query, heads: Heads, now_us: int, start_us: int | None = None, journal_pos: int | None = None
    ) -> Counter[tuple[Any, ...]]:
        """Any query, registered or not. Without a window: all rows."""
        rows = self.inside(query, heads, now_us, start_us, journal_pos)
        return _aggregated(query, rows) if query.aggregates else project(query, rows)

    def inside(
        self, query: Query, heads: Heads, now_us: int, start_us: int | None = None, journal_pos: int | None = None
    ) -> list[dict[str, Any]]:
        """The rows behind an answer: those that pass and lie in the window, with `_pos` and `_sid`."""
        rows = self.passing_static(query, heads, journal_pos)
        rows = self._windowed(query, rows, self.now_of(query, heads, now_us), start_us)
        factors = query.stream_factors
        return [row for row in rows if _passes(factors, row)]

    def passing_static(self, query: Query, heads: Heads, journal_pos: int | None = None) -> list[dict[str, Any]]:
        """What a window of rows counts: rows that are kept and whose static values pass."""
        kept = self._kept(query.table.name, self.position if journal_pos is None else journal_pos)
        state = self._tables[query.table.name]
        return [self._flat(state, position) for position in self._of_passing_sensors(query, heads) if position >= kept]

    @staticmethod
    def _windowed(
        query: Query, rows: list[dict[str, Any]], now_us: int | None, start_us: int | None
    ) -> list[dict[str, Any]]:
        window = query.window
        if isinstance(window, TimeSpan):
            if now_us is None:
                return []
            # Without any reading of its sensors at registration, all of them come after it.
            start = -math.inf if start_us is None else start_us
            low, high = window.begin.at(now_us, start), window.end.at(now_us, start)
            return [row for row in rows if low <= row["ts"] <= high]
        if isinstance(window, LastRows):
            newest_first = sorted(rows, key=lambda row: (row["ts"], row["_pos"]), reverse=True)
            seen: Counter[int] = Counter()
            kept = []
            for row in newest_first:
                group = row["_sid"] if window.per_sensor else 0
                seen[group] += 1
                if seen[group] <= window.count:
                    kept.append(row)
            return kept
        return rows

    def _of_passing_sensors(self, query: Query, heads: Heads) -> list[int]:
        """Positions of the prefix with static values that pass."""
        state, factors = self._tables[query.table.name], query.static_factors
        head = next((heads[k] for k in (query.table.name, state.id, str(state.id)) if k in heads), 0)
        assert head <= len(state.log), f"the oracle knows {len(state.log)} rows of {query.table.name}, not {head}"
        passes = [_passes(factors, version.values) for version in state.versions]
        return [position for position in range(head) if passes[state.log[position].vid]]

    @staticmethod
    def _flat(state: _TableState, position: int) -> dict[str, Any]:
        row = state.log[position]
        version = state.versions[row.vid]
        return {**version.values, **row.fields, "ts": row.ts, "_pos": position, "_sid": version.sid}

    def _kept(self, table: str, journal_pos: int) -> int:
        return max((first for pos, first in self._tables[table].kept_from if pos <= journal_pos), default=0)


_ARROW = {
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "TEXT": pa.string(),
    "TIMESTAMP": pa.timestamp("us", tz="UTC"),
}


def project(query: Query, rows: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    return Counter(canonical(tuple(value(o, row) for o in query.outputs)) for row in rows)


def _passes(factors: Sequence[Any], row: Mapping[str, Any]) -> bool:
    return all(value(factor, row) is True for factor in factors)


def _aggregated(query: Query, rows: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(canonical(tuple(value(o, row) for o in query.outputs)), []).append(row)
    if not query.outputs:
        groups.setdefault((), [])
    return Counter(
        canonical((*key, *(_aggregate(a, members) for a in query.aggregates))) for key, members in groups.items()
    )


def _aggregate(aggregate: Aggregate, rows: list[dict[str, Any]]) -> Any:
    if aggregate.of is None:
        return len(rows)
    values = [v for v in (value(aggregate.of, row) for row in rows) if v is not None]
    if aggregate.function == "count":
        return len(values)
    if not values:
        return None
    match aggregate.function:
        case "sum":
            return wrap(sum(values), "BIGINT") if isinstance(values[0], int) else math.fsum(values)
        case "avg":
            return math.fsum(values) / len(values)
    best = values[0]
    for other in values[1:]:
        if order(other, best) * (1 if aggregate.function == "max" else -1) > 0:
            best = other
    return best
