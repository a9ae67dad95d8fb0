"""Ranges of log positions: ascending, apart from each other, half-open."""

from __future__ import annotations

from collections.abc import Iterable

Range = tuple[int, int]
Ranges = tuple[Range, ...]


def joined(ranges: Iterable[Range]) -> Ranges:
    """The same positions, as few ranges as possible."""
    out: list[Range] = []
    for first, end in sorted(r for r in ranges if r[0] < r[1]):
        if out and first <= out[-1][1]:
            out[-1] = (out[-1][0], max(end, out[-1][1]))
        else:
            out.append((first, end))
    return tuple(out)


def outside(ranges: Ranges, first: int, end: int) -> list[Range]:
    """What of [first, end) no range covers."""
    out: list[Range] = []
    at = first
    for low, high in ranges:
        if high <= at:
            continue
        if low >= end:
            break
        if low > at:
            out.append((at, low))
        at = max(at, high)
    if at < end:
        out.append((at, end))
    return out


def inside(ranges: Ranges, first: int, end: int) -> list[Range]:
    """What of [first, end) some range covers."""
    return [(max(low, first), min(high, end)) for low, high in ranges if low < end and high > first]


def from_position(ranges: Ranges, position: int) -> Ranges:
    """Without what lies below a position."""
    return tuple((max(low, position), high) for low, high in ranges if high > position)
