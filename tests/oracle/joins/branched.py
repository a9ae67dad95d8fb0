"""Joins that run as several: a path with BOTH WAYS, and FULL JOIN within a window."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from penstock.operators.union.plan import UnionPlan
from penstock.sql.plan import plan_from_json
from penstock.views.query_state import QueryState
from tests.oracle.joins.making import ALIASES, SECOND, conditions_of, span_text
from tests.oracle.joins.stories import Story
from tests.oracle.joins.world import Combination, Question, Row, Stream, shown

NOBODY: Row = {"sensor": None, "k": None, "v": None, "ts": None}


@dataclass
class FullQuestion(Question):
    """A FULL JOIN: what LEFT JOIN answers, and rows of the right side without a partner once their window has passed."""

    def answer(self, heads: dict[str, int], now: int | None) -> Counter[tuple[object, ...]]:
        found = super().answer(heads, now)
        if now is None:
            return found
        low = (self.start if self.start is not None else -(2**62)) if self.begin is None else now - self.begin
        left, right = (stream.rows[: heads.get(stream.name, 0)] for stream in self.streams)
        ((_, _, least, most),) = self.windows
        for row in right:
            near = [(other, row) for other in left if least <= _time(row) - _time(other) <= most]
            if not any(map(self.holds, near)) and low <= _time(row) <= now and _time(row) - least < now:
                found[shown((NOBODY, row))] += 1
        return found


def _time(row: Row) -> int:
    return int(str(row["ts"]))


def make_full(chance: random.Random, name: str, streams: list[Stream]) -> Question:
    chosen = (chance.choice(streams), chance.choice(streams))
    span = chance.choice([0, 0, 1, SECOND, 2 * SECOND, 7 * SECOND])
    clause, window = f"WINDOW(a, b) = {span_text(span)}", (0, 1, -span, span)
    if chance.random() < 0.3:
        clause, window = f"DWINDOW(a, b) = {span_text(span)}", (0, 1, 0, span)
    elif chance.random() < 0.3:
        clause, window = "WINDOW(a, b) BETWEEN -1 SECOND AND 3 SECONDS", (0, 1, -SECOND, 3 * SECOND)
    texts, holds = conditions_of(chance, ("a", "b"))
    if chance.random() < 0.3:  # static columns of one side: the sensors of the other kind have no partner
        place, only, before = chance.choice([0, 1]), tuple(sorted(chance.sample(range(1, 5), 2))), holds
        texts.append(f"{'ab'[place]}.sensor IN {only}")
        holds = lambda c: before(c) and c[place]["sensor"] in only  # noqa: E731
    begin = chance.choice([None, 2 * SECOND, 10 * SECOND, 100 * SECOND])
    edges = "" if begin is None else f" BEGIN (NOW - {begin // SECOND} SECONDS) END (NOW)"
    on = " AND ".join(texts) or "TRUE"
    sql = f"SELECT {_columns('ab')} FROM {chosen[0].name} a FULL JOIN {chosen[1].name} b ON {on} {clause}{edges}"
    return FullQuestion(name, sql, ("a", "b"), chosen, (None, None), (window,), holds, begin, "left")


def make_path(chance: random.Random, name: str, streams: list[Stream], most: int) -> Question:
    count = chance.randint(2, most)
    aliases, chosen = tuple(ALIASES[:count]), tuple(chance.choice(streams) for _ in range(count))
    sensors = tuple(tuple(sorted(chance.sample(range(1, 5), 2))) if chance.random() < 0.4 else None for _ in aliases)
    span = chance.choice([1, SECOND, 2 * SECOND, 7 * SECOND])
    texts, holds = conditions_of(chance, aliases)
    texts += [f"{a}.sensor IN {only}" for a, only in zip(aliases, sensors, strict=True) if only]
    begin = chance.choice([None, 2 * SECOND, 10 * SECOND, 100 * SECOND])
    edges = "" if begin is None else f" BEGIN (NOW - {begin // SECOND} SECONDS) END (NOW)"
    sources = ", ".join(f"{stream.name} {alias}" for stream, alias in zip(chosen, aliases, strict=True))
    where = f" WHERE {' AND '.join(texts)}" if texts else ""
    path = f"DWINDOW PATH({', '.join(aliases)}) = {span_text(span)} BOTH WAYS"
    windows = tuple((i, i + 1, -span, span) for i in range(count - 1))

    def both(combination: Combination) -> bool:
        times = [_time(row) for row in combination]
        return times in (sorted(times), sorted(times, reverse=True)) and holds(combination)

    sql = f"SELECT {_columns(aliases)} FROM {sources} {path}{where}{edges}"
    return Question(name, sql, aliases, chosen, sensors, windows, both, begin)


def _columns(aliases: tuple[str, ...] | str) -> str:
    return ", ".join(f"{a}.{c} AS {a}_{c}" for a in aliases for c in ("sensor", "k", "v", "ts"))


class BranchedStory(Story):
    """Every question has two joins as branches."""

    def make_question(self, name: str, most_streams: int) -> Question:
        if self.random.random() < 0.5:
            return make_full(self.random, name, self.streams)
        return make_path(self.random, name, self.streams, most_streams)

    def check_plan(self, question: Question) -> None:
        plan = plan_from_json(self.db.definition(question.name).plan)
        assert isinstance(plan, UnionPlan), question.sql

    def answering(self, everything: bool) -> Iterator[tuple[Question, QueryState]]:
        store, current = self.db.standing.store, self.db.catalog.state
        for name, question in self.questions.items():
            definition = store.state.queries.get(name)
            if (
                definition is None
                or store.state.query_positions[definition.id] != current.query_positions[definition.id]
            ):
                assert not everything
                continue
            states = [store.answers[branch] for branch in definition.branches]
            if any(state.filling is not None or state.paused for state in states):
                assert not everything, f"{name} never finished filling"
                continue
            yield question, states[0]
