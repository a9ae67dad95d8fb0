"""Statement -> plan: bind a SELECT against the catalog and choose how it runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from sqlglot import exp

from penstock.catalog.state import CatalogState
from penstock.errors import error
from penstock.expr.windows import TimeWindow
from penstock.operators.mining.registry import FUNCTIONS
from penstock.sql.binding.approximate import check_within
from penstock.sql.binding.context import BindingInput, BoundQuery, Collected, SystemTables
from penstock.sql.binding.query import QueryBinder
from penstock.sql.kernel_expressions import NotCovered
from penstock.sql.nodes import Duration, OwnWindow, PerWindow
from penstock.sql.plan import ONLY_IN_SLICES, AggregatePlan, Plan, QueryAggregatePlan, ResamplePlan, SparkPlan, TreePlan
from penstock.sql.planning.aggregate.correlated import (
    correlated_plan,
    is_correlated,
    refuse_per_window,
    settle_per_window,
)
from penstock.sql.planning.aggregate.join_results import aggregates_over_join, aggregates_over_read_join
from penstock.sql.planning.aggregate.mining import refuse_mining, refuse_others, settle_mining
from penstock.sql.planning.aggregate.on_demand import on_demand
from penstock.sql.planning.aggregate.planner import aggregate_plan, is_aggregation
from penstock.sql.planning.aggregate.windows import check_latch, refuse_uncovered, share_own_window, take_own_windows
from penstock.sql.planning.join.extraction import extract_join
from penstock.sql.planning.join.planner import is_window_join
from penstock.sql.planning.relations import place_relations, settle
from penstock.sql.planning.resample import after_scans, resample_plan, resamples, write_out_resamples
from penstock.sql.planning.row_order import group_distinct, ungroup_distinct
from penstock.sql.planning.rules import SELECTION, rules_for
from penstock.sql.positions import point
from penstock.sql.scope import fold
from penstock.sql.spark.text import spark_sql
from penstock.sql.statements import Select

_OF_QUERIES = ("query", "state")


def bind_query(
    select: Select, state: CatalogState, standing: bool, system_tables: SystemTables | None = None, spent: bool = False
) -> BoundQuery:
    """Resolve names and types. Raises errors that point into the statement's text.

    `spent`: the statement's tree is not read again, so it is not copied, which is a quarter of the work.
    """
    collected = Collected()
    query = select.query if spent else select.query.copy()
    binder = QueryBinder(select.source.text, BindingInput(state, standing, system_tables or {}, collected))
    try:
        fields = binder.bind(query)
    except RecursionError:
        raise error("syntax_error", detail="the question is nested too deeply") from None
    settle(collected)
    settle_mining(collected)
    settle_per_window(collected)
    return BoundQuery(query, tuple(fields), collected)


def plan_query(
    select: Select,
    state: CatalogState,
    standing: bool,
    system_tables: SystemTables | None = None,
    shared: bool = True,
    joins: bool = False,
    spent: bool = False,
) -> Plan:
    """The plan of a SELECT. With `shared` false it is Spark SQL even where the shared pass could run it.

    `joins`: whether window joins of standing queries have a step of their own, instead of Spark SQL.
    """
    if select.as_of is not None:
        hint = "AS OF stands in SELECT * FROM a standing query"
        raise point(error("not_supported", feature="AS OF here", hint=hint), select.source.text, select.as_of.at)
    if select.final_at is not None:
        hint = "FINAL stands in SELECT * FROM a standing query"
        raise point(error("not_supported", feature="FINAL here", hint=hint), select.source.text, select.final_at)
    bound = bind_query(select, state, standing, system_tables, spent)
    latched = check_latch(bound, standing)
    check_within(bound)
    reason, core, top, resampled = "asked once, so it runs as Spark SQL", None, None, None
    grouped = shared and joins and standing and not resamples(bound.collected) and group_distinct(bound)
    if resamples(bound.collected):
        try:
            resampled, reason = resample_plan(bound, state), "values are found in the log when asked"
        except NotCovered as failure:
            reason = str(failure)
    elif shared:
        joined = joins and standing
        for rule in rules_for(bound, latched) if joined else (SELECTION,):
            try:
                plan = rule.plan(bound, state)
            except NotCovered as failure:
                reason = str(failure)
                if rule.decides:
                    break
                continue
            if joined and rule.one_stream:
                _refuse_hint(bound, "one stream is read as it comes; there is no join")
            return plan
        if joined and is_window_join(bound):
            share_own_window(bound.collected.contexts[0])
            try:
                core = extract_join(bound)
            except NotCovered as failure:
                reason = reason if str(failure) == reason else f"{reason}, and {failure}"
        if core is not None:
            try:
                if is_aggregation(bound) and not latched:
                    return aggregates_over_join(bound, core)
            except NotCovered as failure:
                reason = str(failure)
            reason = f"the join is incremental; on top of it, {reason}"
        if joined and core is None:
            _refuse_hint(bound, reason)
            share_own_window(bound.collected.contexts[0])
            try:
                top = aggregates_over_read_join(bound, state) if is_aggregation(bound) and not latched else None
            except NotCovered as failure:
                reason = str(failure)
    if grouped:
        ungroup_distinct(bound)
    if latched and standing:
        refuse_uncovered(bound, reason)
    write_out_resamples(bound.collected)
    refuse_mining(bound, reason if standing and shared and joins else None)
    refuse_per_window(bound, reason if standing and shared and joins else None)
    refuse_others(bound, reason if standing and shared and joins else None)
    take_own_windows(bound, reason if standing and shared and joins else None)
    demand = on_demand(bound, state) if not standing else None
    relations = place_relations(bound.collected)
    make: Callable[..., SparkPlan] = SparkPlan
    if demand is not None:
        make = partial(TreePlan, on_demand=demand)
    elif top is not None:
        make = partial(QueryAggregatePlan, top=top)
    elif resampled is not None:
        make = partial(ResamplePlan, resample=after_scans(resampled, relations))
    return make(
        sql=spark_sql(bound.query),
        relations=relations,
        outputs=tuple((field.name, field.type) for field in bound.fields),
        reason=reason,
        functions=tuple(sorted(bound.collected.functions)),
        inlined=tuple(sorted(bound.collected.queries - {r.table for r in relations if r.kind in _OF_QUERIES})),
        core=core,
    )


def _refuse_hint(bound: BoundQuery, reason: str) -> None:
    """Refuse a hint where no join runs in the cycle."""
    for context in bound.collected.contexts:
        if context.algorithm is not None and not context.inlined:
            failure = error("not_supported", feature=f"JOIN({context.algorithm.name}) here", hint=reason)
            context.fail(context.algorithm, failure)


def reads_of(plan: Plan, state: CatalogState) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The tables, queries and functions a plan depends on, by name."""
    tables = {r.table for r in plan.relations if r.kind in ("stream", "static", "ordinary")}
    for kernel in plan.branches if plan.kernel is None else (plan.kernel,):
        tables.update(state.tables_by_id[table_id].name for table_id in kernel.tables_read)
    queries = {r.table for r in plan.relations if r.kind in _OF_QUERIES}.union(plan.queries_read)
    return tuple(sorted(tables)), tuple(sorted(queries)), plan.functions


