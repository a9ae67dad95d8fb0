"""What a window join means, by definition: every combination of rows is tried. Shares no code with the product."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

Row = dict[str, object]
Combination = tuple[Row, ...]


@dataclass
class Stream:
    """A table's readings in the order of its log."""

    name: str
    valid: bool
    rows: list[Row] = field(default_factory=list)

    def now(self, end: int, passes: Callable[[Row], bool]) -> int | None:
        return max((int(r["ts"]) for r in self.rows[:end] if passes(r)), default=None)  # type: ignore[call-overload]


@dataclass
class Question:
    """One join: which streams under which alias, who passes alone, which windows, what must hold together."""

    name: str
    sql: str
    aliases: tuple[str, ...]
    streams: tuple[Stream, ...]
    sensors: tuple[tuple[int, ...] | None, ...]  # static predicate: which sensors, None for all
    windows: tuple[tuple[int, int, int, int], ...]  # (i, j, low, high)
    holds: Callable[[Combination], bool]
    begin: int | None = None  # NOW - begin .. NOW; None: from START on
    missing: str = "inner"
    start: int | None = None
    extended: Callable[[Combination], list[tuple[object, ...]]] | None = None  # by rows of ordinary tables

    def answer(self, heads: dict[str, int], now: int | None) -> Counter[tuple[object, ...]]:
        """The rows of SELECT with all k, v and ts of every alias, as a multiset."""
        if now is None:
            return Counter()
        low = (self.start if self.start is not None else -(2**62)) if self.begin is None else now - self.begin
        candidates = [
            [r for r in s.rows[: heads.get(s.name, 0)] if passes(r)]
            for s, passes in zip(self.streams, self._passing(), strict=True)
        ]
        found: Counter[tuple[object, ...]] = Counter()
        partnered: set[int] = set()
        for combination in self._near_ones(candidates, ()):
            if self.holds(combination):
                partnered.add(id(combination[0]))
                if self.missing != "anti" and all(low <= r["ts"] <= now for r in combination):  # type: ignore[operator]
                    for more in self.extended(combination) if self.extended else [()]:
                        found[(*shown(combination), *more)] += 1
        if self.missing != "inner":
            upper = min(h for i, j, _, h in self.windows if (i, j) == (0, 1))
            for row in candidates[0]:
                ts = int(row["ts"])  # type: ignore[call-overload]
                if id(row) not in partnered and low <= ts <= now and ts + upper < now:
                    nobody: Row = {"sensor": None, "k": None, "v": None, "ts": None}
                    found[shown((row, nobody) if self.missing == "left" else (row,))] += 1
        return found

    def now_of(self, heads: dict[str, int], wall: int) -> int | None:
        nows = [
            s.now(heads.get(s.name, 0), passes) if s.valid else wall
            for s, passes in zip(self.streams, self._passing(), strict=True)
        ]
        return None if None in nows else min(n for n in nows if n is not None)

    def _passing(self) -> list[Callable[[Row], bool]]:
        return [(lambda r, only=only: only is None or r["sensor"] in only) for only in self.sensors]

    def _near_ones(self, candidates: list[list[Row]], begun: Combination) -> Iterator[Combination]:
        """Every combination that satisfies every window, one row after the other."""
        place = len(begun)
        if place == len(candidates):
            yield begun
            return
        due = [w for w in self.windows if max(w[0], w[1]) == place]
        for row in candidates[place]:
            combination = (*begun, row)
            if all(
                low <= int(combination[j]["ts"]) - int(combination[i]["ts"]) <= high  # type: ignore[call-overload]
                for i, j, low, high in due
            ):
                yield from self._near_ones(candidates, combination)


def shown(combination: Combination) -> tuple[object, ...]:
    return tuple(r[name] for r in combination for name in ("sensor", "k", "v", "ts"))
