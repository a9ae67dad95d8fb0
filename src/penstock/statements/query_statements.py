"""CREATE QUERY, ALTER QUERY and COMMENT ON QUERY.

CREATE QUERY registers one query, or many with one sync; of many, either all or those without an error.

Queries of one call may read each other: each is planned as if those before it stood already (`RegistrationBatch`). Notices are
about queries that are created or changed without an error.
"""

from __future__ import annotations

import gc
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import Any

import orjson
from sqlglot import exp

from penstock.cancellation import check_cancelled
from penstock.catalog.model import QueryDefinition, Table, plan_text
from penstock.catalog.state import CatalogState
from penstock.cycle.definitions import loading
from penstock.errors import PenstockError, error
from penstock.expr.windows import FOREVER, RowsWindow, TimeWindow, Window
from penstock.operators.aggregate.cell_estimate import QueryRows, count_groups, passing_share
from penstock.operators.aggregate.finish_times import FinishCost, check_mining_fits
from penstock.operators.aggregate.rollups.rollup_read import find_match
from penstock.operators.aggregate.shape import family_of
from penstock.operators.base.finality import check_bounded
from penstock.operators.base.view import classify, read_table, unheeded, view_of
from penstock.operators.sparksql.moments import all_streams, now_of_plan
from penstock.settings import Settings
from penstock.sql import statements as st
from penstock.sql.clause_places import ClausePlace, clause_places
from penstock.sql.definitions import bounded_named, query_facts
from penstock.sql.parse import parse_select
from penstock.sql.plan import (
    AggregatePlan,
    Plan,
    all_windows,
    evaluated_by_spark,
    looks_of,
    plan_from_json,
    plan_to_json,
    stream_uses,
)
from penstock.sql.planning.aggregate.windows import registered
from penstock.sql.planning.planner import reads_of
from penstock.sql.planning.shapes import ShapedText
from penstock.sql.positions import Span
from penstock.sql.scope import fold
from penstock.sql.window_clauses import retargeted
from penstock.statements.select import plan_of
from penstock.statements.session import Session, done
from penstock.types import format_duration
from penstock.views.results import Result
from penstock.views.standing_queries import StandingQueries

Registering = st.CreateQuery | st.BadQuery
Outcome = PenstockError | tuple[str, ...]  # for one query: the error that refused it, or its notices
_SHOWN_REFUSALS = 5
_SHOWN_NOTICES = 20
_COLLECT_EVERY = 50


@dataclass(frozen=True, slots=True)
class RequestedQuery:
    """A query to be created: its text, parsed or not, or the error of parsing it."""

    name: str
    asks: st.Select | str | PenstockError
    facts: Mapping[str, Any] = field(default_factory=dict)
    statement: st.Statement | None = None  # where it stands in a script

    @property
    def keep_us(self) -> int | None:
        """How long it keeps its results for those that come later."""
        return self.statement.keep_us if isinstance(self.statement, st.CreateQuery) else None


def runs(statements: Sequence[st.Statement]) -> Iterator[st.Statement | list[Registering]]:
    """A script's statements, with those that register queries one after another gathered into one."""
    for registers, run in groupby(statements, lambda statement: isinstance(statement, Registering)):
        if registers:
            yield [statement for statement in run if isinstance(statement, Registering)]
        else:
            yield from run


def create_queries(
    session: Session, statements: Sequence[Registering], on_error: st.OnError, owner: str | None
) -> Result:
    """A run of CREATE QUERY."""
    known = set(session.catalog.state.queries)
    wanted = []
    for statement in statements:
        if isinstance(statement, st.BadQuery):
            wanted.append(RequestedQuery(statement.name, statement.failure, statement=statement))
        elif not (statement.if_not_exists and statement.name in known):
            wanted.append(_wanted(statement, owner))
            known.add(statement.name)
    became = register_all(session, wanted, len(wanted), on_error)
    bad = [outcome for outcome in became if isinstance(outcome, PenstockError)]
    notices = [failure.render() for failure in bad[:_SHOWN_NOTICES]]
    if len(bad) > len(notices):
        notices.append(f"{len(bad) - len(notices)} more queries were refused")
    notices += [n for outcome in became if isinstance(outcome, tuple) for n in outcome][:_SHOWN_NOTICES]
    count = f" {len(wanted) - len(bad)}" if len(statements) > 1 else ""
    return done(f"CREATE QUERY{count}", tuple(notices))


