"""A world without queries, and one with a query that is asked about."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.asked_answers import World
from tests.support.pipe import Pipe


@pytest.fixture
def world(pipes: Callable[..., Pipe]) -> World:
    return World(pipes())


@pytest.fixture
def seen(world: World) -> World:
    world.push(60, late_s=0)
    world.pipe.db.execute("CREATE QUERY seen AS SELECT x, n, big, word, price, ts FROM probes WHERE n <> 0")
    world.pipe.engine.drain()
    world.push(60)
    world.pipe.engine.cycle()
    return world
