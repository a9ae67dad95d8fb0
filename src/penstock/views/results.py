"""What the database returns: answers, pushed events and its health. Receipts are in `streams.receipt`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from penstock.operators.aggregate.rollups.notices import RolledUpNote


@dataclass(frozen=True, slots=True)
class Behind:
    """The cycle at which a query stands that waits for others, the readings that it has not seen, and how old its NOW is."""

    cycle: int
    rows: int
    seconds: float

    def notice(self, name: str) -> str:
        return (
            f'query "{name}" is LAGGING: {self.rows} readings and {self.seconds:.1f} s behind, as of cycle {self.cycle}'
        )

    def to_json(self) -> dict[str, Any]:
        return {"cycle": self.cycle, "rows": self.rows, "seconds": self.seconds}


@dataclass(frozen=True, slots=True)
class Result:
    """The answer to one statement. `done` is the tag of a statement without rows, e.g. `CREATE TABLE`."""

    table: pa.Table
    done: str | None = None
    cycle: int | None = None
    now_us: int | None = None
    complete_from_us: int | None = None
    notices: tuple[str, ...] = ()
    rolled_up: RolledUpNote | None = None  # of an answer for which a rollup was asked
    final_to_us: int | None = None  # rows before it are final
    behind: Behind | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """Rows pushed to a subscriber: one committed cycle's. With changes, the first column is `op`, + or -."""

    cycle: int
    now_us: int | None
    table: pa.Table
    final_to_us: int | None = None
    behind: Behind | None = None  # how far the query stood behind when the event was made
    encoded: dict[object, bytes] = field(default_factory=dict, compare=False, repr=False)
    """Encoded bytes by wire format, for the next subscriber to the same event."""


@dataclass(frozen=True, slots=True)
class Health:
    """Whether the server is ready, and the reason where it is not."""

    ready: bool
    reason: str
    details: dict[str, Any] = field(default_factory=dict)