def _wanted(statement: st.CreateQuery, owner: str | None) -> RequestedQuery:
    try:
        return RequestedQuery(statement.name, statement.select, {"owner": owner, **query_facts(statement)}, statement)
    except PenstockError as failure:
        return RequestedQuery(statement.name, failure, statement=statement)


def register(
    session: Session, queries: Sequence[Mapping[str, Any]], on_error: st.OnError, owner: str | None
) -> list[dict[str, Any]]:
    """The same for records with `name`, `sql` and perhaps owner, description and strategy."""
    became = register_all(session, [_asked_for(query, owner) for query in queries], len(queries), on_error)
    return [
        {
            "index": index,
            "name": query["name"],
            "error": outcome.body()["error"] if isinstance(outcome, PenstockError) else None,
            "notice": "; ".join(outcome) or None if isinstance(outcome, tuple) else None,
        }
        for index, (query, outcome) in enumerate(zip(queries, became, strict=True))
    ]


def _asked_for(query: Mapping[str, Any], owner: str | None) -> RequestedQuery:
    facts = {"owner": owner} | {n: query[n] for n in ("owner", "description", "strategy", "priority") if query.get(n)}
    try:
        facts |= {"bounded": bounded_named(str(query["bounded"]))} if query.get("bounded") is not None else {}
    except PenstockError as failure:
        return RequestedQuery(query["name"], failure)
    return RequestedQuery(query["name"], query["sql"], facts)


def register_all(session: Session, wanted: Iterable[RequestedQuery], count: int, on_error: st.OnError) -> list[Outcome]:
    """Register what can be of `count` queries, in one batch of the journal; what became of each.

    With `none` a single refusal refuses all of them, and is raised.
    """
    state = session.catalog.state.frozen()
    with loading():
        made, became = _plan_all(session, wanted, count, RegistrationBatch(state))
    bad = [outcome for outcome in became if isinstance(outcome, PenstockError)]
    if bad and on_error == "none":
        raise _first_of(bad)
    check_cancelled()  # a cancelled script registers nothing, whatever its option for errors is
    session.catalog.create_queries(list(made.values()), state)
    return became


def _plan_all(
    session: Session, wanted: Iterable[RequestedQuery], count: int, together: RegistrationBatch
) -> tuple[dict[str, QueryDefinition], list[Outcome]]:
    made = together.made
    became: list[Outcome] = []
    for index, query in enumerate(wanted):
        if index % _COLLECT_EVERY == _COLLECT_EVERY - 1:
            # Trees of SQL have many reference cycles; the garbage collector does not search for them meanwhile.
            gc.collect(0)
        reads: set[str] = set()
        try:
            asks = _read(session, query.asks, together.state)
            if query.name in made:
                raise error("already_exists", kind="query", name=query.name)
            _check_room(session, len(made))
            if count > 1 and isinstance(asks, st.Select):
                reads = named_in(asks)  # before planning, which spends the tree
            new, notices = _planned(session, query, asks, together.state_for(reads), together.coming)
            _check_mining(session, new, together)
            made[query.name] = new
            became.append(notices)
        except PenstockError as failure:
            if query.statement is not None and failure.sql is None:
                query.statement.point(failure)
            together.refuse(query.name, reads, failure)
            became.append(failure.of_many(index, query.name, count) if count > 1 else failure)
    together.explain_order()
    return made, became


def _first_of(bad: list[PenstockError]) -> PenstockError:
    """The first refusal, with the names of the others."""
    first, others = bad[0], bad[1:]
    if others:
        shown = ", ".join(f'"{f.query}"' for f in others[:_SHOWN_REFUSALS])
        more = f" and {len(others) - _SHOWN_REFUSALS} more" if len(others) > _SHOWN_REFUSALS else ""
        told = f"refused as well: {shown}{more}"
        first.hint = f"{first.hint}; {told}" if first.hint else told
    return first


