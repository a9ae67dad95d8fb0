"""EXPLAIN and EXPLAIN ANALYZE."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from penstock.catalog.model import QueryDefinition
from penstock.catalog.state import CatalogState
from penstock.errors import PenstockError
from penstock.expr.evaluate import evaluate_static
from penstock.expr.lazy_factors import costly_factors
from penstock.operators.aggregate.rollups.notices import plan_lines, rollup_lines
from penstock.operators.base.finality import worth_lines
from penstock.operators.base.view import classify, filled_text, unheeded, view_of
from penstock.operators.join.algorithm_choice import GroupChoice
from penstock.operators.select.durability import may_wait
from penstock.operators.select.strategy_costs import strategy_costs
from penstock.operators.sparksql.replan import with_text
from penstock.sql import statements as st
from penstock.sql.explain.notation import amount, show
from penstock.sql.explain.plan import explain as explain_plan
from penstock.sql.parse import parse_select
from penstock.sql.plan import AggregatePlan, Plan, SparkPlan, StreamUse, looks_of, plan_from_json
from penstock.sql.planning.planner import asked_of_slices, asked_once, reads_of
from penstock.statements.descriptions import as_told, describe_query
from penstock.statements.select import answer_once, answered_from_log, asked_of_rollup, plan_of, rolled_up
from penstock.statements.session import Session, rows_of
from penstock.types import format_duration
from penstock.views.answer_store import AnswerStore
from penstock.views.query_state import NEVER
from penstock.views.results import Result


def explain(session: Session, statement: st.Explain) -> Result:
    state = session.catalog.state.frozen()  # of one moment, whatever is dropped meanwhile
    lines: list[str] = []
    if isinstance(statement.target, str) and statement.target in state.rollups:
        rollup = state.rollups[statement.target]
        rolled = state.rolled_up(rollup.id)
        failure = session.rollups.failures.get(rollup.id)
        return _shown(rollup_lines(rollup, rolled, failure) if rolled is not None else [])
    if isinstance(statement.target, str):
        definition = state.queries.get(statement.target) or session.definition(statement.target)
        plan = _stored(definition, state)
        if statement.analyze:
            lines = [
                *_measured(session, definition.name),
                *_costly_conditions(session, plan),
                *_join_algorithms(session, definition.name),
            ]
    elif (sliced := asked_of_slices(statement.target, state)) is not None:
        return _shown(_sliced_lines(session, sliced, statement.analyze))
    else:
        asked = asked_once(statement.target, state) if state.rollups else None
        if asked is not None:
            lines = plan_lines(asked, state)
        matched = asked_of_rollup(session, statement.target)
        plan = plan_of(session, statement.target, standing=False, state=state)
        if matched is not None:
            lines.append("    as far as that is asked for: added up here with the rows of the log, no Spark job")
        if statement.analyze:
            assert plan.spark is not None  # only cycles run kernels
            lines += _analyzed(session, plan.spark, matched)
        lines += _new_load(session, statement.target, state)
    text = explain_plan(plan, state)
    if plan.aggregation is not None:
        lines = [*plan_lines(plan.aggregation, state), *lines]
    if isinstance(statement.target, str):
        with session.standing.locked() as store:
            heard = [_coverage(store, use) for use in looks_of(plan)]
        lines = [
            *worth_lines(classify(plan, state)),
            *dict.fromkeys(line for line in heard if line is not None),
            *_priority(session, statement.target),
            *_kept(session, statement.target),
            *_ran(session, statement.target),
            *_load_of(session, plan),
            *lines,
        ]
    return _shown([*text.splitlines(), *lines])


def _shown(lines: list[str]) -> Result:
    return rows_of(("plan",), [(line,) for line in lines])


def _stored(definition: QueryDefinition, state: CatalogState) -> Plan:
    """A standing query's plan; without a text where the plan of an older version cannot be made again."""
    plan = plan_from_json(definition.plan)
    if plan.spark is not None:
        with contextlib.suppress(PenstockError):
            return with_text(plan.spark, definition, state)
    return plan


def _sliced_lines(session: Session, asked: AggregatePlan, analyze: bool) -> list[str]:
    """A question that Spark SQL has no words for."""
    state = session.catalog.state.frozen()
    lines = [*explain_plan(asked, state).splitlines(), *plan_lines(asked, state)]
    lines.append(
        "  asked once: rows of the log are read and aggregated here, nothing is kept, no Spark job up to answer_read_max_rows"
    )
    if analyze:
        began = time.monotonic()
        found = answered_from_log(session, asked)
        took = f"took: {(time.monotonic() - began) * 1000:.0f} ms"
        lines += [*found.notices, f"rows: {found.table.num_rows}", took, f"cycle: {found.cycle}"]
    return lines


