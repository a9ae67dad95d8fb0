"""The state of one query's answer, folded from commit records, and the log ranges that the records cover."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from penstock.cycle.positions import BLOCK_ROWS
from penstock.expr.windows import FOREVER, AnyWindow, JoinWindows, TimeWindow
from penstock.operators.base.ranges import Ranges, from_position, joined
from penstock.operators.join.partnered_rows import Blocks, PartneredRows
from penstock.operators.join.result_list import JoinResults
from penstock.operators.select.evaluated_matches import EvaluatedMatches
from penstock.operators.select.hold_cache import HoldCache
from penstock.sql.plan import AggregatePlan, JoinAggregatePlan, KernelPlan, Plan, ScalarSubquery

NEVER = -(2**62)


@dataclass(slots=True)
class QueryState:
    """One query's matches. `window` is what invocations see; a changed one waits in `pending` for its history."""

    plan: KernelPlan
    start_us: int | None
    window: AnyWindow
    pending: AnyWindow | None = None
    matches: Blocks = field(default_factory=dict)
    base: Blocks = field(default_factory=dict)
    values: list[pa.Table] = field(default_factory=list)
    partners: PartneredRows = field(default_factory=PartneredRows)
    results: JoinResults | None = None
    told: tuple[int, dict[int, dict[str, Any]]] | None = None  # what the parts of a join's last step report
    earlier: tuple[JoinResults, ...] = ()  # what was the answer at older cycles that are still kept, one per change
    coming: JoinResults | None = None  # of a join that reads its history: they take over once it is done
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
    evaluated: EvaluatedMatches = field(default_factory=EvaluatedMatches)
    strategy: str | None = None  # the strategy that a user asked for
    lasting: HoldCache | None = None  # of a condition that has to last
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

    def forget_below(self, position: int) -> None:
        """Forget matches below a position, which no window reaches; a window that is made wider later evaluates them again."""
        self.reach = max(self.reach, position)
        cut_below(self.matches, position)
        cut_below(self.partners.blocks, position)
        cut_below(self.base, position)
        if self.values:
            self.values = [t for t in self.values if t.num_rows and t.column("_pos")[-1].as_py() >= position]
        if self.covered:
            self.covered = from_position(self.covered, position)
        if self.live_since is not None:
            self.live_since = max(self.live_since, position)
        self.evaluated.forget_below(position)


def is_finished(window: AnyWindow, now_us: int | None, start_us: int | None) -> bool:
    """Whether a window that closes for good has closed; one of a join's is enough."""
    if isinstance(window, JoinWindows):
        return any(is_finished(w, now_us, start_us) for w in window.by_input)
    if not isinstance(window, TimeWindow) or not window.ends or now_us is None:
        return False
    return now_us > window.end.resolve(now_us, start_us if start_us is not None else FOREVER)


def cut_below(blocks: Blocks, position: int) -> None:
    for block in list(blocks):
        if block + BLOCK_ROWS <= position:
            del blocks[block]
        elif block < position:
            blocks[block].remove_range(0, position - block)
            if not blocks[block]:
                del blocks[block]


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
