"""A session of Spark without a JVM: it starts streaming queries that a test makes."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import orjson

from penstock.cycle.offset import Offset, offset_from_json
from penstock.pipeline.session import SparkSessions, start_session


class FakeSpark:
    """`make_query` makes each streaming query; `starts` says where each began."""

    def __init__(self, make_query: Callable[[], Any]) -> None:
        self._make_query = make_query
        self.readStream = self.writeStream = self.sparkContext = self
        self.defaultParallelism = 2
        self.environment: dict[str, str] = {}
        self.starts: list[Offset] = []
        self.stopped = False
        self._jsc = SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: self.stopped))
        self.dataSource = SimpleNamespace(register=lambda source: None)

    def options(self, **_: str) -> FakeSpark:
        return self

    def option(self, name: str, value: str) -> FakeSpark:
        if name == "start":
            self.starts.append(offset_from_json(orjson.loads(value)))
        return self

    def load(self) -> FakeSpark:
        return self

    def setLocalProperty(self, _name: str, _value: str | None) -> None:
        pass

    def format(self, _name: str) -> FakeSpark:
        return self

    def queryName(self, _name: str) -> FakeSpark:
        return self

    def foreachBatch(self, _commit: Callable[[Any, int], None]) -> FakeSpark:
        return self

    def start(self) -> Any:
        return self._make_query()


def sessions(
    start: Callable[..., Any] = start_session, stop: Callable[..., None] = lambda spark: None, **named: Any
) -> SparkSessions:
    """SparkSessions without functions of ours."""
    return SparkSessions(**{"start": start, "stop": stop, "add_functions": lambda spark: None, **named})
