"""A sink of a query with branches sends the rows of all of them, each once."""

from __future__ import annotations

from tests.sinks.world import Receiver, eventually, kill
from tests.support.pipe import Pipe


def test_a_union_is_delivered_once_across_restarts_and_kills(pipe: Pipe, receiver: Receiver) -> None:
    pipe.probes()
    pipe.db.execute("CREATE TABLE others (id INT PRIMARY KEY, reading STREAM (value DOUBLE))")
    pipe.db.execute("INSERT INTO others VALUES (1, NULL)")
    pipe.db.execute(
        "CREATE QUERY both AS SELECT value FROM probes UNION ALL SELECT value + 100 FROM others WHERE value > 1"
    )
    pipe.db.execute(f"CREATE SINK out FOR QUERY both TO webhook (url '{receiver.url}')")

    def push(value: float) -> None:
        pipe.push(value)
        pipe.db.push("others", [{"id": 1, "value": value}])
        pipe.engine.drain()

    def told() -> list[float]:
        return sorted(float(value) for value in receiver.rows("value"))

    push(1.0)
    push(2.0)
    eventually(lambda: told() == [1, 2, 102], str(told()))
    pipe.restart()
    push(3.0)
    eventually(lambda: told() == [1, 2, 3, 102, 103], str(told()))
    kill(pipe)
    pipe.open()
    push(4.0)
    eventually(lambda: told() == [1, 2, 3, 4, 102, 103, 104], str(told()))
