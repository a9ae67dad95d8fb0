"""Readers that run cross joins on real Spark: the rest of the server goes on, and each way to end one ends it."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import httpx
import orjson
import pytest

from penstock.cancellation import Cancellation, cancelled_by
from penstock.database.database import Database
from penstock.errors import PenstockError
from penstock.pipeline.jobs import statement_jobs
from penstock.security.caller import Caller, acting_as
from penstock.settings import Settings
from tests.server.live import Live, serving
from tests.spark.conftest import clear

ROWS = 10_000
PUSHES = 3 if os.environ.get("PENSTOCK_SOAK") else 2  # meanwhile, cross joins have every processor
# A million million combinations: no machine ends it while a test waits.
CROSS = "SELECT COUNT(*) AS n FROM probes a, probes b, probes c WHERE a.value + b.value > c.value * 3"


def until(holds: Callable[[], bool], what: str, seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"{what} never came to hold"
        time.sleep(0.02)


class Plant:
    def __init__(self, database: Database, live: Live) -> None:
        self.db = database
        self.live = live
        self.ended: list[str] = []
        self._threads: list[threading.Thread] = []

    def ask(self, reader: str, cancellation: Cancellation | None = None) -> None:
        """A cross join in the background, in the name of a reader; what it ends with goes to `ended`."""

        def work() -> None:
            with acting_as(Caller(reader, "read", reader)), cancelled_by(cancellation or Cancellation()):
                try:
                    self.db.execute(CROSS)
                except PenstockError as failure:
                    self.ended.append(failure.condition)

        self._threads.append(threading.Thread(target=work))
        self._threads[-1].start()

    def ids(self, **facts: str) -> list[str]:
        """Of the cross joins with these facts."""
        found = [s for s in self.db.running_statements() if s["text"] == CROSS]
        return [s["id"] for s in found if all(s[name] == value for name, value in facts.items())]

    def jobs_run(self, group: str) -> bool:
        assert self.db.engine.spark is not None
        tracker = self.db.engine.spark.sparkContext.statusTracker()
        infos = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
        return any(info is not None and info.status == "RUNNING" for info in infos)

    def get(self, path: str) -> httpx.Response:
        return httpx.get(self.live.url + path, timeout=120, trust_env=False)

    def close(self) -> None:
        for statement in self.ids():
            self.db.cancel_statement(statement)
        for thread in self._threads:
            thread.join(120)
        assert not any(thread.is_alive() for thread in self._threads)


@pytest.fixture(scope="module")
def probes(database: Database) -> Iterator[Database]:
    clear(database)
    database.execute(
        "CREATE TABLE probes (id INT PRIMARY KEY, reading STREAM (value DOUBLE)); INSERT INTO probes VALUES (1, NULL);"
        "CREATE QUERY hot AS SELECT value FROM probes WHERE value < 0 BEGIN (NOW - 10 MINUTES) END (NOW)"
    )
    database.push("probes", [{"id": 1, "value": float(n)} for n in range(ROWS)])
    # No kernel sorts what a subquery has grouped: Spark evaluates it, cycle after cycle.
    counted = "SELECT MAX(n) AS n FROM (SELECT COUNT(*) AS n FROM probes GROUP BY id) g"
    database.execute(counted)  # the first question of all takes a cold Spark too long for a standing query
    database.execute(f"CREATE QUERY counted AS {counted}")
    yield database
    clear(database)


@pytest.fixture
def plant(probes: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plant]:
    monkeypatch.setattr(probes.statements, "_settings", replace(probes.settings, statement_timeout_s=1_000))
    with serving(probes, Settings(data=probes.settings.data)) as live:  # type: ignore[arg-type]
        found = Plant(probes, live)
        try:
            yield found
        finally:
            found.close()


def test_while_readers_run_eight_cross_joins_everything_else_goes_on(plant: Plant) -> None:
    db = plant.db
    for _ in range(6):
        plant.ask("rita")
    for _ in range(4):
        plant.ask("rob")
    until(lambda: len(plant.ids(place="Spark")) == 8 and len(plant.ids(state="waiting")) == 2, "eight run")
    assert len(plant.ids(owner="rita", state="waiting")) == 2
    evaluated = db.standing.invoke("counted").cycle or 0
    for number in range(1, PUSHES + 1):
        db.push("probes", [{"id": 1, "value": -1.0}])
        until(lambda: len(db.invoke("hot").table) == number, "a reading reaches a standing query")  # noqa: B023
        assert plant.get("/metrics").status_code == 200
        assert plant.get("/v1/status").status_code == 200
    until(lambda: (db.standing.invoke("counted").cycle or 0) > evaluated, "Spark evaluates a standing query")
    assert len(plant.ids(place="Spark")) == 8 and plant.ended == []
    first = plant.ids(owner="rob")[0]
    with acting_as(Caller("rita", "read", "rita")), pytest.raises(PenstockError, match="there is no statement"):
        db.execute(f"CANCEL STATEMENT '{first}'")
    with acting_as(Caller("rob", "read", "rob")):
        db.execute(f"CANCEL STATEMENT '{first}'")
    until(lambda: plant.ended == ["statement_cancelled"], "a cancelled one ends")
    until(lambda: not plant.jobs_run(first), "its jobs end")
    for statement in plant.ids():
        db.cancel_statement(statement)
    until(lambda: plant.ended == ["statement_cancelled"] * 10, "all of them end")


def test_a_statement_with_more_tasks_than_slots_gives_some_back_to_a_cycle(plant: Plant) -> None:
    spark, limit = plant.db.engine.spark, Cancellation()
    assert spark is not None
    tasks = 4 * int(spark.sparkContext.master.removeprefix("local[").partition(",")[0])
    wide = f"SELECT COUNT(*) FROM range(0, 1000000000000, 1, {tasks}) a WHERE a.id % 7 = 8"

    def work() -> None:
        with cancelled_by(limit), contextlib.suppress(PenstockError), statement_jobs(spark):
            spark.sql(wide).collect()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        until(lambda: plant.jobs_run(limit.id), "it runs")
        for _ in range(2):
            before = len(plant.db.invoke("hot").table)
            plant.db.push("probes", [{"id": 1, "value": -1.0}])
            until(lambda: len(plant.db.invoke("hot").table) > before, "a reading reaches a standing query")  # noqa: B023
        assert plant.jobs_run(limit.id)
    finally:
        limit.cancel("the test is over")
        thread.join(120)
    assert not thread.is_alive()


def test_a_cross_join_ends_at_its_time(plant: Plant) -> None:
    limit = Cancellation(timeout_s=3)
    plant.ask("rita", limit)
    until(lambda: plant.ended == ["statement_timeout"], "it ends")
    until(lambda: not plant.jobs_run(limit.id), "its jobs end")


def test_a_client_that_leaves_ends_its_cross_join(plant: Plant) -> None:
    body, url = orjson.dumps({"sql": CROSS}), httpx.URL(plant.live.url)
    with socket.create_connection((url.host, url.port)) as line:
        head = f"POST /v1/sql HTTP/1.1\r\nHost: {url.netloc.decode()}\r\nContent-Type: application/json\r\n"
        line.sendall(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        until(lambda: len(plant.ids(place="Spark")) == 1, "it runs")
        (statement,) = plant.ids()
        until(lambda: plant.jobs_run(statement), "its jobs run")
    until(lambda: plant.ids() == [] and not plant.jobs_run(statement), "it ends")
