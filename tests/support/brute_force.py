"""Standing questions answered the slow way: plain Python over every row of the log, one after the other.

Shares no code with planner, operators or pipeline. From the product it takes the log's rows, the journal's
entries and the offset of a committed cycle; which static row a reading joins follows from the journal alone.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.catalog.journal import JournalReader
from penstock.cycle.commit_files import CommitRecord, read_record
from penstock.streams.log.segment_rows import read_slice
from penstock.streams.log.segments import list_segments, slices

Row = Mapping[str, Any]
Range = Callable[[int, int], tuple[int, int]]


@dataclass(frozen=True)
class LastRows:
    """BEGIN (LAST count ROWS [PER SENSOR])."""

    count: int
    per_sensor: bool = False


@dataclass(frozen=True)
class Question:
    """A standing query in two languages: SQL, and Python over one row at a time.

    `window` gives [low, high] for (NOW, START), or is a number of rows. `picks` looks at static columns only.
    """

    name: str
    table: str
    sql: str
    window: Range | LastRows
    keeps: Callable[[Row], bool] = lambda row: True
    picks: Callable[[Row], bool] = lambda row: True
    shows: Callable[[Row], tuple[Any, ...]] = lambda row: (row["seq"], row["v"], row["floor"])

    @property
    def create(self) -> str:
        return f"CREATE QUERY {self.name} AS {self.sql}"


@dataclass(frozen=True)
class JoinQuestion(Question):
    """A table joined with itself: rows `a` and `b` with 0 <= b.ts - a.ts <= within_us for which `pairs` holds.

    With `lonely` it asks for rows `a` without such a `b`, once their window has passed.
    """

    within_us: int = 0
    pairs: Callable[[Row, Row], bool] = lambda a, b: True
    lonely: bool = False


class History:
    """Everything that a data folder says: a cycle's offsets, the log's rows, the journal.

    Rows never change, so those that were read for one cycle are not read again for the next one.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._rows: dict[tuple[int, int], list[dict[str, Any]]] = {}
        self._joined: dict[tuple[int, int, int], list[dict[str, Any]]] = {}
        self._defined: dict[int, Defined] = {}

    def record(self, cycle: int) -> CommitRecord:
        return read_record(self.folder / "commits" / f"{cycle:012d}.arrow")

    def defined(self, journal: int) -> Defined:
        if journal not in self._defined:
            self._defined[journal] = defined_at(self.folder, journal)
        return self._defined[journal]

    def rows(self, table_id: int, end: int) -> list[dict[str, Any]]:
        """A table's log up to a position, each row with its position and its time in microseconds."""
        return self._read(table_id, end)[1]

    def _read(self, table_id: int, end: int) -> tuple[int, list[dict[str, Any]]]:
        found = list_segments(self.folder / "log", table_id)
        first = found[0].first if found else 0
        known = self._rows.setdefault((table_id, first), [])
        begin = first + len(known)
        if begin < end:
            rows = pa.concat_tables([read_slice(piece) for piece in slices(found, begin, end)])
            assert rows.num_rows == end - begin, "positions are not contiguous"
            rows = rows.set_column(rows.schema.get_field_index("ts"), "ts", rows.column("ts").cast(pa.int64()))
            shown = rows.drop_columns([c for c in rows.column_names if c.startswith("_")])
            known += [{**row, "pos": begin + i} for i, row in enumerate(shown.to_pylist())]
        return first, known[: end - first]

    def joined(self, table_id: int, end: int, journal: int) -> list[dict[str, Any]]:
        """The same rows with the static values that held when each was logged."""
        first, rows = self._read(table_id, end)
        known = self._joined.setdefault((table_id, first, journal), [])
        static = self.defined(journal).static[table_id]
        known += [{**row, **static.at(row["who"], row["pos"])} for row in rows[len(known) :]]
        return known[: len(rows)]


@dataclass(frozen=True)
class StaticHistory:
    """One table's static rows by key: which values held from which log position on."""

    columns: list[str]
    versions: dict[Any, list[tuple[int, list[Any]]]]

    def at(self, key: Any, position: int) -> dict[str, Any]:
        held = [values for start, values in self.versions[key] if start <= position]
        return dict(zip(self.columns, held[-1], strict=False))


@dataclass(frozen=True)
class Defined:
    """What the journal says at a position: tables, static rows over time, START of each query."""

    tables: dict[str, dict[str, Any]]
    static: dict[int, StaticHistory]
    starts: dict[str, int | None]
    floors: dict[int, int]


