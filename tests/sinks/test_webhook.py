"""Webhooks: what is sent, how it is signed, and that a receiver's trouble loses nothing."""

from __future__ import annotations

import hashlib
import hmac
import json

from tests.sinks.world import Receiver, eventually, hot_probes, kill, push, sink
from tests.support.pipe import BEGAN_US, Pipe


def to_webhook(pipe: Pipe, receiver: Receiver, options: str = "", name: str = "out") -> None:
    pipe.db.execute(f"CREATE SINK {name} FOR hot TO webhook (url = '{receiver.url}'{options})")


def test_the_answer_comes_first_and_then_what_each_cycle_brings(pipe: Pipe, receiver: Receiver) -> None:
    hot_probes(pipe)
    push(pipe, 11.0, 5.0)
    to_webhook(pipe, receiver)
    eventually(lambda: len(receiver.requests) == 1)
    push(pipe, 6.0)
    push(pipe, 12.0, 13.0)
    eventually(lambda: len(receiver.requests) == 2)
    first, second = receiver.bodies()
    assert (first["kind"], first["rows"]) == ("answer", [{"id": 1, "place": "north", "value": 11.0}])
    assert (second["kind"], [r["value"] for r in second["rows"]]) == ("rows", [12.0, 13.0])
    assert (second["sink"], second["query"]) == ("out", "hot")
    assert second["cycle"] == pipe.db.standing.store.cycle > first["cycle"]
    headers = receiver.requests[1][0]
    assert headers["Penstock-Cycle"] == str(second["cycle"])
    assert headers["Idempotency-Key"] == f"{pipe.db.folder.read_id()}-1-{second['cycle']}-0"
    assert "Penstock-Signature" not in headers


def test_a_body_is_signed_with_the_time_and_the_secret(pipe: Pipe, receiver: Receiver) -> None:
    hot_probes(pipe)
    push(pipe, 11.0)
    to_webhook(pipe, receiver, ", secret = 'hush hush', token = 'let me in'")
    eventually(lambda: receiver.requests)
    headers, body = receiver.requests[0]
    at = BEGAN_US // 1_000_000
    expected = hmac.new(b"hush hush", f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    assert headers["Penstock-Signature"] == f"t={at},v1={expected}"
    assert headers["Authorization"] == "Bearer let me in"


def test_a_refused_batch_comes_again_with_the_same_key_and_nothing_overtakes_it(pipe: Pipe, receiver: Receiver) -> None:
    hot_probes(pipe)
    push(pipe, 11.0)
    receiver.statuses = [500, 429, 404]
    to_webhook(pipe, receiver)
    push(pipe, 12.0)
    eventually(lambda: sink(pipe)["rows"] == 2)
    keys = [headers["Idempotency-Key"] for headers, _ in receiver.requests]
    assert keys[0] == keys[1] == keys[2] == keys[3]
    assert receiver.rows() == [11.0, 12.0]
    told = sink(pipe)
    assert (told["state"], told["failed"], told["retries"]) == ("RUNNING", 3, 3)
    assert told["last_error"] == "it answered 404"


def test_a_large_cycle_goes_in_parts(pipe: Pipe, receiver: Receiver) -> None:
    hot_probes(pipe)
    push(pipe, *[float(v) for v in range(11, 16)])
    to_webhook(pipe, receiver, ", batch_rows = 2")
    eventually(lambda: len(receiver.requests) == 3)
    assert [(b["part"], b["parts"], len(b["rows"])) for b in receiver.bodies()] == [(1, 3, 2), (2, 3, 2), (3, 3, 1)]
    assert len({headers["Idempotency-Key"] for headers, _ in receiver.requests}) == 3
    eventually(lambda: sink(pipe)["rows"] == 5)


def test_a_restarted_server_goes_on_behind_what_was_delivered(pipe: Pipe, receiver: Receiver) -> None:
    hot_probes(pipe)
    push(pipe, 11.0)
    to_webhook(pipe, receiver)
    eventually(lambda: sink(pipe)["rows"] == 1)
    receiver.refuse_all = True
    push(pipe, 12.0)
    push(pipe, 13.0)
    eventually(lambda: sink(pipe)["failed"] > 0)
    pipe.restart()
    push(pipe, 14.0)
    receiver.refuse_all = False
    eventually(lambda: sink(pipe)["rows"] == 3)
    taken = [body for (_, raw) in receiver.requests if (body := json.loads(raw))["rows"]]
    assert [b["kind"] for b in taken].count("answer") == 1
    assert receiver.rows() == [11.0, 12.0, 13.0, 14.0]
    assert sink(pipe)["gaps"] == 0


def test_a_killed_server_delivers_again_rather_than_not_at_all(pipe: Pipe, receiver: Receiver) -> None:
    hot_probes(pipe)
    to_webhook(pipe, receiver)
    for value in (11.0, 12.0, 13.0):
        push(pipe, value)
    eventually(lambda: receiver.rows() == [11.0, 12.0, 13.0])
    # A first answer that is delivered and not noted comes again as that of a later cycle, with another key.
    eventually(lambda: sink(pipe)["cycle"] is not None)
    kill(pipe)
    pipe.open()
    push(pipe, 14.0)
    eventually(lambda: receiver.rows()[-1:] == [14.0])
    assert receiver.rows() == [11.0, 12.0, 13.0, 14.0]  # by key; a repeat has the key of what it repeats


def test_quiet_cycles_move_a_sink_on(pipe: Pipe, receiver: Receiver) -> None:
    hot_probes(pipe)
    push(pipe, 11.0)
    to_webhook(pipe, receiver)
    push(pipe, 1.0)
    push(pipe, 2.0)
    eventually(lambda: sink(pipe)["lag"] == 0)
    assert sink(pipe)["cycle"] == pipe.db.standing.store.cycle
    pipe.restart()
    eventually(lambda: sink(pipe)["lag"] == 0)
    assert len(receiver.requests) == 1
