"""User aggregates over their life: random histories against plain loops over all rows."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from penstock.answers.subscription import Subscription
from penstock.clock import format_timestamp
from penstock.errors import PenstockError
from penstock.expr.user_aggregates import compile_aggregate
from penstock.sql.definitions import bind_create_function
from penstock.sql.parse import parse_script
from penstock.sql.plan import evaluated_by_spark, plan_from_json
from tests.operators.aggregate.own.bodies import ALL, ENERGY, SECOND, statement
from tests.support.examples import seeds
from tests.support.pipe import BEGAN_US, Pipe

WINDOWS = ("BEGIN (NOW - 10 SECONDS) END (NOW)", "BEGIN (NOW - 3500 MS) END (NOW - 1 SECONDS)")
PLACES = {1: "north", 2: "north", 3: "south"}


def made_in(folder: Path) -> Iterator[Pipe]:
    made = Pipe(folder / "data", cycles_keep=6)
    made.db.execute(
        "CREATE TABLE probes (id INT PRIMARY KEY, place TEXT, r STREAM (value DOUBLE))"
        " WITH (time = 'valid', out_of_order = 'accept', retention = '1 HOUR')"
    )
    made.db.execute("INSERT INTO probes VALUES " + ", ".join(f"({i}, '{p}', NULL)" for i, p in PLACES.items()))
    yield made
    made.db.stop()


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Pipe]:
    yield from made_in(tmp_path)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipe]:
    """For statements that are refused and leave nothing behind: one database, with the aggregate `energy`."""
    for made in made_in(tmp_path_factory.mktemp("shared")):
        made.db.execute(ENERGY)
        yield made


def push(pipe: Pipe, *readings: tuple[int, float | None, int]) -> None:
    """Readings of (sensor, value, microseconds after the beginning)."""
    rows = [{"id": sensor, "value": value, "ts": BEGAN_US + at} for sensor, value, at in readings]
    assert pipe.db.push("probes", rows).accepted == len(rows)


def answer(pipe: Pipe, name: str) -> list[Any]:
    return [_plain(list(row.values())) for row in pipe.db.standing.invoke(name).table.to_pylist()]


def _plain(value: Any) -> Any:
    """NaN as text, so that it equals itself, and times as microseconds."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, datetime):
        return round(value.timestamp() * SECOND)
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


@pytest.mark.parametrize("seed", seeds(3, 30))
def test_random_histories_say_what_all_rows_say(pipe: Pipe, seed: int) -> None:
    chance = random.Random(seed)
    pipe.set_intervals(trim_cycles=3, snapshot_cycles=4)
    queries: dict[str, tuple[str, str]] = {}
    for own_name, own in ALL.items():
        pipe.db.execute(own.sql)
        for place, window in enumerate(WINDOWS):
            for key in ("r.place", ""):
                name = f"{own_name}_{place}_{'by' if key else 'all'}"
                columns, group = (f"{key}, {own.call} AS v", f"GROUP BY {key}") if key else (f"{own.call} AS v", "")
                sql = f"SELECT {columns} FROM probes r {group} {window}"
                pipe.db.execute(f"CREATE QUERY {name} AS {sql}")
                assert not evaluated_by_spark(plan_from_json(pipe.db.definition(name).plan)), name
                queries[name] = own_name, sql
    pipe.engine.drain()
    rows: list[tuple[int, int, float | None]] = []
    at = 0
    for turn in range(12):
        for _ in range(chance.randint(0, 6)):
            at += chance.choice([0, 300_000, 1_700_000])
            ts = max(0, at - chance.choice([0, 0, 0, 2_500_000, 8_000_000]))
            value = chance.choice([None, 1.0, 2.0, -3.0, 250.0, 0.5])
            rows.append((ts, chance.choice(list(PLACES)), value))
            push(pipe, (rows[-1][1], value, ts))
            if chance.random() < 0.3:
                pipe.engine.cycle()
        if turn in (4, 9):
            pipe.restart()
        pipe.engine.drain()
        for name, (own_name, sql) in queries.items():
            expected = brute_force(rows, own_name, name)
            assert answer(pipe, name) == expected, (seed, turn, name)
            if chance.random() < 0.2:
                once = pipe.db.execute(sql)
                assert [_plain(list(row.values())) for row in once.table.to_pylist()] == expected, (seed, turn, sql)


