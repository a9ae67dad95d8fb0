"""Functions that raise in conditions of window joins: an error counts only for a combination that nothing else rules out."""

from __future__ import annotations

from itertools import permutations, product

import pytest

from penstock.clock import SECOND
from penstock.errors import PenstockError
from tests.support.pipe import BEGAN_US, Pipe

# Each raises where its numbers are equal.
FUNCTIONS = {
    "near": "1 / (a - b) > -2",
    "far": "2 / (a - b) < 2",
}
HINTS = ["", "/*+ JOIN(nested_loop) */"]
NUMBERS = {"t": [1, 2, 3], "u": [2, 3, 5], "v": [1, 3]}


@pytest.fixture
def pipe(pipe: Pipe) -> Pipe:
    for table, numbers in NUMBERS.items():
        pipe.db.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, r STREAM (n INT)) WITH (time = 'valid')")
        pipe.db.execute(f"INSERT INTO {table} VALUES {', '.join(f'({i}, NULL)' for i, _ in enumerate(numbers))}")
    for name, body in FUNCTIONS.items():
        pipe.db.execute(f"CREATE FUNCTION {name}(a INT, b INT) RETURNS BOOLEAN LANGUAGE python AS $$ {body} $$")
    return pipe


def push(pipe: Pipe) -> None:
    for table, numbers in NUMBERS.items():
        rows = [{"id": i, "n": n, "ts": BEGAN_US + SECOND} for i, n in enumerate(numbers)]
        assert pipe.db.push(table, rows).accepted == len(rows)
    pipe.engine.drain()


def possible(name: str, a: int, b: int) -> set[bool]:
    try:
        return {bool(eval(FUNCTIONS[name], {"a": a, "b": b}))}
    except ZeroDivisionError:
        return {True, False}


@pytest.mark.parametrize("hint", HINTS)
@pytest.mark.parametrize("guard", ["", "a.n <> b.n", "a.n < b.n", "a.n + b.n > 4"])
def test_two_streams_with_conditions_in_any_order(pipe: Pipe, hint: str, guard: str) -> None:
    conditions = ["near(a.n, b.n)", "far(a.n, b.n)", *([guard] if guard else [])]
    for number, order in enumerate(permutations(conditions)):
        asked = f"SELECT {hint} a.n AS a, b.n AS b FROM t a, u b WINDOW = 1 SECOND WHERE {' AND '.join(order)}"
        pipe.db.execute(f"CREATE QUERY q{number} AS {asked}")
    pipe.engine.drain()
    push(pipe)
    expected: list[tuple[int, int]] | None = []
    for a, b in product(NUMBERS["t"], NUMBERS["u"]):
        said = [possible("near", a, b), possible("far", a, b)]
        said += [{eval(guard.replace("<>", "!="), {"a": Row(a), "b": Row(b)})}] if guard else []
        if all(values == {True} for values in said) and expected is not None:
            expected.append((a, b))
        elif all(True in values for values in said):
            expected = None
    assert (expected is None) == (guard in ("", "a.n + b.n > 4"))
    for number, _ in enumerate(permutations(conditions)):
        if expected is None:
            with pytest.raises(PenstockError, match="ZeroDivisionError"):
                pipe.db.standing.invoke(f"q{number}")
        else:
            found = pipe.db.standing.invoke(f"q{number}").table
            assert sorted(zip(*(c.to_pylist() for c in found.columns), strict=True)) == expected


class Row:
    def __init__(self, n: int) -> None:
        self.n = n


@pytest.mark.parametrize("hint", HINTS)
def test_a_pair_that_raises_is_forgiven_where_no_third_reading_completes_it(pipe: Pipe, hint: str) -> None:
    asked = f"SELECT {hint} a.n AS a, b.n AS b, c.n AS c FROM t a, u b, v c WINDOW = 1 SECOND WHERE near(a.n, b.n) AND"
    pipe.db.execute(f"CREATE QUERY forgiven AS {asked} c.n <> b.n AND a.n < b.n + c.n - 3")
    pipe.db.execute(f"CREATE QUERY failing AS {asked} c.n <= b.n")
    pipe.engine.drain()
    push(pipe)
    found = pipe.db.standing.invoke("forgiven").table
    expected = [
        (a, b, c)
        for a, b, c in product(NUMBERS["t"], NUMBERS["u"], NUMBERS["v"])
        if c != b and a < b + c - 3 and possible("near", a, b) == {True}
    ]
    assert sorted(zip(*(x.to_pylist() for x in found.columns), strict=True)) == expected and expected
    with pytest.raises(PenstockError, match="ZeroDivisionError"):
        pipe.db.standing.invoke("failing")
