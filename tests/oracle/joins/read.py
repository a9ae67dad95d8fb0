"""Random joins again, each read by another query that aggregates its rows: one cycle later, by their own time."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from penstock.errors import PenstockError
from penstock.sql.plan import QueryAggregatePlan, plan_from_json
from tests.oracle.aggregates.model import same
from tests.oracle.joins.aggregated import SECOND, Aggregated, AggregatedStory, rows_of
from tests.oracle.joins.world import shown

Heads = dict[str, int]


@dataclass
class Reader(Aggregated):
    """`begin` and `end` are the join's own; `reach` is how far back the reader looks, None for its registration."""

    reach: int | None = None
    reader_start: int | None = None
    positive: bool = False  # only rows with a positive v of the first stream

    @property
    def join(self) -> str:
        return f"j{self.name}"

    def reader_text(self) -> str:
        column = lambda place, name: f"{self.aliases[place]}_{name}"  # noqa: E731
        text = self.text_over(column, f"FROM {self.join}{' WHERE a_v > 0' if self.positive else ''}")
        return text + self.reader_window()

    def reader_window(self) -> str:
        return "" if self.reach is None else f" BEGIN (NOW - {self.reach // 1000} MS) END (NOW)"

    def read(self, heads: Heads, now: int | None) -> Any:
        """What the reader answers of the results that these heads have."""
        if now is None:
            return self.answer_of([])
        nothing = -(2**62)
        start = self.start if self.start is not None else nothing
        begin = start - (self.begin or 0)
        low = (
            (self.reader_start if self.reader_start is not None else nothing)
            if self.reach is None
            else now - self.reach
        )
        candidates = [
            [r for r in s.rows[self.floors.get(s.name, 0) : heads.get(s.name, 0)] if passes(r)]
            for s, passes in zip(self.streams, self._passing(), strict=True)
        ]
        found: list[tuple[object, ...]] = []
        for combination in self._near_ones(candidates, ()):
            times = [int(str(row["ts"])) for row in combination]
            inside = min(times) >= begin and low <= max(times) <= now
            asked = not self.positive or float(str(combination[0]["v"] or 0)) > 0
            if inside and asked and self.holds(combination):
                copies = len(self.extended(combination)) if self.extended else 1
                found += [shown(combination)] * copies
        return self.answer_of(found)


class ReaderStory(AggregatedStory):
    """Questions are readers, by the reader's name."""

    own_windows = False  # several windows of another query's rows are refused

    def ask(self, most_streams: int = 4) -> None:
        if len(self.questions) >= 4:
            return
        self.made += 1
        made = self._question(f"r{self.made}", most_streams)
        given = {f.name: getattr(made, f.name) for f in fields(Aggregated)}
        question = Reader(**{**given, "end": 0}, reach=self.random.choice([None, 1, 3, 20, 200]))
        question.reach = None if question.reach is None else question.reach * SECOND
        question.positive = self.random.random() < 0.3
        self.db.execute(f"CREATE QUERY {question.join} AS {question.sql}")
        if question.begin is None or (question.reach is not None and question.reach <= question.begin):
            # Nobody keeps results for a reader that comes later and looks further back than the join.
            for _ in range(self.random.randint(0, 2)):
                self.push()
                self.engine.cycle(self._limits())
        self.db.execute(f"CREATE QUERY {question.name} AS {question.reader_text()}")
        states = self.db.catalog.state.queries
        plan = plan_from_json(states[question.name].plan)
        assert isinstance(plan, QueryAggregatePlan), question.reader_text()
        question.start = states[question.join].start_us
        question.reader_start = states[question.name].start_us
        self.questions[question.name] = question
        self.engine.cycle(self._limits())

    def alter(self) -> None:
        if self.questions:
            question = self.random.choice(list(self.questions.values()))
            assert isinstance(question, Reader)
            seconds = self.random.choice([1, 5, 30, 300])
            if self.random.random() < 0.7:
                if question.reach is None or question.reach < seconds * SECOND:
                    return  # what a wider window would reach may be forgotten
                question.reach = seconds * SECOND
                self.db.execute(f"ALTER QUERY {question.name} SET{question.reader_window()}")
            else:
                question.begin = seconds * SECOND
                self.db.execute(f"ALTER QUERY {question.join} SET BEGIN (NOW - {seconds} SECONDS) END (NOW)")

    def drop(self) -> None:
        if self.questions:
            name = self.random.choice(list(self.questions))
            self.db.execute(f"DROP QUERY j{name} CASCADE")
            del self.questions[name]
            self.watching.pop(name, None)

    def pause(self) -> None:
        if self.questions:
            name = self.random.choice(list(self.questions))
            self.db.execute(f"ALTER QUERY j{name} PAUSE")
            for _ in range(self.random.randint(0, 3)):
                self.push()
                self.engine.cycle(self._limits())
            self.db.execute(f"ALTER QUERY j{name} RESUME")

    def compare(self, everything: bool = False) -> None:
        store, current = self.db.standing.store, self.db.catalog.state
        cycle, now_us, heads = self.committed()
        self._note_floors()
        answering: dict[str, Any] = {}
        for name, question in self.questions.items():
            assert isinstance(question, Reader)
            known = [store.state.queries.get(n) for n in (name, question.join)]
            read = store.answers.get(known[1].id) if known[1] is not None else None
            if read is None or None in known or read.filling is not None or read.paused:
                continue
            ids = [d.id for d in known if d is not None]
            if any(store.state.query_positions[i] != current.query_positions[i] for i in ids):
                continue
            answering[name] = (question.begin, question.reach, store.joins.queries[ids[1]].results.generation)
        self.past[cycle] = (heads, now_us, answering)
        for at in (cycle, self.random.choice(range(cycle - 3, cycle))):
            if at in self.past and at - 1 in self.past:
                self._compare_cycle(at, None if at == cycle else at, answering)
        self._watch(answering)

    def _compare_cycle(self, cycle: int, as_of: int | None, answering: dict[str, Any]) -> None:
        """Rows of the cycle before, up to NOW of this one; where nothing was altered or read anew since."""
        (heads, wall, then), (earlier, _, before) = self.past[cycle], self.past[cycle - 1]
        for name, how in answering.items():
            if then.get(name) != how or before.get(name) != how:
                continue
            question = self.questions[name]
            assert isinstance(question, Reader)
            try:
                ours = rows_of(self.db.standing.invoke(name, as_of).table)
            except PenstockError as failure:
                assert as_of is not None and failure.condition == "cycle_gone", failure
                continue
            theirs = question.read(earlier, question.now_of(heads, wall))
            assert same(ours, theirs), (as_of, question.sql, question.reader_text(), ours, theirs)
            self.compared += 1
            self.older_compared += as_of is not None
            self.rows_compared += len(theirs)
