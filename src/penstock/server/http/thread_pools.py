"""Threads for blocking work.

The process is Spark's driver too, so the event loop only moves bytes. Pushes, statements, live streams and questions
about the server itself have pools of their own: a slow SELECT must not hold up an acknowledgement or a scrape.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from contextvars import copy_context
from typing import TypeVar

from penstock.errors import error
from penstock.security.caller import Caller
from penstock.statements import running_statements

T = TypeVar("T")

# A push mostly waits for the group commit, so many share one sync; a statement mostly waits for Spark.
PUSH_THREADS = 16
# Every statement that runs or waits for its turn holds a thread; `RunningStatements` bounds both, and how many compete.
STATEMENT_THREADS = running_statements.LIGHT_MAX + running_statements.WAITING_MAX
# Of one user, beside those statements: what it asks to find out which of them to cancel.
SPARE_THREADS = 2
CATALOG_THREADS = 8
SYSTEM_THREADS = 4
# Events are there when they are fetched, except a first answer of a query that still fills its window.
STREAM_THREADS = 16
# Unpacking and parsing of bodies; another pool takes their rows.
DECODE_THREADS = 2
WAITING_MAX = 1_000
# After a quiet time, so much work goes on without a pause.
BURST_S = 0.1
LEAST_SHARE = 0.01
MINING_BURST_S = 10.0
"""The same for mining functions, which have nothing to do until a slot closes, and then all at once."""
# What statements and definitions of one user that run or wait take together; a larger one has to be the only one.
CALLS_MAX_BYTES = 64 << 20
# Smaller ones are bounded by their number: CANCEL STATEMENT has to get through.
SMALL_CALL_BYTES = 64 << 10


class Pool:
    """A bounded thread pool awaited from the event loop; beyond `waiting_max` it refuses with too_busy."""

    def __init__(self, name: str, threads: int, waiting_max: int = WAITING_MAX) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=f"penstock-{name}")
        self._name = name
        self._limit = threads + waiting_max
        self.active = 0

    async def run(self, work: Callable[..., T], *args: object) -> T:
        """Run it in a thread, with the same caller."""
        if self.active >= self._limit:
            raise error("too_busy", detail=f"{self.active} calls wait already ({self._name})", hint="try again later")
        self.active += 1
        try:
            future = asyncio.get_running_loop().run_in_executor(self._executor, copy_context().run, work, *args)
        except BaseException:
            self.active -= 1
            raise
        # A cancelled request leaves its work running: what counts is when the thread is free again.
        future.add_done_callback(self._finished)
        return await future

    def _finished(self, _: object) -> None:
        self.active -= 1

    def close(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)


class Shares:
    """At most so many calls of one caller in threads at a time; its others wait in the event loop, in bounded memory."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._by_owner: dict[str, asyncio.Semaphore] = {}
        self._calls: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()

    @asynccontextmanager
    async def share(self, caller: Caller, size: int = 0) -> AsyncIterator[None]:
        """One call, which takes `size` bytes until it ends; too_busy where its caller has too many."""
        if not running_statements.is_limited(caller):
            yield
            return
        owner = running_statements.owner_of(caller)
        if self._calls[owner] >= self._most + WAITING_MAX:
            raise error("too_busy", detail=f"{WAITING_MAX} calls of this user wait already", hint="try again later")
        size = size if size > SMALL_CALL_BYTES else 0
        if size and self._bytes[owner] and self._bytes[owner] + size > CALLS_MAX_BYTES:
            detail = f"statements of this user take more than {CALLS_MAX_BYTES} bytes already"
            raise error("too_busy", detail=detail, hint="wait for some of them, or send less")
        self._calls[owner] += 1
        self._bytes[owner] += size
        try:
            async with self._by_owner.setdefault(owner, asyncio.Semaphore(self._most)):
                yield
        finally:
            self._calls[owner] -= 1
            self._bytes[owner] -= size


class ProcessorShare:
    """Keeps work that is done again and again to a share of one processor: one piece at a time, in order, with pauses between."""

    def __init__(self, share: float, clock: Callable[[], float] = time.monotonic, burst_s: float = BURST_S) -> None:
        """`burst_s`: after so long without work, as much may be done at once as the share allows in that time."""
        self._share = max(share, LEAST_SHARE)
        self._burst_s = burst_s
        self._clock = clock
        self._lock = asyncio.Lock()  # its waiters get it in the order in which they came
        self._free_s = 0.0

    @property
    def is_busy(self) -> bool:
        """Whether the next piece has to wait."""
        return self._lock.locked() or self._clock() < self._free_s

    async def take(self) -> None:
        """Wait for a turn; `end` ends it."""
        await self._lock.acquire()
        try:
            await asyncio.sleep(max(0.0, self._free_s - self._clock()))
        except BaseException:
            self._lock.release()
            raise

    def end(self, spent_s: float) -> None:
        """The work of this turn took so much processor time."""
        self._free_s = max(self._free_s, self._clock() - self._burst_s) + spent_s / self._share
        self._lock.release()


class Turn:
    """The turns of one subscriber under a share. It keeps its place while it is away, unless its turn comes just then."""

    def __init__(self, share: ProcessorShare) -> None:
        self._share = share
        self._asked: asyncio.Task[None] | None = None
        self.waited = False  # whether others came first
        self.is_away = False

    def ask(self) -> asyncio.Task[None]:
        """Done when it is this subscriber's turn."""
        if self._asked is None:
            self.waited = self._share.is_busy
            self._asked = asyncio.create_task(self._take())
        return self._asked

    async def _take(self) -> None:
        await self._share.take()
        if self.is_away:
            self._asked = None
            self._share.end(0.0)

    def end(self, spent_s: float = 0.0) -> None:
        """The work is done; or the place is given back, if there is one."""
        asked, self._asked, self.waited = self._asked, None, False
        if asked is not None and not asked.cancel():
            self._share.end(spent_s)


class Workers:
    """The pools of one server.

    `statement` runs SQL and invocations, `catalog` what reads or changes definitions, `system` what must always answer.
    """

    def __init__(self, statements_max: int = 8, statements_per_user: int = 4) -> None:
        self.shares = Shares(statements_per_user + running_statements.WAITING_PER_USER + SPARE_THREADS)
        self.push = Pool("push", PUSH_THREADS)
        self.statement = Pool("statement", STATEMENT_THREADS + statements_max)
        self.catalog = Pool("catalog", CATALOG_THREADS)
        self.system = Pool("system", SYSTEM_THREADS)
        self.decode = Pool("decode", DECODE_THREADS)
        self.stream = Pool("stream", STREAM_THREADS, waiting_max=100_000)

    def close(self) -> None:
        for pool in (self.push, self.statement, self.catalog, self.system, self.decode, self.stream):
            pool.close()
