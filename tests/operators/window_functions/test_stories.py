"""Random stories of window functions over readings against plain loops: late rows, ties, NULL, NaN, restarts, any split into cycles."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import pytest

from penstock.answers.subscription import Subscription
from penstock.clock import SECOND, format_timestamp
from penstock.cycle.cut import Limits
from penstock.expr.expression import Column
from penstock.operators.aggregate.partials import tiles
from penstock.sql.plan import plan_from_json
from penstock.sql.plan.window_calls import OrderKey, WindowCall
from penstock.types import BIGINT, DOUBLE, INT, TEXT, TIMESTAMP, Type
from tests.support.examples import SOAK
from tests.support.pipe import BEGAN_US, Pipe
from tests.support.window_loops import looked_up

TYPES: dict[str, Type] = {"id": INT, "place": TEXT, "value": DOUBLE, "whole": BIGINT, "ts": TIMESTAMP}
COLUMNS = "id INT PRIMARY KEY, place TEXT, reading STREAM (value DOUBLE, whole BIGINT)"
PLACES = {1: "north", 2: "south", 3: "north", 4: None}
Row = dict[str, Any]
# Of the first six, those of `make test` run all lines of our code but one that any of them runs.
SEEDS = range(200) if SOAK else (0, 1, 3, 5)


class Question:
    """Ranks or neighbours of readings, as SQL and as loops."""

    def __init__(self, chance: random.Random) -> None:
        pick = chance.choice
        self.partition = pick([(), ("id",), ("place",), ("whole",), ("place", "whole")])
        self.order = tuple((name, pick([True, False]), pick([True, False])) for name in pick(_ORDERS))
        self.function = pick(["row_number", "row_number", "rank", "rank", "dense_rank", "lag", "lead", "lag", "lead"])
        self.back = pick([1, 1, 2, 16])
        self.where = pick([None, None, "value > 0", "place = 'north'"])
        self.window_s = pick([3, 10, 1000])
        self.most = pick([None, 1, 2, 3]) if "rank" in self.function or self.function == "row_number" else None
        self.newest = pick([None] * 7 + [5])
        if self.function in ("lag", "lead"):
            self.order = (("ts", False, False),)

    @property
    def call(self) -> WindowCall:
        order = tuple(OrderKey(Column(n, TYPES[n]), *way) for n, *way in self.order)
        arguments = (Column("value", DOUBLE),) if self.function in ("lag", "lead") else ()
        partition = tuple(Column(name, TYPES[name]) for name in self.partition)
        return WindowCall(self.function, DOUBLE if arguments else INT, partition, order, arguments, self.back)

    @property
    def sql(self) -> str:
        over = f"PARTITION BY {', '.join(self.partition)} " if self.partition else ""
        over += "ORDER BY " + ", ".join(
            f"{n}{' DESC' * descending} NULLS {'FIRST' if first else 'LAST'}" for n, descending, first in self.order
        )
        call = f"{self.function}({f'value, {self.back}' if self.call.arguments else ''}) OVER ({over})"
        text = f"SELECT id, ts, value, whole, {call} AS w FROM probes"
        text += f" WHERE {self.where}" if self.where else ""
        text += f" QUALIFY w <= {self.most}" if self.most else ""
        if self.newest:
            return f"{text} BEGIN (LAST {self.newest} ROWS)"
        return f"{text} BEGIN (NOW - {self.window_s} SECONDS) END (NOW)"

    def _sees(self, row: Row) -> bool:
        return self.where != "place = 'north'" or row["place"] == "north"

    def answer(self, rows: list[Row]) -> list[str]:
        seen = [row for row in rows if self._sees(row)]  # NOW is that of these sensors
        ordered = sorted(seen, key=lambda row: (row["ts"], row["position"]))
        if self.newest:
            ordered = ordered[-self.newest :]
        elif ordered:
            ordered = [row for row in ordered if row["ts"] >= ordered[-1]["ts"] - self.window_s * SECOND]
        if self.where == "value > 0":
            ordered = [row for row in ordered if row["value"] is not None and not row["value"] <= 0]  # NaN passes
        found = zip(ordered, looked_up(self.call, ordered), strict=True)
        return sorted(
            repr((row["id"], row["ts"], one_zero(row["value"]), row["whole"], one_zero(w)))
            for row, w in found
            if self.most is None or w <= self.most
        )


_ORDERS = [("value",), ("whole", "value"), ("ts",), ("value", "ts"), ("place", "value"), ("id",)]


class Story:
    def __init__(self, folder: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.pipe = Pipe(folder, cycles_keep=5)
        self.pipe.set_intervals(snapshot_cycles=5, trim_cycles=3)
        self.pipe.db.execute(f"CREATE TABLE probes ({COLUMNS}) WITH (time = 'valid', out_of_order = 'accept')")
        for sensor, place in PLACES.items():
            text = "NULL" if place is None else f"'{place}'"
            self.pipe.db.execute(f"INSERT INTO probes VALUES ({sensor}, {text}, NULL)")
        self.rows: list[Row] = []
        self.now_s = 0.0
        self.questions: dict[str, Question] = {}
        self.watching: dict[str, tuple[Subscription, list[str]]] = {}
        self.compared = 0

    def step(self) -> None:
        actions = [self.push, self.cycle, self.create, self.watch, self.alter, self.restart]
        self.chance.choices(actions, [30, 25, 4, 5, 2, 1])[0]()

    def push(self) -> None:
        pick, readings = self.chance.choice, []
        for _ in range(self.chance.randint(1, 6)):
            late = pick([0, 0, 0, 0.5, 4, 11])
            ts = BEGAN_US + round(max(0.0, self.now_s - late) * SECOND)
            value = pick([None, 0.0, -0.0, math.nan, 1.0, 2.0, float(self.chance.randint(-3, 3))])
            row = {"id": self.chance.randint(1, 4), "ts": ts, "value": value, "whole": pick([None, 0, 1, 2])}
            readings.append(row)
        receipt = self.pipe.db.push("probes", [{**row, "ts": format_timestamp(row["ts"])} for row in readings])
        assert receipt.accepted == len(readings)
        for row in readings:
            self.rows.append({**row, "place": PLACES[row["id"]], "position": len(self.rows)})
        step_s = pick([0, 0, 0.25, 1, 3])
        self.now_s += step_s
        self.pipe.clock.advance(round(step_s * SECOND))

    def create(self) -> None:
        name, question = f"q{len(self.questions)}", Question(self.chance)
        self.pipe.db.execute(f"CREATE QUERY {name} AS {question.sql}")
        plan = plan_from_json(self.pipe.db.definition(name).plan)
        assert plan.operator == "window_functions", question.sql
        self.questions[name] = question

    def alter(self) -> None:
        name = self.chance.choice(list(self.questions))
        question = self.questions[name]
        question.window_s, question.newest = self.chance.choice([2, 5, 20]), None
        self.pipe.db.execute(f"ALTER QUERY {name} SET BEGIN (NOW - {question.window_s} SECONDS) END (NOW)")

    def watch(self) -> None:
        name = self.chance.choice(list(self.questions))
        if (
            name not in self.watching
            and self.pipe.db.standing.store.state.position == self.pipe.db.catalog.state.position
        ):
            self.watching[name] = (self.pipe.db.subscribe(name, changes=True), [])

    def restart(self) -> None:
        self.watching.clear()
        self.pipe.restart()

    def cycle(self) -> None:
        self.pipe.engine.cycle(Limits(self.chance.choice([3, 1000]), self.chance.choice([5, 1000])))
        self.compare()

    def compare(self) -> None:
        store = self.pipe.db.standing.store
        (table,) = store.state.tables.values()
        head = store.offset.data.get(table.id, 0) if store.offset is not None else 0
        for name, question in self.questions.items():
            definition = store.state.queries.get(name)
            if definition is None or definition.id not in store.answers or self.pipe.db.standing.is_resting(name):
                self.watching.pop(name, None)
                continue
            asked = plan_from_json(self.pipe.db.definition(name).plan).kernel
            assert asked is not None
            if str(store.answers[definition.id].window) != str(asked.windows):
                self.watching.pop(name, None)  # an altered window waits for the next cycle, or for its history
                continue
            ours = shown(self.pipe.db.standing.invoke(name).table)
            assert ours == question.answer(self.rows[:head]), question.sql
            self.compared += 1
            if name in self.watching:
                subscription, known = self.watching[name]
                while (event := subscription.next(0)) is not None:
                    for row in event.table.to_pylist():
                        sign, text = row.pop("op"), shown_row(row)
                        known.append(text) if sign == "+" else known.remove(text)
                assert sorted(known) == ours, question.sql


def shown(table: Any) -> list[str]:
    return sorted(map(shown_row, table.to_pylist()))


def shown_row(row: Row) -> str:
    return repr(tuple(micros(value) if name == "ts" else one_zero(value) for name, value in row.items()))


def one_zero(value: Any) -> Any:
    """Both zeros are one value to subscribers: no change is told between them."""
    return value + 0.0 if isinstance(value, float) else value


def micros(value: Any) -> int:
    return int(value.replace(microsecond=0).timestamp()) * SECOND + value.microsecond


@pytest.mark.parametrize("seed", SEEDS)
def test_every_answer_is_what_loops_say(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed % 2:  # cells of all widths
        monkeypatch.setattr(tiles, "RECENT", 0)
        monkeypatch.setattr(tiles, "TILE_SLOTS", (2, 1))
        monkeypatch.setattr(tiles, "CELL_ROWS", 1000)
        monkeypatch.setattr(tiles, "SLOT_ROWS", (3, 1 << 20)[seed // 2 % 2])
    story = Story(tmp_path / "data", seed)
    for _ in range(3):
        story.create()
    for _ in range(90):
        story.step()
    for _ in range(3):
        story.pipe.engine.cycle(Limits(1000, 1000))
        story.compare()
    story.pipe.db.stop()
    assert story.compared > 10
