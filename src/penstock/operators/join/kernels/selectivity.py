"""The selectivity of conditions and equalities as measured in steps so far; it decides which stream is bound next."""

from __future__ import annotations

from collections.abc import Hashable

# What a condition or an equality keeps of the rows inside a period, until it was seen.
GUESS = 0.01
# The newest look counts for so much: rates and values change.
_NEWEST = 0.3
_MOST_JOINS = 256


class Selectivity:
    """The share of candidates that were kept, by condition or equality."""

    def __init__(self) -> None:
        self._seen: dict[Hashable, float] = {}

    def of(self, what: Hashable, conditions: int) -> float:
        return self._seen.get(what, GUESS**conditions)

    def learn(self, what: Hashable, candidates: float, kept: int) -> None:
        if candidates > 0:
            share = kept / candidates
            self._seen[what] = share * _NEWEST + self._seen.get(what, share) * (1 - _NEWEST)


_KNOWN: dict[Hashable, Selectivity] = {}


def selectivity_of(join: Hashable) -> Selectivity:
    """What this worker has learned about a join. It changes the order of the work, never a result."""
    if join not in _KNOWN:
        if len(_KNOWN) >= _MOST_JOINS:
            _KNOWN.clear()
        _KNOWN[join] = Selectivity()
    return _KNOWN[join]