def _check_room(session: Session, coming: int) -> None:
    most = session.settings.queries_max
    if len(session.catalog.state.queries) + coming >= most:
        hint = "drop some, or raise queries_max"
        raise error("limit_reached", detail=f"this server keeps at most {most} standing queries", hint=hint)


def _read(session: Session, asks: st.Select | str | PenstockError, state: CatalogState) -> st.Select | ShapedText:
    """The parsed text, or its plan where texts of the same shape were planned before. Raises what is wrong with it."""
    if isinstance(asks, PenstockError):
        raise asks
    if not isinstance(asks, str):
        return asks
    return session.shapes.plan(asks, state) or parse_select(asks)


def _plan_new(session: Session, select: st.Select, state: CatalogState) -> Plan:
    """The plan of a text; others of the same shape are planned by it."""
    plan = plan_of(session, select, standing=True, state=state)
    if plan.selection is not None:
        session.shapes.learn(
            select.sql,
            plan.selection,
            state,
            lambda text: plan_of(session, parse_select(text), standing=True, state=state),
        )
    return plan


def _planned(
    session: Session,
    query: RequestedQuery,
    asks: st.Select | ShapedText,
    state: CatalogState,
    coming: Sequence[QueryDefinition],
) -> tuple[QueryDefinition, tuple[str, ...]]:
    """A query as the catalog takes it, and its notices."""
    for kind, names in (("query", state.queries), ("table", state.tables), ("rollup", state.rollups)):
        if query.name in names:
            raise error("already_exists", kind=kind, name=query.name)
    promise = BoundedState.of(query, asks)
    plan = asks.plan if isinstance(asks, ShapedText) else _plan_new(session, asks, state)
    if query.keep_us is not None:
        assert isinstance(query.statement, st.CreateQuery)
        try:
            plan = kept(plan, query.keep_us, state)
        except PenstockError as failure:
            query.statement.fail(query.statement.keep_at, failure)
    check_window(session.settings, plan)
    promise.check(session, plan, state)
    tables, queries, functions = reads_of(plan, state)
    if evaluated_by_spark(plan) and plan.spark is not None:
        session.wait_for_own_writes()
        with session.statements.turn("heavy"):
            session.evaluator.admit(plan.spark, coming)
    view_of(plan.operator).check_room(session.standing, plan, None, state)
    start_us = _start_of(session, plan, state)
    if start_us is not None:
        start_us -= _joins_late(queries, state)
    # After the wait for own writes: a notice may depend on a table's NOW.
    notices = notices_of(session.standing, query.name, plan, query.facts.get("strategy"), state)
    overload = session.load.admit(query.name, plan, functions, session.costs.users, state)
    notices += (overload,) if overload is not None else ()
    plan = registered(plan, f"{query.name}@{state.position}", start_us)
    text = plan_text(stored(plan))
    new = QueryDefinition(0, query.name, asks.sql, text, tables, queries, functions, start_us, **query.facts)
    if plan.branches:
        new = replace(new, branches=(0,) * len(plan.branches))  # the catalog gives them their numbers, too
    return new, notices


@dataclass(frozen=True, slots=True)
class BoundedState:
    """What the option `bounded` promises (None: nothing), and where the clauses stand that could break it."""

    most: int | None = None
    places: Mapping[ClausePlace, Span] = field(default_factory=dict)
    source: st.SourceText | None = None
    option_at: Span | None = None

    @staticmethod
    def of(query: RequestedQuery, asks: st.Select | ShapedText) -> BoundedState:
        """Of a question that is not planned yet: planning spends its tree."""
        most, statement = query.facts.get("bounded"), query.statement
        if most is None:
            return BoundedState()
        select = parse_select(asks.sql) if isinstance(asks, ShapedText) else asks
        options = statement.options if isinstance(statement, st.CreateQuery) else ()
        at = next((option.at for option in options if option.name == "bounded"), None)
        return BoundedState(most, clause_places(select.query), select.source, at)

    def check(self, session: Session, plan: Plan, state: CatalogState) -> None:
        """Raise unbounded_state, or over_budget where a full window would not fit."""
        if self.most is None or self.source is None:
            return
        bound = classify(plan, state).state
        try:
            check_bounded(bound)
        except PenstockError as failure:
            clause = bound.clause
            at = self.places.get((clause.kind, clause.place)) if clause is not None else None
            raise self.source.point(failure, at or self.option_at) from None
        listings = session.standing.listings
        needed = view_of(plan.operator).full_window_bytes(plan, state, lambda table_id: listings.segments(table_id, 0))
        if self.most and needed is not None and needed > self.most:
            detail = f"a full window takes about {needed:,} bytes, more than the {self.most:,} of bounded"
            too_large = error(
                "over_budget", detail=detail, hint="make the window shorter, group by less, or allow more"
            )
            raise self.source.point(too_large, self.option_at)


