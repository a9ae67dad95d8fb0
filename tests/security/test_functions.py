"""Which functions a reader reaches: those on the list and the users' own, wherever a call may stand.

Most tests bind only, so all names that Spark lists are tried in every position.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.database.database import Database
from penstock.errors import CONDITIONS, PenstockError
from penstock.functions.regular_expressions import FUNCTIONS as TEXT_FUNCTIONS
from penstock.functions.regular_expressions import SPARK_PREFIX
from penstock.operators.mining.registry import FUNCTIONS as MINING
from penstock.security.caller import Caller, acting_as
from penstock.sql.functions import FUNCTIONS
from penstock.sql.plan import SparkPlan
from penstock.sql.spark.text_check import check_spark_text
from tests.security.conftest import World as Server
from tests.sql.world import PLANT, World
from tests.support.listed_calls import TABLE, listed_calls
from tests.support.pipe import Pipe

SPARK_NAMES = (Path(__file__).parents[1] / "data" / "spark_functions.txt").read_text().split()
# Beside Spark's own, those that the session gets from us.
OURS = [SPARK_PREFIX + name for name in TEXT_FUNCTIONS]
WORDS = [
    name for name in (*SPARK_NAMES, *OURS, "regexp_replace_all", "regexp_group") if name.replace("_", "").isalnum()
]
# Spark has functions of the names of ours that mine: calls are bound to ours.
LISTED = {name for function in FUNCTIONS for name in function.names} | set(MINING)
# Words of the grammar and operators, which are no calls of a function: CAST(x AS ..), x AND y, DOUBLE 'x'.
GRAMMAR = {"and", "or", "not", "in", "like", "ilike", "between", "case", "when", "cast", "exists", "any", "some", "div"}
GRAMMAR |= {"filter", "regexp", "rlike"}

# What reaches the machine, the session or the network, under whatever name.
OUTSIDE = (
    "reflect java_method try_reflect input_file_name input_file_block_start input_file_block_length current_user user "
    "session_user current_catalog current_database current_schema current_path version raise_error assert_true "
    "python_worker_logs sql_keywords from_avro to_avro schema_of_avro from_protobuf to_protobuf xpath xpath_string "
    "uuid randstr sequence array_repeat space format_string printf aes_encrypt spark_partition_id collations"
).split()

POSITIONS = {
    "select list": "SELECT {call} FROM sensors",
    "alone": "SELECT {call}",
    "cast": "SELECT CAST({call} AS TEXT) FROM sensors",
    "cast of parentheses": "SELECT CAST(({call}) AS DOUBLE) FROM sensors",
    "postgres cast": "SELECT {call}::TEXT FROM sensors",
    "try_cast": "SELECT TRY_CAST({call} AS TEXT) FROM sensors",
    "argument": "SELECT upper(CAST({call} AS TEXT)) FROM sensors",
    "arithmetic": "SELECT 1 + CAST({call} AS INT) FROM sensors",
    "concatenation": "SELECT 'a' || {call} FROM sensors",
    "case": "SELECT CASE WHEN ppm > 1 THEN CAST({call} AS TEXT) ELSE 'a' END FROM sensors",
    "case operand": "SELECT CASE CAST({call} AS TEXT) WHEN 'a' THEN 1 END FROM sensors",
    "where": "SELECT ppm FROM sensors WHERE CAST({call} AS TEXT) = 'a'",
    "in": "SELECT ppm FROM sensors WHERE location IN ('a', CAST({call} AS TEXT))",
    "between": "SELECT ppm FROM sensors WHERE location BETWEEN 'a' AND CAST({call} AS TEXT)",
    "like": "SELECT ppm FROM sensors WHERE CAST({call} AS TEXT) LIKE 'a%'",
    "group by": "SELECT COUNT(*) FROM sensors GROUP BY CAST({call} AS TEXT)",
    "having": "SELECT COUNT(*) FROM sensors GROUP BY location HAVING MAX(CAST({call} AS TEXT)) = 'a'",
    "order by": "SELECT ppm FROM sensors ORDER BY CAST({call} AS TEXT)",
    "limit": "SELECT ppm FROM sensors LIMIT {call}",
    "distinct on": "SELECT DISTINCT ON (CAST({call} AS TEXT)) ppm FROM sensors",
    "on": "SELECT s.ppm FROM sensors s JOIN loops l ON s.location = CAST({call} AS TEXT)",
    "aggregate": "SELECT MAX(CAST({call} AS TEXT)) FROM sensors",
    "aggregate of distinct": "SELECT COUNT(DISTINCT CAST({call} AS TEXT)) FROM sensors",
    "aggregate in order": "SELECT STRING_AGG(location, ',' ORDER BY CAST({call} AS TEXT)) FROM sensors",
    "within group": "SELECT MODE() WITHIN GROUP (ORDER BY CAST({call} AS TEXT)) FROM sensors",
    "filter": "SELECT COUNT(*) FILTER (WHERE CAST({call} AS TEXT) = 'a') FROM sensors",
    "over": "SELECT SUM(ppm) OVER (PARTITION BY CAST({call} AS TEXT) ORDER BY CAST({call} AS TEXT)) FROM sensors",
    "window function": "SELECT {call} OVER (ORDER BY ppm) FROM sensors",
    "frame": "SELECT SUM(ppm) OVER (ORDER BY ts ROWS BETWEEN {call} PRECEDING AND CURRENT ROW) FROM sensors",
    "from": "SELECT * FROM {call}",
    "from with alias": "SELECT t.x FROM {call} AS t (x)",
    "table()": "SELECT * FROM TABLE({call})",
    "lateral": "SELECT * FROM sensors s, LATERAL {call} AS t (x)",
    "lateral view": "SELECT * FROM sensors LATERAL VIEW {call} t AS x",
    "join of a table function": "SELECT s.ppm FROM sensors s JOIN {call} AS t (x) ON true",
    "unnest": "SELECT * FROM UNNEST({call}) AS t (x)",
    "values": "SELECT * FROM (VALUES (CAST({call} AS TEXT))) AS v (x)",
    "subquery": "SELECT ppm FROM sensors WHERE location = (SELECT MAX(CAST({call} AS TEXT)) FROM loops)",
    "in subquery": "SELECT ppm FROM sensors WHERE location IN (SELECT CAST({call} AS TEXT) FROM loops)",
    "exists": "SELECT ppm FROM sensors WHERE EXISTS (SELECT 1 FROM loops WHERE CAST({call} AS TEXT) = 'a')",
    "cte": "WITH c AS (SELECT CAST({call} AS TEXT) AS x FROM sensors) SELECT x FROM c",
    "derived": "SELECT x FROM (SELECT CAST({call} AS TEXT) AS x FROM sensors) d",
    "union": "SELECT location FROM sensors UNION ALL SELECT CAST({call} AS TEXT) FROM loops",
    "begin": "SELECT ppm FROM sensors BEGIN ({call}) END (NOW)",
    "end": "SELECT ppm FROM sensors BEGIN (NOW - 1 HOUR) END ({call})",
    "resample": "SELECT RESAMPLE(l.speed, {call}) FROM sensors s, loops l",
    "resampled": "SELECT RESAMPLE(CAST({call} AS DOUBLE), 5 SECONDS) FROM sensors s, loops l",
    "sample": "SELECT ppm FROM sensors TABLESAMPLE BERNOULLI ({call})",
    "tumble": "SELECT COUNT(*) FROM sensors GROUP BY TUMBLE({call})",
    "held": "SELECT ppm FROM sensors WHERE CAST({call} AS TEXT) = 'a' FOR 5 SECONDS",
    "approximate": "SELECT APPROX_DISTINCT(CAST({call} AS TEXT)) FROM sensors",
    "user's function": "SELECT similar(CAST({call} AS DOUBLE), 1) FROM sensors",
    "array": "SELECT ARRAY[CAST({call} AS TEXT)] FROM sensors",
    "index": "SELECT tags[CAST({call} AS INT)] FROM odd",
    "field": "SELECT ({call}).x FROM sensors",
    "interval": "SELECT ts + CAST({call} AS INTERVAL) FROM sensors",
    "extract": "SELECT EXTRACT(HOUR FROM CAST({call} AS TIMESTAMP)) FROM sensors",
    "odbc": "SELECT {{fn {call}}} FROM sensors",
    "insert": "INSERT INTO my_segments VALUES (1, CAST({call} AS TEXT))",
    "insert of a query": "INSERT INTO my_segments SELECT 1, CAST({call} AS TEXT)",
    "update": "UPDATE my_segments SET owner = CAST({call} AS TEXT)",
    "delete": "DELETE FROM my_segments WHERE owner = CAST({call} AS TEXT)",
    "rollup": "CREATE ROLLUP r AS SELECT location, MAX(CAST({call} AS DOUBLE)) FROM sensors GROUP BY location, TUMBLE(1 HOUR)",
}
SPELLINGS = (
    "{name}({arguments})",
    '"{name}"({arguments})',
    "builtin.{name}({arguments})",
    "system.builtin.{name}({arguments})",
    "spark_catalog.default.{name}({arguments})",
    "session.{name}({arguments})",
    "penstock.{name}({arguments})",
    "IDENTIFIER('{name}')({arguments})",
    "IDENTIFIER('builtin.{name}')({arguments})",
    "IDENTIFIER('{name}' || '')({arguments})",
    "{name} ({arguments})",
    "/* {name} */ {name} /* */ ({arguments})",
    "`{name}`({arguments})",
)


@pytest.fixture(scope="module")
def world() -> World:
    found = World()
    found.run(PLANT)
    return found


@pytest.fixture(autouse=True)
def no_suggestions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking for the nearest name takes longer than everything else, and is tested in test_errors."""
    monkeypatch.setattr(difflib, "get_close_matches", lambda *_, **__: [])


