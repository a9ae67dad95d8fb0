"""The partial of each aggregate function."""

from __future__ import annotations

from penstock.operators.aggregate.approximate.names import approximate_for, make_approximate
from penstock.operators.aggregate.approximate.within import WITHIN, make_within
from penstock.operators.aggregate.partials.base import Partial
from penstock.operators.aggregate.partials.correlated import Correlated
from penstock.operators.aggregate.partials.count import Count
from penstock.operators.aggregate.partials.decimals import DecimalTotal
from penstock.operators.aggregate.partials.distinct import Distinct
from penstock.operators.aggregate.partials.ends import Ends
from penstock.operators.aggregate.partials.extremes import Extremes
from penstock.operators.aggregate.partials.moments import Moments
from penstock.operators.aggregate.partials.object_ends import ObjectEnds
from penstock.operators.aggregate.partials.object_extremes import OrderedExtremes
from penstock.operators.aggregate.partials.pairs import Pairs
from penstock.operators.aggregate.partials.percentile import Percentile
from penstock.operators.aggregate.partials.time_weighted import TimeWeighted
from penstock.operators.aggregate.partials.total import Total
from penstock.types import Type

PARTIALS: tuple[type[Partial], ...] = (
    *(Count, Total, DecimalTotal, Extremes, OrderedExtremes, Moments, Ends, ObjectEnds, Pairs),
    *(Distinct, Percentile, TimeWeighted, Correlated),
)
_BY_NAME = {partial.name: partial for partial in PARTIALS}


def partial_for(function: str, types: tuple[Type, ...]) -> str | None:
    """The name of the partial that covers a function of arguments of these types; None where none does."""
    exact = next((partial.name for partial in PARTIALS if partial.takes(function, types)), None)
    return exact or approximate_for(function, types)


def make_partial(name: str, types: tuple[Type, ...]) -> Partial:
    if name.startswith(WITHIN + " "):
        return make_within(name, types)
    return _BY_NAME[name](types) if name in _BY_NAME else make_approximate(name, types)