def kept(plan: Plan, keep_us: int, state: CatalogState) -> Plan:
    """The plan of a connection point: its results are kept by the log. Raises where the log does not cover them."""
    selection = plan.selection
    window = selection.window if selection is not None else None
    if selection is None or not isinstance(window, TimeWindow):
        hint = "KEEP stands before a SELECT of single readings of one stream with a window of time; leave it out here"
        raise error("not_supported", feature="KEEP for this query", hint=hint)
    table = state.tables_by_id[selection.table_id]
    plan = replace(selection, keep_us=keep_us)
    if window.begin.anchor == "now" and table.options.retention_us is not None:
        needed = plan.lookback_us - window.begin.offset_us
        if table.options.retention_us < needed:
            detail = f'KEEP needs readings of "{table.name}" of {format_duration(needed)}, and its log has those of'
            detail += f" {format_duration(table.options.retention_us)}"
            hint = "results are kept by the log only: make KEEP or the window shorter, or the retention of the table longer"
            raise error("not_supported", feature=f"this KEEP: {detail}", hint=hint)
    return plan


def _joins_late(queries: Sequence[str], state: CatalogState) -> int:
    """How much earlier than NOW a query begins that reads others: as long as all of these keep their results."""
    read = [plan_from_json(state.queries[name].plan).selection for name in queries]
    return min((plan.keep_us or 0 if plan is not None else 0 for plan in read), default=0)


def _check_mining(session: Session, new: QueryDefinition, together: RegistrationBatch) -> None:
    """Refuse a query with mining functions that would take more of a core than all of them together may."""
    plan, state = _mined(new), together.state
    if plan is None or plan.table_id not in state.tables_by_id:
        return
    share = None
    if plan.stream_predicate is not None and not all(call.every_us for call in plan.aggregates if call.options):
        share = read_table(session.standing, state.tables_by_id[plan.table_id], state, partial(passing_share, plan))
    cost = _mining_cost(session, plan, state, share)
    if cost is None:
        return
    found = [_mined(known) for known in (*state.queries.values(), *together.made.values())]
    others = [_mining_cost(session, other, state) for other in found if other is not None]
    taken = sum(other.share for other in others if other is not None)
    groups = count_groups(family_of(plan), state.rows(plan.table_id))
    check_mining_fits(cost, groups, taken, session.settings.mining_budget)


def _mined(definition: QueryDefinition) -> AggregatePlan | None:
    """The plan of a query with mining functions."""
    shape = definition.stored_plan.shape
    if b'["every",' not in shape and b'["sample",' not in shape:
        return None
    return plan_from_json(definition.plan).aggregation


def _mining_cost(
    session: Session, plan: AggregatePlan, state: CatalogState, share: float | None = None
) -> FinishCost | None:
    """`share`: so much of its table's rows are the query's, where that was read."""
    if plan.table_id not in state.tables_by_id:
        return None
    static = state.rows(plan.table_id)
    groups = count_groups(family_of(plan), static)
    rows = QueryRows.of(plan, session.standing.listings.segments(plan.table_id, 0), static)
    rows = rows if share is None else replace(rows, share=share)
    with session.standing.locked() as store:
        return store.slices.finish.cost(plan, groups, rows)


