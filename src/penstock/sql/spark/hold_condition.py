"""Conditions that hold, as Spark SQL: a reading is in if an unbroken run of true readings reaches back far enough.

The run is looked for over all that the log holds of the sensor, before any window is cut: `_pos IN (...)` over a relation
of its own, which has no window.
"""

from __future__ import annotations

from sqlglot import exp

from penstock.sql.bound_trees import alias_of, call_of, hidden_column, time_of
from penstock.sql.nodes import Hold
from penstock.sql.scope import BoundSource
from penstock.sql.spark.text import relation_name

_TRUE, _RUN, _SINCE = "_true", "_run", "_since"


def held_positions(held: Hold, source: BoundSource, relation: str, static: list[exp.Expr]) -> exp.Expr:
    """The condition as positions of the stream's rows, of which `relation` has all."""
    rows = exp.select(
        hidden_column(source, "_sid"),
        hidden_column(source, "_pos"),
        time_of(source),
        exp.alias_(exp.Coalesce(this=held.this.copy(), expressions=[exp.Boolean(this=False)]), _TRUE, quoted=True),
    ).from_(exp.Table(this=relation_name(relation), alias=alias_of(source)))
    if static:
        rows = rows.where(*static)
    # Each reading that is not true begins another run; those that follow it belong to it.
    breaks = exp.Case(ifs=[exp.If(this=_column(_TRUE), true=exp.Literal.number(0))], default=exp.Literal.number(1))
    order = exp.Order(expressions=[exp.Ordered(this=_column("ts")), exp.Ordered(this=_column("_pos"))])
    upto = exp.WindowSpec(kind="ROWS", start="UNBOUNDED", start_side="PRECEDING", end="CURRENT ROW")
    run = exp.Window(this=exp.Sum(this=breaks), partition_by=[_column("_sid")], order=order, spec=upto)
    numbered = exp.select("*", exp.alias_(run, _RUN, quoted=True)).from_(rows.subquery("_rows"))
    first = exp.Min(this=exp.Case(ifs=[exp.If(this=_column(_TRUE), true=_column("ts"))]))
    since = exp.Window(this=first, partition_by=[_column("_sid"), _column(_RUN)])
    runs = exp.select("*", exp.alias_(since, _SINCE, quoted=True)).from_(numbered.subquery("_numbered"))
    lasted = exp.Sub(this=_micros("ts"), expression=_micros(_SINCE))
    long_enough = exp.GTE(this=lasted, expression=exp.Literal.number(held.us))
    positions = exp.select(_column("_pos")).from_(runs.subquery("_runs")).where(_column(_TRUE), long_enough)
    return exp.In(this=hidden_column(source, "_pos"), query=exp.Subquery(this=positions))


def _column(name: str) -> exp.Column:
    return exp.column(name, quoted=True)


def _micros(name: str) -> exp.Expr:
    return call_of("unix_micros", _column(name))
