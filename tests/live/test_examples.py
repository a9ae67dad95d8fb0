"""The examples of the documentation, run on a real server in the order of each page, over nothing but HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.client import Connection
from penstock.sql.parse import parse_script
from penstock.sql.statements import Subscribe
from tests.support.server_process import ServerProcess, clear
from tests.test_docs import ROOT, SPOKEN, SQL, blocks_of

PAGES = [page for page in SPOKEN if blocks_of(page, "sql")]


@pytest.fixture(scope="module")
def db(server: ServerProcess) -> Iterator[Connection]:
    with server.connect() as connection:
        yield connection


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_examples_of_a_page_run_one_after_another(db: Connection, page: Path) -> None:
    clear(db)
    if page.parent == SQL and page.name != "index.md":
        # The index of the SQL reference defines the tables that the examples of its pages use.
        (definitions,) = blocks_of(SQL / "index.md", "sql")
        db.sql(definitions.text)
    for block in blocks_of(page, "sql"):
        if not block.bound:
            continue
        for statement in parse_script(block.text):
            if isinstance(statement, Subscribe):
                db.describe_query(statement.name)
            else:
                db.sql(statement.source.sql)


def test_the_tutorial_gives_the_answers_that_it_says(db: Connection) -> None:
    clear(db)
    tutorial = next(page for page in PAGES if page.name == "tutorial.md")
    describe, *_ = blocks_of(tutorial, "sql")
    db.sql(describe.text)
    receipt = db.push("probes", [{"probe_id": 1, "ppm": 4.5}, {"probe_id": 2, "ppm": 38}, {"probe_id": 9, "ppm": 1}])
    assert (receipt.accepted, [r.condition for r in receipt.refused]) == (2, ["sensor_not_found"])
    assert db.sql("SELECT room, ppm FROM probes WHERE ppm > 35").rows() == [{"room": "cellar", "ppm": 38.0}]
    db.sql("CREATE QUERY gas_alarm AS SELECT room, ppm FROM probes WHERE ppm > 35 BEGIN (NOW - 10 MINUTES) END (NOW)")
    change = next(db.subscribe("gas_alarm"))
    assert [row["room"] for row in change.rows] == ["cellar"], "the query has seen the past"