def stored(plan: Plan) -> dict[str, Any]:
    """A plan as the journal takes it: not nested without end."""
    found = plan_to_json(plan)
    try:
        orjson.dumps([[[found]]])  # an entry has it in its body
    except TypeError:
        hint = "a function can take the place of a long expression"
        raise error("syntax_error", detail="the question is nested too deeply", hint=hint) from None
    return found


def check_window(settings: Settings, plan: Plan) -> None:
    """A window of rows has no more of them than the server allows a query."""
    most = settings.query_rows_max
    for window in all_windows(plan):
        if isinstance(window, RowsWindow) and window.count > most:
            detail = f"a query's window has at most {most} rows; this one has {window.count}"
            hint = "ask for fewer rows or for a time, or raise query_rows_max"
            raise error("limit_reached", detail=detail, hint=hint)


def _start_of(session: Session, plan: Plan, state: CatalogState) -> int | None:
    """START: the query's NOW at this moment. A transaction-time stream's is the wall clock."""
    with session.standing.locked() as store:
        streams = [table for table, _ in all_streams(plan, state)]
        if all(t.options.time == "transaction" for t in streams):
            offset = store.offset
            return max(session.clock.now_us(), offset.now_us if offset is not None else 0)
        try:
            return now_of_plan(plan, store, state)
        except KeyError:  # the table is newer than the last committed cycle: nothing is known of its time
            return None


def named_in(select: st.Select) -> set[str]:
    """Every name that stands where a table or a query may stand."""
    return {fold(t.this) for t in select.query.find_all(exp.Table) if isinstance(t.this, exp.Identifier)}


class RegistrationBatch:
    """The queries that a call has planned so far, and the errors of those that it refused."""

    def __init__(self, state: CatalogState) -> None:
        self.made: dict[str, QueryDefinition] = {}
        self.coming: tuple[QueryDefinition, ...] = ()  # those of them that others read
        self.state = state
        self._refused: dict[str, tuple[str, str]] = {}  # by name: which query is the cause, and what it fails with
        self._missing: list[tuple[PenstockError, set[str]]] = []

    def state_for(self, reads: Collection[str]) -> CatalogState:
        """The catalog that a query is planned with; the queries of this call that it reads are there."""
        new = [self.made[name] for name in reads if name in self.made and name not in self.state.queries]
        if new:
            # The catalog numbers them when they are all planned; until then they have numbers that no query has.
            numbered = tuple(replace(query, id=-1 - len(self.coming) - i) for i, query in enumerate(new))
            self.coming += numbered
            self.state = self.state.expecting(numbered)
        return self.state

    def refuse(self, name: str, reads: set[str], failure: PenstockError) -> None:
        """Record a refused query. Its error names the refused query that caused it; queries that read it will name it, too."""
        cause, why = name, str(failure)
        for read in sorted(reads & self._refused.keys()):
            if _is_about(failure, read):
                cause, why = self._refused[read]
                through = "" if cause == read else f' because of query "{cause}"'
                failure.hint = f'query "{read}" was refused{through}: {why}'
        self._refused[name] = cause, why
        self._missing.append((failure, reads))

    def explain_order(self) -> None:
        """Add a hint to errors of queries that read a later one: a query can read only queries before it."""
        for failure, reads in self._missing:
            for read in sorted(reads & self.made.keys()):
                if _is_about(failure, read):
                    failure.hint = f'query "{read}" comes later; put it before those that read it'


def _is_about(failure: PenstockError, name: str) -> bool:
    return failure.condition == "table_not_found" and str(failure) == str(error("table_not_found", table=name))


def notices_of(
    standing: StandingQueries, name: str, plan: Plan, strategy: str | None, state: CatalogState
) -> tuple[str, ...]:
    found = (beyond_retention(standing, name, plan, state), strategy_unheeded(name, plan, strategy))
    return tuple(notice for notice in found if notice is not None)


def strategy_unheeded(name: str, plan: Plan, strategy: str | None) -> str | None:
    """The notice that a requested strategy does not apply to such a query; None where it does."""
    reason = unheeded(plan, strategy)
    return None if reason is None else f'strategy "{strategy}" changes nothing for query "{name}": {reason}'


