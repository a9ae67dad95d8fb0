"""Processes are killed at random moments while readings flow and queries stand; nothing is lost, doubled or wrong.

`make test` runs three seeds, one for each kind of process; `make soak` runs fifty. A failure names its seed.
All tests of this file run on one data folder, one after the other: what a test leaves behind is the next one's past.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from penstock.errors import PenstockError
from tests.kill.conftest import start_anew
from tests.support.brute_force import History, Question, defined_at
from tests.support.server_process import ServerProcess, local_server_process
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

SEEDS = range(50) if os.environ.get("PENSTOCK_SOAK") else range(3)
KINDS = ("worker", "jvm", "server")
# Before the record is written, when it is there and Spark does not know, when the answers were told as well.
STEPS = ("commit:begin", "commit:renamed", "cycle:told")


@dataclass
class World:
    """One data folder through all its servers."""

    server: ServerProcess
    asked: list[Question]
    sent: dict[str, Sent] = field(default_factory=lambda: {table: Sent() for table in TABLES})
    number: int = 0

    @property
    def data(self) -> Path:
        return self.server.data

    def writer(self, seed: int) -> Writer:
        return Writer(self.server.url, seed, self.sent, self.number)

    def check(self) -> None:
        with self.server.connect() as db:
            wait_until_caught_up(db, self.data)
            check_answers(db, self.data, self.asked)
            check_nothing_lost_or_doubled(db, self.data, self.sent)


@pytest.fixture(scope="module")
def world(process: ServerProcess, tmp_path_factory: pytest.TempPathFactory) -> World:
    start_anew(process, tmp_path_factory.mktemp("world"))
    asked = [q for table in TABLES for q in questions(table)]
    with process.connect() as db:
        create_tables(db.sql)
        db.register([(q.name, q.sql) for q in asked])
    return World(process, asked)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_killed_process_costs_no_reading_and_no_answer(world: World, seed: int) -> None:
    chance = random.Random(seed)
    kind = KINDS[seed % len(KINDS)]
    writer = world.writer(seed)
    writer.start()
    try:
        wait_for_readings(world.server, world.sent, chance.randrange(200, 600))
        change_definitions(world, chance, seed)
        time.sleep(chance.uniform(0.0, 0.5))
        kill(world.server, kind, chance)
        with world.server.connect() as db:
            wait_until_caught_up(db, world.data)
            check_answers(db, world.data, world.asked)
    except BaseException:
        print(f"seed {seed}, kind {kind}\n{world.server.printed()[-3000:]}")
        raise
    finally:
        writer.end()
        world.number = writer.number
    world.check()


def change_definitions(world: World, chance: random.Random, seed: int) -> None:
    """A query that must fill, and static values that change: both in the moment before the kill."""
    table = chance.choice(list(TABLES))
    late = late_question(table, seed)
    with world.server.connect() as db:
        db.sql(late.create)
        db.sql(f"UPDATE {table} SET floor = {chance.randrange(3)} WHERE id = {chance.randrange(6)}")
    world.asked.append(late)


def die_at(server: ServerProcess, step: str, count: int) -> None:
    """One more life, which ends by itself at a step of its commits: Spark then repeats the cycle or does not."""
    server.environment["PENSTOCK_TEST_CRASH"] = f"{step}:{count}"
    server.launch()
    server.wait_for_end()
    del server.environment["PENSTOCK_TEST_CRASH"]
    server.assert_all_gone()


def kill(server: ServerProcess, kind: str, chance: random.Random) -> None:
    if kind == "server":
        server.kill("server")
        server.assert_all_gone()
        die_at(server, chance.choice(STEPS), chance.randint(3, 15))
        server.start()
    elif kind == "jvm":
        server.kill("jvm")
        server.wait(lambda: bool(server.parts("jvm")), 120, "restarted")
    else:
        for part in ("worker", "worker", "planner", "worker"):
            server.kill(part, chance.randrange(4))  # type: ignore[arg-type]
            time.sleep(chance.uniform(0.1, 0.8))


def test_a_second_server_on_the_folder_is_refused(world: World, tmp_path: Path) -> None:
    with local_server_process(tmp_path) as second:  # it never comes to start Spark
        second.data = world.data
        code, said = second.run_to_end()
    assert code == 1
    assert "folder_in_use" in said and str(world.server.process.pid) in said
    world.check()


def test_after_a_power_cut_no_manual_step_is_needed_and_a_damaged_segment_harms_its_own_table_only(
    world: World,
) -> None:
    """All processes end at once, and of what nothing synced only part is there: work resumes from the last commit record.

    A segment of one table lost its second half: it is named, and answers for other tables are exact.
    """
    world.server.kill_all()
    spoil_checkpoint(world.data)
    number = next(t["id"] for n, t in defined_at(world.data, 2**60).tables.items() if n == "meters")
    oldest = min((world.data / "log" / str(number)).iterdir())
    whole = oldest.read_bytes()
    oldest.write_bytes(whole[: len(whole) // 2])
    world.server.start()
    assert not (world.data / "checkpoint").exists()
    with world.server.connect() as db:
        with pytest.raises(PenstockError) as caught:
            db.invoke("meters_all")
        assert caught.value.condition == "corrupt_segment" and oldest.name in caught.value.message
        with pytest.raises(PenstockError) as caught:
            db.sql("SELECT MAX(seq) FROM meters")
        assert oldest.name in caught.value.message
        db.push("probes", [{"id": 1, "who": 1, "seq": -1, "v": 99.0}])
        db.push("meters", [{"id": 1, "who": 1, "seq": -1, "v": 99.0, "ts": "2023-11-15T00:00:00Z"}])
        world.sent["probes"].acknowledged.add(-1)
        world.sent["meters"].acknowledged.add(-1)
        wait_until_caught_up(db, world.data)
        check_answers(db, world.data, [q for q in world.asked if q.table == "probes"])
    oldest.write_bytes(whole)
    world.check()
    assert history_is_contiguous(world.data, number)


def spoil_checkpoint(data: Path) -> None:
    """Cut what Spark wrote: every other file to nothing, the others to half; one of an older release lies about, too."""
    checkpoint = data / "checkpoint"  # where it was in older releases
    shutil.copytree(data / "tmp" / "checkpoint", checkpoint)
    for number, path in enumerate(sorted(p for part in ("checkpoint", "tmp") for p in (data / part).rglob("*"))):
        if path.is_file() and not path.is_symlink():
            os.truncate(path, 0 if number % 2 else path.stat().st_size // 2)
    (checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
    (checkpoint / "offsets" / "7").write_text("")


def history_is_contiguous(data: Path, table: int) -> bool:
    newest = max(int(p.name[:12]) for p in (data / "commits").iterdir() if p.name[:12].isdigit())
    history = History(data)
    ends = [history.record(c).end.data.get(table, 0) for c in range(max(1, newest - 200), newest + 1)]
    return ends == sorted(ends)
