"""Code workers: processes of the server that merge and finish the states of user aggregates, so that its own never does.

They are started when the first is needed, up to `code_workers` of them. One that takes too long, dies or replies with nonsense is killed with
all that it has started; the statement that waited for it gets an error with the aggregate's name, and the next one a new process. An aggregate has
one of them at a time, so that one that hangs leaves the others to the rest; and for a while it is refused at once.

Nothing that a code worker replies is trusted: it is data of the type that was asked for, or an error.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

import penstock
from penstock.cancellation import check
from penstock.catalog.definition_json import to_json
from penstock.catalog.model import Function
from penstock.errors import PenstockError, error
from penstock.expr.code_worker import ANSWERED, HEAD_BYTES
from penstock.expr.user_aggregates import Row
from penstock.process_environment import worker_environment

ITEMS_PER_REQUEST = 10_000
"""So many states and rows are sent at a time: the limit of time is for these."""
REPLY_MAX_BYTES = 256 << 20
REFUSED_FOR_S = 60.0
_START_S = 60.0
_CLOCK_FACTOR = 4
"""On a busy machine a process gets little of the processor: by the clock it has so many times as long."""
_TICK_S = 0.1
_CPU_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_CHUNK_BYTES = 1 << 16
_SHOWN_CHARS = 500
_NO_REPLY = "its process gave something else than its value"
_CONDITIONS = ("invalid_definition", "function_failed", "query_quarantined")


class WorkerLost(Exception):
    """A process took too long, died, or replied with what is no reply."""


class CodeWorker:
    """One process."""

    def __init__(self, memory_mb: int) -> None:
        packages = str(Path(penstock.__file__).resolve().parents[1])
        environment = worker_environment(os.environ)
        known = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = f"{packages}{os.pathsep}{known}" if known else packages
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "penstock.expr.code_worker", str(memory_mb)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            cwd="/",
            start_new_session=True,
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._input, self._output = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._input, False)
        os.set_blocking(self._output, False)
        try:
            self._reply(_Limit(self.pid, _START_S))
        except BaseException:
            self.kill()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    @property
    def says_more(self) -> bool:
        """Whether something waits to be read, though nothing was asked: its code has written it."""
        poll = select.poll()
        poll.register(self._output, select.POLLIN)
        return bool(poll.poll(0))

    def ask(self, request: bytes, limit_s: float) -> bytes:
        """The reply to a request, which may take so much processor time. 0 seconds: any time."""
        limit = _Limit(self.pid, limit_s)
        self._write(len(request).to_bytes(HEAD_BYTES, "big") + request, limit)
        return self._reply(limit)

    def _reply(self, limit: _Limit) -> bytes:
        length = int.from_bytes(self._read(HEAD_BYTES, limit), "big")
        if not 0 < length <= REPLY_MAX_BYTES:
            raise WorkerLost(_NO_REPLY)
        return self._read(length, limit)

    def _write(self, data: bytes, limit: _Limit) -> None:
        rest = memoryview(data)
        while rest:
            limit.wait(self._input, select.POLLOUT)
            try:
                rest = rest[os.write(self._input, rest[:_CHUNK_BYTES]) :]
            except BlockingIOError:
                continue
            except OSError:
                raise WorkerLost("its process ended") from None

    def _read(self, count: int, limit: _Limit) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            limit.wait(self._output, select.POLLIN)
            found = os.read(self._output, min(_CHUNK_BYTES, count - len(parts)))
            if not found:
                raise WorkerLost("its process ended")
            parts += found
        return bytes(parts)

    def kill(self) -> None:
        """End the process, and those that its code has started and left in its session."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()


class _Limit:
    """How long to wait for a process: for so much processor time, and not for ever.

    Of a look that took longer than it should only two ticks count: the machine, or this process, stood still.
    """

    def __init__(self, pid: int, seconds: float) -> None:
        self._pid, self._seconds = pid, seconds if seconds else float("inf")
        self._left_s, self._used_s = self._seconds * _CLOCK_FACTOR, _processor_s(pid)

    def wait(self, pipe: int, event: int) -> None:
        """Wait until a pipe can be read or written. Raises where the time is up, or the statement shall end."""
        poll, began = select.poll(), time.monotonic()
        poll.register(pipe, event)
        while not poll.poll(_TICK_S * 1000):
            check()
            now = time.monotonic()
            self._left_s -= min(now - began, 2 * _TICK_S)
            began = now
            if self._left_s <= 0 or _processor_s(self._pid) - self._used_s >= self._seconds:
                raise WorkerLost("it took too long (function_timeout_ms)")


