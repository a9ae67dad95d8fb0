"""Points of the line protocol become readings: the measurement names the table, tags and fields its columns.

A tag is a static column (as its type spells it) or a field of the stream; a field that a point does not have is NULL, as
InfluxDB has it. What a table has no column for is left out and counted: Telegraf sends more than most tables want. A repeat that
DEDUPLICATE BY finds is no error, because for InfluxDB a repeated point is the same point.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from penstock.catalog.model import TIME_COLUMN, Table
from penstock.errors import PenstockError, error, suggest
from penstock.streams.ingest.input_counts import InputCounts
from penstock.streams.ingest.line_protocol import FieldValue, Point, line_pieces, parse_lines
from penstock.streams.ingest.readings import IngestReceipt, Push
from penstock.streams.ingest.values import parse_text
from penstock.types import Type

# Precision -> (times, over): so many microseconds are one unit.
PRECISIONS = {
    **dict.fromkeys(("ns", "n"), (1, 1000)),
    **dict.fromkeys(("us", "u", "µ", "µs"), (1, 1)),
    "ms": (1_000, 1),
    "s": (1_000_000, 1),
    "m": (60_000_000, 1),
    "h": (3_600_000_000, 1),
}

# A report names so many of the lines that were dropped.
ERRORS_KEPT = 100


@dataclass(frozen=True, slots=True)
class LineError:
    """A line that was not stored, and why."""

    line: int
    condition: str
    message: str
    text: str


@dataclass(slots=True)
class LineReport:
    """What became of a body."""

    accepted: int = 0
    duplicates: int = 0
    dropped: int = 0
    # The first of those that were dropped.
    errors: list[LineError] = field(default_factory=list)

    def drop(self, errors: list[LineError]) -> None:
        self.dropped += len(errors)
        self.errors += errors[: max(ERRORS_KEPT - len(self.errors), 0)]


class LineWriter:
    """Writes bodies through `push`; `counts` says what came so far."""

    def __init__(self, push: Push, tables: Callable[[], Mapping[str, Table]], timeout_s: float) -> None:
        self._push = push
        self._tables = tables
        self._timeout_s = timeout_s
        self.counts = InputCounts()

    def write(self, body: bytes, precision: str = "ns") -> LineReport:
        """Store what can be stored; returns when that is on disk. Raises what concerns all of it, such as too_busy."""
        unit = PRECISIONS.get(precision)
        if unit is None:
            raise error("invalid_parameter", detail=f'"{precision}" is not a precision', hint="ns, us, ms or s")
        report = LineReport()
        for number, piece in line_pieces(body):
            points, bad = parse_lines(piece, number)
            self.counts.came(len(points) + len(bad), len(piece))
            of_piece = LineReport(errors=[LineError(b.line, "invalid_body", b.reason, b.text) for b in bad])
            try:
                self._store(points, unit, of_piece)
            finally:
                of_piece.errors.sort(key=lambda problem: problem.line)
                self.counts.stored(of_piece.accepted, of_piece.duplicates)
                for problem in of_piece.errors:
                    self.counts.refuse(problem.condition, f"line {problem.line}: {problem.message}")
            report.accepted += of_piece.accepted
            report.duplicates += of_piece.duplicates
            report.drop(of_piece.errors)
        return report

    def _store(self, points: list[Point], unit: tuple[int, int], report: LineReport) -> None:
        groups: dict[str, list[Point]] = {}
        for point in points:
            groups.setdefault(point.measurement, []).append(point)
        under_way: list[tuple[list[Point], Future[IngestReceipt]]] = []
        tables = self._tables()
        for measurement, members in groups.items():
            table = tables.get(measurement) or tables.get(measurement.lower())
            if table is None or table.stream is None:
                _refuse_all(report, members, _no_table(measurement, table, tables, members))
                continue
            layout = _Layout(table, unit)
            good: list[Point] = []
            rows: list[dict[str, Any]] = []
            for point in members:
                try:
                    rows.append(layout.row(point))
                    good.append(point)
                except PenstockError as problem:
                    _refuse_all(report, [point], problem)
            self.counts.ignore(layout.ignored.elements())
            if rows:
                under_way.append((good, self._push(table.name, rows)))
        for good, future in under_way:
            self._finish(good, future, report)

    def _finish(self, points: list[Point], future: Future[IngestReceipt], report: LineReport) -> None:
        try:
            receipt = future.result(self._timeout_s)
        except TimeoutError:
            detail = f"the readings were not on disk after {self._timeout_s:.0f} s; they may still get there"
            raise error("too_busy", detail=detail, hint="send them again") from None
        report.accepted += receipt.accepted
        for refusal in receipt.refused:
            if refusal.condition == "duplicate_reading":
                report.duplicates += 1
                continue
            point = points[refusal.index]
            report.errors.append(LineError(point.line, refusal.condition, refusal.message, point.text))


class _Layout:
    """Where the parts of a point go in one table."""

    def __init__(self, table: Table, unit: tuple[int, int]) -> None:
        assert table.stream is not None
        self._table = table
        self._times, self._over = unit
        self._keeps_times = table.options.time == "valid"
        self._static = {column.name: column.type for column in table.columns}
        self._settable = set(self._static if table.options.discover else table.key)
        spelled = table.field_names()
        self._fields: dict[str, tuple[str, Type]] = {f.name: (spelled[f.name], f.type) for f in table.stream.fields}
        self._empty: dict[str, Any] = {spelled: None for spelled, _ in self._fields.values()}
        self.ignored: Counter[str] = Counter()

    def row(self, point: Point) -> dict[str, Any]:
        row = self._empty.copy()
        for tag, text in point.tags.items():
            self._place_tag(row, tag, text)
        known = False
        for name, value in point.fields.items():
            known = self._place_field(row, name, value) or known
        if not known:
            assert self._table.stream is not None
            names = [f.name for f in self._table.stream.fields]
            first = next(iter(point.fields))
            hint = suggest(first, names) or f"its fields are {', '.join(names)}"
            raise error("unknown_field", table=self._table.name, field=first, hint=hint)
        if point.time is not None and self._keeps_times:
            row[TIME_COLUMN] = point.time * self._times // self._over
        return row

    def _place_tag(self, row: dict[str, Any], tag: str, text: str) -> None:
        name = tag if tag in self._static or tag in self._fields else tag.lower()
        if name in self._static:
            if name in self._settable:
                row[name] = _parsed(self._static[name], tag, text)
        elif name in self._fields:
            spelled, type_ = self._fields[name]
            row[spelled] = _parsed(type_, tag, text)
        else:
            self.ignored[f"{self._table.name}.{tag}"] += 1

    def _place_field(self, row: dict[str, Any], field_name: str, value: Any) -> bool:
        name = field_name if field_name in self._fields or field_name in self._static else field_name.lower()
        if name in self._fields:
            row[self._fields[name][0]] = value
            return True
        if name in self._static:
            if name in self._settable:
                row[name] = value
        else:
            self.ignored[f"{self._table.name}.{field_name}"] += 1
        return False


def _parsed(type_: Type, tag: str, text: str) -> Any:
    if type_.kind == "TEXT":
        return text
    try:
        return parse_text(type_, text)
    except ValueError as problem:
        raise error("invalid_value", field=tag, detail=str(problem)) from None


def _refuse_all(report: LineReport, points: list[Point], problem: PenstockError) -> None:
    message = problem.message if problem.hint is None else f"{problem.message}; {problem.hint}"
    report.errors += [LineError(point.line, problem.condition, message, point.text) for point in points]


def _no_table(measurement: str, found: Table | None, tables: Mapping[str, Table], points: list[Point]) -> PenstockError:
    if found is not None:
        return error("not_supported", feature=f'pushing readings to "{measurement}"', hint="it has no stream")
    near = suggest(measurement, tables)
    hint = f"{near} Or create it: " if near else "create it: "
    return error("table_not_found", table=measurement, hint=hint + suggested_table(measurement, points))


_PLAIN = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)
_MOST = 100  # columns; a user with more writes the statement by hand


def suggested_table(measurement: str, points: Sequence[Point]) -> str:
    """CREATE TABLE for points without a table: every tag is part of the key, every field of the stream."""
    tags = list(dict.fromkeys(tag for point in points for tag in point.tags))[:_MOST]
    types: dict[str, str] = {}
    for point in points:
        for name, value in point.fields.items():
            if len(types) < _MOST or name in types:
                types[name] = _wider(types.get(name), _type(value))
    fields = [f"{_name(n)} {t}" for n, t in types.items() if n != TIME_COLUMN]
    stream = next(n for n in ("reading", "point", "measured", "value") if n not in tags)
    columns = [f"{_name(tag)} TEXT" for tag in tags] + [f"{stream} STREAM ({', '.join(fields)})"]
    key = [f"PRIMARY KEY ({', '.join(map(_name, tags))})"] if tags else []
    options = "time = 'valid', discover = true" if tags else "time = 'valid'"
    return f"CREATE TABLE {_name(measurement)} ({', '.join(columns + key)}) WITH ({options})"


def _name(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else '"' + text.replace('"', '""') + '"'


def _type(value: FieldValue) -> str:
    if isinstance(value, bool):
        return "BOOLEAN"
    return {int: "BIGINT", float: "DOUBLE"}.get(type(value), "TEXT")


def _wider(known: str | None, found: str) -> str:
    return found if known is None or (known, found) == ("BIGINT", "DOUBLE") else known
