"""What UNION ALL means, row by row: each branch goes through its log in a loop. Shares no code with the product."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

SECOND = 1_000_000
Row = dict[str, Any]
FIELDS = ("n", "v")


@dataclass
class Stream:
    """A table's readings in the order of its log, and whether they bring their own times."""

    name: str
    valid: bool
    rows: list[Row] = field(default_factory=list)


@dataclass
class Branch:
    """One SELECT: which sensors, which readings, which columns of them, and the window of its own."""

    stream: Stream
    sensors: tuple[int, ...] | None
    least: float | None
    shown: tuple[str, str]
    window: tuple[str, int] | None

    def sql(self) -> str:
        conditions = [] if self.sensors is None else [f"id IN ({', '.join(map(str, self.sensors))})"]
        conditions += [] if self.least is None else [f"v >= {self.least}"]
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"SELECT {', '.join(self.shown)}, ts FROM {self.stream.name}{where}{window_sql(self.window)}"

    def is_read(self, row: Row) -> bool:
        return self.sensors is None or row["id"] in self.sensors

    def now(self, head: int, wall: int) -> int | None:
        if not self.stream.valid:
            return wall
        return max((row["ts"] for row in self.stream.rows[:head] if self.is_read(row)), default=None)

    def answer(self, head: int, now: int | None, start: int | None, window: tuple[str, int]) -> list[Row]:
        kind, size = self.window or window
        read = [row for row in self.stream.rows[:head] if self.is_read(row)]
        if kind == "rows":
            places = sorted(range(len(read)), key=lambda place: (read[place]["ts"], place))
            read = [read[place] for place in sorted(places[-size:])]
        elif now is None:
            return []
        else:
            low = {"since": start if start is not None else -(2**62), "time": now - size}[kind]
            read = [row for row in read if low <= row["ts"] <= now]
        return [row for row in read if self.least is None or (row["v"] is not None and row["v"] >= self.least)]


@dataclass
class Union:
    """UNION ALL of some branches, with the window of those that have none of their own."""

    branches: list[Branch]
    window: tuple[str, int]
    start: int | None = None

    @property
    def sql(self) -> str:
        return " UNION ALL ".join(branch.sql() for branch in self.branches) + window_sql(self.window)

    def now_of(self, heads: dict[str, int], wall: int) -> int | None:
        nows = [branch.now(heads.get(branch.stream.name, 0), wall) for branch in self.branches]
        return None if None in nows else min(now for now in nows if now is not None)

    def answer(self, heads: dict[str, int], wall: int) -> Counter[tuple[Any, ...]]:
        return Counter({tuple(map(repr, row)): count for row, count in self.rows(heads, wall).items()})

    def rows(self, heads: dict[str, int], wall: int) -> Counter[tuple[Any, ...]]:
        now = self.now_of(heads, wall)
        is_double = [any(branch.shown[place] == "v" for branch in self.branches) for place in (0, 1)]
        found: Counter[tuple[Any, ...]] = Counter()
        for branch in self.branches:
            for row in branch.answer(heads.get(branch.stream.name, 0), now, self.start, self.window):
                values = [row[name] for name in branch.shown]
                widened = [float(v) if d and v is not None else v for v, d in zip(values, is_double, strict=True)]
                found[(*widened, row["ts"])] += 1
        return found


@dataclass
class Aggregated(Union):
    """Aggregates per group over UNION ALL."""

    @property
    def sql(self) -> str:
        below = " UNION ALL ".join(branch.sql() for branch in self.branches)
        asked = "COUNT(*) AS c, SUM(y) AS s, MIN(y) AS least, MAX(at) AS newest, COUNT(DISTINCT y) AS kinds"
        rows = f"FROM ({below}) u (x, y, at) WHERE x > -5 OR x IS NULL"
        return f"SELECT x, {asked} {rows} GROUP BY x HAVING COUNT(*) > 1{window_sql(self.window)}"

    def answer(self, heads: dict[str, int], wall: int) -> Counter[tuple[Any, ...]]:
        groups: dict[Any, list[tuple[Any, Any]]] = {}
        for (x, y, at), count in self.rows(heads, wall).items():
            groups.setdefault(x, []).extend([(y, at)] * count)
        found: Counter[tuple[Any, ...]] = Counter()
        for x, rows in groups.items():
            values = [y for y, _ in rows if y is not None]
            if len(rows) > 1:
                sums = (sum(values), min(values)) if values else (None, None)
                answer = (x, len(rows), *sums, max(at for _, at in rows), len(set(values)))
                found[tuple(map(repr, answer))] += 1
        return found


def window_sql(window: tuple[str, int] | None) -> str:
    if window is None:
        return ""
    kind, size = window
    edges = {"rows": f"LAST {size} ROWS", "time": f"NOW - {size // SECOND} SECONDS", "since": "START"}
    return f" BEGIN ({edges[kind]})" + ("" if kind == "rows" else " END (NOW)")


def make_window(chance: random.Random, rows: bool = True) -> tuple[str, int]:
    if not rows:
        return chance.choice([("time", 2 * SECOND), ("time", 20 * SECOND), ("time", 300 * SECOND), ("since", 0)])
    return chance.choice(
        [("time", 2 * SECOND), ("time", 20 * SECOND), ("time", 300 * SECOND), ("rows", 3), ("since", 0)]
    )


def make_union(chance: random.Random, streams: list[Stream]) -> Union:
    kind = chance.choice([Union, Union, Aggregated])
    rows = kind is Union

    def branch(number: int) -> Branch:
        sensors = tuple(sorted(chance.sample(range(1, 5), 2))) if chance.random() < 0.4 else None
        least = chance.choice([None, 0.0, 2.0])
        shown = chance.choice([("n", "v"), ("v", "n"), ("n", "n")])
        # A window behind the last SELECT is that of all.
        own = make_window(chance, rows) if number and chance.random() < 0.3 else None
        return Branch(chance.choice(streams), sensors, least, shown, own)

    count = chance.choice([2, 2, 3, 5])
    return kind([branch(number) for number in reversed(range(count))], make_window(chance, rows))


def counted(table: Any, key: Callable[[Any], int]) -> Counter[tuple[Any, ...]]:
    """The rows of an answer as the model has them: times as numbers."""
    return Counter(
        tuple(repr(key(v) if hasattr(v, "tzinfo") else v) for v in row.values()) for row in table.to_pylist()
    )