def asked(world: World, sql: str) -> str:
    """What binding says: `ok`, or the condition of a refusal. Anything else is a failure of the test."""
    try:
        world.run(sql)
    except PenstockError as refusal:
        assert refusal.condition in CONDITIONS and refusal.condition != "internal_error", (sql, refusal)
        return refusal.condition
    return "ok"


@pytest.mark.parametrize("position", POSITIONS)
def test_a_name_that_spark_knows_is_on_the_list_or_refused_wherever_it_stands(world: World, position: str) -> None:
    for name in WORDS:
        if name in LISTED or name in GRAMMAR:
            continue
        said = asked(world, POSITIONS[position].format(call=f"{name}('a')"))
        assert said != "ok", (position, name)


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("name", ("reflect", "java_method"))
def test_every_spelling_of_a_function_that_reaches_the_machine_is_refused(
    world: World, name: str, position: str
) -> None:
    for spelling in SPELLINGS:
        call = spelling.format(name=name, arguments="'java.lang.System', 'getenv', 'PATH'")
        assert asked(world, POSITIONS[position].format(call=call)) != "ok", (position, call)


@pytest.fixture(scope="module")
def plant_database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """A whole database without Spark: EXPLAIN has ways of its own to a plan."""
    pipe = Pipe(tmp_path_factory.mktemp("plant") / "data")
    pipe.db.execute(PLANT.replace(" USING mqtt OPTIONS (url 'mqtt://localhost')", ""))
    yield pipe.db
    pipe.db.stop()


