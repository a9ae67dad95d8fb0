"""The runner: sinks that are slow, failing, paused or dropped hold nobody up and lose nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.sinks.world import Receiver, eventually, hot_probes, push, sink
from tests.support.pipe import Pipe


def to_webhook(pipe: Pipe, receiver: Receiver, name: str = "out") -> None:
    pipe.db.execute(f"CREATE SINK {name} FOR hot TO webhook (url = '{receiver.url}')")


def test_a_sink_that_hangs_holds_back_neither_cycles_nor_other_sinks(pipe: Pipe, receiver: Receiver) -> None:
    hot_probes(pipe)
    slow = Receiver()
    slow.let_go.clear()
    to_webhook(pipe, slow, "slow")
    to_webhook(pipe, receiver, "quick")
    for value in range(11, 21):
        push(pipe, float(value))
    eventually(lambda: len(receiver.rows()) == 10)
    eventually(lambda: sink(pipe, "quick")["rows"] == 10)
    assert (sink(pipe, "slow")["rows"], slow.taken) == (0, [])
    slow.let_go.set()
    eventually(lambda: slow.rows() == receiver.rows())
    slow.close()


def test_a_target_may_be_away_for_longer_than_cycles_are_kept(pipes: Callable[..., Pipe], receiver: Receiver) -> None:
    pipe = pipes(cycles_keep=8)
    hot_probes(pipe)
    to_webhook(pipe, receiver)
    push(pipe, 11.0)
    eventually(lambda: sink(pipe)["rows"] == 1)
    receiver.refuse_all = True
    for value in range(12, 24):
        push(pipe, float(value))
        # Between two cycles of a real server there is time enough for a look; here the test leaves it.
        eventually(lambda: _at(pipe) >= pipe.db.standing.store.cycle - 4)
    assert sink(pipe)["waiting"] > 4 and sink(pipe)["state"] == "RETRYING"
    pipe.restart()
    push(pipe, 24.0)
    receiver.refuse_all = False
    eventually(lambda: receiver.rows() == [float(v) for v in range(11, 25)])
    eventually(lambda: (sink(pipe)["gaps"], sink(pipe)["waiting"], sink(pipe)["lag"]) == (0, 0, 0))


def _at(pipe: Pipe) -> int:
    (follower,) = pipe.db.sinks._followers.values()
    return follower._reader._at or 0  # type: ignore[union-attr]


def test_beyond_its_backlog_a_sink_says_that_cycles_are_lost_and_begins_anew(
    pipes: Callable[..., Pipe], receiver: Receiver
) -> None:
    pipe = pipes(cycles_keep=8, sink_backlog_mb=0)
    hot_probes(pipe, "BEGIN NOW - 1 HOUR")
    to_webhook(pipe, receiver)
    push(pipe, 11.0)
    eventually(lambda: sink(pipe)["rows"] == 1)
    receiver.refuse_all = True
    push(pipe, 12.0)
    eventually(lambda: sink(pipe)["failed"] > 0)  # this one it holds while the others come and go
    for value in range(13, 24):
        push(pipe, float(value))
    receiver.refuse_all = False
    eventually(lambda: sink(pipe)["lag"] == 0)
    assert sink(pipe)["gaps"] == 1
    last = [body for body in receiver.bodies() if body["kind"] == "answer"][-1]
    assert [row["value"] for row in last["rows"]] == [float(v) for v in range(11, 24)]


def test_a_paused_sink_delivers_later_what_came_meanwhile(pipes: Callable[..., Pipe], receiver: Receiver) -> None:
    pipe = pipes(cycles_keep=8)
    hot_probes(pipe)
    to_webhook(pipe, receiver)
    push(pipe, 11.0)
    eventually(lambda: sink(pipe)["rows"] == 1)
    pipe.db.execute("ALTER SINK out PAUSE")
    eventually(lambda: [f.told.state for f in pipe.db.sinks._followers.values()] == ["PAUSED"])
    for value in range(12, 22):
        push(pipe, float(value))
        eventually(lambda: _at(pipe) >= pipe.db.standing.store.cycle - 4)
    assert (sink(pipe)["state"], receiver.rows()) == ("PAUSED", [11.0])
    pipe.db.execute("ALTER SINK out RESUME")
    eventually(lambda: receiver.rows() == [float(v) for v in range(11, 22)])
    assert sink(pipe)["gaps"] == 0


def test_a_paused_sink_stays_paused_over_a_restart(pipe: Pipe, receiver: Receiver) -> None:
    hot_probes(pipe)
    to_webhook(pipe, receiver)
    pipe.db.execute("ALTER SINK out PAUSE")
    pipe.restart()
    before = len(receiver.requests)  # it may have begun before it was told to pause
    push(pipe, 11.0)
    eventually(lambda: [f.told.state for f in pipe.db.sinks._followers.values()] == ["PAUSED"])
    assert len(receiver.requests) == before and receiver.rows() == []
    pipe.db.execute("ALTER SINK out RESUME")
    eventually(lambda: receiver.rows() == [11.0])


def test_a_paused_query_is_waited_for(pipe: Pipe, receiver: Receiver) -> None:
    hot_probes(pipe)
    to_webhook(pipe, receiver)
    push(pipe, 11.0)
    eventually(lambda: sink(pipe)["rows"] == 1)
    pipe.db.execute("ALTER QUERY hot PAUSE")
    pipe.engine.drain()
    push(pipe, 12.0)
    pipe.db.execute("ALTER QUERY hot RESUME")
    pipe.engine.drain()
    push(pipe, 13.0)
    eventually(lambda: receiver.rows() == [11.0, 12.0, 13.0])
    assert sink(pipe)["gaps"] == 0


def test_a_dropped_sink_ends_and_leaves_nothing(pipe: Pipe, receiver: Receiver) -> None:
    hot_probes(pipe)
    to_webhook(pipe, receiver)
    push(pipe, 11.0)
    eventually(lambda: sink(pipe)["rows"] == 1)
    folder: Path = pipe.db.folder.sinks
    eventually(lambda: list(folder.iterdir()))
    pipe.db.execute("DROP SINK out")
    eventually(lambda: not list(folder.iterdir()))
    push(pipe, 12.0)
    before = len(receiver.requests)
    to_webhook(pipe, receiver)
    eventually(lambda: len(receiver.requests) > before)
    assert receiver.requests[before][0]["Idempotency-Key"].split("-")[1] == "2"  # another sink, whatever its name
    assert (receiver.bodies()[before]["kind"], len(receiver.bodies()[before]["rows"])) == ("answer", 2)


def test_a_query_of_groups_tells_every_new_value(pipe: Pipe, receiver: Receiver) -> None:
    pipe.probes()
    pipe.db.execute("CREATE QUERY hot AS SELECT id, COUNT(value) AS value FROM probes GROUP BY id")
    pipe.engine.drain()
    to_webhook(pipe, receiver)
    push(pipe, 1.0)
    eventually(lambda: receiver.rows()[-1:] == [1])
    push(pipe, 1.0)
    eventually(lambda: receiver.rows()[-1:] == [2])
    pipe.restart()
    push(pipe, 1.0)
    eventually(lambda: receiver.rows()[-1:] == [3])
    assert sink(pipe)["gaps"] == 0 and receiver.rows().count(2) == 1


def test_a_window_join_goes_on_over_a_restart(pipe: Pipe, receiver: Receiver) -> None:
    pipe.probes()
    pipe.db.execute(
        "CREATE QUERY hot AS SELECT a.value AS x, b.value AS value FROM probes a, probes b"
        " DWINDOW(a, b) = 1 SECOND WHERE a.id = b.id AND a.value + 1 = b.value"
    )
    pipe.engine.drain()
    to_webhook(pipe, receiver)
    for value in (1.0, 2.0, 3.0):
        push(pipe, value)
    eventually(lambda: receiver.rows() == [2.0, 3.0])
    eventually(lambda: sink(pipe)["lag"] == 0)
    receiver.refuse_all = True
    push(pipe, 4.0)
    eventually(lambda: sink(pipe)["failed"] > 0)
    pipe.restart()
    push(pipe, 5.0)
    receiver.refuse_all = False
    eventually(lambda: receiver.rows() == [2.0, 3.0, 4.0, 5.0])
    assert sink(pipe)["gaps"] == 0


@pytest.mark.parametrize("restored", [False, True])
def test_a_folder_that_fell_back_begins_with_its_answer(
    pipes: Callable[..., Pipe], receiver: Receiver, tmp_path: Path, restored: bool
) -> None:
    """A backup knows less than its sinks delivered; with or without their places in it, new rows must arrive."""
    pipe = pipes()
    hot_probes(pipe)
    to_webhook(pipe, receiver)
    push(pipe, 11.0)
    pipe.db.backup(tmp_path / "backup")
    for value in (12.0, 13.0, 14.0):
        push(pipe, value)
    eventually(lambda: sink(pipe)["rows"] == 4)
    places = pipe.db.folder.sinks
    pipe.db.stop()
    if restored:
        places.rename(tmp_path / "backup" / "sinks")
    pipe.folder = tmp_path / "backup"
    pipe.open()
    push(pipe, 99.0)
    eventually(lambda: any(row["value"] == 99.0 for body in receiver.bodies() for row in body["rows"]))
