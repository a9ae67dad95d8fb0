"""The predicate index against brute force, with queries that come and go and versions that grow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from penstock.errors import PenstockError, error
from penstock.expr import factors, predicate_index
from penstock.expr.evaluate import evaluate_mask, evaluate_static
from penstock.expr.expression import Call, Column, Expr, Literal, UserCall
from penstock.expr.predicate_index import PredicateIndex
from penstock.types import BIGINT, BOOLEAN, DOUBLE, INT, TEXT, Type
from tests.expr.reference import unpack
from tests.support.examples import examples

STREAM = {"x": DOUBLE, "k": INT, "name": TEXT}
STATIC = {"sensor_id": INT, "place": TEXT}
VALUES: dict[Type, list[Any]] = {
    DOUBLE: [0.0, -0.0, 1.5, 2.5, float("inf"), float("nan"), None],
    INT: [0, 1, 2, 3, -(2**31), 2**31 - 1, None],
    TEXT: ["north", "south", "", None],
}


@st.composite
def factor(draw: st.DrawFn, columns: dict[str, Type], static: bool) -> Expr:
    name = draw(st.sampled_from(sorted(columns)))
    type_ = columns[name]
    column = Column(name, type_, static)
    literal = st.sampled_from(VALUES[type_]).map(lambda v: Literal(v, type_))
    kind = draw(st.sampled_from(["compare", "flipped", "in", "and", "or", "not", "null", "between"]))
    if kind in ("compare", "flipped"):
        operation = draw(st.sampled_from(["eq", "ne", "lt", "le", "gt", "ge", "same"]))
        sides = (column, draw(literal)) if kind == "compare" else (draw(literal), column)
        return Call(operation, sides, BOOLEAN)
    if kind == "in":
        return Call("in", (column, *draw(st.lists(literal, min_size=1, max_size=3))), BOOLEAN)
    if kind == "between":
        ends = (Call(operation, (column, draw(literal)), BOOLEAN) for operation in ("ge", "le"))
        return Call("and", tuple(ends), BOOLEAN)
    if kind in ("and", "or"):
        return Call(kind, tuple(draw(st.lists(factor(columns, static), min_size=1, max_size=3))), BOOLEAN)
    if kind == "not":
        return Call("not", (draw(factor(columns, static)),), BOOLEAN)
    return Call("is_null", (column,), BOOLEAN)


def predicate(columns: dict[str, Type], static: bool) -> st.SearchStrategy[Expr | None]:
    some = st.lists(factor(columns, static), min_size=1, max_size=3)
    return st.none() | some.map(lambda f: f[0] if len(f) == 1 else Call("and", tuple(f), BOOLEAN))


MIXED = Call("gt", (Column("k", INT), Column("sensor_id", INT, True)), BOOLEAN)


@pytest.mark.parametrize(("share_from", "block_words", "bytes_at_once"), [(1, 1, 64 << 20), (1000, 2, 64), (2, 8, 64)])
def test_answers_equal_brute_force_while_queries_come_and_go(
    share_from: int, block_words: int, bytes_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(factors, "SHARE_FROM", share_from)
    monkeypatch.setattr(factors, "_BLOCK_WORDS_MIN", block_words)
    monkeypatch.setattr(factors, "_BLOCK_WORDS_MAX", block_words)
    monkeypatch.setattr(factors, "_PARTS_MAX", 2)
    monkeypatch.setattr(predicate_index, "_VECTORS_MAX_BYTES", bytes_at_once)

    @settings(max_examples=examples(40), deadline=None)
    @given(st.data())
    def churn(data: st.DataObject) -> None:
        index = PredicateIndex()
        queries: dict[int, tuple[Expr | None, Expr | None]] = {}
        versions = data.draw(st.integers(1, 70))
        for _ in range(data.draw(st.integers(1, 4))):
            for query_id in data.draw(st.lists(st.integers(0, 6), max_size=4)):
                if query_id in queries and data.draw(st.booleans()):
                    index.remove(query_id)
                    del queries[query_id]
                else:
                    stream = data.draw(predicate(STREAM, False) | st.just(MIXED))
                    queries[query_id] = (data.draw(predicate(STATIC, True)), stream)
                    index.add(query_id, *queries[query_id])
            check(index, queries, batch(data.draw(st.integers(0, 2**32)), data.draw(st.integers(0, 130)), versions))
            versions += data.draw(st.integers(0, 70))

    churn()


Batch = tuple[dict[str, pa.Array], "np.ndarray[Any, np.dtype[np.int32]]", pa.Table]


def batch(seed: int, rows: int, versions: int) -> Batch:
    """Static columns depend on the vid alone, so that a longer version table extends a shorter one."""
    random = np.random.default_rng(seed)

    def pick(type_: Type, indices: Any) -> pa.Array:
        return pa.array([VALUES[type_][i % len(VALUES[type_])] for i in indices], type_.to_arrow())

    columns = {name: pick(type_, random.integers(0, 100, rows)) for name, type_ in STREAM.items()}
    static = {name: pick(type_, range(versions)) for name, type_ in STATIC.items()}
    return columns, random.integers(0, versions, rows).astype(np.int32), pa.table(static)


def check(index: PredicateIndex, queries: dict[int, tuple[Expr | None, Expr | None]], data: Batch) -> None:
    columns, vids, versions = data
    found = dict(index.match(columns, vids, versions))
    matrix = index.match_matrix(columns, vids, versions)
    rare = index.match_matrix(columns, vids, versions, rare=True)
    gathered = columns | {name: versions[name].take(pa.array(vids)).combine_chunks() for name in STATIC}
    for query_id, (static, stream) in queries.items():
        mask = evaluate_mask(stream, gathered, len(vids)) & evaluate_static(static, versions)[vids]
        expected = np.flatnonzero(mask).tolist()
        assert list(found.pop(query_id, [])) == expected, (str(static), str(stream))
        assert matrix.numbers.tolist() == sorted(queries)
        row = matrix.row_of[matrix.numbers.searchsorted(query_id)]
        assert np.flatnonzero(unpack(matrix.words[row], len(vids))).tolist() == expected
        assert matrix.counts[row] == np.bitwise_count(matrix.words[row]).sum() == len(expected)
        assert rare.numbers.tolist() == sorted(queries)
        row = rare.row_of[rare.numbers.searchsorted(query_id)]
        assert rare.rows(np.array([row])).tolist() == expected and rare.counts[row] == len(expected)
        assert np.flatnonzero(unpack(rare.bits(np.array([row]))[0], len(vids))).tolist() == expected
    assert not found, "answers of queries that are not there"


def test_a_batch_of_many_containers_is_answered_as_one() -> None:
    rows = 3 * 65_536 + 17
    random = np.random.default_rng(5)
    values, vids = random.integers(0, 1000, rows), random.integers(0, 300, rows).astype(np.int32)
    versions = pa.table({"sensor_id": pa.array(range(300), pa.int32())})
    above = Call("ge", (Column("v", BIGINT), Literal(990, BIGINT)), BOOLEAN)
    below = Call("lt", (Column("v", BIGINT), Literal(2000, BIGINT)), BOOLEAN)
    few = Call("in", (Column("sensor_id", INT, True), Literal(7, INT), Literal(9, INT)), BOOLEAN)
    index = PredicateIndex([(1, None, above), (2, few, above), (3, None, below), (4, few, None), (5, None, None)])
    found = {query_id: np.array(list(rows)) for query_id, rows in index.match({"v": pa.array(values)}, vids, versions)}
    matrix = index.match_matrix({"v": pa.array(values)}, vids, versions)
    for query_id, row in zip(matrix.numbers.tolist(), matrix.row_of.tolist(), strict=True):
        assert np.array_equal(np.flatnonzero(unpack(matrix.words[row], rows)), found[query_id])
    chosen = (vids == 7) | (vids == 9)
    assert np.array_equal(found[1], np.flatnonzero(values >= 990))
    assert np.array_equal(found[2], np.flatnonzero((values >= 990) & chosen))
    assert np.array_equal(found[4], np.flatnonzero(chosen))
    assert len(found[3]) == len(found[5]) == rows


def test_answers_of_few_sensors_are_listed_and_equal_those_in_bits() -> None:
    random = np.random.default_rng(8)
    rows, sensors = 70_001, 500
    often = np.where(random.random(rows) < 0.1, 7, random.integers(0, sensors, rows))  # one sensor sends a tenth
    values, vids = random.integers(0, 256, rows).astype(np.int32), often.astype(np.int32)
    versions = pa.table({"sensor_id": pa.array(range(sensors), pa.int32())})
    sid, v = Column("sensor_id", INT, True), Column("v", INT)

    def above(number: int) -> Call:
        return Call("ge", (v, Literal(number, INT)), BOOLEAN)

    def of(*chosen: int) -> Call:
        return Call("in", (sid, *(Literal(n, INT) for n in chosen)), BOOLEAN)

    drawn = [(n, of(int(random.integers(sensors))), above(int(random.integers(256)))) for n in range(2, 2000, 2)]
    other = [(1, of(*range(100)), above(5)), (3, None, above(9)), (5, of(7), None), (7, of(3, 4, 5), None)]
    index = PredicateIndex([*drawn, *other])
    bits = index.match_matrix({"v": pa.array(values)}, vids, versions)
    rare = index.match_matrix({"v": pa.array(values)}, vids, versions, rare=True)
    assert bits.numbers.tolist() == rare.numbers.tolist() and len(bits.lists) == 0
    assert len(rare.words) < 20 and len(rare.lists) == len(bits.words) - len(rare.words)
    assert rare.counts[rare.row_of].tolist() == bits.counts[bits.row_of].tolist()
    found, expected = rare.rows(rare.row_of.astype(np.int64)), bits.rows(bits.row_of.astype(np.int64))
    assert np.array_equal(found, expected)
    chosen = np.array([5, 200, 3], np.int64)
    assert np.array_equal(rare.bits(rare.row_of[chosen]), bits.words[bits.row_of[chosen]])


def test_constants_that_lie_unevenly_or_at_the_extremes_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(factors, "SHARE_FROM", 1)
    edges = [-(2**63), -(2**53) - 1, -1, 0, 1, 2**53, 2**53 + 1, 2**63 - 2, 2**63 - 1]
    values = np.array(edges * 3, np.int64)
    column = Column("v", BIGINT)
    operations = {"lt": np.less, "ge": np.greater_equal, "eq": np.equal}
    queries = [(i * 10 + j, edge, op) for i, edge in enumerate(edges) for j, op in enumerate(operations)]
    index = PredicateIndex([(q, None, Call(op, (column, Literal(edge, BIGINT)), BOOLEAN)) for q, edge, op in queries])
    found = dict(index.match({"v": pa.array(values)}, np.zeros(len(values), np.int32), pa.table({"s": [1]})))
    for query_id, edge, op in queries:
        assert list(found.get(query_id, [])) == np.flatnonzero(operations[op](values, np.int64(edge))).tolist()


def test_equal_factors_are_kept_once_and_forgotten_with_their_last_query() -> None:
    hot = Call("gt", (Column("x", DOUBLE), Literal(35.0, DOUBLE)), BOOLEAN)
    low = Call("lt", (Column("k", INT), Literal(3, INT)), BOOLEAN)
    index = PredicateIndex([(q, None, Call("and", (hot, low), BOOLEAN)) for q in range(100)])
    assert len(index) == 100 and len(index._selections.factors) == 2
    for query_id in range(100):
        index.remove(query_id)
    assert len(index) == 0 and len(index._selections.factors) == 0


def test_a_user_function_is_called_once_for_all_and_harms_only_who_uses_it() -> None:
    asked: list[str] = []

    def near(values: pa.Array, rows: int) -> pa.Array:
        asked.append("near")
        return pa.array([None if v is None else abs(v) for v in values.to_pylist()], pa.int64())

    def broken(values: pa.Array, rows: int) -> pa.Array:
        asked.append("broken")
        raise error("function_failed", function="broken", detail="it always does")

    v = Column("v", BIGINT)
    near_v, broken_v = UserCall("near", (v,), BIGINT), UserCall("broken", (v,), BOOLEAN)
    close = Call("lt", (near_v, Literal(2, BIGINT)), BOOLEAN)
    far = Call("gt", (Call("add", (near_v, Literal(1, BIGINT)), BIGINT), Literal(3, BIGINT)), BOOLEAN)
    odd = Call("or", (close, broken_v), BOOLEAN)
    queries = [(1, None, close), (2, None, far), (3, None, broken_v), (4, None, odd), (5, None, None)]
    index = PredicateIndex(queries, {"near": near, "broken": broken})
    batch = {"v": pa.array([0, 5, -1, None])}, np.zeros(4, np.int32), pa.table({"s": [1]})
    found = dict(index.match(*batch))
    assert {q: list(rows) for q, rows in found.items() if isinstance(rows, BitMap)} == {
        1: [0, 2],
        2: [1],
        5: [0, 1, 2, 3],
    }
    assert [isinstance(found[q], PenstockError) for q in (3, 4)] == [True, True]
    # What fails is called again for each of the rows that need it, to see which of them fail.
    assert sorted(asked) == ["broken"] * 5 + ["near"]
    matrix = index.match_matrix(*batch)
    assert matrix.numbers.tolist() == [1, 2, 5] and sorted(matrix.failed) == [3, 4]
    assert matrix.counts[matrix.row_of].tolist() == [2, 1, 4]


def test_queries_of_equal_meaning_share_a_row_of_the_matrix() -> None:
    k, x = Column("k", INT), Column("x", DOUBLE)
    above = Call("gt", (k, Literal(3, INT)), BOOLEAN)
    same = Call("and", (Call("ge", (k, Literal(4, INT)), BOOLEAN), Call("lt", (Literal(3, INT), k), BOOLEAN)), BOOLEAN)
    other = Call("gt", (x, Literal(3.0, DOUBLE)), BOOLEAN)
    index = PredicateIndex([(1, None, above), (2, None, same), (3, None, other), (4, above, None)])
    columns = {"k": pa.array([3, 4], pa.int32()), "x": pa.array([4.0, 3.0])}
    matrix = index.match_matrix(columns, np.zeros(2, np.int32), pa.table({"k": pa.array([9], pa.int32())}))
    assert matrix.row_of[0] == matrix.row_of[1] and len(matrix.words) == 3
    assert matrix.words[matrix.row_of].tolist() == [[2], [2], [1], [3]]


def test_thousands_of_queries_come_and_go_without_the_others_being_looked_at() -> None:
    """Counted in factors that are looked at, not in time: only the constants that changed are."""
    x = Column("x", DOUBLE)

    def above(number: float) -> Call:
        return Call("gt", (x, Literal(number, DOUBLE)), BOOLEAN)

    index = PredicateIndex((n, None, above(float(n))) for n in range(2000))
    columns = {"x": pa.array([500.5, 1999.5])}
    batch = columns, np.zeros(2, np.int32), pa.table({"s": [1]})
    assert index.match_matrix(*batch).counts.sum() == 501 + 2000
    attribute = index._selections.factors._attributes[x]
    assert not attribute._changed
    index.remove(7)
    index.add(7, None, above(1000.25))
    assert len(attribute._changed) == 2
    assert index.match_matrix(*batch).counts.sum() == 500 + 2000


def test_many_queries_over_many_blocks_equal_brute_force() -> None:
    """Whole blocks and a broken last one, attributes with and without NULLs, factors that are shared and that are not."""
    random = np.random.default_rng(3)
    rows, names = 70_001, {"a": INT, "b": BIGINT, "x": DOUBLE, "t": TEXT}
    columns = {
        "a": pa.array(random.integers(0, 256, rows).astype(np.int32)),
        "b": pa.array(random.integers(-(10**12), 10**12, rows), mask=random.random(rows) < 0.1),
        "x": pa.array(random.normal(size=rows), mask=random.random(rows) < 0.5),
        "t": pa.array([f"t{n}" for n in random.integers(0, 60, rows)], mask=random.random(rows) < 0.01),
    }

    def constant(name: str) -> Literal:
        value = columns[name][int(random.integers(rows))].as_py()
        return Literal(value, names[name])

    def draw(depth: int) -> Expr:
        if depth and random.random() < 0.6:
            operation = str(random.choice(["and", "or", "not"]))
            parts = 1 if operation == "not" else int(random.integers(1, 5))
            return Call(operation, tuple(draw(depth - 1) for _ in range(parts)), BOOLEAN)
        name = str(random.choice(list(names)))
        column = Column(name, names[name])
        if random.random() < 0.2:
            return Call("in", (column, *(constant(name) for _ in range(4))), BOOLEAN)
        operations = ["eq", "ne"] if name == "t" else ["lt", "le", "gt", "ge", "eq", "ne"]
        return Call(str(random.choice(operations)), (column, constant(name)), BOOLEAN)

    queries = {number: draw(3) for number in range(150)}
    index = PredicateIndex((number, None, expr) for number, expr in queries.items())
    batch = columns, np.zeros(rows, np.int32), pa.table({"s": [1]})
    matrix, bitmaps = index.match_matrix(*batch), dict(index.match(*batch))
    for number, row in zip(matrix.numbers.tolist(), matrix.row_of.tolist(), strict=True):
        expected = evaluate_mask(queries[number], columns, rows)
        assert np.array_equal(unpack(matrix.words[row], rows), expected), str(queries[number])
        assert matrix.counts[row] == expected.sum() == len(bitmaps.get(number, ()))  # type: ignore[arg-type]
        assert np.array_equal(np.asarray(list(bitmaps.get(number, ())), np.int64), np.flatnonzero(expected))  # type: ignore[call-overload]
