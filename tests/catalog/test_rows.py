"""Versions of static rows: values of every type, look-ups by every kind of key, readers beside a writer."""

from __future__ import annotations

import threading
import time
import tracemalloc
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.catalog.definition_json import arrow_array, journal_form
from penstock.catalog.model import StreamColumn, Table
from penstock.catalog.rows import ALIVE, StaticRows
from penstock.types import DOUBLE, INT, TEXT, Field, parse_type
from tests.support.counted_calls import calls_of


def make_rows(*columns: tuple[str, str], key: tuple[str, ...] = ("k",)) -> StaticRows:
    fields = tuple(Field(name, parse_type(type_)) for name, type_ in columns)
    return StaticRows(Table(1, "t", fields, key, StreamColumn("reading", (Field("ppm", DOUBLE),))))


def of_keys(type_: str, *keys: Any) -> StaticRows:
    rows = make_rows(("k", type_))
    form = journal_form(parse_type(type_))
    rows.insert([(form(k), None) for k in keys], 1)
    return rows


# -- versions


def test_each_version_has_its_birth_and_its_death() -> None:
    rows = make_rows(("k", "INT"), ("where", "TEXT"))
    assert list(rows.insert([(1, "gate", "a/1"), (2, "pier", None)], 4)) == [0, 1]
    assert list(rows.update([(0, (1, "roof", "a/1"))], 5)) == [2]
    rows.delete([1], 6)
    assert rows.versions().to_pylist() == [
        {"k": 1, "where": "gate", "_sid": 0, "_address": "a/1", "_born": 4, "_died": 5},
        {"k": 2, "where": "pier", "_sid": 1, "_address": None, "_born": 4, "_died": 6},
        {"k": 1, "where": "roof", "_sid": 0, "_address": "a/1", "_born": 5, "_died": ALIVE},
    ]
    assert rows.current().select(["k", "where", "_vid"]).to_pylist() == [{"k": 1, "where": "roof", "_vid": 2}]
    assert (rows.count, rows.sid_count, rows.sids.tolist(), rows.live_sids()) == (3, 2, [0, 1, 0], [0])
    assert (rows.vid_of((1,)), rows.vid_of((2,)), rows.vid_of(("one",))) == (2, None, None)


def test_a_sid_is_never_given_twice() -> None:
    rows = make_rows(("k", "INT"))
    rows.insert([(1, None)], 1)
    rows.delete([0], 2)
    rows.insert([(1, None)], 3)
    assert (rows.sids.tolist(), rows.live_sids()) == ([0, 1], [1])


def test_two_rows_may_trade_their_keys_in_one_update() -> None:
    rows = make_rows(("k", "INT"))
    rows.insert([(1, None), (2, None)], 1)
    rows.update([(0, (2, None)), (1, (1, None))], 2)
    assert rows.find([pa.array([1, 2])]).tolist() == [3, 2]


def test_an_added_column_reads_null_from_older_versions_and_leaves_the_address_alone() -> None:
    rows = make_rows(("k", "INT"))
    rows.insert([(1, "a/1")], 1)
    before = rows.versions()
    columns = (Field("k", INT), Field("where", TEXT))
    rows.retable(Table(1, "t", columns, ("k",), StreamColumn("reading", (Field("ppm", DOUBLE),))))
    rows.insert([(2, "pier", "a/2")], 3)
    shown = rows.versions().select(["k", "where", "_address"])
    assert shown.to_pylist() == [
        {"k": 1, "where": None, "_address": "a/1"},
        {"k": 2, "where": "pier", "_address": "a/2"},
    ]
    assert before.column_names == ["k", "_sid", "_address", "_born", "_died"]


def test_a_table_without_rows_shows_its_columns() -> None:
    rows = make_rows(("k", "INT"), ("tags", "ARRAY<TEXT>"))
    assert rows.versions().schema.field("tags").type == pa.list_(pa.string())
    assert (rows.versions().num_rows, rows.current().num_rows) == (0, 0)
    assert rows.find([pa.array([1, None])]).tolist() == [-1, -1]


