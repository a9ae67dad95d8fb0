"""The prepared joins of a worker: each is prepared once per definition."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from penstock.cycle.definitions import Definitions
from penstock.operators.join.steps.join_sharing import SharedJoin, shared_joins
from penstock.operators.join.steps.prepared_join import PreparedJoin, prepare
from penstock.operators.join.steps.units import join_plans
from penstock.sql.plan import JoinPlan

# Each with what it was made from: that stays the same object until a definition changes.
_PREPARED: dict[int, PreparedJoin] = {}
_FAILED: dict[int, Exception] = {}
_RUNNING: tuple[dict[int, JoinPlan] | None, dict[int, PreparedJoin]] = (None, {})
_EQUAL: tuple[dict[int, PreparedJoin] | None, dict[int, int]] = (None, {})
_NAMED: tuple[dict[int, PreparedJoin] | None, list[SharedJoin] | None, tuple[dict[str, int], set[str]]] = (
    None,
    None,
    ({}, set()),
)


def running_joins(definitions: Definitions) -> dict[int, PreparedJoin]:
    """The joins that a cycle has steps for; the same object until a definition changes."""
    global _RUNNING
    plans = join_plans(definitions.state)
    if _RUNNING[0] is not plans:
        _FAILED.clear()
        prepared = {query_id: _prepared(query_id, plan) for query_id, plan in plans.items()}
        _RUNNING = plans, {query_id: join for query_id, join in prepared.items() if join is not None}
        for gone in _PREPARED.keys() - plans.keys():
            del _PREPARED[gone]
    return _RUNNING[1]


def prepared_join(definitions: Definitions, query_id: int) -> PreparedJoin:
    found = running_joins(definitions)
    if query_id in _FAILED:
        raise _FAILED[query_id]
    return found[query_id]


def _prepared(query_id: int, plan: JoinPlan) -> PreparedJoin | None:
    known = _PREPARED.get(query_id)
    if known is None or known.plan is not plan:
        try:
            known = _PREPARED[query_id] = prepare(plan)
        except Exception as failure:  # other joins go on: this error is reported when the join runs
            _FAILED[query_id] = failure
            return None
    return known


def equal_joins(definitions: Definitions) -> dict[int, int]:
    """By join the first join with equal steps; they may differ in what is projected later."""
    global _EQUAL
    joins = running_joins(definitions)
    if _EQUAL[0] is not joins:
        first: dict[Hashable, int] = {}
        _EQUAL = joins, {number: first.setdefault(_work(join), number) for number, join in joins.items()}
    return _EQUAL[1]


def _work(join: PreparedJoin) -> Hashable:
    """What a step does, whatever of it is shown and for how long."""
    inputs = tuple((i.alias, i.table_id, i.static_predicate, i.stream_predicate, i.keys) for i in join.plan.inputs)
    return inputs, replace(join.plan, inputs=(), outputs=()), join.computed


def reaches(definitions: Definitions) -> dict[str, int]:
    """The streams that running joins read, by name, and how far the widest of them reaches."""
    return _named(definitions)[0]


def spare_streams(definitions: Definitions) -> set[str]:
    """Streams that joins read only when they do not run as one."""
    return _named(definitions)[1]


def _named(definitions: Definitions) -> tuple[dict[str, int], set[str]]:
    global _NAMED
    joins = running_joins(definitions)
    groups = shared_joins(joins)
    if _NAMED[0] is not joins or _NAMED[1] is not groups:
        together = [group.join for group in groups]
        grouped = {number for group in groups for number in group.numbers}
        alone = [join for number, join in joins.items() if number not in grouped]
        functions = definitions.state.functions
        reach: dict[str, int] = {}
        apart = [group.apart(number).join for group in groups for number in group.numbers]
        for join in (*joins.values(), *together, *apart):
            for stream in join.streams:
                name = stream.signature(functions)
                reach[name] = max(reach.get(name, 0), join.reach())
        needed = {stream.signature(functions) for join in (*alone, *together) for stream in join.streams}
        _NAMED = joins, groups, (reach, reach.keys() - needed)
    return _NAMED[2]