def brute_force(rows: list[tuple[int, int, float | None]], own_name: str, name: str) -> list[Any]:
    now = max((ts for ts, _, _ in rows), default=None)
    low, high = (10 * SECOND, 0) if "_0_" in name else (3_500_000, SECOND)
    inside = [row for row in rows if now is not None and now - low <= row[0] <= now - high]
    value = ALL[own_name].value
    known = [(BEGAN_US + ts, PLACES[sensor], reading) for ts, sensor, reading in inside]
    if name.endswith("_all"):
        return [[_plain(value([(ts, v) for ts, _, v in known if v is not None]))]]
    places = sorted({place for _, place, _ in known})
    return [[p, _plain(value([(ts, v) for ts, at, v in known if at == p and v is not None]))] for p in places]


def test_nan_is_a_value_and_null_is_none(pipe: Pipe) -> None:
    pipe.db.execute(ALL["seen"].sql)
    pipe.db.execute("CREATE QUERY q AS SELECT seen(r.value) AS v FROM probes r BEGIN (NOW - 1 HOUR) END (NOW)")
    push(pipe, (1, 4.0, 0), (1, None, 1), (2, math.nan, 2))
    pipe.engine.drain()
    assert answer(pipe, "q") == [[[4.0, "NaN"]]]


def test_panes_filters_and_having(pipe: Pipe) -> None:
    pipe.db.execute(ENERGY)
    pipe.db.execute(
        "CREATE QUERY q AS SELECT energy(r.value) FILTER (WHERE r.value > 1) AS v, window_start FROM probes r"
        " GROUP BY TUMBLE(2 SECONDS) HAVING energy(r.value) > 3 BEGIN (NOW - 10 SECONDS) END (NOW)"
    )
    push(pipe, (1, 4.0, 0), (1, 1.0, 1_000_000), (2, 2.0, 2_000_000), (2, 5.0, 4_100_000))
    pipe.engine.drain()
    assert [row[0] for row in answer(pipe, "q")] == [4.0, 5.0]


def test_the_order_of_states_and_rows_does_not_matter() -> None:
    (parsed,) = parse_script(ENERGY)
    aggregate = compile_aggregate(bind_create_function(parsed))  # type: ignore[arg-type]
    chance = random.Random(3)
    rows = [(chance.gauss(0, 1e6),) for _ in range(60)]
    states = aggregate.states([rows[i : i + 4] for i in range(0, 40, 4)])
    found = set()
    for _ in range(20):
        chance.shuffle(states)
        rest = rows[40:]
        chance.shuffle(rest)
        (value,) = aggregate.values([states], [rest]).to_pylist()
        found.add(value)
    assert len(found) == 1 and found.pop() == pytest.approx(math.fsum(value for (value,) in rows))


