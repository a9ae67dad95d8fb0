"""Bounds: threads, calls that wait, bytes in memory."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from penstock.errors import PenstockError
from penstock.server.http.body_limits import ByteBudget
from penstock.server.http.thread_pools import Pool


@asynccontextmanager
async def holding(budget: ByteBudget, size: int) -> AsyncIterator[None]:
    """So many bytes of the budget while the block runs."""
    with budget.share() as share:
        await share.take(size)
        yield


def test_a_full_pool_refuses_instead_of_queueing_for_ever() -> None:
    async def scenario() -> None:
        pool = Pool("test", threads=1, waiting_max=1)
        gate = threading.Event()
        running = [asyncio.create_task(pool.run(gate.wait, 60)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(PenstockError, match="wait already"):
            await pool.run(gate.wait)
        gate.set()
        assert await asyncio.gather(*running) == [True, True]
        assert await pool.run(lambda: 5) == 5
        assert pool.active == 0
        pool.close()

    asyncio.run(scenario())


def test_an_error_in_a_thread_comes_back_as_itself() -> None:
    async def scenario() -> None:
        pool = Pool("test", threads=1)
        with pytest.raises(ZeroDivisionError):
            await pool.run(lambda: 1 / 0)
        assert pool.active == 0
        pool.close()

    asyncio.run(scenario())


def test_bodies_wait_for_room_in_the_order_they_came() -> None:
    async def scenario() -> None:
        budget = ByteBudget(10)
        order: list[str] = []

        async def send(name: str, size: int, until: asyncio.Event) -> None:
            async with holding(budget, size):
                order.append(name)
                await until.wait()

        first_done, rest_done = asyncio.Event(), asyncio.Event()
        tasks = [asyncio.create_task(send("first", 8, first_done))]
        await asyncio.sleep(0)
        # "big" waits for "first"; "small" would fit but does not overtake, or big ones would starve.
        tasks.append(asyncio.create_task(send("big", 9, rest_done)))
        await asyncio.sleep(0)
        tasks.append(asyncio.create_task(send("small", 1, rest_done)))
        for _ in range(100):  # many turns of the loop
            await asyncio.sleep(0)
        assert order == ["first"]
        first_done.set()
        async with asyncio.timeout(60):
            while len(order) < 3:
                await asyncio.sleep(0)
        assert order == ["first", "big", "small"]
        rest_done.set()
        await asyncio.gather(*tasks)

    asyncio.run(scenario())


def test_who_waits_too_long_for_room_is_told_to_come_back() -> None:
    async def scenario() -> None:
        budget = ByteBudget(10, patience_s=0.01)
        async with holding(budget, 10):
            with pytest.raises(PenstockError, match="too many bytes"):
                async with holding(budget, 1):
                    pass
        async with holding(budget, 1_000):
            pass  # larger than the budget itself: alone, it may pass

    asyncio.run(scenario())
