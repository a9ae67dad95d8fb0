"""The commands, run against a server over the fake database."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from click.testing import Result
from typer.testing import CliRunner

from penstock.cli.main import app
from tests.server.fake import FakeDatabase
from tests.server.live import Live, serving

Run = Callable[..., Result]


@pytest.fixture(scope="session")
def server() -> Iterator[tuple[Live, FakeDatabase]]:
    database = FakeDatabase()
    with serving(database) as live:
        yield live, database


@pytest.fixture
def database(server: tuple[Live, FakeDatabase]) -> FakeDatabase:
    server[1].__dict__.update(FakeDatabase().__dict__)
    return server[1]


@pytest.fixture
def run(server: tuple[Live, FakeDatabase], database: FakeDatabase, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("PENSTOCK_URL", server[0].url)
    monkeypatch.setenv("COLUMNS", "120")
    runner = CliRunner()

    def invoke(*arguments: str, input: str | None = None) -> Result:
        return runner.invoke(app, list(arguments), input=input)

    return invoke