def beyond_retention(standing: StandingQueries, name: str, plan: Plan, state: CatalogState) -> str | None:
    """The notice for a query with a window that begins before its table's retention; None for other queries."""
    asked = plan.aggregation
    if asked is not None and (asked.latch is not None or find_match(asked, state) is not None):
        return None  # its state outlives the readings, or a rollup has them
    looks = [(state.tables_by_id[use.table_id], use.window) for use in looks_of(plan)]
    streams = [relation for relation in plan.relations if relation.kind == "stream"]
    looks += [(state.tables[r.table], r.window) for r in streams if r.window is not None]
    for table, window in looks:
        keep_us = table.options.retention_us
        back_us = _reaches_back(standing, table, window)
        if keep_us is not None and back_us is not None and back_us > keep_us:
            kept = f'table "{table.name}" keeps readings for {format_duration(keep_us)}'
            return f'query "{name}" asks for more than there will be: {kept}; its answers say complete_from'
    return None


def _reaches_back(standing: StandingQueries, table: Table, window: Window) -> int | None:
    """How long before the table's NOW a window begins; None where that is not known or not bounded."""
    if not isinstance(window, TimeWindow) or abs(window.begin.offset_us) >= FOREVER:
        return None
    if window.begin.anchor != "constant":
        return -window.begin.offset_us
    with standing.locked() as store:
        now_us = store.now_of(table, None) if table.id in store.state.tables_by_id else None
    return now_us - window.begin.offset_us if now_us is not None else None


def alter_query(session: Session, statement: st.AlterQuery) -> Result:
    while (plan := _alter(session, statement)) is None:
        pass  # another session was faster: the change is made to what it left
    strategy = session.definition(statement.name).strategy
    return done("ALTER QUERY", notices_of(session.standing, statement.name, plan, strategy, session.catalog.state))


def _alter(session: Session, statement: st.AlterQuery) -> Plan | None:
    """The new plan; None where the definition is not what it was any more."""
    definition = session.definition(statement.name)
    before = plan_from_json(definition.plan)
    if before.latch is not None:
        hint = "its state has begun and has no end; create another query with another BEGIN"
        raise error("not_supported", feature="another window for a query with LATCH", hint=hint)
    changed = retargeted(definition.sql, statement, _unsaid(before))
    try:
        select = parse_select(changed.text)
        promise = BoundedState(definition.bounded, clause_places(select.query), select.source)
        plan = plan_of(session, select, standing=True)
        if before.selection is not None and before.selection.keep_us is not None:
            plan = kept(plan, before.selection.keep_us, session.catalog.state)
        check_window(session.settings, plan)
        view_of(plan.operator).check_room(session.standing, plan, before, session.catalog.state)
        promise.check(session, plan, session.catalog.state)
        view_of(before.operator).check_change(statement.name, plan, session.catalog.state)
    except PenstockError as failure:
        raise changed.point(failure) from None
    return plan if session.catalog.retarget_query(definition, changed.text, stored(plan)) else None


def _unsaid(plan: Plan) -> tuple[str, str]:
    """The defaults of BEGIN and END: AVG(x, 5 MINUTES) alone looks five minutes back, over joins, too."""
    windows = [use.window for use in stream_uses(plan)]
    if plan.over_read is not None:
        windows = [relation.window for relation in plan.relations if relation.window is not None]
    begins = [w.begin.offset_us for w in windows if isinstance(w, TimeWindow) and w.begin.anchor == "now"]
    return (f"NOW - '{format_duration(-min(begins))}'" if begins else "START"), "NOW"


def describe_query(session: Session, statement: st.DescribeQuery) -> Result:
    session.catalog.describe_query(statement.name, **{statement.fact: statement.value})
    if statement.fact != "strategy":
        return done("COMMENT" if statement.fact == "description" else "ALTER QUERY")
    plan = plan_from_json(session.definition(statement.name).plan)
    notice = strategy_unheeded(statement.name, plan, statement.value)
    return done("ALTER QUERY", (notice,) if notice is not None else ())


def pause_or_resume(session: Session, statement: st.PauseQuery | st.ResumeQuery) -> Result:
    session.catalog.change_query(statement.name, paused=isinstance(statement, st.PauseQuery))
    return done("ALTER QUERY")
