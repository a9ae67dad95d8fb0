"""EXPLAIN and EXPLAIN ANALYZE."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from penstock.answers.sensor_coverage import hearing_of
from penstock.catalog.model import QueryDefinition
from penstock.catalog.state import CatalogState
from penstock.errors import PenstockError
from penstock.operators.aggregate.explain import result_slice_lines, scalar_slice_lines, slice_lines
from penstock.operators.aggregate.rollups.notices import plan_lines
from penstock.operators.aggregate.trees.answer_columns import NotAnswered
from penstock.operators.resample.once import resampled_once
from penstock.operators.select.storage_choice import unheeded
from penstock.operators.sparksql.evaluation_rows import Evaluation
from penstock.operators.sparksql.replan import with_text
from penstock.sql import statements as st
from penstock.sql.explain.notation import amount
from penstock.sql.explain.plan import explain as explain_plan
from penstock.sql.plan import AggregatePlan, Plan, SparkPlan, looks_of, plan_from_json
from penstock.sql.planning.one_shot import OneShotAggregate, asked_of_slices, asked_once
from penstock.statements.replies import rows_of
from penstock.statements.rollups import explain_rollup
from penstock.statements.select import answered_from_log, asked_of_rollup, plan_of, rolled_up
from penstock.views.results import Result

if TYPE_CHECKING:
    from penstock.database.database import Database


def explain(database: Database, statement: st.Explain) -> Result:
    state = database.catalog.state.frozen()  # of one moment, whatever is dropped meanwhile
    lines: list[str] = []
    if isinstance(statement.target, str) and statement.target in state.rollups:
        rollup = state.rollups[statement.target]
        return rows_of([{"plan": line} for line in explain_rollup(database, rollup, state)], ("plan",))
    if isinstance(statement.target, str):
        definition = state.queries.get(statement.target) or database.definition(statement.target)
        plan = _stored(definition, state)
        if statement.analyze:
            lines = _measured(database, definition.name)
    elif (sliced := asked_of_slices(statement.target, state)) is not None:
        return rows_of([{"plan": line} for line in _sliced_lines(database, sliced, statement.analyze)], ("plan",))
    else:
        asked = asked_once(statement.target, state) if state.rollups else None
        if asked is not None:
            lines = plan_lines(asked.plan, state)
        matched = asked_of_rollup(database, statement.target)
        plan = plan_of(database, statement.target, standing=False, state=state)
        if matched is not None:
            lines.append("    as far as that is asked for: added up here with the rows of the log, no Spark job")
        if statement.analyze:
            assert isinstance(plan, SparkPlan)
            lines += _analyzed(database, plan, matched)
    text = explain_plan(plan, state)
    if isinstance(plan, AggregatePlan):
        lines = [*plan_lines(plan, state), *lines]
    if isinstance(statement.target, str):
        heard = _heard(database, plan)
        lines = [*heard, *_kept(database, statement.target), *_ran(database, statement.target), *lines]
    return rows_of([{"plan": line} for line in [*text.splitlines(), *lines]], ("plan",))


def _stored(definition: QueryDefinition, state: CatalogState) -> Plan:
    """A standing query's plan; without a text where the plan of an older version cannot be made again."""
    plan = plan_from_json(definition.plan)
    if isinstance(plan, SparkPlan):
        with contextlib.suppress(PenstockError):
            return with_text(plan, definition, state)
    return plan


def _sliced_lines(database: Database, asked: OneShotAggregate, analyze: bool) -> list[str]:
    """A question that Spark SQL has no words for."""
    state = database.catalog.state.frozen()
    lines = [*explain_plan(asked.plan, state).splitlines(), *plan_lines(asked.plan, state)]
    lines.append(
        "  asked once: rows of the log are read and aggregated here, nothing is kept, no Spark job up to answer_read_max_rows"
    )
    if analyze:
        began = time.monotonic()
        found = answered_from_log(database, asked)
        took = f"took: {(time.monotonic() - began) * 1000:.0f} ms"
        lines += [*found.notices, f"rows: {found.table.num_rows}", took, f"cycle: {found.cycle}"]
    return lines


def _analyzed(database: Database, plan: SparkPlan, asked: OneShotAggregate | None) -> list[str]:
    """What came of a question that is asked once."""
    database.wait_for_own_writes()
    began = time.monotonic()
    rolled = rolled_up(database, asked) if asked is not None else None
    if rolled is not None:
        count, cycle, seconds = rolled.table.num_rows, rolled.cycle, time.monotonic() - began
        told = ["answered from a rollup and the log", *rolled.notices]
    else:
        with database.statements.heavy_turn():
            found, told = _answered(database, plan)
        count, cycle, seconds = found.table.num_rows, found.cycle, found.seconds
    return [*told, f"rows: {count}", f"took: {seconds * 1000:.0f} ms", f"cycle: {cycle}"]


