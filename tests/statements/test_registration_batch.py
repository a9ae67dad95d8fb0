"""Many queries at once: all or none, or the rest; dropped together; limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
import pytest

from penstock.catalog.journal import JournalReader
from penstock.errors import PenstockError
from penstock.pipeline.spark_sql import Moment
from penstock.sql.plan import SparkPlan
from tests.support.counted_calls import calls_of
from tests.support.pipe import Pipe

HOT = "SELECT id, value FROM probes WHERE value > {} BEGIN (NOW - 1 HOUR) END (NOW)"


def names(pipe: Pipe) -> list[str]:
    return sorted(pipe.db.catalog.state.queries)


def script(count: int, bad: int | None = None) -> str:
    texts = [HOT.format(i) if i != bad else "SELECT id, valeu FROM probes" for i in range(count)]
    return "\n".join(f"CREATE QUERY q{i} AS {text};" for i, text in enumerate(texts))


def test_a_script_of_queries_is_one_batch_of_the_journal(pipe: Pipe) -> None:
    pipe.probes()
    before = pipe.db.catalog.state.position
    assert pipe.db.execute(script(50)).done == "CREATE QUERY 50"
    entries = JournalReader(pipe.folder).read()[before:]
    assert [e.kind for e in entries] == ["create_query"] * 50 and len({e.at_us for e in entries}) == 1
    pipe.push(7.5)
    pipe.engine.drain()
    assert pipe.answer("q3") == [7.5] and pipe.answer("q20") == []


def test_catalog_and_answers_keep_one_definition_of_a_query(pipe: Pipe) -> None:
    pipe.probes()
    pipe.db.execute(script(3))
    pipe.engine.drain()
    pipe.db.execute("ALTER QUERY q1 SET BEGIN (NOW - 2 HOURS)")
    known, taken = pipe.db.catalog.state.queries, pipe.db.standing.store.state.queries
    assert taken["q0"] is known["q0"] and taken["q1"].sql != known["q1"].sql  # answers follow with the next cycle
    pipe.engine.drain()
    taken = pipe.db.standing.store.state.queries
    assert all(taken[name] is known[name] for name in ("q0", "q1", "q2"))


def test_a_bad_query_in_a_script_refuses_all_and_is_pointed_at(pipe: Pipe) -> None:
    pipe.probes()
    with pytest.raises(PenstockError) as refused:
        pipe.db.execute(script(5, bad=3))
    assert refused.value.condition == "column_not_found" and (refused.value.index, refused.value.query) == (3, "q3")
    assert refused.value.message.startswith('query "q3" (4 of 5): ') and refused.value.line == 4
    assert refused.value.hint == 'did you mean "value"?'
    assert names(pipe) == []


def test_a_name_that_is_taken_is_pointed_at_where_it_stands(pipe: Pipe) -> None:
    pipe.probes()
    script = "CREATE QUERY a AS SELECT value FROM probes;\nCREATE QUERY a AS SELECT value FROM probes"
    with pytest.raises(PenstockError) as refused:
        pipe.db.execute(script)
    assert refused.value.message == 'query "a" (2 of 2): query "a" already exists'
    assert (refused.value.condition, refused.value.line, refused.value.column) == ("already_exists", 2, 14)
    (notice,) = pipe.db.execute(f"SET on_error = rest; {script}").notices
    assert "2 | CREATE QUERY a" in notice


def test_a_script_that_asks_for_the_rest_gets_it_and_hears_of_each_refusal(pipe: Pipe) -> None:
    pipe.probes()
    text = f"SET on_error = 'rest';\n{script(4, bad=1)}\nCREATE QUERY typo AS SELEC 1;\nCREATE QUERY q0 AS SELECT 1;"
    done = pipe.db.execute(text)
    assert done.done == "CREATE QUERY 3" and names(pipe) == ["q0", "q2", "q3"]
    first, second, third = done.notices
    assert first.startswith('ERROR 42703 column_not_found: query "q1" (2 of 6)') and "^^^^^" in first
    assert 'query "typo" (5 of 6)' in second and "42601" in second
    assert 'query "q0" (6 of 6): query "q0" already exists' in third


def test_the_other_refusals_are_named_beside_the_first(pipe: Pipe) -> None:
    pipe.probes()
    wanted = [("a", "SELECT nothing FROM probes"), ("b", HOT.format(1)), ("c", "SELECT"), ("b", HOT.format(2))]
    with pytest.raises(PenstockError) as refused:
        pipe.db.register(wanted)
    assert refused.value.query == "a" and refused.value.hint is not None
    assert 'refused as well: "c", "b"' in refused.value.hint
    assert names(pipe) == []
    done = pipe.db.register(wanted, "rest")
    assert [(d["index"], d["name"], d["error"] is None) for d in done] == [
        (0, "a", False),
        (1, "b", True),
        (2, "c", False),
        (3, "b", False),
    ]
    assert done[0]["error"]["condition"] == "column_not_found" and done[0]["error"]["column"] == 8
    assert done[3]["error"]["condition"] == "already_exists"


class AnySpark:
    """Accepts every query."""

    def run(self, *_: object) -> pa.Table:
        return pa.table({})


def test_a_query_may_read_one_that_stands_before_it_in_the_script(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes(spark=AnySpark)
    pipe.probes()
    pipe.set_intervals(own_writes_s=0.0)
    pipe.db.execute(f"{script(2)} CREATE QUERY above AS SELECT count(*) FROM q1; CREATE QUERY last AS {HOT.format(9)}")
    assert names(pipe) == ["above", "last", "q0", "q1"]


CHAIN = [
    ("hot", HOT.format(5)),
    ("sums", "SELECT SUM(value) AS total FROM hot BEGIN (NOW - 1 HOUR) END (NOW)"),
    ("apart", HOT.format(7)),
]


def test_queries_of_one_call_may_read_those_before_them(pipe: Pipe) -> None:
    pipe.probes()
    before = pipe.db.catalog.state.position
    assert all(done["error"] is None for done in pipe.db.register(CHAIN))
    assert pipe.db.catalog.state.position == before + 3 and pipe.db.catalog.state.queries["sums"].id == 2
    pipe.push(1.0, 6.0, 8.0)
    pipe.engine.drain()
    pipe.push(0.0)
    pipe.engine.drain()  # rows of another query are seen a cycle later
    assert pipe.answer("hot") == [6.0, 8.0] and pipe.answer("sums", "total") == [14.0]
    pipe.restart()
    assert pipe.answer("sums", "total") == [14.0]
    with pytest.raises(PenstockError, match='query "hot" is used by query "sums"'):
        pipe.db.execute("DROP QUERY hot")


def test_a_bad_query_takes_those_that_read_it_with_it(pipe: Pipe) -> None:
    pipe.probes()
    wanted = [("hot", "SELECT id, valeu FROM probes"), *CHAIN[1:], ("more", "SELECT MAX(total) FROM sums")]
    done = pipe.db.register(wanted, "rest")
    assert names(pipe) == ["apart"] and [d["error"] is None for d in done] == [False, False, True, False]
    why = 'table "probes" has no column "valeu"'
    assert done[1]["error"]["message"] == 'query "sums" (2 of 4): there is no table "hot"'
    assert done[1]["error"]["hint"] == f'query "hot" was refused: {why}' and done[1]["error"]["column"] == 33
    assert done[3]["error"]["hint"] == f'query "sums" was refused because of query "hot": {why}'
    with pytest.raises(PenstockError, match="valeu") as refused:
        pipe.db.register([("hot", wanted[0][1]), CHAIN[1], ("other", HOT.format(1))])
    assert 'refused as well: "sums"' in str(refused.value.hint) and names(pipe) == ["apart"]


def test_a_query_that_reads_a_later_one_of_its_call_is_told_the_order(pipe: Pipe) -> None:
    pipe.probes()
    done = pipe.db.register([CHAIN[1], CHAIN[0]], "rest")
    assert done[0]["error"]["hint"] == 'query "hot" comes later; put it before those that read it'
    assert names(pipe) == ["hot"]


def test_a_script_whose_queries_read_each_other_registers_all_or_none(pipe: Pipe) -> None:
    pipe.probes()
    bad = "CREATE QUERY bad AS SELECT MAX(totla) FROM sums"
    with pytest.raises(PenstockError, match="totla") as refused:
        pipe.db.execute(";".join([f"CREATE QUERY {name} AS {sql}" for name, sql in CHAIN] + [bad]))
    assert (refused.value.query, refused.value.index) == ("bad", 3) and names(pipe) == []


def test_a_reader_that_spark_runs_is_tried_with_the_queries_of_its_call(pipes: Callable[..., Pipe]) -> None:
    """Spark is asked whether it accepts a query before the ones that it reads are anywhere but in this call."""
    tried: list[tuple[list[str], list[str]]] = []

    class Runner:
        def run(self, plan: SparkPlan, moment: Moment, given: Mapping[str, pa.Table]) -> pa.Table:
            reads = [r.table for r in plan.relations if r.kind in ("query", "state")]
            tried.append((reads, [moment.state.queries[name].name for name in reads]))
            assert plan.relations[0].name in given or plan.relations[0].kind == "query"
            return pa.table({})

    pipe = pipes(spark=Runner)
    pipe.probes()
    pipe.push(3.0)
    pipe.engine.drain()
    pipe.db.register(
        [
            ("hot", HOT.format(5)),
            ("ever", "SELECT id, MAX(value) AS top FROM probes GROUP BY id, LATCH"),
            ("places", "SELECT id FROM hot GROUP BY ROLLUP (id) BEGIN (NOW - 1 HOUR) END (NOW)"),
            ("high", "SELECT id FROM ever WHERE top > 10"),
        ]
    )
    assert tried == [(["hot"], ["hot"]), (["ever"], ["ever"])]
    assert pipe.db.catalog.state.queries["places"].start_us is not None


def test_names_that_are_there_already_are_passed_over_if_the_script_says_so(pipe: Pipe) -> None:
    pipe.probes()
    pipe.db.execute(script(2))
    again = "".join(f"CREATE QUERY IF NOT EXISTS q{i} AS {HOT.format(i)};" for i in (1, 2, 2, 3))
    assert pipe.db.execute(again).done == "CREATE QUERY 2"
    assert names(pipe) == ["q0", "q1", "q2", "q3"]


def test_a_thousand_queries_are_registered_at_the_cost_of_ten_times_a_hundred(pipe: Pipe) -> None:
    pipe.probes()
    few = calls_of(lambda: pipe.db.register([(f"few{i}", HOT.format(i)) for i in range(100)]))
    many = calls_of(lambda: pipe.db.register([(f"q{i}", HOT.format(i)) for i in range(1000)]))
    assert many < 11 * few
    assert len(names(pipe)) == 1100


def test_many_are_dropped_together_or_none(pipe: Pipe) -> None:
    pipe.probes()
    pipe.db.execute(script(6))
    with pytest.raises(PenstockError) as missing:
        pipe.db.execute("DROP QUERY q1, q11, q2")
    assert missing.value.condition == "query_not_found" and missing.value.column == len("DROP QUERY q1, ") + 1
    assert len(names(pipe)) == 6
    before = pipe.db.catalog.state.position
    assert pipe.db.execute("DROP QUERY q1, q2").done == "DROP QUERY 2"
    assert pipe.db.catalog.state.position == before + 1
    assert pipe.db.execute("DROP QUERY IF EXISTS q2, q3").done == "DROP QUERY 1"
    assert pipe.db.execute("DROP QUERY LIKE 'q_'").done == "DROP QUERY 3"
    assert names(pipe) == []


def test_what_is_dropped_with_its_users_needs_no_cascade(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes(spark=AnySpark)
    pipe.probes()
    pipe.set_intervals(own_writes_s=0.0)
    pipe.db.execute(f"{script(2)} CREATE QUERY above AS SELECT count(*) FROM q1")
    with pytest.raises(PenstockError, match='query "q1" is used by query "above"'):
        pipe.db.execute("DROP QUERY q0, q1")
    pipe.db.execute("DROP QUERY q1, above")
    assert names(pipe) == ["q0"]


def test_a_server_keeps_no_more_queries_than_it_was_told(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes(queries_max=3)
    pipe.probes()
    with pytest.raises(PenstockError) as refused:
        pipe.db.execute(script(4))
    assert refused.value.condition == "limit_reached" and refused.value.query == "q3"
    assert "queries_max" in str(refused.value.hint) and names(pipe) == []
    assert pipe.db.execute(f"SET on_error = rest; {script(5)}").done == "CREATE QUERY 3"
    with pytest.raises(PenstockError, match="at most 3 standing queries"):
        pipe.db.execute(f"CREATE QUERY more AS {HOT.format(1)}")
    pipe.db.execute("DROP QUERY q0")
    pipe.db.execute(f"CREATE QUERY more AS {HOT.format(1)}")


@pytest.mark.parametrize("operators", [118, *range(121, 127), 1000])
def test_a_long_chain_of_operators_is_registered_or_refused_by_name(pipe: Pipe, operators: int) -> None:
    pipe.probes()
    deep = f"SELECT value FROM probes WHERE value{' + 1' * operators} > 5 BEGIN (NOW - 1 HOUR) END (NOW)"
    found = pipe.db.register([("fine", HOT.format(1)), ("deep", deep)], on_error="rest")
    refused = found[1]["error"]
    if refused is None:
        pipe.push(2.0)
        pipe.engine.drain()
        assert pipe.answer("deep") == [2.0]
    else:
        assert (refused["condition"], refused["message"]) == (
            "syntax_error",
            'query "deep" (2 of 2): the question is nested too deeply',
        )
    assert names(pipe) == (["deep", "fine"] if refused is None else ["fine"])
    assert refused is None or operators > 118
