"""Learn from the steps of joins which algorithm is the cheapest for each group of joins.

A step reports what each algorithm was expected to cost and what the one that ran took. Their ratio corrects the next
expectations. The server learns (`JoinChoices`) and leaves what it found in a file; the planner reads it and says in every
part of a step by what it runs (`PlannedChoices`). All of it is soft: losing it changes times, never rows.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

_log = logging.getLogger(__name__)

COSTS_FILE = "costs.json"
"""In the folder `tmp`."""
LEAST_FACTOR, MOST_FACTOR = 0.2, 5.0
NEWEST = 0.2
"""What the newest step counts for; the first ones count for more."""
STEADY = 0.7
"""What the steps before count for in what the next one is expected to cost: the sizes of single steps vary."""
CLEARLY = 0.8
"""Another algorithm takes over when it is expected to cost less than this share of the one that runs,"""
STEPS_CLEARLY = 8
"""for so many steps without a break;"""
TRIES, STEPS_BETWEEN = 2, 4
"""and after that many single tries, some steps apart;"""
HELD = 32
"""then it runs for so many steps at least."""
TRY_EVERY, TRY_FIRST = 200, (20, 60, 120)
"""Every so many steps, and a few times in the beginning, the second best runs once."""
TRY_RATIO, TRY_MS = 3.0, 50.0
"""Only what is expected to take less than so many times the best one, and less than so many milliseconds, is tried."""


@dataclass(frozen=True, slots=True)
class StepReport:
    """One step of a group, all parts together: what ran, what it took, and what each algorithm was expected to take.

    `measured`: whether the time says something; it does not where rows were read back or code was compiled.
    """

    cycle: int
    algorithm: str
    took_ms: float
    costs: Mapping[str, float]
    measured: bool = True


@dataclass(slots=True)
class Learned:
    """What is known about one algorithm: took / expected as an average, and the last figures of steps that it ran."""

    factor: float = 1.0
    tries: int = 0
    predicted_ms: float = 0.0
    observed_ms: float = 0.0

    def note(self, expected_ms: float, took_ms: float) -> None:
        if expected_ms <= 0:
            return
        ratio = min(max(took_ms / expected_ms, LEAST_FACTOR), MOST_FACTOR)
        self.predicted_ms, self.observed_ms = expected_ms * self.factor, took_ms
        self.tries += 1
        weight = max(NEWEST, 1 / self.tries)
        self.factor += weight * (ratio - self.factor)


@dataclass(frozen=True, slots=True)
class Switch:
    """A change of the algorithm, with the cycle and the reason."""

    cycle: int
    before: str
    after: str
    reason: str


@dataclass(slots=True)
class GroupChoice:
    """The algorithm of one group of joins, or of a join by itself."""

    runs: str | None = None  # None until the first report
    attempt: tuple[str, int] | None = None  # the algorithm to run once, and which attempt that is
    learned: dict[str, Learned] = field(default_factory=dict)
    expected_ms: dict[str, float] = field(default_factory=dict)  # for a step like the last few
    last_switch: Switch | None = None
    steps: int = 0
    _attempts: int = 0
    _rival: tuple[str, int] = ("", 0)  # what was cheaper, and for how many steps
    _held_until: int = 0

    def note(self, report: StepReport) -> None:
        self.steps += 1
        if report.measured and report.algorithm in report.costs:
            known = self.learned.setdefault(report.algorithm, Learned())
            known.note(report.costs[report.algorithm], report.took_ms)
        if not report.costs:
            return
        if self.runs is None:
            self.runs = report.algorithm
        now = {name: cost * self._factor(name) for name, cost in report.costs.items()}
        self.expected_ms = {name: ms + STEADY * (self.expected_ms.get(name, ms) - ms) for name, ms in now.items()}
        best = min(self.expected_ms, key=lambda name: self.expected_ms[name])
        if self.runs not in self.expected_ms:
            self._switch(report.cycle, best, f"{self.runs} cannot run any more")
        elif not report.measured:
            return  # a join that always reads back would try something for ever, and learn nothing
        elif self.expected_ms[best] < CLEARLY * self.expected_ms[self.runs]:
            self._rival = (best, self._rival[1] + 1 if self._rival[0] == best else 1)
            if self._rival[1] >= STEPS_CLEARLY and self._tries(best) < TRIES:
                self._run_once(best)
                self._rival = (best, STEPS_CLEARLY - STEPS_BETWEEN)
            elif self._rival[1] >= STEPS_CLEARLY and self.steps >= self._held_until:
                figures = f"{self.expected_ms[best]:.2f} ms, {self.runs} {self.expected_ms[self.runs]:.2f} ms"
                self._switch(report.cycle, best, f"for {self._rival[1]} steps it was the cheaper: {figures}")
        else:
            self._rival = ("", 0)
        self._try(report.costs)

    def _factor(self, name: str) -> float:
        """What was never tried is expected to differ from the constants as what runs does: by the machine and its load."""
        known = self.learned.get(name) or self.learned.get(self.runs or "")
        return 1.0 if known is None else known.factor

    def _switch(self, cycle: int, to: str, reason: str) -> None:
        assert self.runs is not None
        self.last_switch = Switch(cycle, self.runs, to, reason)
        self.runs, self._rival, self._held_until = to, ("", 0), self.steps + HELD

    def _try(self, costs: Mapping[str, float]) -> None:
        """Let the second best run once. What costs exactly the same as what runs does the same."""
        if self.steps % TRY_EVERY and self.steps not in TRY_FIRST:
            return
        same = costs.get(self.runs or "")
        others = {name: cost for name, cost in self.expected_ms.items() if costs[name] != same}
        second = min(others, key=lambda name: others[name], default=None)
        if second is not None and others[second] < min(TRY_MS, TRY_RATIO * min(self.expected_ms.values())):
            self._run_once(second)

    def _tries(self, name: str) -> int:
        return self.learned[name].tries if name in self.learned else 0

    def _run_once(self, name: str) -> None:
        self._attempts += 1
        self.attempt = (name, self._attempts)


class JoinChoices:
    """What the server has learned, by the number of a group's first join. One thread writes."""

    def __init__(self) -> None:
        self.groups: dict[int, GroupChoice] = {}
        self._open: dict[int, tuple[int, dict[int, list[Mapping[str, Any]]]]] = {}  # cycle, reports by part

    def add(self, cycle: int, part: int, said: Mapping[str, Any]) -> None:
        """One part's report, of a group or of one of its members that ran apart from the others."""
        group = said["group"]
        if group in self._open and self._open[group][0] != cycle:
            self._settle(group)
        self._open.setdefault(group, (cycle, {}))[1].setdefault(part, []).append(said)

    def settle(self) -> bool:
        """Learn from the cycles so far: no more of their parts will come. Whether there was something to learn from."""
        found = list(self._open)
        for group in found:
            self._settle(group)
        return bool(found)

    def forget(self, kept: Iterable[int]) -> None:
        """Leave only the groups of joins that there are."""
        known = set(kept)
        self.groups = {number: group for number, group in self.groups.items() if number in known}

    def to_json(self) -> bytes:
        """For the planner: the algorithm of each group, and the one to be tried once."""
        return orjson.dumps({str(n): [g.runs, g.attempt] for n, g in self.groups.items() if g.last_switch or g.attempt})

    def _settle(self, group: int) -> None:
        cycle, parts = self._open.pop(group)
        first = next(iter(parts.values()))[0]
        each = [_together(reports) for reports in parts.values()]
        names = set.intersection(*(set(costs) for _, costs in each))
        report = StepReport(
            cycle,
            first["algorithm"],
            max(took for took, _ in each),
            {name: max(costs[name] for _, costs in each) for name in names},
            all(said["measured"] and said["algorithm"] == first["algorithm"] for r in parts.values() for said in r),
        )
        self.groups.setdefault(group, GroupChoice()).note(report)


def _together(reports: list[Mapping[str, Any]]) -> tuple[float, dict[str, float]]:
    """What one part took, and what each algorithm was expected to take there: the sums over members that ran apart."""
    names = set.intersection(*(set(said["costs"]) for said in reports))
    return sum(said["ms"] for said in reports), {n: sum(said["costs"][n] for said in reports) for n in names}


class PlannedChoices:
    """What the planner says: the algorithms in the server's file, and each attempt in one step."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._tried: dict[int, int] = {}

    def __call__(self, queries: tuple[int, ...]) -> Mapping[int, str]:
        try:
            known = orjson.loads(self._file.read_bytes())
            return {
                number: name for number in queries if (name := self._of(number, known.get(str(number)))) is not None
            }
        except (OSError, ValueError, TypeError, AttributeError, LookupError) as failure:
            if not isinstance(failure, FileNotFoundError):
                _log.warning("the learned costs of joins cannot be read: %r", failure)
            return {}

    def _of(self, number: int, found: Any) -> str | None:
        if found is None:
            return None
        runs, attempt = found
        if attempt is not None and self._tried.get(number) != attempt[1]:
            self._tried[number] = attempt[1]
            return str(attempt[0])
        return None if runs is None else str(runs)
