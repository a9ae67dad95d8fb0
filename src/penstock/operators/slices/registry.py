"""Which partial says the value of which aggregate."""

from __future__ import annotations

from penstock.operators.slices.approximate.naming import approximate_for, make_approximate
from penstock.operators.slices.approximate.within import WITHIN, make_within
from penstock.operators.slices.base import Partial
from penstock.operators.slices.correlated import Correlated
from penstock.operators.slices.count import Count
from penstock.operators.slices.decimals import DecimalTotal
from penstock.operators.slices.distinct import Distinct
from penstock.operators.slices.ends import Ends
from penstock.operators.slices.extremes import Extremes
from penstock.operators.slices.moments import Moments
from penstock.operators.slices.object_ends import ObjectEnds
from penstock.operators.slices.ordered import OrderedExtremes
from penstock.operators.slices.pairs import Pairs
from penstock.operators.slices.percentile import Percentile
from penstock.operators.slices.total import Total
from penstock.operators.slices.weighted import TimeWeighted
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
