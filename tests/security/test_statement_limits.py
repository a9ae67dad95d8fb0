"""A reader with slow statements: what others can still do, what it may see and end, and when its own work ends."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pyarrow as pa
import pytest

from penstock.cancellation import check
from penstock.database.database import Database
from penstock.errors import PenstockError
from penstock.security.caller import acting_as, current_caller
from penstock.settings import Settings
from tests.security.conftest import World
from tests.server.live import Live, serving

# Anything that only Spark answers.
SLOW = "SELECT COUNT(*) AS n FROM probes a, probes b"


class BusySpark:
    """Stands in for Spark: a statement runs until it is cancelled, or until the test lets all of them end."""

    def __init__(self) -> None:
        self.running = 0
        self.done = threading.Event()

    def run(self, *_: Any) -> pa.Table:
        self.running += 1
        try:
            while not self.done.wait(0.002):
                check()
            return pa.table({"n": [1]})
        finally:
            self.running -= 1


class HeldUp(Database):
    """A test may hold some of its calls up."""

    before_waiting: Callable[[], None] = staticmethod(lambda: None)
    before_registering: Callable[[], None] = staticmethod(lambda: None)

    def wait_for_own_writes(self) -> None:
        self.before_waiting()
        super().wait_for_own_writes()

    def register(self, *arguments: Any, **named: Any) -> list[dict[str, Any]]:
        self.before_registering()
        return super().register(*arguments, **named)


@pytest.fixture
def open_world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path, HeldUp)
    yield found
    found.close()


def until(holds: Callable[[], bool], what: str = "it", seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"{what} never came to hold"
        time.sleep(0.005)


class Plant:
    """A server with two readers and an admin, whose Spark is busy."""

    def __init__(self, world: World, live: Live) -> None:
        assert isinstance(world.db, HeldUp)
        self.db = world.db
        self.live = live
        self.spark = BusySpark()
        world.pipe.spark = lambda: self.spark
        # Nothing is committed meanwhile: no statement shall wait for its own writes.
        self.db.engine.drain()  # type: ignore[attr-defined]
        self.tokens = {"admin": world.tokens["admin"], "write": world.tokens["write"]}
        for reader in ("rita", "rob"):
            self.db.users.create_user(reader, "read", "a reader's secret")
            self.tokens[reader] = self.db.users.create_token(f"of {reader}", "read", reader)
        self._threads: list[threading.Thread] = []
        self.outcomes: list[Any] = []

    def http(self, method: str, path: str, user: str, **more: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.tokens[user]}"}
        with httpx.Client(trust_env=False) as client:
            return client.request(method, self.live.url + path, headers=headers, timeout=120, **more)

    def sql(self, text: str, user: str, **more: Any) -> httpx.Response:
        return self.http("POST", "/v1/sql", user, json={"sql": text, **more})

    def ask(self, user: str, count: int = 1, text: str = SLOW) -> None:
        """Statements that go on in the background; each leaves its response in `outcomes`."""
        for _ in range(count):
            thread = threading.Thread(target=lambda: self.outcomes.append(self.sql(text, user)))
            thread.start()
            self._threads.append(thread)

    def statements(self, user: str = "admin") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.http("GET", "/v1/statements", user).json()["statements"]
        return found

    def in_state(self, state: str) -> int:
        return sum(s["state"] == state for s in self.statements())

    def close(self) -> None:
        self.spark.done.set()
        for thread in self._threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in self._threads)

    def conditions(self) -> list[str]:
        return [r.json()["error"]["condition"] if r.status_code >= 400 else "done" for r in self.outcomes]


@pytest.fixture
def plant(world: World) -> Iterator[Plant]:
    with serving(world.db, Settings(data=str(world.pipe.folder))) as live:  # type: ignore[arg-type]
        found = Plant(world, live)
        try:
            yield found
        finally:
            found.close()


def test_while_a_reader_runs_eight_statements_everything_else_answers(plant: Plant) -> None:
    plant.ask("rita", 8)
    until(lambda: (plant.spark.running, plant.in_state("waiting")) == (4, 4), "four run and four wait")
    assert plant.http("GET", "/v1/status", "rob").status_code == 200
    assert plant.http("GET", "/metrics", "rob").status_code == 200
    assert plant.http("GET", "/v1/health", "rob").status_code == 200
    assert plant.http("GET", "/v1/queries/hot/rows", "rob").status_code == 200
    assert plant.http("GET", "/v1/tables", "rob").status_code == 200
    assert plant.sql("SELECT * FROM hot", "rita").status_code == 200
    assert plant.sql("SHOW TABLES", "rita").status_code == 200
    reading = {"id": 1, "value": 40.0}
    assert plant.http("POST", "/v1/tables/probes/readings", "write", json=[reading]).status_code == 200
    plant.db.engine.drain()  # type: ignore[attr-defined]
    assert plant.sql("SELECT * FROM hot", "rob").json()["rows"]


def test_another_user_gets_a_turn_at_once_and_too_many_of_one_user_are_refused(plant: Plant) -> None:
    plant.ask("rita", 12)
    until(lambda: (plant.spark.running, plant.in_state("waiting")) == (4, 8), "four run and eight wait")
    refused = plant.sql(SLOW, "rita")
    assert (refused.status_code, refused.json()["error"]["condition"]) == (503, "too_busy")
    plant.ask("rob")
    until(lambda: plant.spark.running == 5, "the other user's statement runs")
    plant.spark.done.set()
    until(lambda: len(plant.outcomes) == 13, "all end")
    assert set(plant.conditions()) == {"done"}


def test_a_user_whose_light_statements_hang_holds_up_no_other_user(plant: Plant) -> None:
    """Such as those that wait for the first answer of a query: they take no turn of the others, and few threads."""
    hung = threading.Semaphore(0)

    def hang() -> None:
        caller = current_caller()
        if caller is None or caller.name != "rita":
            return
        hung.release()
        while not plant.spark.done.wait(0.002):
            check()

    plant.db.before_waiting = hang
    plant.ask("rita", 60, "SELECT * FROM hot")
    for _ in range(4):
        assert hung.acquire(timeout=60)
    for _ in range(3):
        assert plant.sql("SELECT * FROM hot", "rob").status_code == 200
    assert plant.http("GET", "/v1/queries/hot/rows", "rob").status_code == 200
    assert not hung.acquire(blocking=False)  # a fifth
    plant.spark.done.set()
    until(lambda: len(plant.outcomes) == 60)
    assert set(plant.conditions()) == {"done"}


def test_the_texts_of_one_users_statements_take_bounded_memory(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.server.http.thread_pools.CALLS_MAX_BYTES", 1 << 20, raising=False)
    long = f"{SLOW} -- {'x' * 700_000}"
    plant.ask("rita", 1, long)
    until(lambda: plant.spark.running == 1, "the first runs")
    refused = plant.sql(long, "rita", timeout_s=1)
    assert (refused.status_code, refused.json()["error"]["condition"]) == (503, "too_busy"), refused.text
    assert plant.sql("SHOW TABLES", "rita").status_code == 200
    plant.ask("rob", 1, long)
    until(lambda: plant.spark.running == 2, "the other user's runs")
    plant.spark.done.set()
    until(lambda: len(plant.outcomes) == 2)
    assert plant.sql(long, "rita").status_code == 200


def test_the_definitions_that_one_user_sends_take_bounded_memory(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.server.http.thread_pools.CALLS_MAX_BYTES", 1 << 20)
    begun = threading.Event()

    def hang() -> None:
        begun.set()
        plant.spark.done.wait(60)

    plant.db.before_registering = hang
    body = {"queries": [{"name": "long", "sql": f"SELECT value FROM probes -- {'x' * 700_000}"}]}
    first = threading.Thread(
        target=lambda: plant.outcomes.append(plant.http("POST", "/v1/queries", "write", json=body))
    )
    first.start()
    assert begun.wait(60)
    for method, path, more in (
        ("POST", "/v1/queries", body),
        ("PATCH", "/v1/queries/hot", {"description": "x" * 700_000}),
        ("POST", "/v1/sql", {"sql": f"SHOW TABLES -- {'x' * 700_000}"}),
    ):
        refused = plant.http(method, path, "write", json=more)
        assert (refused.status_code, refused.json()["error"]["condition"]) == (503, "too_busy"), (path, refused.text)
    assert plant.http("PATCH", "/v1/queries/hot", "write", json={"description": "short"}).status_code == 200
    plant.spark.done.set()
    first.join(60)
    assert [outcome.status_code for outcome in plant.outcomes] == [201]


def test_no_user_sees_or_cancels_the_statement_of_another(plant: Plant) -> None:
    plant.ask("rita")
    until(lambda: plant.spark.running == 1)
    (found,) = [s for s in plant.statements() if s["text"] == SLOW]
    assert (found["owner"], found["state"]) == ("rita", "running")
    assert plant.statements("rob") == []
    assert plant.sql("SHOW STATEMENTS", "rob").json()["rows"][0][1] == "rob"  # none but this one itself
    guesses = {found["id"]: "another's", "0" * 16: "a guess", "": "empty", "' OR 1 = 1 --": "an attack"}
    for guess in guesses:
        as_text = "'" + guess.replace("'", "''") + "'"
        refused = plant.sql(f"CANCEL STATEMENT {as_text}", "rob").json()["error"]
        assert refused["condition"] == "statement_not_found"
        assert refused["message"] == f'there is no statement "{guess}" running'  # whether or not there is one
    assert plant.http("DELETE", f"/v1/statements/{found['id']}", "rob").status_code == 404
    assert plant.http("DELETE", "/v1/statements/", "rob").status_code in (404, 405, 307)
    assert plant.http("DELETE", f"/v1/statements/{found['id']}", "write").status_code == 404
    assert plant.spark.running == 1
    assert plant.http("DELETE", f"/v1/statements/{found['id']}", "rita").status_code == 204
    until(lambda: plant.conditions() == ["statement_cancelled"])
    assert plant.outcomes[0].json()["error"]["sqlstate"] == "57014"


def test_an_admin_sees_and_cancels_all_of_them(plant: Plant) -> None:
    plant.ask("rita")
    plant.ask("rob")
    until(lambda: plant.spark.running == 2)
    rows = plant.sql("SHOW STATEMENTS", "admin").json()["rows"]
    ids = {row[1]: row[0] for row in rows if row[6] == SLOW}
    assert plant.sql(f"CANCEL STATEMENT '{ids['rita']}'", "admin").json()["done"] == "CANCEL STATEMENT"
    assert plant.http("DELETE", f"/v1/statements/{ids['rob']}", "admin").status_code == 204
    until(lambda: plant.conditions() == ["statement_cancelled"] * 2)


def test_a_statement_that_waits_for_its_turn_can_be_cancelled(plant: Plant) -> None:
    plant.ask("rita", 5)
    until(lambda: plant.in_state("waiting") == 1)
    (waiting,) = [s["id"] for s in plant.statements("rita") if s["state"] == "waiting"]
    assert plant.http("DELETE", f"/v1/statements/{waiting}", "rita").status_code == 204
    until(lambda: plant.conditions() == ["statement_cancelled"])
    assert plant.spark.running == 4


def test_a_client_that_closes_its_connection_cancels_its_statement(plant: Plant) -> None:
    body = orjson.dumps({"sql": SLOW})
    url = httpx.URL(plant.live.url)
    with socket.create_connection((url.host, url.port)) as line:
        head = (
            f"POST /v1/sql HTTP/1.1\r\nHost: {url.netloc.decode()}\r\nAuthorization: Bearer {plant.tokens['rita']}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        line.sendall(head.encode() + body)
        until(lambda: plant.spark.running == 1, "it runs")
    until(lambda: plant.spark.running == 0 and plant.statements() == [], "it ends")


def test_a_statement_ends_at_its_time_and_only_an_admin_may_ask_for_more(plant: Plant) -> None:
    ended = plant.sql(SLOW, "rita", timeout_s=0.05)
    assert (ended.status_code, ended.json()["error"]["condition"]) == (408, "statement_timeout")
    assert ended.json()["error"]["message"] == "the statement took longer than 0.05 s"
    assert plant.spark.running == 0
    assert plant.http("GET", "/v1/queries/hot/rows?timeout_s=5", "rita").status_code == 200
    refused = plant.sql("SHOW TABLES", "rita", timeout_s=61)
    assert (refused.status_code, refused.json()["error"]["condition"]) == (400, "invalid_parameter")
    assert plant.sql("SHOW TABLES", "admin", timeout_s=3600).status_code == 200
    for wrong in (0, -1, 3601, 1e300):
        assert plant.sql("SHOW TABLES", "admin", timeout_s=wrong).status_code == 400


def test_each_statement_of_a_script_has_the_whole_time(plant: Plant) -> None:
    plant.spark.done.set()
    assert plant.sql("; ".join([SLOW] * 3), "rita", timeout_s=20).status_code == 200


def test_a_statement_that_waits_longer_than_its_time_is_told_so(plant: Plant) -> None:
    plant.ask("rita", 4)
    until(lambda: plant.spark.running == 4)
    told = plant.sql(SLOW, "rita", timeout_s=0.05).json()["error"]
    assert (told["condition"], told["message"]) == ("too_busy", "the statement waited 0.05 s for its turn")


def test_registering_a_query_that_spark_must_try_takes_a_turn(plant: Plant) -> None:
    tried = "SELECT a.value FROM probes a JOIN probes b ON a.value = b.value + 1 ORDER BY 1"
    body = {"queries": [{"name": "tried", "sql": tried}]}
    thread = threading.Thread(
        target=lambda: plant.outcomes.append(plant.http("POST", "/v1/queries", "write", json=body))
    )
    thread.start()
    until(lambda: plant.spark.running == 1)
    (found,) = [s for s in plant.statements() if s["text"].startswith("CREATE QUERY")]
    assert plant.http("DELETE", f"/v1/statements/{found['id']}", "admin").status_code == 204
    thread.join(60)
    assert plant.conditions() == ["statement_cancelled"]
    assert "tried" not in plant.db.catalog.state.queries


def test_a_standing_query_over_the_statements_shows_none(plant: Plant) -> None:
    """It is evaluated in no user's name, and its answer is there for every reader."""
    plant.ask("rita")
    until(lambda: plant.spark.running == 1)
    assert plant.db.system.table("penstock.statements").num_rows == 0
    rita = plant.db.users.by_token(plant.tokens["rita"])
    rob = plant.db.users.by_token(plant.tokens["rob"])
    assert rita is not None and rob is not None
    with acting_as(rita):
        assert plant.db.system.table("penstock.statements")["text"].to_pylist() == [SLOW]
    with acting_as(rob):
        assert plant.db.system.table("penstock.statements").num_rows == 0


def test_a_user_that_was_dropped_cancels_nothing(plant: Plant) -> None:
    plant.ask("rita")
    until(lambda: plant.spark.running == 1)
    (found,) = plant.statements()
    rita = plant.db.users.by_token(plant.tokens["rita"])
    assert rita is not None
    plant.db.users.drop_user("rita")
    with acting_as(rita), pytest.raises(PenstockError) as caught:
        plant.db.cancel_statement(found["id"])
    assert caught.value.condition == "unauthorized"


def test_a_stopping_server_ends_its_statements(plant: Plant) -> None:
    plant.ask("rita", 6)
    until(lambda: (plant.spark.running, plant.in_state("waiting")) == (4, 2))
    plant.db.statements.close()
    until(lambda: plant.spark.running == 0)
    until(lambda: plant.conditions() == ["statement_cancelled"] * 6)
    assert plant.sql(SLOW, "rita").json()["error"]["condition"] == "not_ready"