def _analyzed(session: Session, plan: SparkPlan, asked: AggregatePlan | None) -> list[str]:
    """What came of a question that is asked once."""
    session.wait_for_own_writes()
    began = time.monotonic()
    rolled = rolled_up(session, asked) if asked is not None else None
    if rolled is not None:
        count, cycle, seconds = rolled.table.num_rows, rolled.cycle, time.monotonic() - began
        told = ["answered from a rollup and the log", *rolled.notices]
    else:
        with session.statements.turn("heavy"):
            found, reason = answer_once(session, plan)
            told = [f"answered by Spark SQL, because {reason}"] if reason is not None else []
        count, cycle, seconds = found.table.num_rows, found.cycle, found.seconds
    return [*told, f"rows: {count}", f"took: {seconds * 1000:.0f} ms", f"cycle: {cycle}"]


def _priority(session: Session, name: str) -> list[str]:
    """The class of a query, and whether it may stand behind the cycles; nothing of a query that is normal in both."""
    query = session.definition(name)
    if query.priority == "high":
        return ["  priority high: the last to fail where memory is short"]
    waits = may_wait(session.catalog.state, query)
    behind = "it stands behind the cycles where these take too long"
    if query.priority == "normal":
        return [f"  priority normal: {behind}, as it calls functions beside queries of class high"] if waits else []
    takes_part = behind if waits else "it takes part in every cycle"
    return [f"  priority low: {takes_part}, and is the first to fail where memory is short"]


def _kept(session: Session, name: str) -> list[str]:
    """How the answer of a query is kept between two questions, and why so."""
    asked = session.definition(name)
    reason = unheeded(plan_from_json(asked.plan), asked.strategy)
    told = [f"  strategy {asked.strategy}, as requested, changes nothing: {reason}"] if reason else []
    with session.standing.locked() as store:
        definition = store.state.queries.get(name)
        if definition is None:
            return told
        of_branches = [_kept_lines(session, store, number) for number in definition.branches]
        if of_branches:
            shown = [
                f"  branch {place}: {line.strip()}" for place, lines in enumerate(of_branches, 1) for line in lines[:1]
            ]
            return [*shown, *told]
        lines = _kept_lines(session, store, definition.id)
        place = 1 if definition.id in store.answers else len(lines)
        return [*lines[:place], *told, *lines[place:]]


def _kept_lines(session: Session, store: AnswerStore, query_id: int) -> list[str]:
    """The same of one query or branch; the strategy first, where it runs in the cycle."""
    answer, standing = store.answers.get(query_id), session.standing
    if answer is None:
        operator = store.operators.get(query_id)
        return view_of(operator).kept_lines(standing, query_id) if operator is not None else []
    strategy = f"  answer kept: {standing.strategy_of(query_id)}, because {standing.strategy_reason(query_id)}"
    return [strategy, *view_of(answer.operator).kept_lines(standing, query_id)]


def _coverage(store: AnswerStore, use: StreamUse) -> str | None:
    """Of the sensors that pass the static conditions today, those that are silent or have ended. None before the first cycle."""
    table = store.state.tables_by_id.get(use.table_id)
    if table is None or store.offset is None:
        return None
    rows = store.state.rows(table.id)
    current = rows.current()
    sids = current.column("_sid").to_numpy()[evaluate_static(use.static_predicate, current)]
    # A sensor with a changed static row sent readings under another version: its newest cycle counts.
    heard = store.heard.get(table.id, np.empty(0, np.int64))
    owners = rows.sids[: len(heard)]
    latest = np.full(int(max(sids.max(initial=-1), owners.max(initial=-1))) + 1, NEVER, np.int64)
    np.maximum.at(latest, owners, heard[: len(owners)])
    times = latest[sids]
    ended = np.isin(sids, list(store.state.ended(table.id)))
    never = ~ended & (times == NEVER)
    silent = ~ended & ~never & (store.offset.now_us - times > table.options.idle_us)
    idle = f"silent for more than {format_duration(table.options.idle_us)}"
    parts = ((never, "without readings"), (silent, idle), (ended, "ended"))
    missing = ", ".join(f"{np.count_nonzero(mask)} {words}" for mask, words in parts if mask.any())
    return f'  sensors of "{table.name}": {len(sids)}, {missing or "all of them with readings"}'


def _ran(session: Session, name: str) -> list[str]:
    """What the last step of each of its joins did: which algorithm, why, and what it cost."""
    with session.standing.locked() as store:
        definition = store.state.queries.get(name)
        numbers = definition.numbers if definition is not None else ()
        reports = [store.joins.queries[number].report for number in numbers if number in store.joins.queries]
    return [line for report in reports if report is not None for line in _step_lines(*report)]


def _join_algorithms(session: Session, name: str) -> list[str]:
    """What is known of each algorithm of a query's joins, the cheapest first, and when it last changed."""
    lines: list[str] = []
    with session.standing.locked() as store:
        definition = store.state.queries.get(name)
        for number in definition.numbers if definition is not None else ():
            group = store.joins.group_of(number)
            if group is not None:
                lines += _choice_lines(group)
    return lines


