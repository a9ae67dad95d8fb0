"""User aggregates as an attacker would write them: what they reach from a code worker, and whom they harm."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import PenstockError
from penstock.expr.code_workers import CODE_WORKERS, CodeWorkers
from penstock.sql.definitions import bind_create_function
from penstock.sql.parse import parse_script
from tests.operators.aggregate.own.bodies import ENERGY, statement
from tests.support.idle_workers import idle_pids
from tests.support.pipe import Pipe

# A body that behaves while it is checked: values from 600 on do what a test wants.
TRAP = """
import ctypes, os, subprocess, sys, time
def write_everywhere(data):
    for fd in range(3, 20):
        try: os.write(fd, data)
        except OSError: pass
def spring(total):
    if abs(total) >= 10_000:
        {what}
    return total
def init(): return 0.0
def add(state, x): return spring(state + x) if {at!r} == 'add' else state + x
def merge(a, b): return spring(a + b) if {at!r} == 'merge' else a + b
def finish(state): return spring(state) if {at!r} == 'finish' else state
"""
HANG = "while True: pass"


def trap(what: str, at: str = "finish", name: str = "trap") -> str:
    return statement(name, "x DOUBLE", "DOUBLE", "DOUBLE", TRAP.format(what=what, at=at))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipe]:
    """One database for all tests, so that few processes are started."""
    made = Pipe(tmp_path_factory.mktemp("world") / "data", function_timeout_ms=500, worker_memory_mb=256)
    made.probes()
    made.db.execute(ENERGY)
    yield made
    made.db.stop()


class Sensor:
    """A sensor of its own for each test, with queries of its readings."""

    numbers = count(10)

    def __init__(self, pipe: Pipe) -> None:
        self.pipe, self.id = pipe, next(self.numbers)
        pipe.db.execute(f"INSERT INTO probes VALUES ({self.id}, 'east', NULL)")
        self.ask("energy", "good")

    def ask(self, aggregate: str, name: str) -> None:
        self.pipe.db.execute(
            f"CREATE QUERY {name}_{self.id} AS SELECT {aggregate}(value) AS v FROM probes WHERE id = {self.id}"
            " BEGIN (NOW - 1 HOUR) END (NOW)"
        )

    def push(self, *values: float) -> None:
        self.pipe.clock.advance(2_000_000)  # the next slice
        self.pipe.push(*values, sensor=self.id)
        self.pipe.engine.drain()

    def answer(self, name: str) -> Any:
        (value,) = self.pipe.answer(f"{name}_{self.id}", "v")
        return value

    def spring(self, what: str, at: str = "finish") -> PenstockError:
        """The error of a query with a trap, once that has sprung."""
        name = f"trap_{self.id}"
        self.pipe.db.execute(trap(what, at, name))
        self.ask(name, "bad")
        self.push(1, 2)
        assert self.answer("bad") == 3.0
        self.push(9_000, 1_500)
        with pytest.raises(PenstockError) as failure:
            self.answer("bad")
        assert f'"{name}"' in failure.value.message
        assert self.answer("good") == 10_503.0
        return failure.value


@pytest.fixture
def sensor(world: Pipe) -> Iterator[Sensor]:
    made = Sensor(world)
    yield made
    world.db.execute(f"DROP QUERY LIKE '%\\_{made.id}'")


@pytest.mark.parametrize("at", ["add", "merge", "finish"])
def test_a_step_that_hangs_fails_its_query_by_name_and_no_other(sensor: Sensor, at: str) -> None:
    assert "too long" in sensor.spring(HANG, at).message
    with pytest.raises(PenstockError, match='"trap'):
        sensor.answer("bad")
    sensor.push(5)
    assert sensor.answer("good") == 10_508.0


def test_a_step_that_catches_every_exception_is_stopped_too(sensor: Sensor) -> None:
    what = "\n".join(("while True:", "            try: time.sleep(60)", "            except BaseException: pass"))
    assert "too long" in sensor.spring(what).message


@pytest.mark.parametrize("at", ["init()", "merge(a, b)"])
def test_what_hangs_when_it_is_checked_is_refused(sensor: Sensor, at: str) -> None:
    body = trap("pass").replace(f"def {at}: ", f"def {at}:\n    while True: pass\n    ")
    with pytest.raises(PenstockError) as failure:
        sensor.pipe.db.execute(body)
    assert failure.value.condition == "invalid_definition" and "too long" in failure.value.message
    sensor.push(1)
    assert sensor.answer("good") == 1.0


@pytest.mark.parametrize(
    "what",
    [
        "os._exit(0)",
        "ctypes.string_at(0)",
        "sys.exit(3)",
        "raise BaseException('no')",
        "x = [bytes(10_000_000) for _ in range(1000)]",
        "return 'no number'",
        "return spring(total)",
        "os.closerange(0, 64)",
    ],
)
def test_a_step_that_ends_its_process_or_raises_fails_its_query_alone(sensor: Sensor, what: str) -> None:
    sensor.spring(what)


@pytest.mark.parametrize("length", [64, 1 << 50])
def test_replies_are_not_trusted(sensor: Sensor, length: int) -> None:
    """A body finds the pipe to the server and writes what it wants: its own query fails."""
    failure = sensor.spring(f"write_everywhere(({length}).to_bytes(8, 'big') + b'a' * 64)")
    assert "something else than its value" in failure.message


def test_what_a_body_prints_is_no_reply(sensor: Sensor) -> None:
    body = trap("pass", name="loud").replace(
        "def init(): ", "def init():\n    print('x' * 100); sys.stderr.write('y')\n    "
    )
    sensor.pipe.db.execute(body)
    sensor.ask("loud", "said")
    sensor.push(1, 2)
    assert sensor.answer("said") == 3.0


SEEN = statement(
    "seen",
    "x DOUBLE",
    "TEXT",
    "DOUBLE",
    """
