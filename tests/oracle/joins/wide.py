"""One join of two to six streams in one form, asked once per algorithm, over a small log with everything that goes wrong.

The readings lag, tie, burst and repeat; a stream may stay empty or end; cycles have any size, and the server is opened anew
in the middle of a window. After every few cycles all algorithms must answer what the definition says.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.cycle.cut import Limits
from penstock.database.database import Database
from penstock.errors import PenstockError
from penstock.operators.join.steps import buffers, units
from penstock.settings import Settings
from penstock.sql.join_hints import algorithms
from penstock.sql.plan import JoinPlan, plan_from_json
from tests.operators.join.brute import windows
from tests.support.local_engine import LocalEngine
from tests.support.manual_clock import ManualClock

EPOCH = 1_700_000_000_000_000
UNIT = 100_000  # microseconds; times are multiples of it, so that many are equal and many lie on a window's edge
ALIASES = "abcdef"
TABLES = ("t0", "t1", "t2")
HORIZON = 100  # units of time that a story lasts
ROWS = {2: 40, 3: 26, 4: 18, 5: 14, 6: 12}

Row = dict[str, Any]
Test = tuple[int, Callable[[list[Row]], bool]]


class Wide:
    """The same readings go to the product and into lists; `expected` tries all combinations of those."""

    def __init__(self, folder: Path, form: str, count: int, seed: int) -> None:
        self.random = random.Random(f"{form} {count} {seed}")
        self.folder, self.count = folder, count
        self.clock = ManualClock(EPOCH)
        self.rows: dict[str, list[Row]] = {t: [] for t in TABLES}
        self.empty = self.random.choice(TABLES) if self.random.random() < 0.1 else None
        self.of = [self.random.choice(TABLES) for _ in range(count)]
        # So wide that about one and a half readings of each other stream are near, on either side.
        reach = int({2: 1.6, 3: 1.6, 4: 1.6, 5: 1.1, 6: 0.8}[count] * HORIZON / ROWS[count])
        if form in ("directed path", "between"):
            reach *= 2  # these look to one side
        sizes = [self.random.randint(reach // 2, 2 * reach) for _ in range(3)]
        self.windows = windows(form, count, sizes)
        self.clause = _clause(form, self.windows)
        self.conditions, self.tests = _conditions(self.random, count)
        self.names: list[str] = []
        self.compared = 0
        self.open()
        for table in TABLES:
            self.db.execute(
                f"CREATE TABLE {table} (sensor INT PRIMARY KEY, r STREAM (n INT, k INT, big BIGINT, v DOUBLE, tag TEXT)) "
                "WITH (time = 'valid', out_of_order = 'accept', idle = '1000 DAYS')"
            )
            self.db.execute(f"INSERT INTO {table} VALUES (1, NULL), (2, NULL), (3, NULL)")

    def open(self) -> None:
        memory = self.random.choice([0, 1, 64])
        self.db = Database(
            Settings(data=str(self.folder), group_commit_ms=0, join_memory_mb=memory), self.clock, engine=self._engine
        )
        self.db.start()

    def _engine(self, *arguments: Any) -> LocalEngine:
        self.engine = LocalEngine(*arguments, clock=self.clock, parallelism=self.random.randint(1, 3))
        return self.engine

    # -- what happens

    def run(self) -> None:
        """With steps cut into parts as only large ones are otherwise, or not, or now and then."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(units, "SPREAD_ROWS", self.random.choice([1, 4, 8, 20_000]))
            patch.setattr(units, "SPREAD_ROWS_WITHOUT_KEY", self.random.choice([1, 4, 200]))
            patch.setattr(buffers, "MOST_RUNS", self.random.choice([1, 3, 8]))
            self._run()

    def _run(self) -> None:
        turns = 9
        asked, opened = self.random.randrange(turns // 2), self.random.randrange(turns // 2, turns)
        ended = self.random.randrange(turns) if self.random.random() < 0.3 else None
        for turn in range(turns):
            if turn == asked:
                self.ask()
            self.push(turn / turns)
            if turn == ended:
                self.end()
            if turn == opened:
                self.db.stop()
                self.open()
            limits = Limits(self.random.choice([2, 5, 1000]), self.random.choice([3, 20, 1000]))
            self.engine.cycle(limits)
            if turn % 4 == 3:
                self.compare()
        self.engine._planner.limits = Limits(20, 25)
        self.engine.drain()
        self.compare(settled=True)

    def ask(self) -> None:
        """One query per algorithm that takes this form."""
        outputs = ", ".join(f"{a}.n AS {a}" for a in ALIASES[: self.count])
        sources = ", ".join(f"{t} {a}" for t, a in zip(self.of, ALIASES, strict=False))
        where = f" WHERE {' AND '.join(self.conditions)}" if self.conditions else ""
        for name in ("chosen", *algorithms()):
            hint = "" if name == "chosen" else f"/*+ JOIN({name}) */ "
            question = f"SELECT {hint}{outputs} FROM {sources} {self.clause}{where} BEGIN (NOW - 10 DAYS) END (NOW)"
            try:
                self.db.execute(f"CREATE QUERY q_{name} AS {question}")
            except PenstockError as failure:
                assert hint and failure.condition == "not_supported", failure.render()
                continue
            plan = plan_from_json(self.db.catalog.state.queries[f"q_{name}"].plan)
            assert isinstance(plan, JoinPlan), question
            self.names.append(f"q_{name}")

    def push(self, passed: float) -> None:
        """Some readings of one table, or of all: spread, in a burst, or late."""
        kind = self.random.choice(["spread", "spread", "burst", "late"])
        now = int(HORIZON * passed)
        for table in TABLES if self.random.random() < 0.5 else self.random.sample(TABLES, 1):
            if table == self.empty:
                continue
            made = []
            for _ in range(self.random.randint(1, max(2, ROWS[self.count] // 3))):
                back = {"spread": self.random.randint(0, 8), "burst": 0, "late": self.random.randint(0, 60)}[kind]
                made.append(self._row(table, max(0, now - back), len(made)))
            self.rows[table] += made
            assert self.db.push(table, made).accepted == len(made)

    def _row(self, table: str, time: int, more: int) -> Row:
        # Skewed, the more so the more streams have to agree.
        key = self.random.choice([*[1] * 2 * self.count, 2, 3, None])
        other = self.random.choice([*[1] * 2 * self.count, 2, 2**40, None])
        return {
            "sensor": self.random.randint(1, 3),
            "ts": EPOCH + time * UNIT,
            "n": len(self.rows[table]) + more,
            "k": key,
            "big": other,
            "v": self.random.choice([0.0, -0.0, 0.0, -0.0, 1.5, 2.0, None]),
            "tag": None if other is None else f"x{other}",
        }

    def end(self) -> None:
        """All sensors of a table say END: it does not hold NOW back any more."""
        self.db.catalog.observe(self.db.catalog.state.tables[self.random.choice(TABLES)].id, [], [0, 1, 2], [0, 1, 2])

    # -- what must hold

    def compare(self, settled: bool = False) -> None:
        store = self.db.standing.store
        assert store.offset is not None
        ids = {t: store.state.tables[t].id for t in TABLES if t in store.state.tables}
        heads = {t: store.offset.data.get(i, 0) for t, i in ids.items()}
        ended = {t for t, i in ids.items() if len(store.state.ended(i)) == 3}
        expected: Counter[tuple[int, ...]] | None = None
        for name in self.names:
            definition = store.state.queries.get(name)
            if definition is None or store.answers[definition.id].filling is not None:
                assert not settled, f"{name} never read its history"
                continue
            if expected is None:
                expected = Counter(self.expected(heads, ended))
            table = self.db.standing.invoke(name).table
            found = Counter(zip(*(c.to_pylist() for c in table.columns), strict=True))
            assert found == expected, (
                f"{name}: {definition.sql}\nfound only: {found - expected}\nexpected only: {expected - found}"
            )
            self.compared += sum(expected.values())

    def expected(self, heads: dict[str, int], ended: set[str]) -> Iterator[tuple[int, ...]]:
        streams = [self.rows[t][: heads.get(t, 0)] for t in self.of]
        if not all(streams):
            return
        newest = [max(int(r["ts"]) for r in rows) for rows in streams]
        awake = [n for n, t in zip(newest, self.of, strict=True) if t not in ended]
        now = min(awake) if awake else max(newest)
        for combination in self._grown(streams, []):
            if all(r["ts"] <= now for r in combination):
                yield tuple(r["n"] for r in combination)

    def _grown(self, streams: list[list[Row]], begun: list[Row]) -> Iterator[list[Row]]:
        place = len(begun)
        if place == len(streams):
            yield begun
            return
        for row in streams[place]:
            made = [*begun, row]
            near = all(
                low * UNIT <= row["ts"] - begun[i]["ts"] <= high * UNIT
                for i, j, low, high in self.windows
                if j == place and low is not None and high is not None
            )
            if near and all(test(made) for last, test in self.tests if last == place):
                yield from self._grown(streams, made)


def _clause(form: str, pairs: list[Any]) -> str:
    text = lambda size: f"INTERVAL '{size * UNIT / 1e6:.1f}' SECOND"  # noqa: E731
    if form == "uniform clique":
        return f"WINDOW = {text(pairs[0][3])}"
    out = []
    for i, j, low, high in pairs:
        pair = f"({ALIASES[i]},{ALIASES[j]})"
        if low == -high:
            out.append(f"WINDOW{pair} = {text(high)}")
        elif low == 0:
            out.append(f"DWINDOW{pair} = {text(high)}")
        else:
            signed = f"-{text(-low)}" if low < 0 else text(low)
            out.append(f"WINDOW{pair} BETWEEN {signed} AND {text(high)}")
    return " AND ".join(out)


def _conditions(chance: random.Random, count: int) -> tuple[list[str], list[Test]]:
    """A key of all streams, keys of some, values near each other, or nothing at all."""
    kind = chance.choice(["key", "text", "two keys", "some", "some", "path", "path", "values", "none"])
    chain = [(i, i + 1) for i in range(count - 1)]
    columns = ("k", "big", "tag", "v")
    pairs = {
        "key": [(i, j, "k") for i, j in chain],
        "text": [(i, j, "tag") for i, j in chain],
        "two keys": [(i, j, c) for i, j in chain for c in ("k", "big")],
        "some": [
            (*sorted(chance.sample(range(count), 2)), chance.choice(columns))
            for _ in range(chance.randint(1, count - 1))
        ],
        "path": [(i, j, columns[(i + chance.randrange(2)) % 4]) for i, j in chain],
    }.get(kind, [])
    texts = [f"{ALIASES[i]}.{c} = {ALIASES[j]}.{c}" for i, j, c in pairs]
    tests: list[Test] = [(j, _equal(i, j, c)) for i, j, c in pairs]
    if kind == "values" or chance.random() < 0.3:
        i, j = sorted(chance.sample(range(count), 2))
        texts.append(f"abs({ALIASES[i]}.v - {ALIASES[j]}.v) <= 1")
        tests.append((j, lambda c: c[i]["v"] is not None and c[j]["v"] is not None and abs(c[i]["v"] - c[j]["v"]) <= 1))
    return texts, tests


def _equal(i: int, j: int, column: str) -> Callable[[list[Row]], bool]:
    return lambda c: c[i][column] is not None and c[i][column] == c[j][column]