def _processor_s(pid: int) -> float:
    """The processor time of a process; none where that is not known."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            facts = file.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(facts[11]) + int(facts[12])) / _CPU_TICKS_PER_S


class CodeWorkers:
    """The code workers of this process."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._idle: list[CodeWorker] = []
        self._started = 0
        self._busy: set[Function] = set()
        self._refused: dict[Function, tuple[str, float]] = {}  # why, and until when
        self._most, self._limit_s, self._memory_mb = 2, 5.0, 0

    def configure(self, most: int, limit_s: float, memory_mb: int) -> None:
        """How many there may be, how long each may take for a request (0: any time), and how much memory it may take (0: any)."""
        with self._changed:
            self._most, self._limit_s, self._memory_mb = max(1, most), limit_s, memory_mb

    def check(self, function: Function) -> None:
        """Raise where an aggregate does not merge; see `aggregate_check`."""
        try:
            self._ask(function, "check", pa.table({}), lambda _: pa.array([]))
        except PenstockError as failure:
            if failure.condition == "function_failed":
                raise error("invalid_definition", detail=failure.message, hint=failure.hint) from None
            raise

    def finish(self, function: Function, states: Sequence[Sequence[Any]], rows: Sequence[Sequence[Row]]) -> pa.Array:
        """The value of each cell, of its states and of rows that are in none of them."""
        assert function.state is not None
        row = pa.struct([(f"{i}", p.type.to_arrow()) for i, p in enumerate(function.parameters)])
        types = {"states": pa.list_(function.state.to_arrow()), "rows": pa.list_(row)}
        values = []
        for first, end in _pieces([len(a) + len(b) for a, b in zip(states, rows, strict=True)]):
            more = [[{str(i): value for i, value in enumerate(r)} for r in each] for each in rows[first:end]]
            given = pa.table(
                {"states": pa.array(states[first:end], types["states"]), "rows": pa.array(more, types["rows"])}
            )
            values.append(self._value(function, given))
        return pa.concat_arrays(values) if values else pa.array([], function.returns.to_arrow())

    def close(self) -> None:
        """End all that are idle; the next request starts another. What was refused may try again."""
        with self._changed:
            self._refused.clear()
            idle, self._idle = self._idle, []
            self._started -= len(idle)
        for worker in idle:
            worker.kill()

    def _value(self, function: Function, given: pa.Table) -> pa.Array:
        return self._ask(function, "finish", given, lambda reply: _column(function, reply, given.num_rows))

    def _ask(self, function: Function, step: str, given: pa.Table, read: Callable[[bytes], pa.Array]) -> pa.Array:
        asked = orjson.dumps({"step": step, "function": to_json(function)})
        sink = pa.BufferOutputStream()
        table = given.replace_schema_metadata({"request": asked})
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        worker = self._take(function)
        is_good = False
        try:
            reply = worker.ask(bytes(sink.getvalue()), self._limit_s)
            found = read(reply[1:]) if reply[:1] == ANSWERED else _said(reply[1:])
            is_good = not worker.says_more
        except WorkerLost as problem:
            with self._changed:
                self._refused[function] = (str(problem), time.monotonic() + REFUSED_FOR_S)
            raise _failed(function, f"{problem}, and was stopped") from None
        finally:
            self._give_back(function, worker, is_good)
        if isinstance(found, PenstockError):
            raise found
        return found

    def _take(self, function: Function) -> CodeWorker:
        with self._changed:
            while True:
                why, until_s = self._refused.get(function, ("", 0.0))
                if time.monotonic() < until_s:
                    raise _failed(function, f"{why}; it is not run again for a minute")
                self._refused.pop(function, None)
                if function not in self._busy:
                    while self._idle:
                        worker = self._idle.pop()
                        if worker.is_alive and not worker.says_more:
                            self._busy.add(function)
                            return worker
                        self._started -= 1
                        worker.kill()
                    if self._started < self._most:
                        self._started += 1
                        self._busy.add(function)
                        break
                self._changed.wait(_TICK_S)
                check()
        try:
            return CodeWorker(self._memory_mb)
        except BaseException:
            with self._changed:
                self._started -= 1
                self._busy.discard(function)
                self._changed.notify_all()
            raise

    def _give_back(self, function: Function, worker: CodeWorker, is_good: bool) -> None:
        if not is_good:
            worker.kill()
        with self._changed:
            self._busy.discard(function)
            if is_good:
                self._idle.append(worker)
            else:
                self._started -= 1
            self._changed.notify_all()


def _pieces(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Ranges of cells with about as many items as go into a request."""
    found, first, items = [], 0, 0
    for place, size in enumerate(sizes):
        if place > first and items + size > ITEMS_PER_REQUEST:
            found.append((first, place))
            first, items = place, 0
        items += size + 1
    return [*found, (first, len(sizes))] if sizes else []


def _failed(function: Function, detail: str) -> PenstockError:
    return error("function_failed", function=function.name, detail=detail)


def _column(function: Function, reply: bytes, rows: int) -> pa.Array:
    try:
        found = pa.ipc.open_stream(reply).read_all()
        found.validate(full=True)
        value = found.column("value").combine_chunks()
    except (pa.ArrowException, KeyError, OSError):
        raise WorkerLost(_NO_REPLY) from None
    if value.type != function.returns.to_arrow() or len(value) != rows:
        raise WorkerLost(_NO_REPLY)
    return value


def _said(reply: bytes) -> PenstockError:
    """The error that a code worker replied with."""
    try:
        said = orjson.loads(reply)
        condition, message, hint = said["condition"], str(said["message"]), said["hint"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        raise WorkerLost(_NO_REPLY) from None
    if condition not in _CONDITIONS:
        raise WorkerLost(_NO_REPLY)
    return PenstockError(condition, message[:_SHOWN_CHARS], hint=None if hint is None else str(hint)[:_SHOWN_CHARS])


CODE_WORKERS = CodeWorkers()
