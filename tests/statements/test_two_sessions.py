"""Two sessions that define at once: what one has planned may be gone, or something else, when it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from penstock.errors import PenstockError
from penstock.statements import query_statements
from penstock.statements.select import plan_of
from tests.support.new_query import new_query
from tests.support.pipe import Pipe
from tests.support.watched import watched

FUNCTION = "CREATE FUNCTION high(x DOUBLE) RETURNS BOOLEAN LANGUAGE python AS $$ return x > {} $$"


@contextmanager
def meanwhile(other: Callable[[], object]) -> Iterator[None]:
    """Once, after a statement was planned and before it is written, another session does something."""
    done: list[int] = []

    def once(_: object) -> None:
        if not done:
            done.append(1)
            other()

    with watched(plan_of, tell=once, when="return", by=query_statements.__name__):
        yield


def replace_table(pipe: Pipe) -> None:
    pipe.db.execute("DROP TABLE probes CASCADE")
    pipe.probes()


def replace_function(pipe: Pipe) -> None:
    pipe.db.execute("DROP FUNCTION high")
    pipe.db.execute(FUNCTION.format(5))


@pytest.mark.parametrize(("kind", "other"), [("table", replace_table), ("function", replace_function)])
def test_a_query_is_not_registered_over_something_else_of_the_same_name(
    pipe: Pipe, kind: str, other: Callable[[Pipe], None]
) -> None:
    pipe.probes()
    pipe.db.execute(FUNCTION.format(1))
    pipe.push(2.0)
    pipe.engine.drain()
    text = "CREATE QUERY seen AS SELECT value FROM probes WHERE high(value) BEGIN (NOW - 1 HOUR) END (NOW)"
    with meanwhile(lambda: other(pipe)), pytest.raises(PenstockError) as refused:
        pipe.db.execute(text)
    assert refused.value.condition == f"{kind}_not_found"
    assert refused.value.hint == f"another {kind} of that name came while the query was planned; try again"
    pipe.engine.drain()
    pipe.restart()
    pipe.db.execute(text)
    pipe.push(7.0)
    pipe.engine.drain()
    assert pipe.answer("seen")[-1:] == [7.0]


def over_number(plan: Any, table_id: int) -> Any:
    """A stored plan over another table."""
    if isinstance(plan, list):
        return [over_number(each, table_id) for each in plan]
    if not isinstance(plan, dict):
        return plan
    return {
        key: table_id if key == "table" and isinstance(each, int) else over_number(each, table_id)
        for key, each in plan.items()
    }


def test_a_query_over_a_table_that_is_gone_fails_alone(pipe: Pipe) -> None:
    """Older versions could leave one in the journal."""
    pipe.probes()
    pipe.push(2.0)
    pipe.db.execute("CREATE QUERY fine AS SELECT value FROM probes BEGIN (NOW - 1 HOUR) END (NOW)")
    pipe.db.execute(
        "CREATE QUERY pairs AS SELECT a.value FROM probes a, probes b WINDOW(a,b) = 1 HOUR WHERE a.id = b.id"
    )
    for name in ("fine", "pairs"):
        known = pipe.db.catalog.state.queries[name]
        pipe.db.catalog.create_queries([new_query(f"lost_{name}", known.sql, over_number(known.plan, 99), ("probes",))])
    pipe.engine.drain()
    pipe.push(3.0)
    pipe.engine.drain()
    pipe.db.standing._trim()
    for _ in range(2):
        assert pipe.answer("fine") == [2.0, 3.0]
        assert len(pipe.answer("pairs")) == 4
        for name in ("lost_fine", "lost_pairs"):
            assert pipe.db.query(name)["state"] == "FAILED"
            with pytest.raises(PenstockError) as refused:
                pipe.answer(name)
            assert refused.value.condition == "table_not_found"
        pipe.restart()
    pipe.db.execute("DROP QUERY lost_fine")
    pipe.engine.drain()
    assert pipe.answer("fine") == [2.0, 3.0]


def test_two_changes_of_a_window_at_once_are_both_made(pipe: Pipe) -> None:
    pipe.probes()
    pipe.db.execute("CREATE QUERY seen AS SELECT value FROM probes BEGIN (NOW - 1 HOUR) END (NOW)")
    with meanwhile(lambda: pipe.db.execute("ALTER QUERY seen SET END (NOW - 1 SECOND)")):
        pipe.db.execute("ALTER QUERY seen SET BEGIN (NOW - 2 HOURS)")
    pipe.engine.drain()
    assert pipe.db.query("seen")["window"] == "BEGIN (NOW - 2h) END (NOW - 1s)"


def test_a_query_that_took_the_name_keeps_what_it_asks(pipe: Pipe) -> None:
    def replace_query() -> None:
        pipe.db.execute("DROP QUERY seen")
        pipe.db.execute("CREATE QUERY seen AS SELECT place FROM probes BEGIN (NOW - 5 SECONDS) END (NOW)")

    pipe.probes()
    pipe.db.execute("CREATE QUERY seen AS SELECT value FROM probes BEGIN (NOW - 1 HOUR) END (NOW)")
    with meanwhile(replace_query):
        pipe.db.execute("ALTER QUERY seen SET BEGIN (NOW - 2 HOURS)")
    assert pipe.db.catalog.state.queries["seen"].sql.startswith("SELECT place FROM probes")
    pipe.push(2.0)
    pipe.engine.drain()
    assert pipe.answer("seen", "place") == ["north"]
    with meanwhile(lambda: pipe.db.execute("DROP QUERY seen")), pytest.raises(PenstockError) as refused:
        pipe.db.execute("ALTER QUERY seen SET BEGIN (NOW - 3 HOURS)")
    assert refused.value.condition == "query_not_found"