def explained(database: Database, sql: str) -> str:
    try:
        with acting_as(Caller("rita", "read")):
            database.execute(sql)
    except PenstockError as refusal:
        assert refusal.condition in CONDITIONS and refusal.condition != "internal_error", (sql, refusal)
        return refusal.condition
    return "ok"


@pytest.mark.parametrize("explain", ("EXPLAIN", "EXPLAIN ANALYZE"))
def test_explain_refuses_what_a_question_would(plant_database: Database, explain: str) -> None:
    assert explained(plant_database, "EXPLAIN SELECT upper(location) FROM sensors") == "ok"
    for position in POSITIONS.values():
        for name in ("reflect", "java_method"):
            call = f"{name}('java.lang.System', 'getenv', 'PATH')"
            sql = f"{explain} {position.format(call=call)}"
            assert explained(plant_database, sql) != "ok", sql
    for name in WORDS:
        if name not in LISTED and name not in GRAMMAR:
            sql = f"{explain} SELECT CAST({name}('a') AS TEXT) FROM sensors"
            assert explained(plant_database, sql) in ("function_not_found", "syntax_error"), sql


def test_a_reader_is_refused_over_http(open_world: Server) -> None:
    open_world.add_people()
    getenv = "'java.lang.System', 'getenv', 'PATH'"
    calls = [f"{name}({getenv})" for name in ("reflect", "java_method", "try_reflect", '"reflect"', "builtin.reflect")]
    calls += ["input_file_name()", "version()", "current_catalog()", "from_avro('a', 'b')", "raise_error('a')"]
    forms = (
        "SELECT {}",
        "SELECT CAST({} AS TEXT) FROM probes",
        "EXPLAIN SELECT {} FROM probes",
        "EXPLAIN ANALYZE SELECT {}",
    )
    headers = open_world.headers("read")
    for sql in (form.format(call) for form in forms for call in calls):
        answer = open_world.http.post("/v1/sql", json={"sql": sql}, headers=headers)
        said = answer.json()["error"]["condition"]
        assert (answer.status_code, said) == (400, "function_not_found"), (sql, answer.text)


