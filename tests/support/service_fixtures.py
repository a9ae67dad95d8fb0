"""Fixtures of services of other makers: a Mosquitto for a test or a module, a PostgreSQL for all tests of a process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.mosquitto import Mosquitto
    from tests.support.postgres import PrivatePostgres
    from tests.support.postgres_calls import Answers


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    """A broker of the test's own, which it may stop and kill."""
    from tests.support.mosquitto import Mosquitto

    made = Mosquitto(tmp_path / "broker")
    yield made
    made.kill()


@pytest.fixture(scope="module")
def module_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mosquitto]:
    """A broker that the tests of a module share."""
    from tests.support.mosquitto import Mosquitto

    made = Mosquitto(tmp_path_factory.mktemp("broker"))
    yield made
    made.kill()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PrivatePostgres]:
    """A server with an empty schema. A test that writes into it empties it."""
    from tests.support.postgres import ABSENT, find_binaries, private_postgres

    binaries = find_binaries()
    if binaries is None:
        pytest.skip(ABSENT)
    with private_postgres(binaries) as found:
        yield found


@pytest.fixture(scope="session")
def postgres_answers(postgres: PrivatePostgres) -> Answers:
    """What PostgreSQL answers to the calls of tests/support/postgres_calls.py."""
    from tests.support.postgres_calls import ask_postgres

    found = ask_postgres(postgres)
    postgres.empty()
    return found
