"""The area of a buffered run: a range of the log, and a range of key hashes.

The hash has RANGES equal ranges. A step with little to do is one part and owns them all, one with much to do is cut into parts
that own neighbouring ranges; so parts may be more or fewer from step to step, and runs of either kind lie side by side.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

RANGES = 64


@dataclass(frozen=True, slots=True, order=True)
class Share:
    """The ranges [low, high) of the hash."""

    low: int = 0
    high: int = RANGES

    @property
    def size(self) -> int:
        return self.high - self.low

    def has(self, other: Share) -> bool:
        return self.low <= other.low and other.high <= self.high

    def touches(self, other: Share) -> bool:
        return self.low < other.high and other.low < self.high


WHOLE = Share()


def share_of(part: int, parts: int) -> Share:
    """One part's ranges; some have none where there are more parts than ranges."""
    return Share(RANGES * part // parts, RANGES * (part + 1) // parts)


@dataclass(frozen=True, slots=True, order=True)
class KeyRange:
    """Rows at log positions [first, end) with a key that belongs to a share."""

    first: int
    end: int
    share: Share = WHOLE

    @property
    def area(self) -> int:
        return (self.end - self.first) * self.share.size

    def touches(self, other: KeyRange) -> bool:
        return self.first < other.end and other.first < self.end and self.share.touches(other.share)


def without(areas: Iterable[KeyRange], taken: Sequence[KeyRange]) -> list[KeyRange]:
    """The areas without the parts in `taken`, oldest first."""
    left = [a for a in areas if a.area]
    for one in taken:
        left = [rest for area in left for rest in _minus(area, one)]
    return sorted(left)


def _minus(area: KeyRange, taken: KeyRange) -> list[KeyRange]:
    if not area.touches(taken):
        return [area]
    first, end = max(area.first, taken.first), min(area.end, taken.end)
    low, high = max(area.share.low, taken.share.low), min(area.share.high, taken.share.high)
    around = [
        KeyRange(area.first, first, area.share),
        KeyRange(end, area.end, area.share),
        KeyRange(first, end, Share(area.share.low, low)),
        KeyRange(first, end, Share(high, area.share.high)),
    ]
    return [c for c in around if c.area]