def test_the_refusal_of_a_call_says_that_there_is_no_such_function(world: World) -> None:
    for name in WORDS:
        if name in LISTED or name in GRAMMAR:
            continue
        for wrapped in ("{}", "CAST({} AS TEXT)"):
            call = wrapped.format(f"{name}('a')")
            said = asked(world, f"SELECT {call} FROM sensors")
            assert said in ("function_not_found", "syntax_error"), (call, said)


@pytest.mark.parametrize("count", range(6))
def test_no_number_of_arguments_lets_an_unlisted_name_through(world: World, count: int) -> None:
    for name in WORDS:
        if name not in LISTED and name not in GRAMMAR:
            call = f"{name}({', '.join(['ppm'] * count)})"
            assert asked(world, f"SELECT CAST({call} AS TEXT) FROM sensors") != "ok", call


def test_standing_queries_are_bound_like_questions_that_are_asked_once(world: World) -> None:
    for name in WORDS:
        if name not in LISTED and name not in GRAMMAR:
            for call in (f"{name}('a')", f"CAST({name}(location) AS TEXT)"):
                assert asked(world, f"CREATE QUERY q_{name} AS SELECT {call} AS x FROM sensors") != "ok", call


@pytest.mark.parametrize("name", OUTSIDE)
def test_what_reaches_outside_or_can_fill_memory_is_not_on_the_list(world: World, name: str) -> None:
    assert name not in LISTED
    assert asked(world, f"SELECT {name}() FROM sensors") in ("function_not_found", "column_not_found", "syntax_error")


@pytest.mark.parametrize(
    "call", ("CURRENT_USER", "SESSION_USER", "CURRENT_CATALOG", "CURRENT_SCHEMA", "CURRENT_ROLE", "USER", "LOCALTIME")
)
def test_functions_without_parentheses_are_on_the_list_or_refused(world: World, call: str) -> None:
    assert asked(world, f"SELECT {call} FROM sensors") in ("function_not_found", "column_not_found")
    assert asked(world, f"SELECT CAST({call} AS TEXT) FROM sensors") in ("function_not_found", "column_not_found")