TYPED = [
    ("INT", [1, -(2**31)], [1, -(2**31)]),
    ("BIGINT", [2**63 - 1], [2**63 - 1]),
    ("DOUBLE", [1, float("inf"), float("-inf")], [1.0, float("inf"), float("-inf")]),
    ("BOOLEAN", [True, False], [True, False]),
    ("TEXT", ["", "x\0y"], ["", "x\0y"]),
    (
        "TIMESTAMP",
        [1_000_001, datetime(2026, 1, 1)],
        [datetime(1970, 1, 1, 0, 0, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)],
    ),
    ("DECIMAL(6, 2)", ["1.5", Decimal("2"), 0.1, "-0"], [Decimal(x) for x in ("1.50", "2.00", "0.10", "0.00")]),
    ("BINARY", [b"\x00\xff", "AB01"], [b"\x00\xff", b"\xab\x01"]),
    ("ARRAY<DECIMAL(6, 2)>", [["1.5", None], []], [[Decimal("1.50"), None], []]),
    ("ARRAY<BINARY>", [[b"\x01"]], [[b"\x01"]]),
    (
        "STRUCT<a: TIMESTAMP, b: STRUCT<c: DOUBLE, d: BINARY>>",
        [{"a": 0, "b": {"c": float("inf"), "d": b"\x01"}}, {"b": None}],
        [
            {"a": datetime(1970, 1, 1, tzinfo=UTC), "b": {"c": float("inf"), "d": b"\x01"}},
            {"a": None, "b": None},
        ],
    ),
]


@pytest.mark.parametrize(("spelled", "given", "expected"), TYPED, ids=[t[0] for t in TYPED])
def test_values_of_every_type_come_through_the_journal(spelled: str, given: list[Any], expected: list[Any]) -> None:
    type_ = parse_type(spelled)
    form = journal_form(type_)
    plain = [form(v) for v in [*given, None]]
    assert orjson.loads(orjson.dumps(plain)) == plain
    assert [form(v) for v in plain] == plain
    found = arrow_array(plain, type_)
    assert found.type == type_.to_arrow()
    assert found.to_pylist() == [*expected, None]


@pytest.mark.parametrize(
    ("spelled", "wrong"),
    [
        ("INT", 2**31),
        ("INT", True),
        ("INT", "1"),
        ("INT", 1.5),
        ("INT", float("inf")),
        ("BIGINT", 2**63),
        ("DOUBLE", "warm"),
        ("BOOLEAN", 1),
        ("TEXT", 1),
        ("TIMESTAMP", "today"),
        ("DECIMAL(4, 2)", "100"),
        ("DECIMAL(4, 2)", "NaN"),
        ("DECIMAL(4, 2)", "much"),
        ("BINARY", "xyz"),
        ("ARRAY<INT>", "1"),
        ("ARRAY<INT>", ["1"]),
        ("STRUCT<a: INT>", {"b": 1}),
        ("STRUCT<a: INT>", [1, 2]),
    ],
)
def test_values_of_another_type_are_refused(spelled: str, wrong: Any) -> None:
    with pytest.raises(ValueError):
        journal_form(parse_type(spelled))(wrong)


# -- finding