def _answered(database: Database, plan: SparkPlan) -> tuple[Evaluation, list[str]]:
    """The answer and, where Spark gave it instead of the log or a tree, the reason."""
    resampled = resampled_once(database.standing, plan)
    if resampled is not None:
        return resampled, []
    if plan.resampled is not None:
        return database.evaluator.run(plan, None), ["answered by Spark SQL, because too much has to be read"]
    try:
        return database.on_demand.answer(plan), []
    except NotAnswered as reason:
        told = [f"answered by Spark SQL, because {reason}"] if plan.on_demand is not None else []
        return database.evaluator.run(plan, None), told


def _kept(database: Database, name: str) -> list[str]:
    """How the answer of a query is kept between two questions, and why so."""
    asked = database.definition(name)
    reason = unheeded(plan_from_json(asked.plan), asked.strategy)
    told = [f"  strategy {asked.strategy}, as requested, changes nothing: {reason}"] if reason else []
    with database.standing.locked() as store:
        definition = store.state.queries.get(name)
        if store.reader(name) is not None and definition is not None:
            return [*result_slice_lines(store.slices, definition.id), *told]
        if definition is None or definition.id not in store.answers:
            return told
        standing = database.standing
        lines = [
            f"  answer kept: {standing.strategy_of(definition.id)}, because {standing.strategy_reason(definition.id)}"
        ]
        answer = store.answers[definition.id]
        if isinstance(answer.plan, AggregatePlan):
            lines += slice_lines(store.slices, definition.id, answer.plan)
        elif answer.top is not None:
            lines += result_slice_lines(store.slices, definition.id)
            lines += scalar_slice_lines(store.slices, definition.id, answer.scalars)
        return [lines[0], *told, *lines[1:]]


def _heard(database: Database, plan: Plan) -> list[str]:
    """How many of its sensors there are, and how many of them are missing."""
    with database.standing.locked() as store:
        found = [hearing_of(store, use) for use in looks_of(plan)]
    return list(dict.fromkeys(f"  {hearing}" for hearing in found if hearing is not None))


def _ran(database: Database, name: str) -> list[str]:
    """What the last step of a join did: which algorithm, why, and what it cost."""
    with database.standing.locked() as store:
        definition = store.state.queries.get(name)
        answer = store.answers.get(definition.id) if definition is not None else None
        if answer is None or answer.told is None:
            return []
        cycle, parts = answer.told
    first = parts[min(parts)]
    total = {n: sum(p[n] for p in parts.values()) for n in ("new_rows", "buffered_rows", "rows_read_back", "results")}
    shared = first.get("shared_with", 0)
    common = sum(p.get("combinations", 0) for p in parts.values())
    sharing = f"    shared with {amount(shared, 'other', 'others')}:"
    sharing += f" {amount(common, 'combination', 'combinations')} for all of them"
    others = amount(first.get("apart_from", 0), "other", "others")
    apart = f"    not shared with {others} like it: together they made far more than they kept"
    return [
        f"  last step (cycle {cycle}): {first['algorithm']}, because {first['why']}",
        *([sharing] if shared else [apart] if first.get("apart_from") else []),
        f"    took {max(p['ms'] for p in parts.values()):.1f} ms in {amount(len(parts), 'part', 'parts')}, expected"
        f" {first['expected_ms']:.1f} ms a part",
        f"    {amount(total['new_rows'], 'new row', 'new rows')} met {total['buffered_rows']} buffered"
        f" and {total['rows_read_back']} read back from the log: {amount(total['results'], 'result', 'results')}",
    ]


def _measured(database: Database, name: str) -> list[str]:
    """The measured cost of a standing query and, where it answers, of an invocation now, which is not counted."""
    facts = database.query(name)
    done = f" ({facts['progress']:.0%} of its history read)" if facts["state"] == "FILLING" else ""
    lines = [f"state: {facts['state']}{done}", f"cycle: {database.standing.store.cycle}"]
    if facts["matched"] is not None:
        lines.append(f"rows matched since registration: {facts['matched']}")
    if facts["state"] in ("RUNNING", "FINISHED") and facts["reason"] is None:
        began = time.monotonic()
        rows = len(database.standing.held(name, asked=False).inside())
        lines.append(f"rows inside the window: {rows}, found in {(time.monotonic() - began) * 1000:.1f} ms")
    if facts["seconds"] is not None:
        lines.append(f"last evaluation took: {facts['seconds'] * 1000:.0f} ms")
    turns = amount(facts["evaluations"], "cycle or evaluation", "cycles or evaluations")
    lines.append(
        f"since the server started: {facts['ms']:.1f} ms in {turns}, {amount(facts['rows'], 'row', 'rows')} found"
    )
    lines.append(f"memory: {facts['memory'] or 0} bytes")
    last = f", the last time at {facts['last_invoked']}" if facts["last_invoked"] else ""
    lines.append(f"asked for: {amount(facts['invocations'], 'time', 'times')}{last}")
    if facts["asked_ms"]:
        lines.append(f"answering took, since the server started: {facts['asked_ms']:.1f} ms")
    return lines