@pytest.mark.parametrize(
    "expression",
    (
        "transform(tags, x -> x)",
        "filter(tags, x -> true)",
        "exists(tags, x -> true)",
        "aggregate(tags, 0, (a, x) -> a)",
        "array_sort(tags, (a, b) -> 0)",
        "tags @> tags",
        "name -> 'a'",
        "name ->> 'a'",
        "name #> '{a}'",
        "name COLLATE reflect",
        "seen AT TIME ZONE 'UTC'",
        "x'00' COLLATE a",
        "JSON_OBJECT('a': 1)",
        "XMLTABLE('a' PASSING name COLUMNS a INT)",
        "name IS JSON",
        "f(a => 1)",
        "CAST(1 AS reflect)",
        "CAST(1 AS STRUCT<a: reflect>)",
        "EXTRACT(reflect FROM seen)",
        "DATE_TRUNC('reflect', seen)",
        "DATE_TRUNC(name, seen)",
        "any_value(amount HAVING MAX big)",
        "first(amount) IGNORE NULLS",
        "ROW(1, 2)",
        "TABLE(range(5))",
        "NEXT VALUE FOR a",
        "@@version",
    ),
)
def test_syntax_that_sqlglot_would_write_as_a_function_is_refused(world: World, expression: str) -> None:
    assert asked(world, f"SELECT {expression} FROM odd") != "ok"


def test_listed_functions_still_work_and_their_names_go_to_spark(world: World) -> None:
    plan = world.plan("SELECT levenshtein(location, 'a') AS d, CAST(cbrt(ppm) AS INT) AS c FROM sensors")
    assert isinstance(plan, SparkPlan)
    assert [(name, str(type_)) for name, type_ in plan.outputs] == [("d", "INT"), ("c", "INT")]
    assert "levenshtein(" in plan.sql and "cbrt(" in plan.sql


def test_nested_calls_do_not_multiply_their_text(world: World) -> None:
    lengths = [len(str(spark_plan(world, f"{'floor(' * n}ppm{')' * n}").sql)) for n in (1, 2, 12)]
    assert lengths[2] - lengths[1] == 10 * (lengths[1] - lengths[0])


def test_nesting_beyond_what_can_be_checked_is_refused_by_name(world: World) -> None:
    plan = spark_plan(world, f"{'ceil(' * 30}ppm{')' * 30}")
    with pytest.raises(PenstockError, match="nested too deeply"):
        check_spark_text(plan.sql, ("r0",), ())


def spark_plan(world: World, expression: str) -> SparkPlan:
    plan = world.plan(f"SELECT {expression} AS x, MAX(ppm) OVER () AS m FROM sensors")
    assert isinstance(plan, SparkPlan)
    return plan


@pytest.mark.parametrize("name", ("unix_micros", "named_struct", "log2", "window", "split", *OURS))
def test_a_function_that_the_planner_writes_cannot_be_replaced(name: str) -> None:
    world = World()
    with pytest.raises(PenstockError, match="built-in"):
        world.run(f"CREATE FUNCTION {name}(a TEXT) RETURNS TEXT LANGUAGE python AS $$ return a $$")


def test_a_function_of_the_users_own_is_called_whatever_spark_calls_so() -> None:
    world = World()
    world.run(PLANT)
    world.run("CREATE FUNCTION reflect(a TEXT) RETURNS TEXT LANGUAGE python AS $$ return a $$")
    assert asked(world, "SELECT reflect(location) FROM sensors") == "ok"
    assert asked(world, "SELECT builtin.reflect(location) FROM sensors") == "function_not_found"


def test_the_check_of_the_finished_text_knows_every_listed_function() -> None:
    world = World()
    world.run(TABLE)
    for call in listed_calls():
        plan = world.plan(f"SELECT {call} AS x FROM every_type", shared=False)
        assert isinstance(plan, SparkPlan)
        check_spark_text(plan.sql, tuple(relation.name for relation in plan.relations), ())
