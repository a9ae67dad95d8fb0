"""Sinks of final rows: each row once, and what cannot be asked for."""

from __future__ import annotations

import pytest

from penstock.clock import SECOND
from penstock.errors import PenstockError
from tests.sinks.world import Receiver, eventually, kill
from tests.support.pipe import BEGAN_US, Pipe

OPTIONS = "WITH (time = 'valid', out_of_order = 'accept', lateness = '5 SECONDS')"
COUNTS = "SELECT window_end, COUNT(*) AS n FROM probes GROUP BY TUMBLE(10 SECONDS) BEGIN (NOW - 1 HOUR) END (NOW)"
T0 = BEGAN_US // (60 * SECOND) * 60 * SECOND


def push(pipe: Pipe, *seconds: int) -> None:
    pipe.db.push("probes", [{"id": 1, "ts": T0 + at * SECOND, "value": 1.0} for at in seconds])
    pipe.engine.drain()


def test_a_sink_of_final_rows_sends_each_once_across_restarts_and_kills(pipe: Pipe, receiver: Receiver) -> None:
    pipe.probes(OPTIONS)
    pipe.db.execute(f"CREATE QUERY counts AS {COUNTS}")
    pipe.db.execute(f"CREATE SINK out FOR QUERY counts TO webhook (url '{receiver.url}', rows 'final')")
    push(pipe, 1, 3)
    push(pipe, 12, 9)
    push(pipe, 16)  # the watermark passes 10
    eventually(lambda: receiver.rows("n") == [3])
    pipe.restart()
    push(pipe, 13, 37)
    eventually(lambda: receiver.rows("n") == [3, 3])
    kill(pipe)
    pipe.open()
    push(pipe, 33, 60)
    eventually(lambda: receiver.rows("n") == [3, 3, 2], str(receiver.rows("n")))


@pytest.mark.parametrize(
    ("query", "options", "hint"),
    [
        ("counts", "rows 'final', changes 'true'", "a final row never leaves: leave out changes"),
        ("now", "rows 'final'", None),
        ("late", "rows 'final'", "ALTER TABLE slow SET lateness = '1 MINUTE' says how late a reading may come"),
    ],
)
def test_a_sink_without_final_rows_is_refused_at_its_option(
    pipe: Pipe, query: str, options: str, hint: str | None
) -> None:
    pipe.probes(OPTIONS)
    pipe.db.execute(f"CREATE QUERY counts AS {COUNTS}")
    pipe.db.execute("CREATE QUERY now AS SELECT COUNT(*) AS n FROM probes BEGIN (NOW - 1 HOUR) END (NOW)")
    pipe.db.execute("CREATE TABLE slow (id INT PRIMARY KEY, r STREAM (value DOUBLE)) WITH (time = 'valid')")
    pipe.db.execute(f"CREATE QUERY late AS {COUNTS.replace('probes', 'slow')}")
    statement = f"CREATE SINK out FOR QUERY {query} TO files (folder 'panes', {options})"
    with pytest.raises(PenstockError) as refused:
        pipe.db.execute(statement)
    assert (refused.value.hint, refused.value.column) == (hint, statement.index("rows '") + 1)
