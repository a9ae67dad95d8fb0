"""Random stories: tables, readings with lag, ties and bursts, join questions of every form, cycles of any size."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.clock import ManualClock
from penstock.pipeline.planning import Limits
from penstock.queries.database import Database
from penstock.queries.subscription import SelectSubscription
from penstock.settings import Settings
from penstock.sql.plan import JoinPlan, plan_from_json
from tests.oracle.joins.tables import COLUMNS, OrdinaryTable, TableUse, make_uses, with_tables
from tests.oracle.joins.world import Combination, Question, Stream, shown
from tests.support.local_engine import LocalEngine

EPOCH = 1_700_000_000_000_000
SECOND = 1_000_000
ALIASES = "abcdef"


class Story:
    """One seed: the same readings go to the product and into the model; answers are compared at committed cycles."""

    most_questions = 6
    asks = 2  # how often, beside ten pushes and eight cycles

    def __init__(self, folder: Path, seed: int, with_tables: float = 0.4) -> None:
        self.with_tables = with_tables  # how many of the inner joins name ordinary tables
        self.random = random.Random(seed)
        self.folder = folder
        self.clock = ManualClock(EPOCH)
        self.streams: list[Stream] = []
        self.tables: list[OrdinaryTable] = []
        self.moment = 0  # counts pushes and changes of ordinary tables, in the order in which they happen
        self.questions: dict[str, Question] = {}
        self.compared = 0
        self.rows_compared = 0
        self.rows_with_tables = 0
        self.made = 0
        self.followers: dict[str, tuple[SelectSubscription, Counter[tuple[object, ...]]]] = {}
        self.open()

    def open(self) -> None:
        memory_mb = self.random.choice([0, 1, 64])
        settings = Settings(
            data=str(self.folder), group_commit_ms=0, join_memory_mb=memory_mb, result_max_rows=100_000_000
        )
        self.db = Database(settings, self.clock, engine=self._engine)
        self.db.start()

    def _engine(self, *arguments: Any) -> LocalEngine:
        self.engine = LocalEngine(*arguments, clock=self.clock, parallelism=self.random.randint(1, 3))
        return self.engine

    def restart(self) -> None:
        self.db.stop()
        self.open()
        followed, self.followers = list(self.followers), {}
        for name in followed:
            if name in self.db.standing.store.state.queries:
                self.follow(name)

    # -- events

    def run(self, steps: int, most_streams: int) -> None:
        for number in range(self.random.randint(1, 3)):
            self.create_table(f"t{number}")
        for number in range(2):
            self.db.execute(f"CREATE TABLE o{number} {COLUMNS}")
            self.tables.append(OrdinaryTable(f"o{number}"))
            self.change_table()
        for _ in range(steps):
            event = self.random.choices(
                [
                    *(self.push, self.ask, self.cycle, self.alter, self.drop, self.pause, self.reopen, self.wait),
                    self.change_table,
                ],
                [10, self.asks, 8, 1, 0.5, 0.5, 0.5, 2, 3],
            )[0]
            if event == self.ask:
                self.ask(most_streams)
            else:
                event()
        if not self.questions:
            self.ask(most_streams)
        self.settle()

    def create_table(self, name: str) -> None:
        valid = self.random.random() < 0.7
        options = "time = 'valid', out_of_order = 'accept', idle = '1000 DAYS'" if valid else "time = 'transaction'"
        self.db.execute(
            f"CREATE TABLE {name} (sensor INT PRIMARY KEY, r STREAM (k INT, v DOUBLE, tag TEXT)) WITH ({options})"
        )
        rows = ", ".join(f"({i}, NULL)" for i in range(1, 5))
        self.db.execute(f"INSERT INTO {name} VALUES {rows}")
        self.streams.append(Stream(name, valid))

    def push(self) -> None:
        stream = self.random.choice(self.streams)
        self.clock.advance(self.random.choice([0, 1, SECOND // 2, 3 * SECOND]))
        lag = self.random.choice([0, 0, SECOND, 20 * SECOND])
        rows = []
        for _ in range(self.random.choice([1, 2, 5, 12])):
            ts = self.clock.now_us() - self.random.choice([0, 0, 1, SECOND, lag])
            k = self.random.choice([1, 1, 1, 2, 3, None])
            v = self.random.choice([0.0, 1.5, 2.0, -3.25, None])
            rows.append({"sensor": self.random.randint(1, 4), "k": k, "v": v, "tag": f"x{k}", "ts": ts})
        sent = [r if stream.valid else {n: x for n, x in r.items() if n != "ts"} for r in rows]
        receipt = self.db.push(stream.name, sent)
        assert receipt.accepted == len(rows), receipt
        self.moment += 1
        for row in rows:
            stream.rows.append({**row, "ts": row["ts"] if stream.valid else None, "moment": self.moment})
        if not stream.valid:
            self._learn_times(stream)

    def _learn_times(self, stream: Stream) -> None:
        """Transaction time is given by the log: read it back from there, in log order."""
        from penstock.streams.segment_rows import read_slice
        from penstock.streams.segments import list_segments, slices

        table = self.db.catalog.state.tables[stream.name].id
        segments = list_segments(self.db.folder.log, table)
        times = [
            t
            for s in slices(segments, 0, len(stream.rows))
            for t in read_slice(s, ["ts"])["ts"].cast("int64").to_pylist()
        ]
        for row, ts in zip(stream.rows, times, strict=True):
            row["ts"] = ts

    def change_table(self) -> None:
        self.moment += 1
        self.db.execute(self.random.choice(self.tables).change(self.random, self.moment))

    def wait(self) -> None:
        self.clock.advance(self.random.choice([SECOND, 10 * SECOND, 60 * SECOND]))

    def ask(self, most_streams: int = 4) -> None:
        if len(self.questions) >= self.most_questions:
            return
        self.made += 1
        question = self.make_question(f"q{self.made}", most_streams)
        question.start = self._start(question)
        self.db.execute(f"CREATE QUERY {question.name} AS {question.sql}")
        definition = self.db.catalog.state.queries[question.name]
        assert isinstance(plan_from_json(definition.plan), JoinPlan), question.sql
        question.start = definition.start_us
        self.questions[question.name] = question
        # A subscriber can begin once a cycle knows the query; what changes from then on must add up to the answer.
        self.engine.cycle(self._limits())
        if question.name in self.db.standing.store.state.queries:
            self.follow(question.name)

    def make_question(self, name: str, most_streams: int) -> Question:
        return make_question(self.random, name, self.streams, self.tables, most_streams, self.with_tables)

    def follow(self, name: str) -> None:
        self.followers[name] = (SelectSubscription(self.db.standing, name, None, True), Counter())

    def _check_follower(self, name: str, expected: Counter[tuple[object, ...]]) -> None:
        """What a subscriber WITH CHANGES has heard so far, added up, is the answer."""
        if sum(expected.values()) > 1_000:
            self.followers.pop(name, None)  # adding up so much in every cycle takes longer than it teaches
        if name not in self.followers:
            return
        subscription, held = self.followers[name]
        while (event := subscription.next(0)) is not None:
            for op, *row in zip(*(c.to_pylist() for c in plain(event.table)), strict=True):
                held[tuple(row)] += 1 if op == "+" else -1
        assert +held == expected and not -held, f"{name}: the changes add up to something else"

    def _start(self, question: Question) -> int | None:
        return None

    def alter(self) -> None:
        if self.questions:
            question = self.random.choice(list(self.questions.values()))
            seconds = self.random.choice([1, 5, 30, 300])
            self.db.execute(f"ALTER QUERY {question.name} SET BEGIN (NOW - {seconds} SECONDS) END (NOW)")
            self._pending = (question.name, seconds)
            question.begin = seconds * SECOND

    def drop(self) -> None:
        if self.questions:
            name = self.random.choice(list(self.questions))
            self.db.execute(f"DROP QUERY {name}")
            del self.questions[name]
            self.followers.pop(name, None)

    def pause(self) -> None:
        if self.questions:
            name = self.random.choice(list(self.questions))
            self.db.execute(f"ALTER QUERY {name} PAUSE")
            for _ in range(self.random.randint(0, 3)):
                self.push()
                self.engine.cycle(self._limits())
            self.db.execute(f"ALTER QUERY {name} RESUME")

    def reopen(self) -> None:
        self.restart()

    def _limits(self) -> Limits:
        return Limits(self.random.choice([1, 3, 10, 1000]), self.random.choice([1, 3, 20, 1000]))

    def cycle(self) -> object:
        record = self.engine.cycle(self._limits())
        self.compare()
        return record

    def settle(self) -> None:
        for _ in range(3000):
            if self.engine.cycle(self._limits()) is None:
                break
        self.compare(everything=True)

    # -- comparison

    def compare(self, everything: bool = False) -> None:
        store = self.db.standing.store
        assert store.offset is not None
        tables = {t.name: t.id for t in store.state.tables.values()}
        heads = {name: store.offset.data.get(i, 0) for name, i in tables.items()}
        for name, question in self.questions.items():
            definition = store.state.queries.get(name)
            if definition is None:
                assert not everything
                continue
            answer = store.answers[definition.id]
            behind = store.state.query_positions[definition.id] != self.db.catalog.state.query_positions[definition.id]
            if answer.filling is not None or answer.paused or behind:
                assert not everything, f"{name} never finished filling"
                continue
            expected = question.answer(heads, question.now_of(heads, store.offset.now_us))
            table = self.db.standing.invoke(name).table
            columns = plain(table)
            found: dict[tuple[object, ...], int] = {}
            for row in zip(*(c.to_pylist() for c in columns), strict=True):
                found[row] = found.get(row, 0) + 1
            assert found == dict(expected), self._difference(question, found, dict(expected))
            self._check_follower(name, expected)
            self.compared += 1
            self.rows_compared += sum(expected.values())
            self.rows_with_tables += sum(expected.values()) if question.extended else 0

    def _difference(self, question: Question, found: dict[Any, int], expected: dict[Any, int]) -> str:
        extra = {k: v for k, v in found.items() if expected.get(k) != v}
        lost = {k: v for k, v in expected.items() if found.get(k) != v}
        return f"{question.name}: {question.sql}\nfound but not expected: {extra}\nexpected but not found: {lost}"


def plain(table: pa.Table) -> list[pa.ChunkedArray]:
    """Times as numbers, as the model has them."""
    return [c.cast("int64") if pa.types.is_timestamp(c.type) else c for c in table.columns]


def make_question(
    random: random.Random, name: str, streams: list[Stream], tables: list[OrdinaryTable], most: int, share: float
) -> Question:
    """A join of any form over some of the streams; of one alone it is with ordinary tables."""
    count = random.randint(2, most) if most > 1 else 1
    chosen = [random.choice(streams) for _ in range(count)]
    aliases = tuple(ALIASES[:count])
    sensors = tuple(tuple(sorted(random.sample(range(1, 5), 2))) if random.random() < 0.4 else None for _ in aliases)
    clause, windows = _windows(random, aliases)
    conditions, holds = _conditions(random, aliases)
    conditions += [
        f"{alias}.sensor IN ({', '.join(map(str, only))})" for alias, only in zip(aliases, sensors, strict=True) if only
    ]
    begin = random.choice([None, None, 2 * SECOND, 10 * SECOND, 100 * SECOND])
    window = "" if begin is None else f" BEGIN (NOW - {begin // SECOND} SECONDS) END (NOW)"
    missing = random.choice(["inner", "left", "anti"]) if count == 2 and random.random() < 0.4 else "inner"
    outputs = [f"{a}.{c} AS {a}_{c}" for a in aliases for c in ("sensor", "k", "v", "ts")]
    own = [c for c in conditions if c.startswith("a.sensor IN")]
    joint = [c for c in conditions if c not in own]
    hint = _hint(random, streams_count=count, conditions=conditions, windows=windows)
    joined = count == 1 or (missing == "inner" and random.random() < share)
    uses = make_uses(random, tables, aliases) if joined else []
    if missing != "inner":
        clause = clause.replace("WINDOW =", "WINDOW(a,b) =")  # of one pair, by name
    if missing == "left":
        on = " AND ".join(joint) or "TRUE"
        where = f" WHERE {own[0]}" if own else ""
        sql = (
            f"SELECT {', '.join(outputs)} FROM {chosen[0].name} a LEFT JOIN {chosen[1].name} b ON {on} {clause}{where}"
        )
    elif missing == "anti":
        inner = " AND ".join(joint)
        inside = f"SELECT 1 FROM {chosen[1].name} b {clause}{' WHERE ' + inner if inner else ''}"
        where = " AND ".join([*own, f"NOT EXISTS ({inside})"])
        sql = f"SELECT {', '.join(outputs[:4])} FROM {chosen[0].name} a WHERE {where}"
    else:
        sources = ", ".join(f"{s.name} {a}" for s, a in zip(chosen, aliases, strict=True))
        sources += "".join(use.from_item for use in uses)
        conditions += [c for use in uses for c in use.where]
        outputs += [column for use in uses for column in use.shown]
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        sql = f"SELECT {hint}{', '.join(outputs)} FROM {sources} {clause}{where}"
    return Question(
        name, sql + window, aliases, tuple(chosen), sensors, windows, holds, begin, missing, extended=_extended(uses)
    )


def _extended(uses: list[TableUse]) -> Any:
    """What rows of ordinary tables, as they stood at the last reading, add to a combination: one tuple for each."""
    if not uses:
        return None

    def extended(combination: Combination) -> list[tuple[object, ...]]:
        moment = max(int(str(row["moment"])) for row in combination)
        return [
            tuple(rows[use.alias][c] for use in uses if use.in_from for c in ("id", "level", "name"))
            for rows in with_tables(uses, combination, moment, {})
        ]

    return extended


def _hint(random: random.Random, streams_count: int, conditions: list[str], windows: Any) -> str:
    """Half of the time some algorithm is asked for: it must never change an answer."""
    if streams_count == 1:
        return ""
    names = ["scan", "nested_loop", "backward", "gca", "lca", "extended"]
    if sum(".k = " in c or ".tag = " in c for c in conditions) == streams_count - 1:
        names += ["hash", "sorted_runs"]
    return f"/*+ JOIN({random.choice(names)}) */ " if random.random() < 0.5 else ""


def _windows(random: random.Random, aliases: tuple[str, ...]) -> tuple[str, tuple[tuple[int, int, int, int], ...]]:
    """A uniform clique, or a connected graph of single windows; nothing for one stream."""
    if len(aliases) == 1:
        return "", ()
    span = lambda: random.choice([0, 1, SECOND, 2 * SECOND, 7 * SECOND])  # noqa: E731
    count = len(aliases)
    if random.random() < 0.35:
        w = span()
        pairs = tuple((i, j, -w, w) for i in range(count) for j in range(i + 1, count))
        return f"WINDOW = {_text(w)}", pairs
    edges = [(i, i + 1) for i in range(count - 1)]
    if random.random() < 0.4:
        edges = [(random.randrange(j), j) for j in range(1, count)]
    if count > 2 and random.random() < 0.4:
        edges.append((0, count - 1)) if (0, count - 1) not in edges else None
    clauses, windows = [], []
    for i, j in edges:
        kind, w = random.choice(["window", "directed", "between"]), span()
        if kind == "window":
            clauses.append(f"WINDOW({aliases[i]},{aliases[j]}) = {_text(w)}")
            windows.append((i, j, -w, w))
        elif kind == "directed":
            clauses.append(f"DWINDOW({aliases[i]},{aliases[j]}) = {_text(w)}")
            windows.append((i, j, 0, w))
        else:
            low = -span()
            clauses.append(f"WINDOW({aliases[i]},{aliases[j]}) BETWEEN -{_text(-low)} AND {_text(w)}")
            windows.append((i, j, low, w))
    return " AND ".join(clauses), tuple(windows)


def _text(us: int) -> str:
    return f"{us // SECOND} SECONDS" if us % SECOND == 0 else f"INTERVAL '0.{us:06d}' SECOND"


def _conditions(random: random.Random, aliases: tuple[str, ...]) -> tuple[list[str], Any]:
    """An equality over all, over some, a comparison of values, or nothing."""
    texts: list[str] = []
    tests: list[Any] = []
    if len(aliases) == 1:
        return _alone(random)
    kind = random.choice(["key", "key", "text", "some", "values", "none"])
    if kind in ("key", "text"):
        column = "k" if kind == "key" else "tag"
        for i in range(len(aliases) - 1):
            texts.append(f"{aliases[i]}.{column} = {aliases[i + 1]}.{column}")
            tests.append(lambda c, i=i, column=column: c[i][column] is not None and c[i][column] == c[i + 1][column])
    if kind == "some":
        texts.append("a.k = b.k")
        tests.append(lambda c: c[0]["k"] is not None and c[0]["k"] == c[1]["k"])
    if kind == "values" or random.random() < 0.3:
        i, j = random.sample(range(len(aliases)), 2)
        bound = random.choice([0.0, 1.0, 2.5])
        texts.append(f"abs({aliases[i]}.v - {aliases[j]}.v) <= {bound}")
        tests.append(
            lambda c, i=i, j=j, bound=bound: (
                c[i]["v"] is not None and c[j]["v"] is not None and abs(c[i]["v"] - c[j]["v"]) <= bound
            )
        )
    if random.random() < 0.2:
        texts.append("b.v > 0")
        tests.append(lambda c: c[1]["v"] is not None and c[1]["v"] > 0)

    def holds(combination: Combination) -> bool:
        return all(test(combination) for test in tests)

    return texts, holds


def _alone(random: random.Random) -> tuple[list[str], Any]:
    """What one stream's readings have to satisfy: a comparison with a constant, a plain truth, or nothing."""
    bound = random.choice([None, None, 0.0, 1.5])
    texts = random.choice([[], ["TRUE"]]) + ([] if bound is None else [f"a.v >= {bound}"])
    return texts, lambda c: bound is None or (c[0]["v"] is not None and c[0]["v"] >= bound)


__all__ = ["Story", "make_question", "shown"]