@pytest.mark.parametrize(
    ("type_", "known", "wanted", "found"),
    [
        ("INT", [5, 7], pa.array([7, None, 5, 9], pa.int32()), [1, -1, 0, -1]),
        ("INT", [5, -1], pa.array([5, 2**40, -1, 2**32 + 5, -(2**63), None]), [0, -1, 1, -1, -1, -1]),
        ("INT", [5], pa.array([5, 2**63 + 5], pa.uint64()), [0, -1]),
        ("INT", [5], pa.array([5.0, 5.5, 1e30, None]), [0, -1, -1, -1]),
        ("INT", [5], pa.array(["5", "five", None]), [0, -1, -1]),
        ("BIGINT", [2**53 + 1], pa.array([2**53, 2**53 + 1]), [-1, 0]),
        ("BIGINT", [5], pa.array([5], pa.int16()), [0]),
        ("DOUBLE", [0.0, 1.5, "NaN"], pa.array([-0.0, 1.5, float("nan"), 2.0]), [0, 1, 2, -1]),
        ("DOUBLE", [-0.0, "Infinity"], pa.array([0.0, float("inf"), None]), [0, 1, -1]),
        ("DOUBLE", [2.0], pa.array([2, 3]), [0, -1]),
        ("TEXT", ["a", ""], pa.array(["", None, "a", "b"]), [1, -1, 0, -1]),
        ("TEXT", ["a", "b"], pa.array(["b", "a", None, "c", "b"]).dictionary_encode(), [1, 0, -1, -1, 1]),
        ("TEXT", ["a", "b"], pa.chunked_array([["b"], [], ["a", None]]), [1, 0, -1]),
        ("TEXT", ["a"], pa.chunked_array([pa.array(["a", "x"]).dictionary_encode()] * 2), [0, -1, 0, -1]),
        ("TEXT", ["a"], pa.array(["a", "b"], pa.large_string()), [0, -1]),
        ("TEXT", ["a"], pa.nulls(2), [-1, -1]),
        ("BOOLEAN", [True], pa.array([True, False, None]), [0, -1, -1]),
        ("TIMESTAMP", [1_000], pa.array([1, 2], pa.timestamp("ms", "UTC")), [0, -1]),
        ("TIMESTAMP", [1_000], pa.array([1_000_000, 1_000_001], pa.timestamp("ns", "UTC")), [0, -1]),
        ("DECIMAL(6, 2)", ["1.5"], pa.array([Decimal("1.500"), Decimal("1.501")]), [0, -1]),
        ("BINARY", [b"\x01"], pa.array([b"\x01", b"", None]), [0, -1, -1]),
        ("TEXT", ["a"], pa.array([], pa.string()), []),
    ],
)
def test_a_key_is_found_in_whatever_array_it_comes(type_: str, known: list[Any], wanted: Any, found: list[int]) -> None:
    answer = of_keys(type_, *known).find([wanted])
    assert (answer.tolist(), answer.dtype) == (found, np.int32)


def test_keys_of_several_columns_do_not_run_into_one_another() -> None:
    rows = make_rows(("a", "TEXT"), ("b", "TEXT"), key=("a", "b"))
    rows.insert([("a\x1f", "b", None), ("a", "\x1fb", None), ("", "x", None), ("x", "", None)], 1)
    wanted = [pa.array(["a", "a\x1f", "x", "", "a\x1f", None]), pa.array(["\x1fb", "b", "", "x", "\x1fb", "b"])]
    assert rows.find(wanted).tolist() == [1, 0, 3, 2, -1, -1]


def test_the_order_of_key_columns_is_the_keys_not_the_tables() -> None:
    rows = make_rows(("a", "INT"), ("b", "TEXT"), key=("b", "a"))
    rows.insert([(1, "x", None)], 1)
    assert rows.find([pa.array(["x"]), pa.array([1])]).tolist() == [0]
    assert rows.vid_of(("x", 1)) == 0


PARTS = {
    "INT": st.integers(-3, 3),
    "TEXT": st.sampled_from(["", "a", "\x1f", "a\x1f"]),
    "DOUBLE": st.sampled_from([0.0, -0.0, 1.5]),
}


