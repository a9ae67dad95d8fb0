"""Background services: one that fails starts again, and is shown."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.database.database import Database
from penstock.errors import PenstockError
from penstock.services import Service
from penstock.settings import Settings
from tests.sensors.mqtt_world import wait_until
from tests.support.local_engine import LocalEngine

SOURCES = Path(__file__).parents[1] / "src" / "penstock"
# Files that may start threads, and why.
STARTS_THREADS = {
    "services.py": "the one place that starts endless threads",
    "pipeline/jvm.py": "starts Java once",
    "pipeline/jobs.py": "a timer that ends with its statement",
    "pipeline/engine.py": "starts Spark once, and warms workers once",
    "expr/code_worker.py": "a watch over the server's process, in a process of its own",
    "cli/demo.py": "a client's listeners, which end with the command",
}
KINDS = {
    "log", "housekeeping", "spark queries", "sampler", "observer", "courier", "poll watchdog", "poll 1",
    "sink kept", "mqtt tanks",
}  # fmt: skip


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    settings = Settings(data=str(tmp_path / "data"), group_commit_ms=0)
    database = Database(settings, engine=LocalEngine)  # type: ignore[arg-type]
    database.start()
    yield database
    database.stop()


def start_everything(db: Database) -> None:
    """Make every kind of service run."""
    db.execute("CREATE TABLE probes (id INT PRIMARY KEY, reading STREAM (value DOUBLE))")
    db.execute("INSERT INTO probes VALUES (1, NULL)")
    db.execute("CREATE QUERY hot AS SELECT value FROM probes WHERE value > 1 BEGIN (NOW - 1 HOUR) END (NOW)")
    db.execute("CREATE SINK kept FOR hot TO files (folder = 'kept', max_age = 1 SECOND)")
    db.execute("CREATE STREAM TYPE simulated AS (value DOUBLE) USING simulator OPTIONS (rate '20')")
    db.execute("CREATE TABLE ovens (id INT PRIMARY KEY, reading STREAM simulated) ALWAYS ON")
    db.execute("INSERT INTO ovens VALUES (1, 'one')")
    # No broker listens there: it goes on trying, which is all that this needs.
    db.execute(
        "CREATE STREAM TYPE level AS (metres DOUBLE) USING mqtt OPTIONS (url 'mqtt://127.0.0.1:1', topic 't/{id}')"
    )
    db.execute("CREATE TABLE tanks (id INT PRIMARY KEY, reading STREAM level)")


def give_work(db: Database) -> None:
    db.push("probes", [{"id": 1, "value": 2.0}])
    db.engine.cycle()  # type: ignore[attr-defined]
    db.observer.follow()


def fail_next(service: Service) -> None:
    """Let the next step of a service raise; those after it are as before."""
    step = service.step

    def fail() -> float:
        service.step = step
        raise RuntimeError("injected")

    service.step = fail


def services(db: Database) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in db.system.table("penstock.services").to_pylist()}


def test_housekeeping_goes_on_after_an_exception(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[int] = []
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    (service,) = db.housekeeper.services()
    step = service.step

    def fail_once() -> float | None:
        called.append(1)
        if len(called) == 1:
            raise RuntimeError("the first one fails")
        return step()

    service.step = fail_once
    wait_until(lambda: len(called) > 0)
    wait_until(lambda: len(called) > 1, timeout_s=3)


def test_endless_threads_are_started_by_services_only() -> None:
    found = {
        str(path.relative_to(SOURCES))
        for path in SOURCES.rglob("*.py")
        if re.search(r"\b(Thread|Timer)\(|start_new_thread", path.read_text())
    }
    assert found == set(STARTS_THREADS)


def test_every_service_starts_again_after_an_exception(db: Database) -> None:
    start_everything(db)
    wait_until(lambda: services(db).keys() >= KINDS)
    before = {name: row["failures"] for name, row in services(db).items()}
    assert set(before.values()) == {0}
    for service in db.services():
        fail_next(service)

    def all_recovered() -> bool:
        give_work(db)
        found = services(db)
        return all(
            row["failures"] == 1 and row["rounds"] > 0 and row["state"] == "running"
            for name, row in found.items()
            if name in KINDS
        )

    wait_until(all_recovered)
    found = services(db)
    assert all("injected" in found[name]["last_error"] for name in KINDS)
    assert all(found[name]["last_success"] is not None for name in KINDS)
    assert db.health().ready


@pytest.mark.parametrize(("name", "critical"), [("beside", False), ("core", True)])
def test_health_names_a_service_that_is_down_and_a_critical_one_makes_it_not_ready(
    tmp_path: Path, name: str, critical: bool
) -> None:
    mended = threading.Event()

    def step() -> float:
        if not mended.is_set():
            raise OSError("no such disk")
        return 0.01

    service = Service(name, step, critical=critical)

    class OneMore(LocalEngine):
        def services(self) -> list[Service]:
            return [service]

    db = Database(Settings(data=str(tmp_path / "data"), group_commit_ms=0), engine=OneMore)  # type: ignore[arg-type]
    db.start()
    service.start()
    wait_until(lambda: service.facts()["state"] == "restarting")
    health = db.health()
    assert health.ready is not critical
    assert "no such disk" in (health.reason if critical else health.details["services"][name])
    mended.set()
    wait_until(lambda: db.health().ready and "services" not in db.health().details)
    service.stop()
    service.join(60)
    assert not service.is_alive() and service.facts()["state"] == "stopped"
    db.stop()


def test_a_sender_gets_an_answer_whatever_the_writer_of_the_log_raises(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.execute("CREATE TABLE probes (id INT PRIMARY KEY, reading STREAM (value DOUBLE))")
    db.execute("INSERT INTO probes VALUES (1, NULL)")
    with monkeypatch.context() as broken:
        broken.setattr(os, "rename", lambda *_: sys.exit("no more"))
        with pytest.raises(PenstockError, match="no more"):
            db.push("probes", [{"id": 1, "value": 1.0}])
    assert db.push("probes", [{"id": 1, "value": 2.0}]).accepted == 1
    with db.log.still() as heads:
        assert heads == {1: 1}
    wait_until(lambda: db.health().ready)
