"""Stories of joins that differ in constants only: they run as one, and nobody may notice."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from penstock.operators.join.kernels import keys
from penstock.operators.join.steps import join_sharing, units
from penstock.operators.join.steps.benefit import Benefit
from tests.oracle.joins.making import SECOND, extended_by, span_text
from tests.oracle.joins.stories import Story
from tests.oracle.joins.tables import make_uses
from tests.oracle.joins.world import Combination, Question, Row, Stream

Test = Callable[[Combination], bool]


@dataclass(frozen=True)
class Template:
    """What the joins of a story have in common."""

    streams: tuple[Stream, ...]
    equal: str  # by which column all streams, the first two, or none are equal
    spans_all: bool
    windows: tuple[str, ...]  # the kind of each, along a path
    lists_sensors: bool
    bounds_first: bool  # a.v >= c
    links_values: str  # a.v < b.v + c, abs(a.v - b.v) <= c, or nothing

    @property
    def aliases(self) -> tuple[str, ...]:
        return tuple("abc"[: len(self.streams)])


def make_template(chance: random.Random, streams: list[Stream]) -> Template:
    equal = chance.choice(["k", "k", "tag", ""])
    count = chance.choice([2, 2, 3]) if equal else 2
    return Template(
        tuple(chance.choice(streams) for _ in range(count)),
        equal,
        chance.random() < 0.7,
        tuple(chance.choice(["window", "directed", "between"]) for _ in range(count - 1)),
        chance.random() < 0.5,
        chance.random() < 0.6,
        chance.choice(["", "less", "less or equal", "greater", "near"]),
    )


class GroupStory(Story):
    """A few templates; every question is one of them with constants, aliases and an order of FROM of its own."""

    most_questions = 9
    asks = 5

    def __init__(self, folder: Path, seed: int) -> None:
        self.templates: list[Template] = []
        super().__init__(folder, seed)

    def make_question(self, name: str, most_streams: int) -> Question:
        if not self.templates:
            self.templates = [make_template(self.random, self.streams) for _ in range(2)]
        return self._filled_in(name, self.random.choice(self.templates))

    def cycle(self) -> object:
        """Sharing may begin and end with any step: the answers go on as if nothing had been."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(join_sharing, "SHARING", self.random.random() < 0.8)
            # Parts of one step, each in a worker with a past of its own, may see it differently.
            patch.setattr(Benefit, "together", property(lambda _: self.random.random() < 0.7))
            patch.setattr(units, "SPREAD_ROWS", self.random.choice([1, 8, 20_000]))
            patch.setattr(units, "SPREAD_ROWS_WITHOUT_KEY", self.random.choice([1, 8, 200]))
            patch.setattr(keys, "_ENOUGH", self.random.choice([4, 5_000]))
            patch.setattr(keys, "_STRIPE", self.random.choice([1, 3, 4]))
            return super().cycle()

    def _filled_in(self, name: str, template: Template) -> Question:
        aliases, chance = template.aliases, self.random
        clause, windows = self._windows(template)
        texts, tests = self._conditions(template)
        sensors: list[tuple[int, ...] | None] = [None] * len(aliases)
        if template.lists_sensors:
            sensors[0] = tuple(sorted(chance.sample(range(1, 5), chance.choice([1, 2, 3]))))
            texts.append(f"a.sensor IN ({', '.join(map(str, sensors[0]))})")
        chance.shuffle(texts)
        outputs = [f"{a}.{c} AS {a}_{c}" for a in aliases for c in ("sensor", "k", "v", "ts")]
        sources = [f"{s.name} {a}" for s, a in zip(template.streams, aliases, strict=True)]
        chance.shuffle(sources)
        uses = make_uses(chance, self.tables, aliases) if chance.random() < 0.15 else []
        texts += [c for use in uses for c in use.where]
        outputs += [column for use in uses for column in use.shown]
        where = f" WHERE {' AND '.join(texts)}" if texts else ""
        listed = ", ".join(sources) + "".join(use.from_item for use in uses)
        begin = chance.choice([None, None, 10 * SECOND, 100 * SECOND])
        window = "" if begin is None else f" BEGIN (NOW - {begin // SECOND} SECONDS) END (NOW)"
        return Question(
            name,
            f"SELECT {', '.join(outputs)} FROM {listed} {clause}{where}{window}",
            aliases,
            template.streams,
            tuple(sensors),
            windows,
            lambda combination: all(test(combination) for test in tests),
            begin,
            extended=extended_by(uses),
        )

    def _windows(self, template: Template) -> tuple[str, tuple[tuple[int, int, int, int], ...]]:
        span = lambda: self.random.choice([0, SECOND, 2 * SECOND, 7 * SECOND])  # noqa: E731
        clauses, windows = [], []
        for i, kind in enumerate(template.windows):
            pair, w, low = f"({template.aliases[i]},{template.aliases[i + 1]})", span(), -span()
            clause, ends = {
                "window": (f"WINDOW{pair} = {span_text(w)}", (-w, w)),
                "directed": (f"DWINDOW{pair} = {span_text(w)}", (0, w)),
                "between": (f"WINDOW{pair} BETWEEN -{span_text(-low)} AND {span_text(w)}", (low, w)),
            }[kind]
            clauses.append(clause)
            windows.append((i, i + 1, *ends))
        return " AND ".join(clauses), tuple(windows)

    def _conditions(self, template: Template) -> tuple[list[str], list[Test]]:
        texts: list[str] = []
        tests: list[Test] = []
        column = template.equal
        for i in range(len(template.aliases) - 1 if template.spans_all else 1):
            if column:
                texts.append(f"{template.aliases[i]}.{column} = {template.aliases[i + 1]}.{column}")
                tests.append(lambda c, i=i: c[i][column] is not None and c[i][column] == c[i + 1][column])  # type: ignore[misc]
        if template.bounds_first:
            least = self.random.choice([-4.0, -3.25, 0.0, 1.75])
            texts.append(f"a.v >= {least}")
            tests.append(lambda c: _value(c[0]) is not None and _value(c[0]) >= least)
        if template.links_values:
            c = self.random.choice([0.0, 0.5, 1.5, 3.0])
            text, test = {
                "less": (f"a.v < b.v + {c}", lambda a, b: a < b + c),
                "less or equal": (f"a.v - {c} <= b.v", lambda a, b: a - c <= b),
                "greater": (f"a.v > b.v - {c}", lambda a, b: a > b - c),
                "near": (f"abs(a.v - b.v) <= {c}", lambda a, b: abs(a - b) <= c),
            }[template.links_values]
            texts.append(text)
            tests.append(lambda c: _value(c[0]) is not None and _value(c[1]) is not None and test(*map(_value, c[:2])))
        return texts, tests


def _value(row: Row) -> Any:
    return row["v"]