@given(st.data())
def test_finding_equals_looking_up_one_by_one(data: st.DataObject) -> None:
    types = data.draw(st.lists(st.sampled_from(sorted(PARTS)), min_size=1, max_size=5))
    keys = st.tuples(*(PARTS[t] for t in types))
    known = data.draw(st.lists(keys, unique=True, max_size=12))
    wanted = data.draw(st.lists(st.tuples(*(PARTS[t] | st.none() for t in types)), max_size=20)) + known
    names = [f"c{i}" for i in range(len(types))]
    rows = make_rows(*zip(names, types, strict=True), key=tuple(names))
    rows.insert([(*k, None) for k in known], 1)
    rows.delete([i for i in range(len(known)) if i % 3 == 0], 2)
    arrays = [pa.array([k[i] for k in wanted], parse_type(t).to_arrow()) for i, t in enumerate(types)]
    expected = [-1 if None in k or (v := rows.vid_of(k)) is None else v for k in wanted]
    assert rows.find(arrays).tolist() == expected


def test_all_readings_of_a_table_without_a_key_are_its_one_sensors() -> None:
    rows = StaticRows(Table(1, "t", (), (), StreamColumn("reading", (Field("ppm", DOUBLE),))))
    assert rows.find([], rows=2).tolist() == [-1, -1]
    rows.insert([(None,)], 1)
    rows.update([(0, ("a/1",))], 2)
    assert rows.find([], rows=3).tolist() == [1, 1, 1]


# -- cost and company


@pytest.mark.parametrize("types", [("INT",), ("TEXT",), ("INT", "TEXT")], ids=" ".join)
def test_a_hundred_thousand_readings_find_a_thousand_sensors_without_a_loop(types: tuple[str, ...]) -> None:
    names = [f"c{i}" for i in range(len(types))]
    rows = make_rows(*zip(names, types, strict=True), key=tuple(names))
    values = [[i if t == "INT" else f"sensor {i}" for t in types] for i in range(1_000)]
    rows.insert([(*v, None) for v in values], 1)
    drawn = np.random.default_rng(1).integers(0, 1_000, 100_000)
    wanted = [pa.array([v[i] for v in values]).take(pa.array(drawn)) for i in range(len(types))]
    assert rows.find(wanted).tolist() == drawn.tolist()
    assert calls_of(lambda: rows.find(wanted)) < 200


def test_one_more_version_costs_one_more_version() -> None:
    rows = make_rows(("k", "INT"), ("where", "TEXT"))
    rows.insert([(i, "somewhere", "a/b") for i in range(100_000)], 1)
    rows.versions()
    fresh = iter(range(100_000, 200_000))

    def one_more() -> None:
        rows.insert([(next(fresh), "somewhere", "a/b")], 2)
        rows.versions()

    one_more()
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    for _ in range(60):
        one_more()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # A copy of all versions would take megabytes.
    assert peak + pa.total_allocated_bytes() - before < 100_000
    assert calls_of(one_more) < 500
    assert rows.versions().column("k").num_chunks < 20


def test_readers_see_whole_changes_while_a_writer_works() -> None:
    rows = make_rows(("k", "INT"), ("pair", "INT"))
    rows.insert([(i, 0, None) for i in range(20)], 1)
    problems: list[Any] = []
    done = threading.Event()

    def watch() -> None:
        wanted = [pa.array(range(20))]
        while not done.is_set():
            live = rows.current()
            if live.num_rows != 20 or len(set(live.column("pair").to_pylist())) != 1:
                problems.append(live.to_pylist())
            if (rows.find(wanted) < 0).any() or any(rows.vid_of((k,)) is None for k in range(20)):
                problems.append("a live sensor was not found")
            versions = rows.versions()
            if versions.num_rows % 20 or len(rows.sids) < versions.num_rows:
                problems.append(versions.num_rows)

    watchers = [threading.Thread(target=watch) for _ in range(3)]
    for watcher in watchers:
        watcher.start()
    until = time.monotonic() + 1
    for position in range(2, 100_000):
        rows.update([(i, (i, position, None)) for i in range(20)], position)
        if time.monotonic() > until:
            break
    done.set()
    for watcher in watchers:
        watcher.join()
    assert problems == []
