"""The fake keeps the real one's contract."""

from __future__ import annotations

import inspect

import pytest

from penstock.server import backend
from tests.server.fake import FakeDatabase, FakeSubscription


@pytest.mark.parametrize(
    ("protocol", "fake"), [(backend.Backend, FakeDatabase), (backend.SubscriptionSource, FakeSubscription)]
)
def test_every_call_of_the_contract_is_there_with_the_same_parameters(protocol: type, fake: type) -> None:
    calls = [name for name, _ in inspect.getmembers(protocol, inspect.isfunction) if not name.startswith("_")]
    assert calls
    for name in calls:
        wanted, found = (list(inspect.signature(getattr(kind, name)).parameters) for kind in (protocol, fake))
        assert found == wanted, name
