"""What a sender gets back for a push."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReadingRefusal:
    """One reading that was not stored, and why."""

    index: int
    condition: str
    message: str


@dataclass(frozen=True, slots=True)
class IngestReceipt:
    """What became of a push: how many readings are on disk, which were refused, and the log's head after."""

    accepted: int
    refused: tuple[ReadingRefusal, ...] = ()
    position: int = 0
