"""Executors in processes of their own that share nothing with the server but the data folder.

The same workload as the kill tests, on Spark's local cluster: one executor dies in mid-run, workers are swapped
between cycles, tasks fail half-way. Every answer stays the brute-force one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.brute_force import Question
from tests.support.server_process import ServerProcess, server_process
from tests.support.workload import (
    TABLES,
    Sent,
    Writer,
    check_answers,
    check_nothing_lost_or_doubled,
    create_tables,
    late_question,
    questions,
    wait_for_readings,
    wait_until_caught_up,
)

MASTER = "local-cluster[2,1,1024]"
IDLE_S = 120.0 if os.environ.get("PENSTOCK_SOAK") else 2.0


class Cluster:
    """One server with its executors, the questions it stands for, and what was sent."""

    def __init__(self, server: ServerProcess, failures: Path) -> None:
        self.server = server
        self.failures = failures
        self.asked: list[Question] = [q for table in TABLES for q in questions(table)]
        self.sent = {table: Sent() for table in TABLES}
        self.number = 0

    def check(self) -> None:
        with self.server.connect() as db:
            wait_until_caught_up(db, self.server.data)
            check_answers(db, self.server.data, self.asked)
            check_nothing_lost_or_doubled(db, self.server.data, self.sent)

    def writer(self, seed: int) -> Writer:
        return Writer(self.server.url, seed, self.sent, self.number)

    def wait_for_readings(self, count: int) -> None:
        wait_for_readings(self.server, self.sent, count)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    failures = folder / "failures"
    failures.mkdir()
    with server_process(
        folder,
        MASTER,
        environment={"PENSTOCK_TEST_FAIL": str(failures)},
        launcher=("-m", "tests.support.launch"),
    ) as server:
        server.start()
        found = Cluster(server, failures)
        with server.connect() as db:
            create_tables(db.sql)
            db.register([(q.name, q.sql) for q in found.asked])
        yield found
        assert server.stop() == 0


def test_an_executor_dies_in_mid_run_and_answers_stay_exact(cluster: Cluster) -> None:
    server = cluster.server
    server.wait(lambda: len(server.parts("executor")) == 2, 120, "running two executors")
    writer = cluster.writer(1)
    writer.start()
    try:
        cluster.wait_for_readings(500)
        dead = server.kill("executor")
        with server.connect() as db:
            late = late_question("probes", 1)
            db.sql(late.create)
            cluster.asked.append(late)
            wait_until_caught_up(db, server.data)
        server.wait(lambda: len([e for e in server.parts("executor") if e != dead]) == 2, 120, "two executors again")
    finally:
        writer.end()
        cluster.number = writer.number
    cluster.check()


def test_workers_that_are_swapped_between_cycles_bring_no_old_state(cluster: Cluster) -> None:
    writer = cluster.writer(2)
    writer.start()
    try:
        for number in range(4):
            cluster.wait_for_readings(200)
            for worker in cluster.server.parts("worker"):
                worker.kill()
            with cluster.server.connect() as db:
                db.sql(f"UPDATE meters SET floor = {number % 3} WHERE id = {number}")
    finally:
        writer.end()
        cluster.number = writer.number
    cluster.check()


def test_a_task_that_fails_half_way_counts_once(cluster: Cluster) -> None:
    writer = cluster.writer(3)
    writer.start()
    try:
        (cluster.failures / "fail").touch()
        cluster.server.wait(lambda: len(list(cluster.failures.glob("failed-*"))) >= 3, 120, "failing tasks")
        (cluster.failures / "fail").unlink()
    finally:
        writer.end()
        cluster.number = writer.number
    cluster.check()


def test_after_an_idle_time_everything_is_as_it_was(cluster: Cluster) -> None:
    time.sleep(IDLE_S)
    cluster.check()
    writer = cluster.writer(4)
    writer.start()
    cluster.wait_for_readings(200)
    writer.end()
    cluster.number = writer.number
    cluster.check()
