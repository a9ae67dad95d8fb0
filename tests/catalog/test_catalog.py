"""Definitions: whose a name is, who depends on whom, and what a drop takes with it."""

from __future__ import annotations

import pytest

from penstock.catalog.definition_checks import users_by_name
from penstock.catalog.model import Function, StreamColumn, StreamType, Table
from penstock.catalog.state import load_state
from penstock.types import DOUBLE, Field
from tests.catalog.bench import READING, STATIC, CatalogBench, everything, refused
from tests.support.new_query import new_query


def test_a_name_belongs_to_one_table_or_query(bench: CatalogBench) -> None:
    bench.make_sensors("a")
    bench.catalog.create_queries([new_query("q", "", {}, ("a",))])
    refused("already_exists", bench.make_sensors, "a")
    refused("already_exists", bench.make_sensors, "q")
    refused("already_exists", bench.catalog.create_queries, [new_query("a", "", {}, ("a",))])
    refused("already_exists", bench.catalog.create_queries, [new_query("q", "", {}, ("a",))])
    assert bench.state.position == 2


def test_if_not_exists_gives_what_is_there(bench: CatalogBench) -> None:
    made = bench.make_sensors()
    again = bench.catalog.create_table(Table(0, "sensors", (), (), READING), if_not_exists=True)
    bench.catalog.create_stream_type(StreamType("probe", READING.fields))
    bench.catalog.create_stream_type(StreamType("probe", ()), if_not_exists=True)
    assert (again, bench.state.position) == (made, 2)


def make_chain(bench: CatalogBench) -> None:
    """probe <- sensors <- (hot, f()) <- hotter <- hottest; other stands alone."""
    bench.catalog.create_stream_type(StreamType("probe", READING.fields))
    stream = StreamColumn("reading", READING.fields, stream_type="probe")
    bench.catalog.create_table(Table(0, "sensors", STATIC, ("sensor_id",), stream))
    bench.make_sensors("other")
    bench.catalog.create_function(Function("f", (Field("x", DOUBLE),), DOUBLE, "return x"))
    bench.catalog.create_queries([new_query("hot", "", {}, ("sensors",), reads_functions=("f",))])
    bench.catalog.create_queries([new_query("hotter", "", {}, ("other", "sensors"), ("hot",))])
    bench.catalog.create_queries([new_query("hottest", "", {}, (), ("hotter", "hot"))])


def test_what_is_used_is_not_dropped_and_the_users_are_named(bench: CatalogBench) -> None:
    make_chain(bench)
    assert refused("dependents_exist", bench.catalog.drop, "stream_type", ["probe"]).endswith('used by table "sensors"')
    message = refused("dependents_exist", bench.catalog.drop, "table", ["sensors"])
    assert message == 'table "sensors" is used by query "hot", query "hotter"'
    refused("dependents_exist", bench.catalog.drop, "function", ["f"])
    refused("dependents_exist", bench.catalog.drop, "query", ["hot"])
    users = users_by_name(bench.state.tables.values(), bench.state.queries.values())
    assert users["query", "hotter"] == [("query", "hottest")]
    assert users["query", "hottest"] == []


def test_cascade_reaches_users_of_users_and_drops_each_once_users_first(bench: CatalogBench) -> None:
    make_chain(bench)
    assert bench.catalog.drop("stream_type", ["probe"], cascade=True) == [
        'query "hottest"',
        'query "hotter"',
        'query "hot"',
        'table "sensors"',
        'stream type "probe"',
    ]
    assert (list(bench.state.tables), list(bench.state.functions), bench.state.queries) == (["other"], ["f"], {})
    assert everything(load_state(bench.folder)) == everything(bench.state)


def test_dropping_a_query_lets_its_function_go(bench: CatalogBench) -> None:
    make_chain(bench)
    bench.catalog.drop("query", ["hot"], cascade=True)
    assert bench.catalog.drop("function", ["f"]) == ['function "f"']


def test_a_long_chain_of_queries_is_dropped_without_a_stack(bench: CatalogBench) -> None:
    bench.make_sensors()
    chain = [new_query("q0", "", {}, ("sensors",))]
    chain += [new_query(f"q{i}", "", {}, (), (f"q{i - 1}",)) for i in range(1, 2_000)]
    bench.catalog.create_queries(chain)
    assert len(bench.catalog.drop("table", ["sensors"], cascade=True)) == 2_001


def test_a_refusal_names_ten_users_and_counts_the_rest(bench: CatalogBench) -> None:
    bench.make_sensors()
    bench.catalog.create_queries([new_query(f"q{i}", "", {}, ("sensors",)) for i in range(25)])
    assert refused("dependents_exist", bench.catalog.drop, "table", ["sensors"]).endswith('query "q9", 15 more')


@pytest.mark.parametrize("kind", ["table", "stream_type", "function", "query"])
def test_what_is_not_there_cannot_be_dropped_but_if_exists_is_content(bench: CatalogBench, kind: str) -> None:
    refused(f"{kind}_not_found", bench.catalog.drop, kind, ["nothing"])
    assert bench.catalog.drop(kind, ["nothing"], if_exists=True) == []
    assert bench.state.position == 0


def test_a_query_whose_table_went_while_it_was_planned_is_refused(bench: CatalogBench) -> None:
    bench.make_sensors()
    for reads in ({"reads_tables": ("gone",)}, {"reads_queries": ("gone",)}, {"reads_functions": ("gone",)}):
        kind = next(iter(reads)).removeprefix("reads_").removesuffix("s").replace("querie", "query")
        refused(
            f"{kind}_not_found", bench.catalog.create_queries, [new_query("q", "", {}, **{"reads_tables": (), **reads})]
        )
    table = Table(0, "t", STATIC, ("sensor_id",), StreamColumn("reading", (), stream_type="gone"))
    refused("stream_type_not_found", bench.catalog.create_table, table)


def test_many_queries_come_together_or_not_at_all(bench: CatalogBench) -> None:
    bench.make_sensors()
    twice = [new_query("a", "", {}, ("sensors",)), new_query("b", "", {}, (), ("a",)), new_query("a", "", {}, ())]
    refused("already_exists", bench.catalog.create_queries, twice)
    assert bench.state.queries == {}
    assert [q.id for q in bench.catalog.create_queries(twice[:2])] == [1, 2]


def test_a_change_of_a_query_keeps_its_id_and_says_when(bench: CatalogBench) -> None:
    bench.make_sensors()
    made = bench.catalog.create_queries([new_query("q", "old", {"n": 1}, ("sensors",), start_us=7)])[0]
    changed = bench.catalog.change_query("q", sql="new", plan={"n": 2})
    assert (changed.id, changed.sql, changed.plan, changed.start_us) == (made.id, "new", {"n": 2}, 7)
    assert bench.state.query_positions[made.id] == (2, 3)
    bench.catalog.change_query("q", paused=False)
    assert bench.state.position == 3
    refused("query_not_found", bench.catalog.change_query, "p")


def test_ids_are_never_given_again_whatever_was_dropped(bench: CatalogBench) -> None:
    for round_ in range(1, 4):
        table = bench.make_sensors()
        query = bench.catalog.create_queries([new_query("q", "", {}, ("sensors",))])[0]
        assert (table.id, query.id) == (round_, round_)
        bench.catalog.drop("table", ["sensors"], cascade=True)
        bench.reopen()
