"""The fake keeps the real one's contract."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import penstock.server
from penstock.answers.subscription import Subscription
from penstock.database.database import Database
from tests.server.fake import FakeDatabase, FakeSubscription


def parameters(kind: type, name: str) -> list[str]:
    return list(inspect.signature(getattr(kind, name)).parameters)


def test_every_call_of_the_server_is_there_with_the_same_parameters() -> None:
    sources = Path(penstock.server.__path__[0]).rglob("*.py")
    named = {name for source in sources for name in re.findall(r"\bdatabase\.([a-z]\w*)", source.read_text())}
    calls = [name for name in named if inspect.isfunction(getattr(Database, name, None))]
    assert {"execute", "push", "invoke", "subscribe", "register", "backup"} <= set(calls)
    for name in calls:
        assert parameters(FakeDatabase, name) == parameters(Database, name), name


def test_a_subscription_of_the_fake_has_every_call_of_a_real_one() -> None:
    calls = [name for name, _ in inspect.getmembers(Subscription, inspect.isfunction) if not name.startswith("_")]
    assert {"next", "on_ready", "close"} <= set(calls)
    for name in calls:
        assert parameters(FakeSubscription, name) == parameters(Subscription, name), name
