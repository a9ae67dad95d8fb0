"""The random joins again, with aggregates on top: groups, panes, HAVING, readings that retention takes, older cycles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

import pytest

from penstock.answers.subscription import Subscription
from penstock.database.database import Database
from penstock.errors import PenstockError
from penstock.operators.aggregate import groups
from penstock.operators.aggregate.over_joins import answer as answer_module
from penstock.settings import Settings
from penstock.sql.plan import JoinAggregatePlan, plan_from_json
from penstock.views.standing_queries import Intervals
from tests.oracle.aggregates.model import aggregate, panes_of, same
from tests.oracle.joins.making import make_question
from tests.oracle.joins.stories import Story
from tests.oracle.joins.world import Question, Stream

SECOND = 1_000_000
SHOWN = ("sensor", "k", "v", "ts")
CALLS = (
    *(("count", None), ("sum", "v"), ("avg", "v"), ("min", "v"), ("max", "v"), ("sum", "k"), ("count", "k")),
    *(("count_distinct", "v"), ("sum_distinct", "k"), ("stddev_samp", "v"), ("var_pop", "k"), ("percentile", "v")),
    *(("median", "k"), ("min", "ts"), ("max", "ts")),
)
Answer = list[tuple[Any, ...]]


@dataclass
class Aggregated(Question):
    """A join and what is asked of its combinations. Columns are (alias, name)."""

    keys: tuple[tuple[int, str], ...] = ()
    calls: tuple[tuple[str, int, str | None], ...] = ()
    pane: tuple[int, int] | None = None
    having: int | None = None
    end: int = 0  # the window ends so long before NOW
    own: tuple[int | None, ...] = ()  # per call, over how much of the window's end alone, as in AVG(x, 5 MINUTES)
    implied: bool = False  # the window is the longest of those, and not written
    distinct: bool = False  # SELECT DISTINCT of the keys, and nothing else
    floors: dict[str, int] = field(default_factory=dict)

    def text(self) -> str:
        head, _, rest = self.sql.partition(" FROM ")
        rest, _, _ = rest.partition(" BEGIN (")
        hint = head[len("SELECT ") : head.index("*/") + 2] if "*/" in head else ""
        text = self.text_over(lambda place, name: f"{self.aliases[place]}.{name}", f"FROM {rest}", hint)
        return text + self.window()

    def text_over(self, column: Callable[[int, str], str], sources: str, hint: str = "") -> str:
        items = [column(*key) for key in self.keys]
        groups = list(items)
        for place, (function, alias, name) in enumerate(self.calls):
            items.append(
                f"{_call(function, None if name is None else column(alias, name), self._own(place))} AS a{place}"
            )
        if self.pane is not None:
            items = ["window_start", "window_end", *items]
            width, step = (f"{us // 1000} MS" for us in self.pane)
            groups.append(f"TUMBLE({width})" if width == step else f"SLIDE({width}, {step})")
        if self.distinct:
            return f"SELECT {hint} DISTINCT {', '.join(items)} {sources}"
        text = f"SELECT {hint} {', '.join(items)} {sources}"
        text += f" GROUP BY {', '.join(groups)}" if groups else ""
        return text + (f" HAVING COUNT(*) >= {self.having}" if self.having is not None else "")

    def _own(self, place: int) -> int | None:
        return self.own[place] if self.own else None

    def window(self) -> str:
        if self.begin is None or self.implied:
            return ""
        end = f"NOW - {self.end // 1000} MS" if self.end else "NOW"
        return f" BEGIN (NOW - {self.begin // 1000} MS) END ({end})"

    def combinations(self, heads: dict[str, int], now: int | None) -> list[tuple[object, ...]]:
        """The combinations inside the window, of readings that are kept."""
        kept = tuple(_Kept(s.name, s.valid, s.rows, self.floors.get(s.name, 0)) for s in self.streams)
        given = {f.name: getattr(self, f.name) for f in fields(Question)}
        begin = None if self.begin is None else self.begin - self.end
        plain = Question(**{**given, "streams": kept, "begin": begin})
        return list(plain.answer(heads, None if now is None else now - self.end).elements())

    def aggregated(self, heads: dict[str, int], now: int | None) -> Answer:
        return self.answer_of(self.combinations(heads, now), None if now is None else now - self.end)

    def answer_of(self, combinations: list[tuple[object, ...]], end: int | None = None) -> Answer:
        groups: dict[tuple[Any, ...], list[dict[tuple[int, str], Any]]] = {}
        for combination in combinations:
            row = {(i // 4, SHOWN[i % 4]): value for i, value in enumerate(combination[: 4 * len(self.aliases)])}
            key = tuple(_key(row[k]) for k in self.keys)
            latest = max(row[place, "ts"] for place in range(len(self.aliases)))
            for pane in panes_of(latest, *(self.pane or (None, None))):
                groups.setdefault((*pane, *key), []).append(row)
        if not self.keys and self.pane is None:
            groups.setdefault((), [])
        found = [
            (
                *key,
                *(
                    _value(function, (alias, name), self._recent(place, mine, end))
                    for place, (function, alias, name) in enumerate(self.calls)
                ),
            )
            for key, mine in groups.items()
            if self.having is None or len(mine) >= self.having
        ]
        return sorted(found, key=repr)

    def _recent(self, place: int, rows: list[dict[tuple[int, str], Any]], end: int | None) -> list[Any]:
        """The combinations of a call's own window: it holds for every tuple, too."""
        own = self._own(place)
        if own is None or end is None:
            return rows
        return [r for r in rows if min(r[i, "ts"] for i in range(len(self.aliases))) >= end - own]


