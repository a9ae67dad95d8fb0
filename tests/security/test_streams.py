"""A stream that is open when its token goes."""

from __future__ import annotations

import asyncio

from penstock.security.caller import acting_as
from penstock.server.context import Context
from penstock.server.events import stream_events
from tests.security.conftest import World


def test_a_stream_ends_with_the_token_that_opened_it(world: World) -> None:
    token = world.db.users.create_token("visitor", "read")
    caller = world.db.users.by_token(token)
    assert caller is not None
    context: Context = world.http.app.state.context

    async def listen() -> list[bytes]:
        frames = []
        with acting_as(caller):
            stream = stream_events(world.db.subscribe("hot"), context, ping_s=0.01)
            async for frame in stream:
                frames.append(frame)
                if b"event: ping" in frame:
                    world.db.users.drop_token("visitor")
        return frames

    frames = world.http._runner.run(asyncio.wait_for(listen(), 60))
    assert frames[-1].startswith(b"event: error") and b"unauthorized" in frames[-1]
    assert context.counters.subscribers == 0