import os
def init(): return 0.0
def add(state, x): return state + x
def merge(a, b): return a + b
def finish(state):
    files = [os.readlink(f'/proc/self/fd/{fd}') for fd in os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{fd}')]
    said = ' '.join([*os.environ, *os.environ.values(), *files, os.getcwd()])
    return f'{os.getpid()} {os.getppid()} {said}' if state > 1e6 else 'quiet'
""",
)


def test_a_code_worker_has_neither_secrets_nor_files_of_the_server(
    sensor: Sensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    CODE_WORKERS.close()  # the next one is started with these
    monkeypatch.setenv("PENSTOCK_TOKEN", "hidden-token-of-an-admin")
    monkeypatch.setenv("SPARK_AUTH_SECRET", "hidden-secret")
    monkeypatch.setenv("DATABASE_URL", "postgres://hidden-password@db")
    sensor.pipe.db.execute(SEEN)
    sensor.ask("seen", "told")
    sensor.push(2_000_000)
    pid, parent, said = sensor.answer("told").split(" ", 2)
    assert int(pid) != os.getpid() == int(parent)
    assert "hidden" not in said and "PENSTOCK" not in said
    assert str(sensor.pipe.folder) not in said and "socket:" not in said


def test_what_a_body_starts_ends_with_its_process() -> None:
    """A child that is left behind holds no pipe of the server open, and is killed with the code worker that hangs."""
    workers = CodeWorkers()
    workers.configure(1, 0.5, 256)
    body = trap(f"subprocess.Popen(['sleep', '600'], pass_fds=range(3, 8))\n        {HANG}")
    (parsed,) = parse_script(body)
    function = bind_create_function(parsed)  # type: ignore[arg-type]
    workers.check(function)
    (pid,) = idle_pids(workers)
    with pytest.raises(PenstockError, match="too long"):
        workers.finish(function, [[20_000.0]], [[]])
    left = [each for each in Path("/proc").glob("[0-9]*") if _session(each) == pid]
    assert not [each for each in left if _state(each) != "Z"]
    workers.close()


SERVER = """
import os, sys
from penstock.expr.code_workers import CodeWorkers
from penstock.sql.definitions import bind_create_function
from penstock.sql.parse import parse_script
workers = CodeWorkers()
workers.configure(1, 0, 256)
workers.check(bind_create_function(parse_script(sys.argv[1])[0]))
print(*(worker.pid for worker in workers._idle), flush=True)
os._exit(9)
"""


def test_a_code_worker_ends_with_its_server() -> None:
    """Also where its code has left a thread that would go on for ever."""
    body = ENERGY.replace(
        "def init()",
        "import threading, time\nthreading.Thread(target=time.sleep, args=(10**6,)).start()\ndef init()",
        1,
    )
    died = subprocess.run([sys.executable, "-c", SERVER, body], capture_output=True, text=True, check=False)
    assert died.returncode == 9, died.stderr
    deadline = time.monotonic() + 60
    while _state(Path("/proc") / died.stdout.strip()) != "Z":
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _stat(process: Path) -> list[str]:
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _session(process: Path) -> int | None:
    facts = _stat(process)
    return int(facts[3]) if facts else None


def _state(process: Path) -> str:
    facts = _stat(process)
    return facts[0] if facts else "Z"


def test_a_code_worker_that_was_killed_is_started_again(sensor: Sensor) -> None:
    sensor.push(4)
    assert sensor.answer("good") == 4.0
    for pid in idle_pids(CODE_WORKERS):
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    sensor.push(5)
    assert sensor.answer("good") == 9.0


def test_an_aggregate_that_hangs_has_one_worker_at_most_and_is_refused_for_a_while() -> None:
    workers = CodeWorkers()
    workers.configure(2, 0.5, 256)
    (parsed,), (other,) = parse_script(trap(HANG)), parse_script(ENERGY)
    hanging, good = (bind_create_function(each) for each in (parsed, other))  # type: ignore[arg-type]
    with pytest.raises(PenstockError, match="too long"):
        workers.finish(hanging, [[20_000.0]], [[]])
    before = idle_pids(workers)
    with pytest.raises(PenstockError, match="not run again for a minute"):
        workers.finish(hanging, [[1.0]], [[]])
    assert idle_pids(workers) == before  # it was not run
    assert workers.finish(good, [[{"j": 2.0, "n": 1}]], [[(3.0,)]]).to_pylist() == [5.0]
    workers.close()


@pytest.mark.parametrize("name", ['a"b', "x y", "import", "__init__", "pi(), reflect"])
def test_a_name_is_no_code(world: Pipe, name: str) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    sql = ENERGY.replace("energy(", f"{quoted}(")
    with pytest.raises(PenstockError) as failure:
        world.db.execute(sql)
    assert failure.value.condition in ("invalid_definition", "syntax_error")
