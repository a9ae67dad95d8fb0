"""Sinks that do not dawdle, and a receiver of webhooks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.sinks import runner
from penstock.sinks.runner import Pace
from tests.sinks.world import Receiver


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "PACE", Pace(turn_s=0.05, least_s=0.01, most_s=0.05, asked_s=0.05, position_s=0.0))
    # Nobody is left behind because the machine is slow: two servers would write to one folder.
    monkeypatch.setattr(runner, "_END_S", 60.0)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()
