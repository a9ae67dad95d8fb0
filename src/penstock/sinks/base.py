"""What a sink is made of: batches to deliver, an outlet that delivers them, and a kind that says how to open one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.catalog.model import Sink
from penstock.clock import Clock
from penstock.errors import PenstockError, error
from penstock.sensors.address_rules import AddressRules
from penstock.sensors.base import Option
from penstock.types import Field

__all__ = ["Kind", "Option", "Outlet", "Place", "SinkBatch", "delivery_failed"]


@dataclass(frozen=True, slots=True)
class SinkBatch:
    """Rows of one committed cycle. `whole`: they are the answer as of it, not only what it brought."""

    cycle: int
    now_us: int | None
    table: pa.Table
    whole: bool = False


class Outlet(ABC):
    """One open way out. Whatever it raises is shown, and the same batch comes again to an outlet opened anew."""

    def position(self) -> int | None:
        """The last cycle that the target itself says it has; None where it has none, or keeps none."""
        return None

    @abstractmethod
    def deliver(self, batch: SinkBatch) -> None:
        """Returns once the target has the rows for good. Cycles ascend, except that a whole answer may begin anew."""

    def tick(self) -> None:  # noqa: B027
        """Called every second or so: for what is due by time."""

    @abstractmethod
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Place:
    """Where an outlet is opened: for which sink of which data folder. Files go below `files`, connections by `rules`."""

    sink: Sink
    folder_id: str
    files: Path
    clock: Clock
    rules: AddressRules = field(default_factory=AddressRules)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of sink, as data. `answers`: it always wants the newest whole answer and may skip those between.

    `check` looks at the query's columns and the parsed options together and raises a named error.
    """

    name: str
    sentence: str
    promise: str
    options: tuple[Option, ...]
    open: Callable[[Place, Mapping[str, Any]], Outlet]
    target: Callable[[Mapping[str, Any]], str]
    answers: Callable[[Mapping[str, Any]], bool] = lambda options: False
    check: Callable[[Sequence[Field], Mapping[str, Any]], None] = lambda columns, options: None


def delivery_failed(detail: str, retry_after_s: float | None = None) -> PenstockError:
    """The target did not take a batch. `retry_after_s`: when it wants to be asked again."""
    failure = error("delivery_failed", detail=detail)
    failure.retry_after_s = retry_after_s
    return failure
