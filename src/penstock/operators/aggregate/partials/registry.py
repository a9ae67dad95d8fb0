"""The partial of each aggregate function. The name of an approximate one has all of its parameters, so it identifies a measure."""

from __future__ import annotations

from penstock.operators.aggregate.approximate.amounts import ApproxAvg, ApproxCount, ApproxSum
from penstock.operators.aggregate.approximate.base import Approximate, Coarseness
from penstock.operators.aggregate.approximate.distinct import ApproxDistinct
from penstock.operators.aggregate.approximate.histogram import ApproxHistogram
from penstock.operators.aggregate.approximate.norm import ApproxNorm
from penstock.operators.aggregate.approximate.sketches import ApproxPercentile, ApproxTopK
from penstock.operators.aggregate.approximate.within import WITHIN, Within, make_within, within_name
from penstock.operators.aggregate.partials.base import Partial
from penstock.operators.aggregate.partials.correlated import Correlated
from penstock.operators.aggregate.partials.ends import Ends, ObjectEnds
from penstock.operators.aggregate.partials.extremes import Extremes, OrderedExtremes
from penstock.operators.aggregate.partials.samples import PREFIX as SAMPLE
from penstock.operators.aggregate.partials.samples import make_sample
from penstock.operators.aggregate.partials.slot_values import LAST as SLOT_LAST
from penstock.operators.aggregate.partials.slot_values import SlotLast, SlotSymbols
from penstock.operators.aggregate.partials.sums import Count, DecimalTotal, Moments, Pairs, Total
from penstock.operators.aggregate.partials.top_rows import PREFIX as TOP_ROWS
from penstock.operators.aggregate.partials.top_rows import make_top_rows
from penstock.operators.aggregate.partials.user_states import PREFIX as USER
from penstock.operators.aggregate.partials.user_states import make_user_states
from penstock.operators.aggregate.partials.value_lists import Distinct, Percentile, SymbolLists, TimeWeighted
from penstock.operators.aggregate.partials.vectors import Vectors
from penstock.types import Type

PARTIALS: tuple[type[Partial], ...] = (
    *(Count, Total, DecimalTotal, Extremes, OrderedExtremes, Moments, Ends, ObjectEnds, Pairs),
    *(Distinct, Percentile, TimeWeighted, SymbolLists, SlotSymbols, Correlated, Vectors),
)
_BY_NAME = {partial.name: partial for partial in PARTIALS}


def partial_for(function: str, types: tuple[Type, ...]) -> str | None:
    """The name of the partial that covers a function of arguments of these types; None where none does."""
    if function.startswith(TOP_ROWS):
        return function
    exact = next((partial.name for partial in PARTIALS if partial.takes(function, types)), None)
    return exact or approximate_for(function, types)


def make_partial(name: str, types: tuple[Type, ...]) -> Partial:
    if name.startswith(WITHIN + " "):
        return make_within(name, types)
    if name.startswith(SAMPLE):
        return make_sample(name, types)
    if name.startswith(SLOT_LAST):
        return SlotLast(types, int(name.removeprefix(SLOT_LAST)))
    if name.startswith(TOP_ROWS):
        return make_top_rows(name, types)
    if name.startswith(USER):
        return make_user_states(name, types)
    return _BY_NAME[name](types) if name in _BY_NAME else make_approximate(name, types)


KINDS: dict[str, type[Approximate]] = {
    kind.name: kind
    for kind in (
        *(ApproxCount, ApproxSum, ApproxAvg, ApproxDistinct, ApproxPercentile, ApproxTopK, ApproxNorm),
        ApproxHistogram,
    )
}


def approximate_for(function: str, types: tuple[Type, ...]) -> str | None:
    """The kind that covers a function of arguments of these types."""
    kinds: tuple[type[Partial], ...] = (*KINDS.values(), Within)
    return next((kind.name for kind in kinds if kind.takes(function, types)), None)


def approximate_name(kind: str, parameters: tuple[float, ...], function: str = "") -> str:
    """`parameters`: what is special of the call, the error, what else is special, the pane and the recent time in microseconds."""
    if kind == WITHIN:
        return within_name(function, parameters)
    special, epsilon, *more, pane, recent = parameters
    rest = f" p={special!r}" if kind == ApproxNorm.name else ""
    if kind == ApproxHistogram.name:
        low, high = more
        rest = f" low={low!r} high={high!r} bars={int(special)}"
    return f"{kind} epsilon={epsilon!r} pane={int(pane)} recent={int(recent)}{rest}"


def stands_for(kept: str, asked: str) -> bool:
    """Whether whole cells of one partial can be added to those of another, and the other's promise holds.

    Counts and sums are exact while nothing is cut, and sketches of DataSketches merge in any size; bitmaps and p-stable
    numbers have to be as many.
    """
    (kind, *mine), (other, *theirs) = kept.split(" "), asked.split(" ")
    if kind != other or kind not in KINDS:
        return False
    if kind in (ApproxCount.name, ApproxSum.name, ApproxAvg.name):
        return True
    has, wants = (dict(part.split("=") for part in said) for said in (mine, theirs))
    if kind in (ApproxPercentile.name, ApproxTopK.name):
        return float(has["epsilon"]) <= float(wants["epsilon"])
    if kind == ApproxHistogram.name:
        return all(has[name] == wants[name] for name in ("low", "high", "bars"))
    return has["epsilon"] == wants["epsilon"] and has.get("p") == wants.get("p")


def make_approximate(name: str, types: tuple[Type, ...]) -> Approximate:
    kind, *said = name.split(" ")
    given = dict(part.split("=") for part in said)
    coarseness = Coarseness(int(given["pane"]), int(given["recent"]))
    epsilon = float(given["epsilon"])
    if kind == ApproxNorm.name:
        return ApproxNorm(types, epsilon, coarseness, float(given["p"]))
    if kind == ApproxHistogram.name:
        bars = int(given["bars"]), float(given["low"]), float(given["high"])
        return ApproxHistogram(types, epsilon, coarseness, bars)
    return KINDS[kind](types, epsilon, coarseness)