class _Kept(Stream):
    """A stream whose oldest readings are gone; NOW has seen them."""

    def __init__(self, name: str, valid: bool, rows: list[Any], floor: int) -> None:
        super().__init__(name, valid, [{**r, "ts": -(2**62) - 1} if i < floor else r for i, r in enumerate(rows)])


def _call(function: str, column: str | None, own: int | None = None) -> str:
    if own is not None:
        return f"{_call(function, column)[:-1]}, {own // 1000} MS)"
    if function.endswith("_distinct"):
        return f"{function.removesuffix('_distinct')}(DISTINCT {column})"
    return f"PERCENTILE({column}, 0.9)" if function == "percentile" else f"{function}({column or '*'})"


def _value(function: str, column: tuple[int, str | None], rows: list[dict[tuple[int, str], Any]]) -> Any:
    if column[1] is None:
        return len(rows)
    return aggregate(function, "x", [{"x": row[column[0], column[1]]} for row in rows])


def _key(value: Any) -> Any:
    return 0.0 if isinstance(value, float) and value == 0 else value


class AggregatedStory(Story):
    """Everything is asked with aggregates. Answers are held against the model at the newest and at older kept cycles."""

    own_windows = True

    def __init__(self, folder: Any, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        # Snapshots, forgetting and reading in pieces belong to the story, which is too short for the usual numbers.
        monkeypatch.setattr(answer_module, "READ_ROWS", 13)
        monkeypatch.setattr(groups, "FEW_GROUPS", 1)
        self.past: dict[int, tuple[dict[str, int], int, dict[str, Any]]] = {}
        self.older_compared = 0
        self.watching: dict[str, tuple[Subscription, Answer]] = {}
        super().__init__(folder, seed)

    def open(self) -> None:
        settings = Settings(data=str(self.folder), group_commit_ms=0, cycles_keep=5)
        # Cycles come when the story says so.
        intervals = Intervals(snapshot_cycles=7, trim_cycles=3, own_writes_s=0.0, replaced_s=0.0)
        self.db = Database(settings, self.clock, self._engine, intervals)
        self.db.start()
        self.db.housekeeper.close()
        self.db.idle_queries.close()
        self.past.clear()
        self.watching.clear()

    def create_table(self, name: str) -> None:
        valid = self.random.random() < 0.7
        options = ["time = 'valid'", "out_of_order = 'accept'", "idle = '1000 DAYS'"] if valid else []
        options += self.random.choice([["time = 'transaction'"] if not valid else [], ["retention = '60 SECONDS'"]])
        with_options = f" WITH ({', '.join(options)})" if options else ""
        self.db.execute(
            f"CREATE TABLE {name} (sensor INT PRIMARY KEY, r STREAM (k INT, v DOUBLE, tag TEXT)){with_options}"
        )
        self.db.execute(f"INSERT INTO {name} VALUES {', '.join(f'({i}, NULL)' for i in range(1, 5))}")
        self.streams.append(Stream(name, valid))

    def change_table(self) -> None:
        super().change_table()
        if self.random.random() < 0.5:  # retention takes what is too old
            for stream in self.streams:
                self.db.housekeeper.tend(self.db.catalog.state.tables[stream.name].id)

    def ask(self, most_streams: int = 4) -> None:
        if len(self.questions) >= self.most_questions:
            return
        self.made += 1
        question = self._question(f"q{self.made}", most_streams)
        self.db.execute(f"CREATE QUERY {question.name} AS {question.text()}")
        definition = self.db.catalog.state.queries[question.name]
        assert isinstance(plan_from_json(definition.plan), JoinAggregatePlan), question.text()
        question.start = definition.start_us
        self.questions[question.name] = question
        self.engine.cycle(self._limits())

    def _question(self, name: str, most_streams: int) -> Aggregated:
        while True:
            plain = make_question(self.random, name, self.streams, self.tables, most_streams, self.with_tables)
            if plain.missing == "inner":
                break
        pick, places = self.random.choice, range(len(plain.aliases))
        keys = [(place, column) for place in places for column in ("sensor", "k", "v")]
        calls = [(function, pick(places), column) for function, column in CALLS if self.random.random() < 0.25]
        seconds = [None] * 4 + [(1, 1), (10, 10), (0.5, 0.5), (1.3, 1.3), (3, 1), (2, 1.5)]
        pane = pick(seconds)
        end = pick([0, 0, 0, 1_500_000]) if plain.begin is not None else 0
        question = Aggregated(
            **{f.name: getattr(plain, f.name) for f in fields(Question)},
            keys=tuple(self.random.sample(keys, pick([0, 1, 1, 2]))),
            calls=(("count", 0, None), *calls),
            pane=None if pane is None else (int(pane[0] * SECOND), int(pane[1] * SECOND)),
            having=pick([None, None, None, 2]),
            end=end,
        )
        if question.keys and self.random.random() < 0.2:
            question.distinct, question.calls, question.pane, question.having = True, (), None, None
            text = question.text()
            if not question.window() and not any(
                f"{alias}.{c}" in text for alias in question.aliases for c in SHOWN[1:]
            ):
                # A question that names nothing of the readings would be about static rows.
                question.keys += ((0, "k"),)
        elif self.own_windows and pane is None:
            self._give_own_windows(question)
        return question

    def _give_own_windows(self, question: Aggregated) -> None:
        """To some calls or all of them, different ones or one; without BEGIN and END the longest is the question's."""
        pick, lengths = self.random.choice, [own * SECOND for own in (1, 3, 10, 100)]
        some = pick([[None], [None, *lengths], lengths, [pick(lengths)]])
        question.calls += tuple(self.random.sample(question.calls, pick([0, len(question.calls)])))
        own = tuple(pick(some) for _ in question.calls)
        if any(own):
            question.own = own
        longest = [us for us in own if us is not None]
        if len(longest) == len(own) and question.begin is None and question.having is None:
            question.begin, question.implied = max(longest), True

    def alter(self) -> None:
        if self.questions:
            question = self.random.choice(list(self.questions.values()))
            assert isinstance(question, Aggregated)
            question.implied = False
            question.begin, question.end = self.random.choice([1, 5, 30, 300]) * SECOND, 0
            self.db.execute(f"ALTER QUERY {question.name} SET{question.window()}")

    def drop(self) -> None:
        super().drop()
        for name in set(self.watching) - set(self.questions):
            del self.watching[name]

    def reopen(self) -> None:
        self.db.stop()
        self.open()

    # -- comparison

    def compare(self, everything: bool = False) -> None:
        cycle, now_us, heads = self.committed()
        self._note_floors()
        answering: dict[str, Any] = {}
        for question, answer in self.answering(everything):
            assert isinstance(question, Aggregated)
            assert answer.error is None, answer.error
            answering[question.name] = (question.begin, question.end)
            if everything or self.random.random() < 0.5:
                self._compare_one(question, heads, now_us, None)
        self.past[cycle] = (heads, now_us, answering)
        self._compare_older(answering, cycle)
        self._watch(answering)

    def _note_floors(self) -> None:
        state = self.db.standing.store.state
        for question in self.questions.values():
            assert isinstance(question, Aggregated)
            question.floors = {name: state.retention(table.id) for name, table in state.tables.items()}

    def _watch(self, answering: dict[str, Any]) -> None:
        for name in answering:
            if name not in self.watching and self.random.random() < 0.3:
                self.watching[name] = (Subscription(self.db.standing, name, None, True), [])
            if name in self.watching:
                self._follow(name)

    def _compare_older(self, answering: dict[str, Any], cycle: int) -> None:
        older = self.random.choice(range(cycle - 4, cycle))
        if older not in self.past:
            return
        heads, wall, then = self.past[older]
        for name in then.keys() & answering.keys():
            if then[name] == answering[name]:
                question = self.questions[name]
                assert isinstance(question, Aggregated)
                if self._compare_one(question, heads, wall, older):
                    self.older_compared += 1

    def _compare_one(self, question: Aggregated, heads: dict[str, int], wall: int, as_of: int | None) -> bool:
        try:
            table = self.db.standing.invoke(question.name, as_of).table
        except PenstockError as failure:
            # Paused and resumed, or altered to and fro, since: the results of then are gone.
            assert as_of is not None and failure.condition == "cycle_gone", failure
            return False
        ours, theirs = rows_of(table), question.aggregated(heads, question.now_of(heads, wall))
        assert same(ours, theirs), (as_of, question.text(), question.now_of(heads, wall), ours, theirs)
        self.compared += 1
        self.rows_compared += len(theirs)
        return True

    def _follow(self, name: str) -> None:
        """What a subscriber WITH CHANGES has heard so far, added up, is the answer."""
        subscription, known = self.watching[name]
        try:
            while (event := subscription.next(0)) is not None:
                for operation, *row in zip(*(c.to_pylist() for c in event.table.columns), strict=True):
                    values = tuple(_plain(v) for v in row)
                    if operation == "+":
                        known.append(values)
                    else:
                        known.remove(next(k for k in known if repr(k) == repr(values)))
        except PenstockError as failure:
            assert failure.condition == "cycle_gone", failure
            del self.watching[name]
            return
        now = rows_of(self.db.standing.invoke(name).table)
        assert same(sorted(known, key=repr), now), (name, known, now)


def rows_of(table: Any) -> Answer:
    return sorted(
        (tuple(_plain(v) for v in row) for row in zip(*(c.to_pylist() for c in table.columns), strict=True)), key=repr
    )


def _plain(value: Any) -> Any:
    return (
        int(value.replace(microsecond=0).timestamp()) * SECOND + value.microsecond
        if hasattr(value, "microsecond")
        else value
    )