def _choice_lines(group: GroupChoice) -> list[str]:
    lines = [f"join algorithms, expected for a step like the last of {group.steps}, and what those that ran took:"]
    for algorithm, expected in sorted(group.expected_ms.items(), key=lambda each: each[1]):
        known, runs = group.learned.get(algorithm), ", runs now" if algorithm == group.runs else ""
        told = "never tried"
        if known is not None:
            last = f"predicted {known.predicted_ms:.2f} ms, observed {known.observed_ms:.2f} ms"
            told = f"{amount(known.tries, 'try', 'tries')}, the last {last}"
        lines.append(f"  {algorithm}: {expected:.2f} ms, {told}{runs}")
    if (last_switch := group.last_switch) is not None:
        change = f"{last_switch.before} to {last_switch.after}"
        lines.append(f"  last switch: {change} at cycle {last_switch.cycle}, because {last_switch.reason}")
    return lines


def _step_lines(cycle: int, parts: Mapping[int, Mapping[str, Any]]) -> list[str]:
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


def _new_load(session: Session, select: st.Select, state: CatalogState) -> list[str]:
    """What the load would be with a standing query of this text; nothing where it cannot stand or runs outside the cycle."""
    try:
        plan = plan_of(session, parse_select(select.sql), standing=True, state=state)
    except PenstockError:
        return []
    if plan.kernel is None:
        return []
    functions = reads_of(plan, state)[2]
    added = session.load.added_by(plan, functions, session.costs.users, state)
    load = session.load.figures()["load"] or 0.0
    new = sum(added.values())
    units = amount(len(added), "new unit", "new units")
    return [f"  as a standing query: load {load:.2f} + {new:.2f} for {units}, limit {session.load.limit:g}"]


def _load_of(session: Session, plan: Plan) -> list[str]:
    """The load of a query's units, which it may share with others, and of everything."""
    load = session.load.figures()["load"]
    if plan.kernel is None or load is None:
        return []
    return [f"  load of all queries: {load:.2f}, limit {session.load.limit:g}; by unit: penstock.units"]


def _measured(session: Session, name: str) -> list[str]:
    """The measured cost of a standing query and, where it answers, of an invocation now, which is not counted."""
    facts = as_told(describe_query(session, session.definition(name)))
    lines = [f"state: {facts['state']}", f"cycle: {session.standing.store.cycle}"]
    if facts["state"] == "FILLING":
        lines[0] += f" ({filled_text(facts['progress'], facts['fill_left_s'])})"
    if facts["matched"] is not None:
        lines.append(f"rows matched since registration: {facts['matched']}")
    if facts["state"] in ("RUNNING", "FINISHED") and facts["reason"] is None:
        began = time.monotonic()
        rows = len(session.standing.held(name, asked=False).inside())
        lines.append(f"rows inside the window: {rows}, found in {(time.monotonic() - began) * 1000:.1f} ms")
    if facts["seconds"] is not None:
        lines.append(f"last evaluation took: {facts['seconds'] * 1000:.0f} ms")
    turns = amount(facts["evaluations"], "cycle or evaluation", "cycles or evaluations")
    lines.append(
        f"since the server started: {facts['ms']:.1f} ms in {turns}, {amount(facts['rows'], 'row', 'rows')} found"
    )
    lines.append(f"memory: {facts['memory'] or 0} bytes")
    lines += _strategies(session, session.definition(name))
    last = f", the last time at {facts['last_invoked']}" if facts["last_invoked"] else ""
    lines.append(f"asked for: {amount(facts['invocations'], 'time', 'times')}{last}")
    if facts["asked_ms"]:
        lines.append(f"answering took, since the server started: {facts['asked_ms']:.1f} ms")
    return lines


def _strategies(session: Session, definition: QueryDefinition) -> list[str]:
    """What each way to keep the answer of a selection costs."""
    found = session.idle_queries.figures(definition)
    if found is None:
        return []
    known, why_not = found
    costs = [f"{name} {ms:.3g} ms" for name, ms in strategy_costs(known).items()]
    if why_not is not None:
        costs.append(f"not none, because {why_not}")
    guessed = " (expected, until both were measured)" if known.move_ms is None or known.cut_ms is None else ""
    return [f"a cycle at {known.requests:.2g} requests: {', '.join(costs)}{guessed}"]


def _costly_conditions(session: Session, plan: Plan) -> list[str]:
    """What became of user functions and the like in conditions, in the order in which they are evaluated."""
    conditions = plan.kernel.row_conditions if plan.kernel is not None else ()
    found = [
        (expr, figures)
        for table_id, condition in dict.fromkeys(conditions)
        for expr in sorted(costly_factors(condition), key=str)
        if (figures := session.costs.of_condition(table_id, expr)) is not None
    ]
    if not found:
        return []
    lines = ["conditions that cost much, since the server started, the first to be evaluated first:"]
    for expr, figures in sorted(found, key=lambda each: -each[1].rank):
        offered = figures.calls + figures.saved
        lines.append(
            f"  {show(expr)}: {amount(figures.calls, 'call', 'calls')}, {figures.saved} saved"
            f" ({100 * figures.saved / max(1, offered):.1f} %), {figures.ms:.1f} ms"
            f" ({figures.ns:.0f} ns a call), kept {100 * figures.share:.1f} %,"
            f" {amount(figures.switches, 'switch', 'switches')} of order"
        )
    return lines