LAST = """
def init(): return {'x': None}
def add(state, x): return {'x': x}
def merge(a, b): return b if b['x'] is not None else a
def finish(state): return state['x']
"""
MEAN_OF_MEANS = """
def init(): return {'x': 0.0}
def add(state, x): return {'x': (state['x'] + x) / 2}
def merge(a, b): return {'x': (a['x'] + b['x']) / 2}
def finish(state): return state['x']
"""
COUNTED_ONCE = """
def init(): return {'x': 0.0}
def add(state, x): return {'x': state['x'] + 1}
def merge(a, b): return {'x': max(a['x'], b['x'])}
def finish(state): return state['x']
"""


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (LAST, "merge(a, b) and merge(b, a)"),
        (MEAN_OF_MEANS, "merge(merge(a, b), c) and merge(a, merge(b, c))"),
        (COUNTED_ONCE, "adding all and merging two parts"),
        (ENERGY.split("$$")[1].replace("if state['n'] else None", "/ state['n']"), "ZeroDivisionError"),
        (LAST.replace("def merge(a, b): return b if b['x'] is not None else a", ""), "does not define merge"),
        (LAST.replace("def add(state, x)", "def add(state)"), "add of aggregate"),
        (LAST.replace("return {'x': x}", "state['x'] = x"), "add and merge return the state"),
        (LAST.replace("{'x': x}", "{'y': x}"), 'no field "x"'),
        (LAST.replace("return state['x']", "return state"), "function"),
        ("import no_such_module\n" + LAST, "no_such_module"),
    ],
)
def test_what_does_not_merge_is_refused_at_creation(shared: Pipe, body: str, said: str) -> None:
    sql = statement("bad", "x DOUBLE", "DOUBLE", "STRUCT<x: DOUBLE>", body)
    if "'n'" in body:
        sql = statement("bad", "x DOUBLE", "DOUBLE", "STRUCT<j: DOUBLE, n: BIGINT>", body)
    with pytest.raises(PenstockError) as refused:
        shared.db.execute(sql)
    assert refused.value.condition == "invalid_definition", refused.value.render()
    assert said in refused.value.message + (refused.value.hint or ""), refused.value.render()
    assert "bad" not in shared.db.catalog.state.functions


def test_a_body_may_refuse_some_arguments(pipe: Pipe) -> None:
    body = """
import math
def init(): return 0.0
def add(state, x): return state + math.log(x)
def merge(a, b): return a + b
def finish(state): return math.exp(state)
"""
    pipe.db.execute(statement("product", "x DOUBLE", "DOUBLE", "DOUBLE", body))
    pipe.db.execute("CREATE QUERY q AS SELECT product(r.value) AS v FROM probes r BEGIN (NOW - 1 HOUR) END (NOW)")
    push(pipe, (1, 4.0, 0), (2, 8.0, 1))
    pipe.engine.drain()
    assert answer(pipe, "q") == [[pytest.approx(32.0)]]
    push(pipe, (1, -4.0, 2))
    pipe.engine.drain()
    with pytest.raises(PenstockError, match='"product" failed'):
        answer(pipe, "q")


@pytest.mark.parametrize(
    ("sql", "condition"),
    [
        ("CREATE AGGREGATE e() RETURNS INT STATE INT LANGUAGE python AS $$ $$", "invalid_definition"),
        ("CREATE AGGREGATE e(x INT) RETURNS INT LANGUAGE python AS $$ $$", "syntax_error"),
        ("CREATE AGGREGATE e(x INT) RETURNS INT STATE INT VECTORISED AS $$ $$", "syntax_error"),
        ("CREATE AGGREGATE avg(x INT) RETURNS INT STATE INT AS $$ $$", "invalid_definition"),
        ("CREATE AGGREGATE e(x INT) RETURNS INT STATE INT AS $$ def init( $$", "syntax_error"),
        ("CREATE AGGREGATE e(x INT) RETURNS INT STATE INT LANGUAGE java AS $$ $$", "not_supported"),
        ("SELECT energy(value, value) FROM probes", "type_mismatch"),
        ("SELECT energy(place) FROM probes", "type_mismatch"),
        ("SELECT id FROM probes WHERE energy(value) > 1", "grouping_error"),
        ("SELECT energy(value) OVER () FROM probes", "not_supported"),
        ("CREATE QUERY q AS SELECT energy(value) FROM probes GROUP BY LATCH", "not_supported"),
        (
            "CREATE QUERY q AS SELECT energy(a.value) FROM probes a, probes b WHERE a.id = b.id WINDOW(a, b) = 1 SECOND",
            "not_supported",
        ),
        (
            "CREATE ROLLUP q ON probes AS SELECT place, energy(value) GROUP BY place EVERY 1 HOUR",
            "not_supported",
        ),
        ("DROP AGGREGATE nothing", "function_not_found"),
    ],
)
def test_errors_point_at_what_is_wrong(shared: Pipe, sql: str, condition: str) -> None:
    with pytest.raises(PenstockError) as refused:
        shared.db.execute(sql)
    assert refused.value.condition == condition, refused.value.render()
    assert refused.value.line is not None or condition in ("invalid_definition", "syntax_error")


