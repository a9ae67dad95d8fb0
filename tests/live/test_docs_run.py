"""The examples of the documentation, run on a real server in the order of each page, over nothing but HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cli.demo_server import free_port, running_server
from penstock.client import Connection
from penstock.sql.parse import parse_script
from penstock.sql.statements import Subscribe
from tests.support.spark_lock import one_spark
from tests.test_docs import ROOT, SPOKEN, SQL, blocks_of

PAGES = [page for page in SPOKEN if blocks_of(page, "sql")]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    folder = tmp_path_factory.mktemp("docs") / "data"
    with one_spark(), running_server(folder, free_port(0), lambda _: None) as connection:
        yield connection


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_examples_of_a_page_run_one_after_another(server: Connection, page: Path) -> None:
    clear(server)
    if page.parent == SQL and page.name != "index.md":
        # The index of the SQL reference defines the tables that the examples of its pages use.
        (definitions,) = blocks_of(SQL / "index.md", "sql")
        server.sql(definitions.text)
    for block in blocks_of(page, "sql"):
        if not block.bound:
            continue
        for statement in parse_script(block.text):
            if isinstance(statement, Subscribe):
                server.describe_query(statement.name)
            else:
                server.sql(statement.source.sql)


def test_the_tutorial_gives_the_answers_that_it_says(server: Connection) -> None:
    clear(server)
    tutorial = next(page for page in PAGES if page.name == "tutorial.md")
    describe, *_ = blocks_of(tutorial, "sql")
    server.sql(describe.text)
    receipt = server.push(
        "probes", [{"probe_id": 1, "ppm": 4.5}, {"probe_id": 2, "ppm": 38}, {"probe_id": 9, "ppm": 1}]
    )
    assert (receipt.accepted, [r.condition for r in receipt.refused]) == (2, ["sensor_not_found"])
    assert server.sql("SELECT room, ppm FROM probes WHERE ppm > 35").rows() == [{"room": "cellar", "ppm": 38.0}]
    server.sql(
        "CREATE QUERY gas_alarm AS SELECT room, ppm FROM probes WHERE ppm > 35 BEGIN (NOW - 10 MINUTES) END (NOW)"
    )
    change = next(server.subscribe("gas_alarm"))
    assert [row["room"] for row in change.rows] == ["cellar"], "the query has seen the past"


def clear(server: Connection) -> None:
    for query in server.queries():
        server.sql(f'DROP QUERY IF EXISTS "{query["name"]}" CASCADE')
    for table in server.tables():
        server.sql(f'DROP TABLE "{table["name"]}" CASCADE')
    for kind in ("STREAM TYPE", "FUNCTION"):
        for row in server.sql(f"SHOW {kind}S").rows():
            server.sql(f'DROP {kind} "{row["name"]}" CASCADE')