def keep_journal(folder: Path) -> None:
    """Keep all journal files that are there now: a server removes lines that snapshots cover, and `defined_at` reads every one.

    To be called before each open of a folder that is opened often.
    """
    kept = _kept_journal(folder) / "journal"
    kept.mkdir(parents=True, exist_ok=True)
    for path in (folder / "journal").glob("*"):
        # A server that runs may remove a file meanwhile; what was there at its start is kept already.
        with suppress(FileNotFoundError):
            number = path.stat().st_ino
            link = kept / path.name
            if not link.exists() or link.stat().st_ino != number:
                link.unlink(missing_ok=True)
                link.hardlink_to(path)


def _kept_journal(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}-journal")


def defined_at(folder: Path, journal: int) -> Defined:
    tables: dict[str, dict[str, Any]] = {}
    static: dict[int, StaticHistory] = {}
    starts: dict[str, int | None] = {}
    floors: dict[int, int] = {}
    kept = _kept_journal(folder)
    if kept.exists():
        keep_journal(folder)
    for entry in JournalReader(kept if kept.exists() else folder).read(upto=journal):
        body = entry.body
        if entry.kind in ("create_table", "alter_table"):
            tables[body["name"]] = body
            static.setdefault(body["id"], StaticHistory([], {})).columns[:] = [c[0] for c in body["columns"]]
        elif entry.kind in ("insert_rows", "update_rows"):
            rows = body["rows"] if entry.kind == "insert_rows" else [row for _, row in body["rows"]]
            for row in rows:
                head = entry.heads.get(body["table"], 0)
                static[body["table"]].versions.setdefault(row[0], []).append((head, row))
        elif entry.kind == "create_query":
            starts[body["name"]] = body["start_us"]
        elif entry.kind == "retain":
            floors[body["table"]] = max(floors.get(body["table"], 0), body["position"])
    return Defined(tables, static, starts, floors)


def expected(question: Question, history: History, cycle: int) -> Counter[tuple[Any, ...]]:
    """The answer as of a committed cycle, as a multiset."""
    record = history.record(cycle)
    defined = history.defined(record.end.journal)
    table = defined.tables[question.table]
    table_id = table["id"]
    floor = defined.floors.get(table_id, 0)
    rows = history.joined(table_id, record.end.data.get(table_id, 0), record.end.journal)
    picked = [row for row in rows if question.picks(row)]
    if isinstance(question, JoinQuestion):
        now = max((r["ts"] for r in picked), default=None) if table["options"]["time"] == "valid" else record.end.now_us
        return _expected_join(question, picked, now, defined.starts[question.name], floor)
    if isinstance(question.window, LastRows):
        inside = _last_rows([r for r in picked if r["pos"] >= floor], question.window)
    else:
        valid = table["options"]["time"] == "valid"
        now = max((r["ts"] for r in picked), default=None) if valid else record.end.now_us
        if now is None:
            return Counter()
        start = defined.starts[question.name]
        low, high = question.window(now, start if start is not None else -(2**62))
        inside = [r for r in picked if low <= r["ts"] <= high and r["pos"] >= floor]
    return Counter(question.shows(r) for r in inside if question.keeps(r))


def _expected_join(
    question: JoinQuestion, rows: list[dict[str, Any]], now: int | None, start: int | None, floor: int
) -> Counter[tuple[Any, ...]]:
    if now is None:
        return Counter()
    assert not isinstance(question.window, LastRows)
    low, high = question.window(now, start if start is not None else -(2**62))
    ordered = sorted((r for r in rows if r["pos"] >= floor), key=lambda r: r["ts"])
    times = [r["ts"] for r in ordered]
    found: Counter[tuple[Any, ...]] = Counter()
    for a in ordered:
        if not low <= a["ts"] <= high:
            continue
        near = ordered[bisect_left(times, a["ts"]) : bisect_right(times, a["ts"] + question.within_us)]
        partners = [b for b in near if question.pairs(a, b)]
        if question.lonely:
            if not partners and a["ts"] + question.within_us < now:
                found[(a["seq"],)] += 1
        else:
            found.update((a["seq"], b["seq"]) for b in partners if low <= b["ts"] <= high)
    return found


def _last_rows(rows: list[dict[str, Any]], window: LastRows) -> list[dict[str, Any]]:
    newest: dict[Any, int] = {}
    kept = []
    for row in sorted(rows, key=lambda r: (r["ts"], r["pos"]), reverse=True):
        group = row["who"] if window.per_sensor else None
        newest[group] = newest.get(group, 0) + 1
        if newest[group] <= window.count:
            kept.append(row)
    return kept
