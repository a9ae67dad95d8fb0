"""What only Spark can judge, and a full disk, on one server. A disk that is full refuses readings by name; nothing acknowledged is lost, and work goes on when there is room."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest

from penstock.clock import format_timestamp
from tests.bad_input.asking import ARROW, Asked, Clock, arrow, at, refused
from tests.support.server_process import ServerProcess, clear

BATCH = 500


@pytest.fixture(scope="module")
def asked(server: ServerProcess) -> Asked:
    with server.connect() as db:
        clear(db)
    asked = Asked(server)
    asked.prepare()
    Clock.began_us = time.time_ns() // 1000
    asked.accept({"id": 1, "ppm": 40.0, "n": 1, "ts": at()}, {"id": 2, "ppm": 7.5, "n": 2, "ts": at()})
    return asked


def readings(number: int) -> list[dict[str, object]]:
    ts = format_timestamp(time.time_ns() // 1000)
    return [{"id": 1, "ppm": float(number), "n": number * BATCH + i, "ts": ts} for i in range(BATCH)]


def test_what_only_spark_can_judge_is_refused_in_our_words(asked: Asked) -> None:
    many = "SELECT a.n FROM probes a WHERE a.n = (SELECT b.n FROM probes b)"
    assert "more than one row" in refused(asked.sql(many), "cardinality_violation", 400)["message"]
    refused(asked.sql(f"CREATE QUERY many AS {many}"), "cardinality_violation", 400)
    answer = asked.sql("SELECT n FROM probes UNION ALL SELECT id, room FROM probes")
    refused(answer, answer.json()["error"]["condition"], 400)


def test_not_a_number_is_a_value_and_greater_than_every_number(asked: Asked) -> None:
    body = arrow(id=[2, 2], ppm=[float("nan"), float("inf")], n=[8, 8], ts=[at(3), at(3)])
    assert asked.push_raw(body, ARROW).json()["accepted"] == 2
    found = asked.sql("SELECT COUNT(*) FROM probes WHERE n = 8 AND ppm > 1e300").json()
    assert found["rows"] == [[2]]
    shown = asked.sql("SELECT ppm FROM probes WHERE n = 8").json()["rows"]
    # JSON has no number for them: they come as what encode.py says, the same for one-shot and standing answers.
    asked.rows.update((2, row[0], 8) for row in shown)


def test_division_by_zero_is_null_and_harms_nothing(asked: Asked) -> None:
    created = asked.sql(
        "CREATE QUERY ratios AS SELECT n, ppm / n AS r, n % n AS m FROM probes WHERE n = 0 BEGIN (LAST 100000 ROWS)"
    )
    assert created.status_code == 200, created.text
    asked.accept({"id": 1, "ppm": 5.0, "n": 0, "ts": at()})
    assert asked.answer("ratios") == Counter([(0, None, None)])
    assert asked.sql("SELECT SUM(ppm / n) FROM probes WHERE n = 0").json()["rows"] == [[None]]
    assert asked.sql("DROP QUERY ratios").status_code == 200


def test_a_full_disk_refuses_readings_until_there_is_room(asked: Asked, small_disk: Path | None) -> None:
    if small_disk is None:
        pytest.skip("a full disk: a small one cannot be mounted here")
    server = asked.server
    asked.accept(*readings(1))
    asked.check_intact()

    fill(small_disk / "filler")
    answers = [asked.push(batch) for batch in (readings(2), readings(3))]
    for answer in answers:
        problem = refused(answer, "disk_full", 507)
        assert "nothing was stored" in problem["message"]
    # A few bytes may still fit into the journal's last block; this does not.
    long = "Ada" * 10_000
    refused(asked.sql(f"INSERT INTO keepers VALUES ('roof', '{long}')"), "disk_full", 507)
    assert server.process.poll() is None
    assert asked.http.get("/v1/queries/everything/rows").status_code == 200, "what is there can still be read"

    (small_disk / "filler").unlink()
    deadline = time.monotonic() + 60
    while asked.push(batch := readings(4)).status_code != 200:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    asked.rows.update((1, r["ppm"], r["n"]) for r in batch)
    asked.accept(*readings(5))
    server.wait(lambda: asked.http.get("/v1/health").json()["ready"], 60, "ready again")
    server.wait(lambda: asked.answer("everything") == asked.rows, 60, "caught up")
    # A pipeline that met the full disk a last time starts once more.
    server.wait(lambda: asked.http.get("/v1/health").json()["ready"], 60, "ready for good")
    asked.check_intact()
    assert asked.sql("INSERT INTO keepers VALUES ('roof', 'Ada')").status_code == 200

    asked.http.close()
    assert server.stop() == 0
    server.start()
    again = Asked(server)
    again.rows = asked.rows
    again.check_intact()
    assert again.sql("SELECT keeper FROM keepers").json()["rows"] == [["Ada"]]
    again.http.close()


def fill(path: Path) -> None:
    """Take every free block."""
    with path.open("wb", buffering=0) as filler:
        size = 1 << 20
        while size:
            try:
                filler.write(b"\0" * size)
            except OSError:
                size //= 2
