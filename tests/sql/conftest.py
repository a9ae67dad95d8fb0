from __future__ import annotations

import pytest

from tests.sql.world import World, plant


@pytest.fixture
def world() -> World:
    return plant()
