"""`subscribers_max` holds however many ask at the same moment, and each place is given back once."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from penstock.errors import PenstockError
from penstock.server.app import create_app
from penstock.server.http.context import Context
from penstock.server.routes.events import open_subscription
from penstock.settings import Settings
from tests.server.fake import FakeDatabase, FakeSubscription
from tests.server.live import serving

MOST = 7


class SlowToOpen(FakeDatabase):
    """Its subscriptions take as long as the test wants, so that many are being opened at once."""

    def __init__(self) -> None:
        super().__init__()
        self.let_go = threading.Event()
        self.opened: list[FakeSubscription] = []
        self.asked = 0

    def subscribe(
        self, name: str, from_cycle: int | None = None, changes: bool = False, final: bool = False
    ) -> FakeSubscription:
        self.asked += 1
        assert self.let_go.wait(60)
        found = super().subscribe(name, from_cycle, changes)
        self.opened.append(found)
        return found


def eventually(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.fixture
def database() -> Iterator[SlowToOpen]:
    made = SlowToOpen()
    yield made
    made.let_go.set()


def test_of_many_that_ask_at_once_only_so_many_are_let_in(database: SlowToOpen) -> None:
    app = create_app(database, Settings(subscribers_max=MOST))
    context: Context = app.state.context

    async def ask_at_once() -> list[Any]:
        asking = [asyncio.ensure_future(open_subscription(context, "gas_alarm", None, False)) for _ in range(40)]
        await asyncio.sleep(0)
        database.let_go.set()
        return list(await asyncio.gather(*asking, return_exceptions=True))

    found = asyncio.run(ask_at_once())
    refused = [each for each in found if isinstance(each, PenstockError)]
    let_in = [each for each in found if not isinstance(each, PenstockError)]
    assert {each.condition for each in refused} == {"limit_reached"}
    assert len(let_in) == len(database.opened) == MOST == context.counters.places
    for subscription in let_in * 2:
        subscription.close()
    assert context.counters.places == 0 and all(each.closed for each in database.opened)
    context.workers.close()


def test_whoever_leaves_while_a_subscription_is_opened_gives_the_place_back(database: SlowToOpen) -> None:
    app = create_app(database, Settings(subscribers_max=1))
    context: Context = app.state.context

    async def leave() -> None:
        asking = asyncio.ensure_future(open_subscription(context, "gas_alarm", None, False))
        while not database.asked:
            await asyncio.sleep(0.005)
        assert context.counters.places == 1
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        assert context.counters.places == 0

    asyncio.run(leave())
    database.let_go.set()
    eventually(lambda: database.opened and database.opened[0].closed)
    context.workers.close()


def test_events_and_web_sockets_share_the_places(database: SlowToOpen) -> None:
    database.let_go.set()
    with serving(database, Settings(subscribers_max=2)) as live:
        counters = live.app.state.context.counters
        events = f"{live.url}/v1/queries/gas_alarm/events"
        socket = f"{live.url.replace('http', 'ws')}/v1/queries/gas_alarm/ws"
        with httpx.stream("GET", events, trust_env=False, timeout=60) as first, connect(socket):
            assert first.status_code == 200
            eventually(lambda: counters.places == 2)
            with httpx.stream("GET", events, trust_env=False, timeout=60) as third:
                assert (third.status_code, json.loads(third.read())["error"]["condition"]) == (429, "limit_reached")
            with connect(socket) as fourth:
                assert json.loads(fourth.recv())["error"]["condition"] == "limit_reached"
            assert counters.places == 2
        eventually(lambda: counters.places == 0)
