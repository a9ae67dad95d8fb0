"""A database without Spark behind the API, with somebody of each role."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.database.database import Database
from penstock.security.users import Cost, Users
from penstock.settings import Settings
from tests.server.asgi import Http
from tests.support.pipe import Pipe

CHEAP = Cost(1, 1, 1)
ROLES = ("read", "write", "admin")


class World:
    """One server with users of each role and a token of each; `http` sends as nobody unless told."""

    def __init__(self, folder: Path, make: type[Database] = Database) -> None:
        self.pipe = Pipe(folder / "data", make=make)
        self.db = self.pipe.db
        self.db.users = Users(self.pipe.folder, clock=self.pipe.clock, cost=CHEAP)
        self.pipe.probes()
        self.db.execute(
            "CREATE QUERY hot AS SELECT id, value FROM probes WHERE value > 35 BEGIN (NOW - 10 MINUTES) END (NOW)"
        )
        self.db.engine.drain()  # type: ignore[attr-defined]
        self.http = Http(self.db, Settings(data=str(self.pipe.folder)))  # type: ignore[arg-type]
        self.tokens: dict[str, str] = {}

    def add_people(self) -> None:
        self.db.users.create_user("root", "admin", "admin's secret")
        self.db.users.create_user("ada", "write", "ada's secret")
        for role in ROLES:
            self.tokens[role] = self.db.users.create_token(f"t_{role}", role)  # type: ignore[arg-type]

    def headers(self, role: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens[role]}"}

    def close(self) -> None:
        self.http.close()
        self.db.stop()


@pytest.fixture
def open_world(tmp_path: Path) -> Iterator[World]:
    """Nobody has to sign in."""
    found = World(tmp_path)
    yield found
    found.close()


@pytest.fixture
def world(open_world: World) -> World:
    open_world.add_people()
    return open_world
