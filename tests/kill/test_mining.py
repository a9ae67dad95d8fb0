"""Mining functions on a server with Spark: killed behind a push, it answers as one that was never disturbed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.client import Connection
from penstock.errors import PenstockError
from penstock.operators.mining.registry import FUNCTIONS
from tests.operators.mining.calls import CALLS, question
from tests.operators.mining.story import SENSORS, TABLE, Story, same
from tests.spark.asking import eventually
from tests.support.pipe import Pipe
from tests.support.server_process import ServerProcess


def rows_of(connection: Connection, text: str) -> list[dict[str, Any]]:
    return sorted(connection.sql(text).to_arrow().to_pylist(), key=lambda row: str(row["place"]))


def answers(connection: Connection) -> dict[str, list[dict[str, Any]]]:
    return {name: rows_of(connection, f"SELECT * FROM {name}") for name in CALLS}


def has_read(connection: Connection, count: int) -> bool:
    """Whether the answers contain so many readings."""
    try:
        return connection.invoke("counted").rows() == [{"n": count}]
    except PenstockError:
        return False  # before the first answer


@pytest.mark.timeout(600)
def test_a_server_that_is_killed_answers_every_function_as_one_that_was_not(
    cleared: ServerProcess, pipes: Callable[..., Pipe]
) -> None:
    assert set(CALLS) == set(FUNCTIONS)
    story = Story(pipes(), 7, 30)
    for name in CALLS:
        story.pipe.db.execute(f"CREATE QUERY {name} AS {question(name)}")
    for _ in story.cycles(60):
        pass
    undisturbed = {name: sorted(story.answer(name), key=lambda row: str(row["place"])) for name in CALLS}
    assert all(any(row["found"] for row in rows) for rows in undisturbed.values())
    sent = [readings.num_rows for readings in story.sent]
    half = len(sent) // 2

    with cleared.connect() as connection:
        connection.sql(TABLE)
        connection.sql(SENSORS)
        connection.sql("CREATE QUERY counted AS SELECT COUNT(*) AS n FROM probes BEGIN (NOW - 1 HOUR) END (NOW)")
        for name in CALLS:
            connection.sql(f"CREATE QUERY {name} AS {question(name)}")
        for readings in story.sent[:half]:
            connection.push("probes", readings)
        eventually(lambda: has_read(connection, sum(sent[:half])))
        cycle = connection.invoke("counted").cycle
        before = {name: connection.invoke(name, as_of=cycle).rows() for name in CALLS}
        for readings in story.sent[half:]:
            connection.push("probes", readings)
    cleared.kill("server")  # what was pushed last is in the log, and in no answer yet, or in some
    cleared.start()
    with cleared.connect() as connection:
        eventually(lambda: has_read(connection, sum(sent)))
        assert same({name: connection.invoke(name, as_of=cycle).rows() for name in CALLS}, before)
        after = answers(connection)
        assert same({name: rows_of(connection, question(name)) for name in CALLS}, after)
    for name in CALLS:
        assert same(after[name], undisturbed[name]), name
