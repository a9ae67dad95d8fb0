"""A stream that is open when its token or its session goes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from penstock.clock import SECOND
from penstock.security.caller import Caller, acting_as
from penstock.server.http.access import Sessions
from penstock.server.http.context import Context
from penstock.server.routes.events import stream_events
from penstock.settings import Settings
from tests.security.conftest import World
from tests.support.manual_clock import ManualClock


def until_the_end(world: World, caller: Caller, leave: Callable[[], None]) -> list[bytes]:
    """All frames of a stream during which somebody loses what let them in."""
    context: Context = world.http.app.state.context

    async def listen() -> list[bytes]:
        frames = []
        with acting_as(caller):
            stream = stream_events(world.db.subscribe("hot"), context, ping_s=0.01)
            async for frame in stream:
                frames.append(frame)
                if b"event: ping" in frame:
                    leave()
        return frames

    frames: list[bytes] = world.http._runner.run(asyncio.wait_for(listen(), 60))
    assert context.counters.subscribers == 0
    return frames


def test_a_stream_ends_with_the_token_that_opened_it(world: World) -> None:
    token = world.db.users.create_token("visitor", "read")
    caller = world.db.users.by_token(token)
    assert caller is not None
    frames = until_the_end(world, caller, lambda: world.db.users.drop_token("visitor"))
    assert frames[-1].startswith(b"event: error") and b"unauthorized" in frames[-1]


@pytest.mark.parametrize("how", ["signed out", "expired"])
def test_a_stream_ends_with_the_session_that_opened_it(world: World, how: str) -> None:
    token = world.db.users.create_token("visitor", "read")
    visitor = world.db.users.by_token(token)
    assert visitor is not None
    clock = ManualClock(1_763_190_000_000_000)
    sessions = Sessions(world.db.users, Settings(session_hours=1), clock)
    world.http.app.state.context = replace(world.http.app.state.context, sessions=sessions)
    name, other = sessions.begin(replace(visitor, via="session")), sessions.begin(replace(visitor, via="session"))
    caller = sessions.find(name)
    assert caller is not None and name not in str(caller)

    def leave() -> None:
        if how == "expired":
            clock.advance(3600 * SECOND)
        else:
            sessions.end(name)

    frames = until_the_end(world, caller, leave)
    assert frames[-1].startswith(b"event: error") and b"the session has ended" in frames[-1]
    assert (sessions.find(other) is None) == (how == "expired"), "nobody else is signed out"
    sessions.close()
