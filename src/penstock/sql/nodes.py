"""Nodes that our grammar adds to sqlglot's: window clauses, window joins, durations, bound constants."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

# What SIMILAR TO is bound to: a call with the text and the regular expression of its pattern.
SIMILAR = "similar_to"


class Duration(exp.Expression, exp.Condition):
    """A length of time in an expression; `this` is its microseconds as text."""

    arg_types = {"this": True}

    @property
    def us(self) -> int:
        return int(self.this)


class Timed(exp.Expression, exp.Condition):
    """Something about `this` for so many microseconds."""

    arg_types = {"this": True, "us": True}

    @property
    def us(self) -> int:
        return int(self.args["us"])


class OwnWindow(Timed):
    """An aggregate over a window of its own: `this` over the last `us` microseconds of the question's window."""


class Unnested(exp.Expression, exp.Condition):
    """UNNEST of an array in a SELECT list: the row once for each of its elements, which stands here."""

    arg_types = {"this": True}


class Hold(Timed):
    """A condition that has held without a break, per sensor, for `us` microseconds."""


class Resample(Timed):
    """A value of a stream at the time of another's reading, from what lies within `us` microseconds of it."""

    arg_types = {"this": True, "us": True, "method": True}

    @property
    def method(self) -> str:
        return str(self.args["method"])


class WithinPercent(exp.Expression):
    """`WITHIN n PERCENT [WITH BOUNDS]`: how far an answer may be from the truth, and whether its bounds are columns."""

    arg_types = {"percent": True, "bounds": False}

    @property
    def share(self) -> float:
        return float(self.args["percent"]) / 100


class PerWindow(exp.Expression):
    """`PER WINDOW`: a subquery is about the rows of the same window of TUMBLE or SLIDE."""

    arg_types = {}


class SampleCondition(exp.Expression, exp.Condition):
    """Whether a sample keeps a row: `this` is where it stands, `parts` of 1 000 000 000 are kept, and the seed says which."""

    arg_types = {"this": True, "seed": True, "parts": True}


class WindowEdge(exp.Expression):
    """One end of a window: `anchor` is constant, now or start, `offset` microseconds from it."""

    arg_types = {"anchor": True, "offset": True}


class BeginEnd(exp.Expression):
    """One `BEGIN (..) END (..) [FOR alias]`: two edges, or a number of rows."""

    arg_types = {"begin": False, "end": False, "rows": False, "per_sensor": False, "alias": False}


class BeginEnds(exp.Expression):
    """The window clauses of one SELECT."""

    arg_types = {"expressions": True}


class WindowJoin(exp.Expression):
    """One pair of a W-join: low <= right.ts - left.ts <= high, in microseconds. No names: every pair.

    Pairs with `both_ways` are a path: all of them in order, or all of them in the opposite order.
    """

    arg_types = {"left": False, "right": False, "low": True, "high": True, "both_ways": False}


class WindowJoins(exp.Expression):
    """The W-join clauses of one SELECT."""

    arg_types = {"expressions": True}


class Const(exp.Expression, exp.Condition):
    """A bound constant. `this` says which, for comparisons; value and type are in `meta`."""

    arg_types = {"this": False}

    @property
    def value(self) -> Any:
        return self.meta["value"]


_BETWEEN_STREAMS = "between_streams"
_EITHER_WAY = "either_way"


def between_streams(node: exp.Expr) -> exp.Expr:
    """Mark a condition that WINDOW made: a plan of the join has it as a bound, only Spark's text needs it."""
    node.meta[_BETWEEN_STREAMS] = True
    return node


def is_between_streams(node: exp.Expr) -> bool:
    return bool(node._meta and node.meta.get(_BETWEEN_STREAMS))


def either_way(node: exp.Expr) -> exp.Expr:
    """Mark the condition that BOTH WAYS made: a plan with a branch for each direction has it in its bounds."""
    node.meta[_EITHER_WAY] = True
    return node


def is_either_way(node: exp.Expr) -> bool:
    return bool(node.meta.get(_EITHER_WAY))
