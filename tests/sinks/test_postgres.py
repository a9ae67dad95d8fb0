"""Rows into a real PostgreSQL, exactly once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from penstock.catalog.model import Sink
from penstock.errors import PenstockError
from penstock.sinks import postgres
from penstock.sinks.base import Place, SinkBatch
from penstock.sinks.registry import parse_options
from tests.sinks.world import eventually, hot_probes, kill, push, sink
from tests.support.manual_clock import ManualClock
from tests.support.pipe import Pipe
from tests.support.postgres import PrivatePostgres


@pytest.fixture
def url(postgres: PrivatePostgres) -> Iterator[str]:
    """The server, emptied afterwards."""
    yield postgres.url
    postgres.empty()


@pytest.fixture
def pipe(url: str, pipes: Callable[..., Pipe]) -> Pipe:
    """Its sinks stop before the server is emptied, which would wait for them and they for it."""
    return pipes()


def ask(url: str, text: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(text)
        return cursor.fetchall() if cursor.description else []


def to_postgres(pipe: Pipe, url: str, options: str = "") -> None:
    pipe.db.execute(f"CREATE SINK out FOR hot TO postgres (url = '{url}', table = 'public.hot'{options})")


def test_rows_are_inserted_into_a_table_made_for_them(pipe: Pipe, url: str) -> None:
    hot_probes(pipe)
    push(pipe, 11.0)
    to_postgres(pipe, url)
    push(pipe, 12.0, 13.0)
    eventually(lambda: sink(pipe)["rows"] == 3)
    assert ask(url, "SELECT id, place, value FROM hot ORDER BY value") == [
        (1, "north", 11.0),
        (1, "north", 12.0),
        (1, "north", 13.0),
    ]
    (told,) = ask(url, "SELECT folder, sink, name, cycle FROM penstock_sinks")
    assert told == (pipe.db.folder.read_id(), 1, "out", pipe.db.standing.store.cycle)


def test_a_row_with_a_known_key_takes_the_old_ones_place(pipe: Pipe, url: str) -> None:
    hot_probes(pipe)
    to_postgres(pipe, url, ", key = 'id'")
    push(pipe, 11.0, 12.0)
    pipe.push(21.0, sensor=2)
    push(pipe, 13.0)
    eventually(lambda: sink(pipe)["lag"] == 0 and sink(pipe)["rows"] == 4)
    assert ask(url, "SELECT id, value FROM hot ORDER BY id") == [(1, 13.0), (2, 21.0)]


@pytest.mark.parametrize("gently", [True, False])
def test_every_row_is_there_once_over_restarts(pipe: Pipe, url: str, gently: bool) -> None:
    hot_probes(pipe)
    push(pipe, 11.0)
    to_postgres(pipe, url)
    for value in range(12, 20):
        push(pipe, float(value))
        if value % 3 == 0:
            pipe.db.stop() if gently else kill(pipe)
            pipe.open()
    eventually(lambda: sink(pipe)["lag"] == 0)
    assert ask(url, "SELECT array_agg(value ORDER BY value) FROM hot") == [([float(v) for v in range(11, 20)],)]
    assert sink(pipe)["gaps"] == 0


def test_killed_after_the_first_commit_and_before_any_note_of_it(pipe: Pipe, url: str) -> None:
    hot_probes(pipe)
    push(pipe, 11.0)
    to_postgres(pipe, url)
    eventually(lambda: sink(pipe)["rows"] == 1)
    kill(pipe)
    (pipe.folder / "sinks" / "1" / "position.json").unlink(missing_ok=True)
    pipe.open()
    push(pipe, 12.0)
    eventually(lambda: sink(pipe)["rows"] == 1)
    assert ask(url, "SELECT array_agg(value ORDER BY value) FROM hot") == [([11.0, 12.0],)]


def test_a_database_that_was_away_gets_everything_once(pipe: Pipe, url: str, postgres: PrivatePostgres) -> None:
    hot_probes(pipe)
    push(pipe, 11.0)
    to_postgres(pipe, url)
    eventually(lambda: sink(pipe)["rows"] == 1)
    postgres.stop()
    push(pipe, 12.0)
    eventually(lambda: sink(pipe)["failed"] > 1)
    push(pipe, 13.0)
    postgres.start()
    eventually(lambda: sink(pipe)["rows"] == 3)
    assert ask(url, "SELECT array_agg(value ORDER BY value) FROM hot") == [([11.0, 12.0, 13.0],)]


def opened(url: str, **options: str) -> postgres.Postgres:
    given = {"url": url, "table": "made", **options}
    place = Place(Sink(7, "out", "hot", "postgres", {}), "id", None, ManualClock(0))  # type: ignore[arg-type]
    return postgres.Postgres(place, parse_options(postgres.KIND, given))


def test_a_commit_whose_answer_was_lost_is_not_repeated(url: str) -> None:
    batch = SinkBatch(5, None, pa.table({"x": [1]}), whole=True)
    for _ in range(2):
        out = opened(url)
        out.deliver(batch)
        assert out.position() == 5
        out.close()
    assert ask(url, "SELECT x FROM made") == [(1,)]


def test_every_type_has_a_column(url: str) -> None:
    from datetime import UTC, datetime
    from decimal import Decimal

    moment = datetime(2026, 1, 5, 12, 0, 0, 7, UTC)
    table = pa.table(
        {
            "i": pa.array([1], pa.int32()),
            "b": pa.array([2**40], pa.int64()),
            "d": pa.array([float("nan")], pa.float64()),
            "o": pa.array([True]),
            "t": pa.array(["a\0b"]),
            "ts": pa.array([moment], pa.timestamp("us", tz="UTC")),
            "n": pa.array([Decimal("1.50")], pa.decimal128(10, 2)),
            "y": pa.array([b"\x00\x01"], pa.binary()),
            "l": pa.array([[1, 2]], pa.list_(pa.int32())),
            "z": pa.array([None], pa.string()),
        }
    )
    out = opened(url)
    out.deliver(SinkBatch(1, None, table))
    out.close()
    (row,) = ask(url, "SELECT i, b, d::text, o, t, ts, n, y, l, z FROM made")
    assert row == (1, 2**40, "NaN", True, "a\ufffdb", moment, Decimal("1.50"), b"\x00\x01", [1, 2], None)


def test_trouble_is_told_in_a_line_without_the_password(pipe: Pipe, url: str) -> None:
    hot_probes(pipe)
    ask(url, "CREATE TABLE hot (other INT)")
    to_postgres(pipe, url, ", password = 'hidden'")
    push(pipe, 11.0)
    eventually(lambda: sink(pipe)["failed"] > 0)
    assert sink(pipe)["last_error"] == 'column "id" of relation "hot" does not exist'
    assert "hidden" not in str(sink(pipe))
    with pytest.raises(PenstockError) as caught:
        pipe.db.execute(f"CREATE SINK b FOR hot TO postgres (url = '{url}', table = 't', key = 'idd')")
    assert caught.value.hint == 'did you mean "id"?'
