"""What waits to be written to one table's log, and when its next segment is due."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from penstock.errors import PenstockError
from penstock.settings import Settings

COMMIT_AT_BYTES = 8 << 20  # this much is worth a segment at once; waiting for more would only use memory
INTERVAL_MAX_S = 2.0
LONG_AGO = -(2**62)


class LogMoved(Exception):
    """What the caller had looked at before its append is no longer so: look again, then append again."""


@dataclass(frozen=True, slots=True)
class CommitFailures:
    """What a caller relied on: the number of journal pauses so far, and of failed commits of the table."""

    stills: int
    failures: int


@dataclass(slots=True)
class Append:
    """One queued batch. `receipt` goes to disk with `key`, in the same file as the rows."""

    batch: pa.RecordBatch
    future: Future[int]
    key: str | None
    receipt: dict[str, Any] | None
    at_us: int


@dataclass(slots=True)
class TableLog:
    """One table as the writer knows it: how far it is written, and what waits."""

    head: int = 0
    last_ts: int = LONG_AGO
    files: int = 0
    failures: int = 0
    committed_at_s: float = 0.0
    pending: list[Append] = field(default_factory=list)
    pending_bytes: int = 0
    broken: PenstockError | None = None

    @property
    def is_large(self) -> bool:
        return self.pending_bytes >= COMMIT_AT_BYTES

    def add(self, append: Append) -> None:
        self.pending.append(append)
        self.pending_bytes += append.batch.nbytes

    def take(self) -> list[Append]:
        taken, self.pending, self.pending_bytes = self.pending, [], 0
        return taken

    def due_at_s(self, settings: Settings) -> float:
        """When the next segment is written: longer after the last one as files pile up faster than they merge."""
        base = settings.group_commit_ms / 1000
        most = settings.files_max_per_table
        excess = (self.files - most / 2) / (most / 2)
        pause = base if excess <= 0 else min(INTERVAL_MAX_S, base * 2 ** (10 * min(excess, 1.0)))
        return self.committed_at_s + pause
