"""Functions that hang, crash or hoard memory in Spark's workers: their queries are taken out, hundreds of others go on."""

from __future__ import annotations

import time
from typing import Any

import pytest

from penstock.client.connection import Connection
from penstock.errors import PenstockError
from tests.kill.conftest import start_anew
from tests.support.server_process import ServerProcess

QUERIES = 300
POISON = 13.0
BODIES = {
    # In C with the interpreter's lock, where no timer of Python's reaches. Asleep: at work it would take a processor for half
    # a minute from all other tests.
    "hang": "import ctypes\nwhile v == 13:\n    ctypes.PyDLL(None).sleep(3600)\nreturn v",
    "crash": "import os\nif v == 13:\n    os._exit(1)\nreturn v",
    "memory": "kept = []\nwhile v == 13:\n    kept.append(bytes(10**7))\nreturn v",
}
ENVIRONMENT = {"PENSTOCK_CYCLE_STALL_S": "5", "PENSTOCK_WORKER_MEMORY_MB": "700"}
WAIT_S = 180.0


@pytest.fixture(scope="module")
def server(process: ServerProcess, tmp_path_factory: pytest.TempPathFactory) -> ServerProcess:
    start_anew(process, tmp_path_factory.mktemp("poison"), ENVIRONMENT)
    with process.connect() as db:
        db.sql("CREATE TABLE probes (id INT PRIMARY KEY, reading STREAM (value DOUBLE))")
        db.sql("INSERT INTO probes VALUES (1, NULL)")
        db.register([(f"q{i}", f"SELECT value FROM probes WHERE value > {i}") for i in range(QUERIES)])
        for name, body in BODIES.items():
            create_function(db, name, body)
            db.sql(f"CREATE QUERY bad_{name} AS SELECT {name}(value) AS x FROM probes WHERE value > 5")
        push(db, 500.0)
        wait_until(process, lambda: values(db, "q3") == [500.0] and values(db, "bad_hang") == [500.0])
    return process


def create_function(db: Connection, name: str, body: str, replace: str = "") -> None:
    db.sql(f"CREATE {replace} FUNCTION {name}(v DOUBLE) RETURNS DOUBLE LANGUAGE PYTHON AS $$\n{body}\n$$")


def push(db: Connection, value: float) -> None:
    db.push("probes", [{"id": 1, "value": value}], retry_for_s=WAIT_S)


def values(db: Connection, name: str) -> list[Any]:
    found: list[Any] = db.invoke(name).table.column(0).to_pylist()
    return found


def wait_until(server: ServerProcess, condition: Any, *passing: str) -> None:
    """Errors that pass: those of a server that is busy or comes back, and `passing`."""

    def holds() -> bool:
        try:
            return bool(condition())
        except PenstockError as failure:
            if failure.condition not in ("not_ready", "too_busy", "connection_failed", *passing):
                raise
            return False

    server.wait(holds, WAIT_S, "as expected")


def failure_of(db: Connection, name: str) -> PenstockError:
    with pytest.raises(PenstockError) as caught:
        db.invoke(name)
    return caught.value


def test_poison_stops_its_own_query_only(server: ServerProcess) -> None:
    """All three meet the same reading. Two of them stop the pipeline, which health tells until they are found."""
    with server.connect() as db:
        push(db, POISON)
        push(db, 14.5)
        told: list[str] = []

        def current() -> bool:
            health = db.health()
            if not health["ready"]:
                told.append(health["reason"])
            return bool(health["ready"]) and values(db, "q3") == [500.0, POISON, 14.5]

        began = time.monotonic()
        wait_until(server, current)
        print(f"current again after {time.monotonic() - began:.0f} s")
        assert told, "health never said that anything was wrong"
        for name in BODIES:
            failure = failure_of(db, f"bad_{name}")
            assert failure.condition == "query_quarantined", failure
            assert db.query(f"bad_{name}").describe()["state"] == "FAILED"
        push(db, 15.5)
        wait_until(server, lambda: values(db, "q14") == [500.0, 14.5, 15.5])
        assert db.health()["ready"]


def test_a_restart_keeps_them_out_until_they_are_mended_and_resumed(server: ServerProcess) -> None:
    assert server.stop() == 0
    server.start()
    with server.connect() as db:
        wait_until(server, lambda: values(db, "q14") == [500.0, 14.5, 15.5])
        for name in BODIES:
            assert failure_of(db, f"bad_{name}").condition == "query_quarantined"
            create_function(db, name, "return v", "OR REPLACE")
            db.sql(f"ALTER QUERY bad_{name} RESUME")
        mended = [500.0, POISON, 14.5, 15.5]
        for name in BODIES:
            # Until a cycle has taken in that it goes on, a query has the answer of before.
            wait_until(server, lambda name=name: values(db, f"bad_{name}") == mended, "query_quarantined")
