"""CREATE ROLLUP, checked: from a statement to what the catalog stores."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from sqlglot import exp

from penstock.catalog.model import Table, plan_text
from penstock.catalog.rollup_records import RollupDefinition, Tier
from penstock.catalog.state import CatalogState
from penstock.errors import error, suggest
from penstock.expr.expression import columns_of
from penstock.expr.windows import EVERYTHING
from penstock.operators.aggregate.partials.registry import KINDS, partial_for
from penstock.sql.binding.context import BoundQuery
from penstock.sql.kernel_expressions import NotCovered
from penstock.sql.plan import AggregatePlan, aggregate_name
from penstock.sql.planning.aggregate.planner import aggregate_plan, is_aggregation
from penstock.sql.planning.planner import bind_query
from penstock.sql.positions import span_of
from penstock.sql.statements import CreateRollup, TierClause
from penstock.types import format_duration

TIERS_MAX = 8
# Partials with cells of the same size however many readings they hold.
BOUNDED = frozenset({"count", "total", "decimals", "extremes", "ordered", "moments", "ends", "object_ends", "pairs"})
_SECOND_US = 1_000_000
_CLAUSES = (
    ("distinct", "DISTINCT"),
    ("having", "HAVING"),
    ("qualify", "QUALIFY"),
    ("order", "ORDER BY"),
    ("limit", "LIMIT"),
    ("offset", "OFFSET"),
    ("begin_end", "BEGIN .. END"),
)
_KEPT = "a rollup keeps COUNT, SUM, AVG, MIN, MAX, FIRST, LAST, VARIANCE, STDDEV, CORR, COVAR and the APPROX_ ones"
_INSTEAD: dict[str | None, str] = {"distinct": "APPROX_DISTINCT", "values": "APPROX_PERCENTILE"}


def bind_create_rollup(statement: CreateRollup, state: CatalogState) -> tuple[RollupDefinition, AggregatePlan]:
    """The rollup a statement describes, without its number, its plan's text and where it begins."""
    table = _table(statement, state)
    plan = replace(_plan(statement, state), window=EVERYTHING)
    tiers = _tiers(statement, table)
    return RollupDefinition(0, statement.name, table.id, table.name, statement.select.sql, plan_text({}), tiers), plan


def _table(statement: CreateRollup, state: CatalogState) -> Table:
    found = state.tables.get(statement.table)
    if found is None:
        hint = suggest(statement.table, state.tables)
        statement.fail(statement.table_at, error("table_not_found", table=statement.table, hint=hint))
    if found.stream is None:
        statement.refuse(statement.table_at, f'"{found.name}" has no stream, so there are no readings to roll up')
    if found.options.retention_us is None:
        detail = f'"{found.name}" keeps its readings for ever, so a rollup would never hold anything'
        hint = "CREATE TABLE .. WITH (retention = '7 DAYS') says for how long readings are kept"
        statement.refuse(statement.table_at, detail, hint)
    return found


def _plan(statement: CreateRollup, state: CatalogState) -> AggregatePlan:
    query = statement.select.query
    for name, words in _CLAUSES:
        clause = query.args.get(name)
        if clause:
            at = span_of(clause) if isinstance(clause, exp.Expr) else None
            hint = "a rollup keeps all groups of all times; a query of it says which of them"
            statement.fail(at, error("not_supported", feature=f"{words} in a rollup", hint=hint))
    bound = bind_query(statement.select, state, standing=True)
    if not is_aggregation(bound):
        detail = "a rollup keeps aggregates; this SELECT has none"
        statement.refuse(statement.select.source.span, detail, _KEPT)
    # Counting without a column of the readings would mean counting sensors elsewhere; here everything is about readings.
    bound.collected.contexts[0].sources[0].needs_stream = True
    try:
        plan = aggregate_plan(bound)
    except NotCovered as reason:
        failure = error("not_supported", feature="this SELECT in a rollup", hint=f"{reason}; {_KEPT}")
        statement.fail(statement.select.source.span, failure)
    _check_plan(statement, bound, plan)
    return plan


def _check_plan(statement: CreateRollup, bound: BoundQuery, plan: AggregatePlan) -> None:
    if plan.panes is not None or any(plan.own_windows):
        feature = (
            "TUMBLE, SLIDE or SESSION in a rollup" if plan.panes is not None else "a window of an aggregate in a rollup"
        )
        failure = error("not_supported", feature=feature, hint="EVERY says how time is cut")
        statement.fail(statement.select.source.span, failure)
    if plan.over:
        failure = error("not_supported", feature="a window function in a rollup", hint=_KEPT)
        statement.fail(statement.select.source.span, failure)
    items = list(zip(plan.outputs, bound.query.expressions, strict=True))
    for place, call in enumerate(plan.aggregates):
        partial = partial_for(call.function, tuple(a.type for a in call.arguments))
        if partial not in BOUNDED and partial not in KINDS:
            at = next((span_of(i) for o, i in items if aggregate_name(place) in columns_of(o.expr)), None)
            exact = call.function.endswith("_distinct")
            words = f"{call.function.removesuffix('_distinct')}(DISTINCT ..)" if exact else call.function
            words = words.removesuffix("_desc")
            near = "APPROX_TOP_K" if words == "mode" else _INSTEAD.get(partial)
            instead = f"{near} can be kept instead" if near is not None else _KEPT
            hint = f"it needs all values one by one, and there is no end of them; {instead}"
            failure = error("not_supported", feature=f"{words.upper()} in a rollup", hint=hint)
            statement.fail(at, failure)


def _tiers(statement: CreateRollup, table: Table) -> tuple[Tier, ...]:
    """Each is a multiple of the one before, kept for longer, and for longer than the readings themselves."""
    clauses = statement.tiers
    retention_us = table.options.retention_us
    assert retention_us is not None
    if len(clauses) > TIERS_MAX:
        failure = error("limit_reached", detail=f"a rollup has at most {TIERS_MAX} tiers; this one has {len(clauses)}")
        statement.fail(clauses[TIERS_MAX].every_at, failure)
    for clause in clauses:
        if clause.every_us < _SECOND_US or clause.every_us % _SECOND_US:
            statement.refuse(clause.every_at, "a tier's cells are so many whole seconds wide, at least one")
        if clause.keep_us is not None and clause.keep_us <= retention_us:
            kept = format_duration(retention_us)
            detail = f'this tier would never hold anything: "{table.name}" keeps the readings themselves for {kept}'
            statement.refuse(clause.keep_at, detail, "keep it for longer than that")
    for before, after in pairwise(clauses):
        _check_pair(statement, before, after)
    return tuple(Tier(clause.every_us, clause.keep_us) for clause in clauses)


def _check_pair(statement: CreateRollup, before: TierClause, after: TierClause) -> None:
    if after.every_us <= before.every_us or after.every_us % before.every_us:
        width = format_duration(before.every_us)
        detail = f"a tier's cells are made of whole cells of the one before, and those are {width} wide"
        statement.refuse(after.every_at, detail, "1 MINUTE, 1 HOUR, 1 DAY divide each other")
    if before.keep_us is None:
        detail = "a tier that is kept for ever leaves nothing to the next one"
        statement.refuse(before.keep_at, detail, "say for how long: EVERY 1 MINUTE KEEP 30 DAYS, EVERY 1 HOUR")
    if after.keep_us is not None and after.keep_us <= before.keep_us:
        detail = f"a coarser tier is kept for longer than the one before, which is kept for {format_duration(before.keep_us)}"
        statement.refuse(after.keep_at, detail)