def invocation_of(select: Select, state: CatalogState) -> str | None:
    """The standing query that `SELECT * FROM name` (exactly that) invokes."""
    query = select.query
    if (
        not isinstance(query, exp.Select)
        or len(query.expressions) != 1
        or not isinstance(query.expressions[0], exp.Star)
    ):
        return None
    extra = [key for key, value in query.args.items() if value and key not in ("expressions", "from_")]
    clause = query.args.get("from_")
    if extra or clause is None or not isinstance(clause.this, exp.Table) or query.expressions[0].args.get("except_"):
        return None
    table = clause.this
    if any(table.args.get(key) for key in ("db", "catalog", "joins", "sample")):
        return None
    name = fold(table.this)
    return name if name in state.queries and name not in state.tables else None


def asked_of_slices(select: Select, state: CatalogState) -> AggregatePlan | None:
    """The question, if Spark SQL has no words for it: of time or of a series, and aggregates with different windows."""
    only_here = {"twa", "landmark", *FUNCTIONS, *ONLY_IN_SLICES, *state.aggregate_names}
    named = any(call.name.lower() in only_here for call in select.query.find_all(exp.Anonymous))
    if not named and select.query.find(OwnWindow, Duration, PerWindow) is None:
        return None
    asked = asked_once(select, state)
    if asked is None:
        return None
    own = set(asked.own_windows)
    several = len(own) > 1 or bool(own and select.query.args.get("begin_end"))
    only = asked.is_answer_only or any(call.function in only_here for call in asked.aggregates)
    return asked if several or only else None


def asked_once(select: Select, state: CatalogState) -> AggregatePlan | None:
    """The question as aggregates over a window of one stream; None where it is something else. The tree stays as it is."""
    if select.as_of is not None:
        return None
    bound = bind_query(select, state, standing=False)
    group_distinct(bound)
    if not is_aggregation(bound):
        return None
    try:
        plan = (
            correlated_plan(bound) if select.query.find(PerWindow) and is_correlated(bound) else aggregate_plan(bound)
        )
    except NotCovered:
        return None
    return plan if isinstance(plan.window, TimeWindow) else None
