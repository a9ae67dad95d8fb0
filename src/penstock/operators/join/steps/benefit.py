"""Decide whether similar joins run as one step, by the measured cost of their steps together and apart.

One step for all makes many useless combinations where members' conditions have little in common. Where it makes far more than
it gives out, the members run apart for some steps, and the cheaper way goes on. The choice uses measurements of this worker
only; it changes the cost of a step, never a result.
"""

from __future__ import annotations

from penstock.operators.join.steps.join_sharing import MOST_LARGER, SharedJoin, UniformJoin

# What a step of its own costs beside its results, in combinations: some two milliseconds.
STEP_IS_WORTH = 10_000
# So many steps apart make a trial.
TRIAL = 3
# By so much quicker has it to be: times of single steps vary.
CLEARLY = 1.25
# A trial reads the windows of all members back, each by itself; that has to pay before it is looked at again.
READ_BACK_S = 3e-7
# After so many steps it is tried again: rates and values change.
ANEW = 500
_MOST_GROUPS = 256


class Benefit:
    """The measured costs of one group, in seconds per row of the log."""

    def __init__(self, members: int) -> None:
        self._members = members
        self._together = _Seconds()
        self._apart = _Seconds()
        self._left = 0  # how many steps are to run apart

    @property
    def together(self) -> bool:
        return self._left == 0

    @property
    def settled_apart(self) -> bool:
        """Whether it was found that members are quicker apart."""
        return self._left > TRIAL

    def stay_apart(self) -> None:
        self._left = ANEW

    def ran_together(self, seconds: float, rows: int, combinations: int, results: int, buffered: int = 0) -> None:
        """Note a shared step: its seconds, its new and buffered rows, its combinations, and the results that it gave out."""
        self._together.add(seconds, rows)
        doubtful = combinations > MOST_LARGER * (results + self._members * STEP_IS_WORTH)
        affordable = self._members * buffered * READ_BACK_S < ANEW * seconds / 5
        if (
            doubtful
            and affordable
            and self._together.steps > 1
            and (not self._apart.steps or self._together.steps > ANEW)
        ):
            self._left, self._apart = TRIAL, _Seconds()

    def ran_apart(self, seconds: float, rows: int) -> None:
        self._apart.add(seconds, rows)
        self._left = max(0, self._left - 1)
        if self._left == 0:
            if self._apart.steps == TRIAL and self._apart.per_row * CLEARLY < self._together.per_row:
                self._left = ANEW
            else:
                self._together = _Seconds()
                self._apart = self._apart if self._apart.steps == TRIAL else _Seconds()


class _Seconds:
    """The duration of steps of one kind. The first step reads buffers back, and has little weight."""

    def __init__(self) -> None:
        self.steps = 0
        self.per_row = 0.0

    def add(self, seconds: float, rows: int) -> None:
        self.steps += 1
        now = seconds / max(1, rows)
        self.per_row = now if self.steps <= 2 else 0.7 * self.per_row + 0.3 * now


_KNOWN: dict[int, tuple[SharedJoin, Benefit]] = {}
_OF_MEMBER: dict[int, tuple[UniformJoin, Benefit]] = {}


def benefit_of(group: SharedJoin) -> Benefit:
    known = _KNOWN.get(id(group))
    if known is None or known[0] is not group:
        if len(_KNOWN) >= _MOST_GROUPS:
            _KNOWN.clear()
            _OF_MEMBER.clear()
        known = _KNOWN[id(group)] = (group, _begun(group))
    return known[1]


def _begun(group: SharedJoin) -> Benefit:
    """The benefit of a changed group: where most of its members were quicker apart, they stay apart until the next trial."""
    made = Benefit(len(group.members))
    apart = 0
    for number, uniform in group.uniforms.items():
        known = _OF_MEMBER.get(number)
        # The same number may be another query's, of another database.
        apart += known is not None and known[0] is uniform and known[1].settled_apart
    if 2 * apart > len(group.members):
        made.stay_apart()
    _OF_MEMBER.update((number, (uniform, made)) for number, uniform in group.uniforms.items())
    return made