def test_subscribers_past_times_and_newest_rows(pipe: Pipe) -> None:
    pipe.db.execute(ENERGY)
    pipe.db.execute("CREATE QUERY q AS SELECT energy(r.value) AS v FROM probes r BEGIN (NOW - 10 SECONDS) END (NOW)")
    pipe.db.execute("CREATE QUERY newest AS SELECT energy(r.value) AS v FROM probes r BEGIN (LAST 2 ROWS)")
    pipe.engine.drain()
    changes = Subscription(pipe.db.standing, "q", None, True)
    assert changes.next(0) is not None
    push(pipe, (1, 4.0, 0), (2, 8.0, SECOND))
    pipe.engine.drain()
    event = changes.next(0)
    assert event is not None and event.table.column("v").to_pylist() == [None, 12.0]
    push(pipe, (2, 16.0, 12 * SECOND))
    pipe.engine.drain()
    assert answer(pipe, "q") == [[16.0]] and answer(pipe, "newest") == [[24.0]]
    past = pipe.db.execute(f"SELECT * FROM q AS OF '{format_timestamp(BEGAN_US + SECOND)}'").table
    assert past.column("v").to_pylist() == [12.0]
    pipe.db.execute("ALTER QUERY q SET BEGIN (NOW - 20 SECONDS)")
    pipe.engine.drain()
    assert answer(pipe, "q") == [[28.0]]


def test_explain_says_where_its_code_runs(pipe: Pipe) -> None:
    pipe.db.execute(ENERGY)
    pipe.db.execute("CREATE QUERY q AS SELECT energy(r.value) AS v FROM probes r BEGIN (NOW - 1 HOUR) END (NOW)")
    push(pipe, (1, 4.0, 0))
    pipe.engine.drain()
    told = pipe.db.execute("EXPLAIN q").table.column(0).to_pylist()
    assert "  functions: energy" in told
    assert "    energy: workers add readings, code workers merge states and finish them when asked" in told


def test_an_aggregate_in_use_is_neither_replaced_nor_dropped(pipe: Pipe) -> None:
    pipe.db.execute(ENERGY)
    pipe.db.execute("CREATE QUERY q AS SELECT energy(r.value) AS v FROM probes r")
    for sql in ("DROP AGGREGATE energy", ENERGY.replace("CREATE", "CREATE OR REPLACE")):
        with pytest.raises(PenstockError) as refused:
            pipe.db.execute(sql)
        assert refused.value.condition == "dependents_exist"
    pipe.db.execute("DROP QUERY q; DROP AGGREGATE energy")
    assert not pipe.db.catalog.state.functions


def test_an_aggregate_is_listed_described_and_survives_a_restart(pipe: Pipe) -> None:
    pipe.db.execute(ENERGY)
    for restarted in (False, True):
        if restarted:
            pipe.restart()
        shown = pipe.db.execute("SHOW AGGREGATES").table.to_pylist()
        assert shown == [
            {"name": "energy", "parameters": "p DOUBLE", "returns": "DOUBLE", "state": "STRUCT<j: DOUBLE, n: BIGINT>"}
        ]
        kinds = pipe.db.execute("DESCRIBE AGGREGATE energy").table.column("kind").to_pylist()
        assert kinds == ["parameter", "result", "state"]
        listed = pipe.db.system_table("penstock.functions").to_pylist()
        assert {row["name"]: row["kind"] for row in listed if not row["built_in"]} == {"energy": "aggregate"}
