"""The state that every query has, whatever operator runs it: window, history, failure, and the log ranges that records cover."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.expr.windows import FOREVER, AnyWindow, JoinWindows, TimeWindow
from penstock.expr.windows import any_from_json as window_from_json
from penstock.expr.windows import to_json as window_to_json
from penstock.operators.base.ranges import Ranges, from_position, joined
from penstock.sql.plan import AggregatePlan, JoinAggregatePlan, KernelPlan, Plan, ScalarSubquery

NEVER = -(2**62)


@dataclass(slots=True)
class QueryState:
    """What all operators keep of a query. `window` is what invocations see; a changed one waits in `pending` for its history."""

    plan: KernelPlan
    start_us: int | None
    window: AnyWindow
    pending: AnyWindow | None = None
    filling: tuple[int, int] | None = None
    filled_before: bool = False
    fill_first: int = 0
    matched: int = 0
    error: str | None = None
    error_condition: str = "function_failed"
    paused: bool = False
    covered: Ranges = ()  # log ranges with matches in records and bit matrices, apart from the one that still grows
    live_since: int | None = None  # from here on they have every new row's matches; None: not for now
    reach: int = 0  # rows below this are older than any window of the query
    strategy: str | None = None  # the strategy that a user asked for
    sleeping: bool = False  # whether the run plan leaves it out of the cycles
    whole: Plan | None = None  # the query's plan, of which `plan` is what kernels run
    top: AggregatePlan | None = None  # what a join's results are aggregated by, if these are no answer themselves

    @property
    def operator(self) -> str:
        """What keeps the rows or cells."""
        return self.plan.operator if self.top is None else JoinAggregatePlan.operator

    @property
    def progress(self) -> float:
        """How much of its history a filling query has read."""
        if self.filling is None:
            return 1.0
        position, target = self.filling
        return (position - self.fill_first) / max(1, target - self.fill_first)

    @property
    def ready(self) -> bool:
        return self.filling is None or self.filled_before

    @property
    def answers(self) -> bool:
        """Whether an invocation gets an answer."""
        return self.ready and not self.paused and self.error is None

    @property
    def settled(self) -> bool:
        """Whether everything that its plan asks of the log up to the last cycle has been read."""
        return self.filling is None and not self.paused

    @property
    def scalars(self) -> tuple[ScalarSubquery, ...]:
        """Subqueries that give values to its aggregates."""
        return self.plan.scalars if self.top is None else self.top.scalars

    @property
    def known(self) -> Ranges:
        """Log ranges with known matches, which need no evaluation."""
        return self.covered if self.live_since is None else joined([*self.covered, (self.live_since, FOREVER)])

    def go_live(self, position: int) -> None:
        if self.live_since is None:
            self.live_since = position

    def rest(self, position: int) -> None:
        """Note that new rows from a position on are not evaluated for the query."""
        if self.live_since is not None:
            self.covered = joined([*self.covered, (self.live_since, position)])
            self.live_since = None

    def doubt(self, position: int) -> None:
        """Note a failure: the records may not have all matches below a position."""
        self.covered = ()
        if self.live_since is not None:
            self.live_since = position

    def fail(self, message: str, condition: str) -> None:
        self.error, self.error_condition = message, condition

    def finish_fill(self) -> None:
        """It has nothing left to read, and answers through the window that it was given last."""
        self.filled_before = True
        if self.pending is not None:
            self.window, self.pending = self.pending, None

    def forget_below(self, position: int) -> None:
        """Rows below a position are not kept any more; a window that is made wider later evaluates them again."""
        self.reach = max(self.reach, position)
        if self.covered:
            self.covered = from_position(self.covered, position)
        if self.live_since is not None:
            self.live_since = max(self.live_since, position)

    def to_json(self) -> dict[str, Any]:
        """What a snapshot holds of it beside `matched`."""
        return {
            "window": window_to_json(self.window),
            "fill_first": self.fill_first,
            "filled_before": self.filled_before,
            "error": self.error,
            "error_condition": self.error_condition,
            "paused": self.paused,
            "covered": self.covered,
            "live_since": self.live_since,
            "reach": self.reach,
        }

    def restore(self, kept: Mapping[str, Any], head: int) -> None:
        """Take in what a snapshot holds. `head`: how far its table was read by then."""
        self.window = window_from_json(kept["window"])
        self.pending = self.plan.windows if self.window != self.plan.windows else None
        self.matched, self.fill_first, self.filled_before = kept["matched"], kept["fill_first"], kept["filled_before"]
        self.error, self.error_condition, self.paused = kept["error"], kept["error_condition"], kept["paused"]
        if "covered" in kept:
            self.covered = tuple((low, high) for low, high in kept["covered"])
            self.live_since, self.reach = kept["live_since"], kept["reach"]
        elif self.paused:  # before there were bit matrices, records had everything that any window reached
            self.covered, self.live_since = ((0, head),), None
        else:
            self.covered, self.live_since = (), 0


def is_finished(window: AnyWindow, now_us: int | None, start_us: int | None) -> bool:
    """Whether a window that closes for good has closed; one of a join's is enough."""
    if isinstance(window, JoinWindows):
        return any(is_finished(w, now_us, start_us) for w in window.by_input)
    if not isinstance(window, TimeWindow) or not window.ends or now_us is None:
        return False
    return now_us > window.end.resolve(now_us, start_us if start_us is not None else FOREVER)


def window_low(window: AnyWindow, now_us: int | None, start_us: int | None) -> int | None:
    """Where a time window begins; None where nothing bounds it yet."""
    if isinstance(window, JoinWindows):
        lows = [window_low(w, now_us, start_us) for w in window.by_input]
        return None if None in lows else min(low for low in lows if low is not None)
    if not isinstance(window, TimeWindow) or now_us is None:
        return None
    return window.begin.resolve(now_us, start_us if start_us is not None else NEVER)


def ends(window: AnyWindow) -> bool:
    """Whether a window closes for good."""
    if isinstance(window, JoinWindows):
        return any(w.ends for w in window.by_input)
    return isinstance(window, TimeWindow) and window.ends
