"""Functions of users in conditions: which rows they see, in which order, and what becomes of errors, against a row at a time."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import permutations, product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import PenstockError, error
from penstock.expr import factors
from penstock.expr.expression import Call, Column, Expr, Literal, UserCall
from penstock.expr.lazy_factors import LazyFactor, LearnedOrder, Ordering
from penstock.expr.predicate_index import PredicateIndex
from penstock.types import BIGINT, BOOLEAN, INT, TEXT
from tests.support.examples import SOAK, examples

ROW, KIND, NAME = Column("row", BIGINT), Column("kind", INT), Column("name", TEXT)
SENSOR = Column("sensor", INT, True)
RAISES = "raises"
FUNCTIONS = tuple("fghi")


class Rows:
    """A batch with functions that give, for each row, what a table says, and count how often they see it."""

    def __init__(self, given: dict[str, list[Any]], kinds: list[Any], sensors: list[int] | None = None) -> None:
        self.given, self.kinds = given, kinds
        self.count = len(kinds)
        self.vids = np.array(sensors or [0] * self.count, np.int32)
        self.versions = pa.table({"sensor": pa.array([0, 1, 2], pa.int32())})
        self.columns = {
            "row": pa.array(range(self.count), pa.int64()),
            "kind": pa.array(kinds, pa.int32()),
            "name": pa.array([f"{'ab'[row % 2]}{row}" for row in range(self.count)]),
        }
        self.seen: Counter[tuple[str, int]] = Counter()
        self.functions = {name: self._function(name) for name in given}

    def _function(self, name: str) -> Callable[..., pa.Array]:
        def call(numbers: pa.Array, rows: int) -> pa.Array:
            found = []
            for row in numbers.to_pylist():
                self.seen[name, row] += 1
                if self.given[name][row] == RAISES:
                    raise error("function_failed", function=name, detail=f"row {row}")
                found.append(self.given[name][row])
            return pa.array(found, pa.bool_())

        return call

    def answers(
        self, queries: Iterable[tuple[int, Expr | None, Expr | None]], ordering: Ordering | None = None
    ) -> dict[int, list[int] | str]:
        """By query its rows, or its error; from both ways to ask, which have to agree."""
        index = PredicateIndex(queries, self.functions, ordering)
        batch = self.columns, self.vids, self.versions
        matrix = index.match_matrix(*batch, rare=True)
        found: dict[int, list[int] | str] = {q: failure.message for q, failure in matrix.failed.items()}
        for number, row in zip(matrix.numbers.tolist(), matrix.row_of.tolist(), strict=True):
            found[number] = matrix.rows(np.array([row])).tolist()
        by_query = {
            q: rows.message if isinstance(rows, PenstockError) else list(rows) for q, rows in index.match(*batch)
        }
        assert {q: rows for q, rows in found.items() if rows} == {q: rows for q, rows in by_query.items() if rows}
        return found

    def expected(self, static: Expr | None, stream: Expr | None) -> list[int] | str:
        """The same by a row at a time."""
        found = []
        for row in range(self.count):
            if static is not None and True not in self.possible(static, row):
                continue
            values = {True} if stream is None else self.possible(stream, row)
            if values == {True}:
                found.append(row)
            elif True in values:
                return f"row {row}"
        return found

    def possible(self, expr: Expr, row: int) -> set[bool | None]:
        """What an expression may be, if a call that raised might have given anything."""
        match expr:
            case UserCall(function):
                given = self.given[function][row]
                return {True, False, None} if given == RAISES else {given}
            case Call("not", (part,)):
                return {None if value is None else not value for value in self.possible(part, row)}
            case Call("and" | "or" as operation, parts):
                decides = operation == "or"
                return {
                    decides if decides in values else None if None in values else not decides
                    for values in product(*(self.possible(part, row) for part in parts))
                }
            case Call("gt", (Column("kind"), Literal(constant))):
                return {None if self.kinds[row] is None else self.kinds[row] > constant}
            case Call("eq", (Column("sensor"), Literal(constant))):
                return {bool(self.vids[row] == constant)}
            case Call("like", _):
                return {row % 2 == 0}
        raise AssertionError(expr)


def forced(names: Sequence[str]) -> Ordering:
    """Always this order, what is built in last."""
    places = {name: place for place, name in enumerate(names)}

    def order(factors: list[LazyFactor]) -> list[LazyFactor]:
        return sorted(
            factors, key=lambda factor: min((places[n] for n in names if f"{n}(" in str(factor.expr)), default=9)
        )

    return order


def built_in_first(factors: list[LazyFactor]) -> list[LazyFactor]:
    """An order that is learned depends on how long each took: LIKE may come last on a machine that is busy."""
    return sorted(factors, key=lambda factor: bool(factor.calls))


CALLS: dict[str, Expr] = {name: UserCall(name, (ROW,), BOOLEAN) for name in FUNCTIONS}
LIKE = Call("like", (NAME, Literal("a%", TEXT)), BOOLEAN)


def above(constant: int) -> Expr:
    return Call("gt", (KIND, Literal(constant, INT)), BOOLEAN)


def all_of(*parts: Expr) -> Expr:
    return Call("and", parts, BOOLEAN)


def conditions(depth: int = 2) -> st.SearchStrategy[Expr]:
    leaf = st.sampled_from([*CALLS.values(), *CALLS.values(), LIKE, above(0), above(1)])
    if not depth:
        return leaf
    below = conditions(depth - 1)
    combined = st.tuples(st.sampled_from(["and", "or"]), st.lists(below, min_size=2, max_size=4))
    return st.one_of(
        leaf,
        below.map(lambda part: Call("not", (part,), BOOLEAN)),
        combined.map(lambda found: Call(found[0], tuple(found[1]), BOOLEAN)),
        combined.map(lambda found: Call(found[0], tuple(found[1]), BOOLEAN)),
    )


GIVEN = st.sampled_from([True, True, False, False, None, RAISES])


@st.composite
def batches(draw: st.DrawFn, most: int = 12) -> Rows:
    count = draw(st.integers(1, most))
    given = {name: draw(st.lists(GIVEN, min_size=count, max_size=count)) for name in FUNCTIONS}
    kinds = draw(st.lists(st.sampled_from([0, 1, 2, None]), min_size=count, max_size=count))
    return Rows(given, kinds, draw(st.lists(st.integers(0, 2), min_size=count, max_size=count)))


def agrees(found: list[int] | str, expected: list[int] | str) -> bool:
    """An error names the first row with one."""
    return found.endswith(expected) if isinstance(found, str) and isinstance(expected, str) else found == expected


@settings(max_examples=examples(150 if SOAK else 60), deadline=None)
@given(batches(), st.lists(conditions(), min_size=1, max_size=4))
def test_every_order_of_functions_that_raise_gives_what_a_row_at_a_time_gives(rows: Rows, asked: list[Expr]) -> None:
    statics = [None, Call("eq", (SENSOR, Literal(1, INT)), BOOLEAN)]
    queries = [(number, statics[number % 2], condition) for number, condition in enumerate(asked)]
    truth = {number: rows.expected(static, condition) for number, static, condition in queries}
    first = None
    for order in permutations(FUNCTIONS):
        rows.seen.clear()
        found = rows.answers(queries, forced(order))
        for number, _, condition in queries:
            assert agrees(found[number], truth[number]), (order, str(condition))
        first = found if first is None else first
        assert found == first, "the text of the error depends on the order"


@settings(max_examples=examples(60 if SOAK else 30), deadline=None)
@given(batches(300), st.lists(conditions(), min_size=1, max_size=12), st.integers(0, 999))
def test_an_order_drawn_for_each_block_gives_the_same_answers(rows: Rows, asked: list[Expr], seed: int) -> None:
    drawn = random.Random(seed)
    queries = [
        (number, drawn.choice([None, Call("eq", (SENSOR, Literal(1, INT)), BOOLEAN)]), condition)
        for number, condition in enumerate(asked)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(factors, "_BLOCK_WORDS_MIN", 1)
        patch.setattr(factors, "_BLOCK_BYTES", 1)
        found = rows.answers(queries, lambda some: drawn.sample(some, len(some)))
    for number, static, condition in queries:
        assert agrees(found[number], rows.expected(static, condition)), str(condition)


@settings(max_examples=examples(150), deadline=None)
@given(batches(80), conditions(3))
def test_a_function_sees_exactly_the_rows_that_are_undecided_without_it(rows: Rows, asked: Expr) -> None:
    asked = with_only(asked, "f")
    answers = rows.given["f"]
    rows.given["f"] = [RAISES] * rows.count
    undecided = {
        ("f", row) for row in range(rows.count) if True in (values := rows.possible(asked, row)) and values != {True}
    }
    rows.given["f"] = [value if value != RAISES else None for value in answers]
    index = PredicateIndex([(1, None, asked)], rows.functions, built_in_first)
    list(index.match(rows.columns, rows.vids, rows.versions))
    assert set(rows.seen) == undecided and set(rows.seen.values()) <= {1}, str(asked)


def with_only(expr: Expr, name: str) -> Expr:
    """The condition with one function in place of all of them."""
    if isinstance(expr, UserCall):
        return CALLS[name]
    return (
        Call(expr.operation, tuple(with_only(a, name) for a in expr.arguments), BOOLEAN)
        if isinstance(expr, Call)
        else expr
    )


def test_false_absorbs_an_error_and_true_or_unknown_do_not() -> None:
    f, g = CALLS["f"], CALLS["g"]
    both, either = all_of(f, g), Call("or", (f, g), BOOLEAN)
    for other, fails_and, fails_or in ((False, False, True), (True, True, False), (None, False, True)):
        rows = Rows({"f": [RAISES], "g": [other]}, [1])
        found = rows.answers([(1, None, both), (2, None, either)])
        assert isinstance(found[1], str) == fails_and and isinstance(found[2], str) == fails_or, other
        assert fails_or or found[2] == [0]


def test_a_function_behind_a_filter_sees_the_rows_that_the_filter_leaves() -> None:
    count = 20_000
    kinds = [1 if row % 20 == 0 else 0 for row in range(count)]
    rows = Rows({"f": [row % 3 == 0 for row in range(count)]}, kinds)
    index = PredicateIndex([(1, None, all_of(CALLS["f"], above(0)))], rows.functions)
    (found,) = index.match(rows.columns, rows.vids, rows.versions)
    assert len(found[1]) == count // 60 + 1  # type: ignore[arg-type]
    assert set(rows.seen) == {("f", row) for row in range(0, count, 20)} and set(rows.seen.values()) == {1}
    (figures,) = index.take_figures(10).values()
    assert (figures.calls, figures.saved, figures.kept) == (count // 20, count - count // 20, len(found[1]))  # type: ignore[arg-type]
    assert figures.saved / count >= 0.94
    assert index.take_figures(10) == {}


def test_a_function_sees_what_any_query_needs_once_and_no_row_of_other_sensors() -> None:
    sensors = [row % 3 for row in range(600)]
    rows = Rows({"f": [True] * 600}, [row % 5 for row in range(600)], sensors)
    f, first = CALLS["f"], Call("eq", (SENSOR, Literal(1, INT)), BOOLEAN)
    index = PredicateIndex(
        [(1, first, all_of(f, above(2))), (2, None, all_of(f, above(3))), (3, first, Call("not", (f,), BOOLEAN))],
        rows.functions,
    )
    list(index.match(rows.columns, rows.vids, rows.versions))
    needed = {row for row in range(600) if sensors[row] == 1 or row % 5 == 4}
    assert set(rows.seen) == {("f", row) for row in needed} and set(rows.seen.values()) == {1}


def test_queries_of_single_sensors_with_and_without_functions_stand_side_by_side() -> None:
    sensors, count = 200, 12_800
    vids = np.random.default_rng(3).integers(0, sensors, count).tolist()
    rows = Rows({"f": [row % 3 == 0 for row in range(count)]}, [row % 4 for row in range(count)], vids)
    rows.versions = pa.table({"sensor": pa.array(range(sensors), pa.int32())})
    queries: list[tuple[int, Expr | None, Expr | None]] = []
    for sensor in range(sensors):
        static = Call("eq", (SENSOR, Literal(sensor, INT)), BOOLEAN)
        conditions = [
            above(1),
            all_of(CALLS["f"], above(2)),
            None,
            all_of(above(0), Call("or", (LIKE, CALLS["f"]), BOOLEAN)),
        ]
        queries += [(sensor * 4 + place, static, condition) for place, condition in enumerate(conditions)]
    found = rows.answers(queries)
    own: dict[int, list[int]] = {sensor: [] for sensor in range(sensors)}
    for row, sensor in enumerate(vids):
        own[sensor].append(row)
    for sensor in range(sensors):
        assert found[sensor * 4] == [row for row in own[sensor] if row % 4 > 1]
        assert found[sensor * 4 + 1] == [row for row in own[sensor] if row % 4 > 2 and row % 3 == 0]
        assert found[sensor * 4 + 2] == own[sensor]
        assert found[sensor * 4 + 3] == [row for row in own[sensor] if row % 4 > 0 and (row % 2 == 0 or row % 3 == 0)]


def test_comparisons_of_one_call_are_told_apart_however_many_they_are() -> None:
    def tenth(numbers: pa.Array, rows: int) -> pa.Array:
        return pa.array([None if n % 7 == 0 else n // 10 for n in numbers.to_pylist()], pa.int64())

    value = UserCall("tenth", (ROW,), BIGINT)
    for many in (3, 100):
        rows = Rows({}, [row % 4 for row in range(1_000)])
        rows.functions["tenth"] = tenth
        asked = {n: all_of(Call("ge", (value, Literal(n, BIGINT)), BOOLEAN), above(n % 4)) for n in range(many)}
        found = rows.answers((n, None, condition) for n, condition in asked.items())
        for n in range(many):
            assert found[n] == [r for r in range(1_000) if r % 7 and r // 10 >= n and r % 4 > n % 4]


def test_built_in_functions_that_cost_much_wait_for_the_others() -> None:
    rows = Rows({}, [1 if row % 50 == 0 else 0 for row in range(5_000)])
    index = PredicateIndex([(1, None, all_of(LIKE, above(0)))])
    (found,) = index.match(rows.columns, rows.vids, rows.versions)
    assert list(found[1]) == list(range(0, 5_000, 50))  # type: ignore[call-overload]
    ((expr, figures),) = index.take_figures(10).items()
    assert expr == LIKE and (figures.calls, figures.saved) == (100, 4_900)


def test_queries_that_come_and_go_take_their_functions_with_them() -> None:
    rows = Rows({name: [True, False, None, RAISES] for name in FUNCTIONS}, [0, 1, 2, 3])
    index = PredicateIndex((), rows.functions)
    drawn = random.Random(7)
    for step in range(60):
        condition = all_of(
            CALLS[drawn.choice(FUNCTIONS)], Call("or", (CALLS[drawn.choice(FUNCTIONS)], above(1)), BOOLEAN)
        )
        index.add(step % 7, None, condition)
        if drawn.random() < 0.3:
            index.remove(step % 7)
        list(index.match(rows.columns, rows.vids, rows.versions))
    for number in range(7):
        if number in index._answer_of:
            index.remove(number)
    rows.seen.clear()
    assert list(index.match(rows.columns, rows.vids, rows.versions)) == [] and not rows.seen
    assert index._selections.factors.lazy_of == {} and index._selections.factors.lazy_in_order() == []


def test_a_new_sensor_may_be_looked_at_by_queries_without_a_costly_condition_alone() -> None:
    rows = Rows({}, [1, 1, 1], [0, 1, 2])
    versions = rows.versions.append_column("place", pa.array(["north", "south", "west"]))
    like = Call("like", (Column("place", TEXT, True), Literal("n%", TEXT)), BOOLEAN)
    index = PredicateIndex([(2, Call("eq", (SENSOR, Literal(2, INT)), BOOLEAN), None)])
    first = {name: column[:2] for name, column in rows.columns.items()}
    assert list(index.match(first, rows.vids[:2], versions[:2])) == []
    index.add(1, like, None)
    found = {q: list(at) for q, at in index.match(rows.columns, rows.vids, versions)}  # type: ignore[call-overload]
    assert found == {1: [0], 2: [2]}


def learned(order: LearnedOrder, some: list[LazyFactor], costs: dict[str, tuple[float, float]]) -> list[str]:
    """The order of the next block, after a block in which each was measured."""
    for factor in some:
        ns, share = costs[str(factor.expr)[0]]
        factor.note(4_096, 4_096, int(4_096 * share), 4_096 * ns * 1e-9)
    return [str(factor.expr)[0] for factor in order(some)]


def test_the_order_is_learned_from_cost_and_from_what_is_kept_and_follows_both() -> None:
    some, order = [LazyFactor(CALLS[name], slot=n) for n, name in enumerate("fgh")], LearnedOrder()
    costs = {"f": (10_000.0, 0.9), "g": (5_000.0, 0.5), "h": (500.0, 0.1)}
    for _ in range(10):
        found = learned(order, some, costs)
    assert found == ["h", "g", "f"] and sum(factor.figures.switches for factor in some) == 3
    costs["h"] = (500.0, 1.0)  # it keeps all
    for _ in range(20):
        found = learned(order, some, costs)
    assert found[0] == "g" and found[-1] == "h"


def test_now_and_then_neighbours_change_places_for_a_block() -> None:
    some, order = [LazyFactor(CALLS[name], slot=n) for n, name in enumerate("fgh")], LearnedOrder()
    costs = {"f": (100.0, 0.1), "g": (1_000.0, 0.1), "h": (10_000.0, 0.1)}
    seen = Counter("".join(learned(order, some, costs)) for _ in range(256))
    assert seen == {"fgh": 252, "gfh": 2, "fhg": 2}
