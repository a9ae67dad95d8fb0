"""What aggregations share: a family has the same rows and groups, a measure has the same argument and partial."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import lru_cache

import orjson

from penstock.expr.expression import Expr, columns_of, is_static, to_json
from penstock.operators.aggregate.partials.base import Partial
from penstock.operators.aggregate.partials.cell_sums import CellRange, Panes
from penstock.operators.aggregate.partials.registry import approximate_name, make_partial, partial_for
from penstock.operators.aggregate.partials.samples import sample_name
from penstock.operators.aggregate.partials.slot_values import SETS, slot_last_name
from penstock.operators.aggregate.partials.user_states import user_states_name
from penstock.operators.mining.registry import SET, SLOT_FUNCTIONS
from penstock.sql.plan import AggregateCall, AggregatePlan
from penstock.types import DOUBLE

SECOND_US = 1_000_000
# Widths divide each other, so that slices of different widths nest.
_WIDTHS = (SECOND_US, 100_000, 10_000, 1000)


@dataclass(frozen=True, slots=True)
class Family:
    """Rows of one stream that satisfy both predicates, grouped by the keys."""

    table_id: int
    static_predicate: Expr | None
    stream_predicate: Expr | None
    keys: tuple[Expr, ...]
    latch: str | None = None  # the name of a state that no other query shares
    own_code: tuple[Measure, ...] = ()  # user aggregates: where one fails, no query without it shares its rows

    @property
    def is_static(self) -> bool:
        """Whether a reading's group is known from its sensor."""
        return all(is_static(key) for key in self.keys)


@dataclass(frozen=True, slots=True)
class Measure:
    """One kind of partial of one argument."""

    partial: str
    arguments: tuple[Expr, ...]
    every_us: int = 0  # it is kept by slots of this width, for series; 0: by slices

    def make(self) -> Partial:
        return make_partial(self.partial, tuple(a.type for a in self.arguments))

    def range_of(self, look: CellRange) -> CellRange:
        """What of a range its cells are added up for: of slots only whole ones."""
        if not self.every_us:
            return look
        low = -(-look.low // self.every_us) * self.every_us
        high = (look.high + 1) // self.every_us * self.every_us - 1
        return replace(look, low=low, high=high, pane=self.every_us)

    def panes_of(self, panes: Panes | None) -> Panes | None:
        """By which times its cells are added up: a line of a series is a slot."""
        return Panes(self.every_us, self.every_us) if self.every_us else panes


def family_of(plan: AggregatePlan) -> Family:
    own_code = sorted({measure_of(call) for call in plan.aggregates if call.code is not None}, key=measure_name)
    return Family(
        plan.table_id, plan.static_predicate, plan.stream_predicate, (*plan.keys, *plan.by), plan.latch, tuple(own_code)
    )


def window_looks(plan: AggregatePlan, look: CellRange, now_us: int) -> list[CellRange]:
    """The window of a question, and those of aggregates that have their own."""
    high = min(look.high, now_us)
    own = sorted({us for us in plan.own_windows if us is not None})
    return [look, *(replace(look, low=max(look.low, high - us), high=high) for us in own)]


def measure_of(aggregate: AggregateCall) -> Measure:
    function, options = aggregate.function, dict(aggregate.options)
    if aggregate.code is not None:
        return Measure(user_states_name(aggregate.code), aggregate.arguments)
    if "sample" in options:
        return Measure(sample_name(options["sample"]), aggregate.arguments)
    if options and aggregate.every_us:
        word = str(options["slot"])
        if word == "last":
            return Measure(slot_last_name(aggregate.every_us), aggregate.arguments, aggregate.every_us)
        function = SETS if word == SET else SLOT_FUNCTIONS[word]
    elif options:
        function = "twa" if aggregate.arguments[0].type == DOUBLE else "symbols"
    partial = partial_for(function, tuple(a.type for a in aggregate.arguments))
    assert partial is not None, aggregate
    if isinstance(aggregate.parameter, tuple):
        partial = approximate_name(partial, aggregate.parameter, aggregate.function)
    return Measure(partial, aggregate.arguments, aggregate.every_us)


def measures_of(plan: AggregatePlan) -> tuple[Measure, ...]:
    return tuple(dict.fromkeys(measure_of(a) for a in plan.aggregates))


@lru_cache(4096)
def family_name(family: Family) -> str:
    """The same in every process, for ever."""
    predicates = [None if p is None else to_json(p) for p in (family.static_predicate, family.stream_predicate)]
    latch = [] if family.latch is None else [family.latch]
    own_code = [[measure_name(measure) for measure in family.own_code]] if family.own_code else []
    return _digest([family.table_id, predicates, [to_json(key) for key in family.keys], *latch, *own_code])


@lru_cache(4096)
def measure_name(measure: Measure) -> str:
    every = [measure.every_us] if measure.every_us else []
    return _digest([measure.partial, [to_json(a) for a in measure.arguments], *every])


def _digest(data: object) -> str:
    return hashlib.blake2b(orjson.dumps(data, option=orjson.OPT_SORT_KEYS), digest_size=12).hexdigest()


def columns_needed(family: Family, measures: tuple[Measure, ...]) -> set[str]:
    """What slicing has to read of each row; static values come with the versions where the keys are static."""
    needed = [a for m in measures for a in m.arguments] + ([] if family.is_static else list(family.keys))
    if family.stream_predicate is not None:
        needed.append(family.stream_predicate)
    return {name for expr in needed for name in columns_of(expr)}


def slice_width(panes: Panes | None) -> int:
    """The width of slices that panes consist of."""
    if panes is None:
        return SECOND_US
    return next((w for w in _WIDTHS if panes.width % w == 0 and panes.step % w == 0), 1000)


def plan_width(plan: AggregatePlan) -> int:
    """The width of slices that a query would have: its panes and slots consist of whole ones."""
    slots = {call.every_us for call in plan.aggregates if call.every_us}
    return min(slice_width(panes) for panes in (plan.panes, *(Panes(us, us) for us in slots)))
