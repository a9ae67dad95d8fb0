"""A query's life: whose it is, what it is for, who asks for it, what it costs, across restarts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.catalog.journal import JournalReader
from penstock.errors import PenstockError
from penstock.views.standing_queries import Intervals
from tests.support.pipe import BEGAN_US, Pipe

PAIRS = (
    "SELECT b.value FROM probes a, probes b DWINDOW(a, b) = 1 MINUTE WHERE a.value < b.value"
    " BEGIN (NOW - 1 HOUR) END (NOW)"
)
HOT = "SELECT id, value FROM probes WHERE value > 1 BEGIN (NOW - 1 HOUR) END (NOW)"


def told(pipe: Pipe, name: str = "hot") -> dict[str, Any]:
    return pipe.db.query(name)


def test_owner_and_description_stand_in_the_definition(pipe: Pipe) -> None:
    pipe.probes()
    pipe.db.execute(f"CREATE QUERY hot WITH (description = 'too hot', owner = ada) AS {HOT}", owner="bob")
    pipe.db.execute(f"CREATE QUERY mild AS {HOT}", owner="bob")
    assert (told(pipe)["owner"], told(pipe)["description"], told(pipe, "mild")["owner"]) == ("ada", "too hot", "bob")
    pipe.db.execute("COMMENT ON QUERY hot IS 'it''s hot'; ALTER QUERY hot OWNER TO carol")
    pipe.restart()
    assert (told(pipe)["owner"], told(pipe)["description"]) == ("carol", "it's hot")
    pipe.db.execute("COMMENT ON QUERY hot IS NULL")
    assert told(pipe)["description"] is None
    shown = pipe.db.execute("SHOW QUERIES LIKE 'h%'").table.to_pylist()
    assert [(row["name"], row["owner"]) for row in shown] == [("hot", "carol")]


def test_a_description_changes_nothing_about_the_answer(pipe: Pipe) -> None:
    pipe.probes()
    pipe.db.execute(f"CREATE QUERY hot AS {HOT}")
    pipe.push(2.0, 3.0)
    pipe.engine.drain()
    changed_at = pipe.db.catalog.state.query_positions[told(pipe)["id"]]
    pipe.db.execute("COMMENT ON QUERY hot IS 'x'; ALTER QUERY hot SET STRATEGY complete; ALTER QUERY hot OWNER TO ada")
    assert pipe.db.catalog.state.query_positions[told(pipe)["id"]] == changed_at
    record = pipe.engine.cycle()
    assert record is not None and not record.end.filling
    assert pipe.answer("hot") == [2.0, 3.0]
    kinds = [e.kind for e in JournalReader(pipe.folder).read()]
    assert kinds[-3:] == ["describe_query"] * 3


def test_a_strategy_is_stored_and_taken_back(pipe: Pipe) -> None:
    pipe.probes()
    pipe.db.execute(f"CREATE QUERY hot WITH (strategy = 'partial') AS {HOT}")
    stored = [pipe.db.definition("hot").strategy]
    for word in ("complete", "none", "auto"):
        pipe.db.execute(f"ALTER QUERY hot SET STRATEGY {word}")
        stored.append(pipe.db.definition("hot").strategy)
    assert stored == ["partial", "complete", "none", None]
    with pytest.raises(PenstockError) as refused:
        pipe.db.execute(f"CREATE QUERY more WITH (strategie = 'partial') AS {HOT}")
    assert (
        refused.value.hint == 'did you mean "strategy"?' and refused.value.column == len("CREATE QUERY more WITH (") + 1
    )


def test_a_handle_works_after_a_restart_and_remembers_when_it_was_asked(pipe: Pipe) -> None:
    pipe.probes()
    pipe.db.execute(f"CREATE QUERY hot AS {HOT}")
    pipe.push(2.0)
    pipe.engine.drain()
    assert told(pipe)["last_invoked"] is None and told(pipe)["invocations"] == 0
    before = pipe.db.invoke("hot").table
    pipe.clock.advance(3_000_000)
    pipe.db.invoke("hot")
    pipe.restart()
    facts = told(pipe)
    assert facts["invocations"] == 2 and facts["last_invoked"].endswith("Z")
    asked = pipe.db.system.table("penstock.queries").column("last_invoked").to_pylist()[0]
    assert int(asked.timestamp() * 1_000_000) > BEGAN_US
    assert pipe.db.invoke("hot").table.equals(before)
    pipe.db.execute("DROP QUERY hot")
    pipe.restart()
    assert b"hot" not in (pipe.folder / "usage.json").read_bytes() and pipe.db.usage.invocations(facts["id"]) == 0


def test_a_handle_works_after_days_restarts_and_forgotten_cycles(pipes: Callable[..., Pipe]) -> None:
    """Its client is away for a week. Meanwhile the server is restarted each day, cycles are folded and retention takes."""
    pipe = pipes(intervals=Intervals(snapshot_cycles=3, trim_cycles=2), cycles_keep=2)
    pipe.probes("WITH (retention = '3 DAYS')")
    pipe.db.register([("hot", HOT), ("days", HOT.replace("1 HOUR", "50 HOURS")), ("pairs", PAIRS)])
    pipe.engine.drain()
    handles = {name: told(pipe, name)["id"] for name in ("hot", "days", "pairs")}
    for day in range(7):
        for value in (0.0, 2.0 + day):
            pipe.push(value)
            pipe.engine.drain()
        pipe.db.housekeeper.tend(pipe.db.catalog.state.tables["probes"].id)
        pipe.restart()
        pipe.clock.advance(24 * 3_600_000_000 if day < 6 else 0)
        pipe.engine.drain()
    assert {name: told(pipe, name)["id"] for name in handles} == handles
    assert pipe.answer("hot") == [8.0]
    assert pipe.answer("days") == [6.0, 7.0, 8.0]
    assert pipe.answer("pairs") == [8.0]
    assert len(list((pipe.folder / "commits").iterdir())) < 20


def test_a_damaged_file_of_usage_is_begun_anew(pipe: Pipe) -> None:
    pipe.db.stop()
    (pipe.folder / "usage.json").write_bytes(b"[1, 2")
    pipe.open()
    assert pipe.db.usage.invocations(1) == 0


def test_the_costliest_are_those_that_found_most(pipe: Pipe) -> None:
    pipe.probes()
    texts = ["value > 1", "value > 2", "value > 9"]
    pipe.db.register([(f"q{i}", f"SELECT value FROM probes WHERE {text}") for i, text in enumerate(texts)])
    pipe.engine.drain()
    pipe.push(1.5, 2.5, 2.6)
    pipe.engine.drain()
    found = pipe.db.costliest(2)
    assert [(f["name"], f["rows"]) for f in found] == [("q0", 3), ("q1", 2)]


def test_what_a_query_costs_is_told_everywhere(pipe: Pipe) -> None:
    pipe.probes()
    pipe.db.execute(f"CREATE QUERY hot WITH (strategy = 'partial') AS {HOT}")
    pipe.push(2.0, 3.0)
    pipe.engine.drain()
    pipe.db.invoke("hot")
    facts = told(pipe)
    assert (facts["strategy"], facts["strategy_asked"], facts["rows"]) == ("partial", "partial", 2)
    assert facts["memory"] >= 0 and facts["ms"] >= 0
    (row,) = pipe.db.system.table("penstock.queries").to_pylist()
    assert {name: row[name] for name in ("strategy", "memory", "rows", "invocations")} == {
        name: facts[name] for name in ("strategy", "memory", "rows", "invocations")
    }
    (shown,) = pipe.db.execute("SHOW QUERIES").table.to_pylist()
    assert {"owner", "description", "matched", "ms", "memory", "last_invoked"} <= shown.keys()


def analyzed(pipe: Pipe, name: str = "hot") -> dict[str, str]:
    lines = [row["plan"] for row in pipe.db.execute(f"EXPLAIN ANALYZE {name}").table.to_pylist()]
    return dict(line.split(": ", 1) for line in lines if ": " in line and not line.startswith(" "))


def test_explain_analyze_says_what_a_query_costs_and_counts_as_no_invocation(pipe: Pipe) -> None:
    pipe.probes()
    pipe.db.execute(f"CREATE QUERY hot AS {HOT}")
    pipe.push(2.0, 3.0)
    pipe.engine.drain()
    said = analyzed(pipe)
    assert (said["state"], said["rows matched since registration"], said["asked for"]) == ("RUNNING", "2", "0 times")
    assert said["rows inside the window"].startswith("2, found in ")
    assert said["since the server started"].endswith("2 rows found")
    assert said["memory"] == f"{told(pipe)['memory']} bytes"
    pipe.db.invoke("hot")
    assert analyzed(pipe)["asked for"].startswith("1 time, the last time at ")
    pipe.db.execute("ALTER QUERY hot PAUSE")
    pipe.engine.drain()
    assert analyzed(pipe)["state"] == "PAUSED"


def test_a_paused_query_costs_nothing_until_it_resumes(pipe: Pipe) -> None:
    pipe.probes()
    pipe.db.register([("a", HOT), ("b", HOT)])
    pipe.engine.drain()
    pipe.db.execute("ALTER QUERY a PAUSE")
    pipe.engine.drain()
    evaluated = told(pipe, "a")["evaluations"]
    pipe.push(2.0)
    pipe.engine.drain()
    assert told(pipe, "a")["evaluations"] == evaluated < told(pipe, "b")["evaluations"]
    pipe.db.execute("ALTER QUERY a RESUME")
    pipe.engine.drain()
    assert told(pipe, "a")["evaluations"] > evaluated


def test_a_window_of_too_many_rows_is_refused(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes(query_rows_max=1000)
    pipe.probes()
    pipe.db.execute("CREATE QUERY few AS SELECT value FROM probes BEGIN (LAST 1000 ROWS)")
    for statement in (
        "CREATE QUERY many AS SELECT value FROM probes BEGIN (LAST 1001 ROWS)",
        "ALTER QUERY few SET BEGIN (LAST 1001 ROWS PER SENSOR)",
    ):
        with pytest.raises(PenstockError, match="at most 1000 rows") as refused:
            pipe.db.execute(statement)
        assert refused.value.condition == "limit_reached" and refused.value.line == 1


HALVE = "FUNCTION halve(v DOUBLE, by INT) RETURNS DOUBLE LANGUAGE PYTHON AS $$ return v / by $$"


@pytest.mark.parametrize("words", ["DESCRIBE FUNCTION", "DESCRIBE"])
def test_a_function_is_described_by_its_parameters_and_its_result(pipe: Pipe, words: str) -> None:
    pipe.db.execute(f"CREATE {HALVE}")
    rows = pipe.db.execute(f"{words} halve").table.to_pylist()
    assert [(row["column"], row["type"], row["kind"]) for row in rows] == [
        ("v", "DOUBLE", "parameter"),
        ("by", "INT", "parameter"),
        (None, "DOUBLE", "result"),
    ]


@pytest.mark.parametrize("words", ["DESCRIBE STREAM TYPE", "DESC"])
def test_a_stream_type_is_described_by_its_fields(pipe: Pipe, words: str) -> None:
    pipe.db.execute("CREATE STREAM TYPE gauge (bar DOUBLE, code INT)")
    rows = pipe.db.execute(f"{words} gauge").table.to_pylist()
    assert [(row["column"], row["type"], row["kind"]) for row in rows] == [
        ("bar", "DOUBLE", "field"),
        ("code", "INT", "field"),
    ]


@pytest.mark.parametrize("kind", ["function", "stream_type"])
def test_what_is_not_there_to_be_described_is_called_by_its_kind(pipe: Pipe, kind: str) -> None:
    with pytest.raises(PenstockError) as caught:
        pipe.db.execute(f"DESCRIBE {kind.replace('_', ' ').upper()} missing")
    assert caught.value.condition == f"{kind}_not_found"


def test_a_function_that_a_query_uses_is_not_replaced_and_the_hint_says_what_helps(pipe: Pipe) -> None:
    pipe.probes()
    pipe.db.execute(f"CREATE {HALVE}")
    pipe.db.execute("CREATE QUERY halves AS SELECT id, value FROM probes WHERE halve(value, 2) > 1")
    with pytest.raises(PenstockError) as caught:
        pipe.db.execute(f"CREATE OR REPLACE {HALVE}")
    assert caught.value.condition == "dependents_exist"
    assert caught.value.hint == "drop them first, or create a function with another name"
