"""The API over the fake database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.settings import Settings
from tests.server.asgi import Http
from tests.server.fake import FakeDatabase


@pytest.fixture
def database() -> FakeDatabase:
    return FakeDatabase()


@pytest.fixture
def http(database: FakeDatabase) -> Iterator[Http]:
    http = Http(database, Settings())
    yield http
    http.close()
