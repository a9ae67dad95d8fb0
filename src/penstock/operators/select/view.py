"""Selections as readers see them: the rows inside the window, from the matches that are kept."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import partial

from pyroaring import BitMap

from penstock.catalog.model import QueryDefinition
from penstock.catalog.state import CatalogState
from penstock.errors import expect
from penstock.expr.windows import AnyWindow, JoinWindows, RowsWindow, TimeWindow, Window
from penstock.operators.base.answer import AnswerAt
from penstock.operators.base.blocks import Blocks
from penstock.operators.base.finality import Classification, FinalRows, final_by_watermark, while_kept, window_bound
from penstock.operators.base.log_access import LogAccess
from penstock.operators.base.log_reader import LogReader
from penstock.operators.base.view import AnswerOwner, Budget, QueryAt, View, only_strategy
from penstock.operators.base.window_rows import SegmentsOf, full_window_rows
from penstock.operators.select.answer import LastingAt, SelectAt
from penstock.operators.select.current_rows import CurrentRows
from penstock.operators.select.hold import HoldCache, HoldPositions
from penstock.operators.select.match_positions import MatchEvaluator, MatchPositions
from penstock.operators.select.match_store import MatchStoreAt
from penstock.operators.select.storage_choice import Measured
from penstock.operators.select.window_cut import WindowAt, WindowMatches
from penstock.sql.plan import Plan, SelectPlan, reach_of
from penstock.types import format_duration
from penstock.views.answer_store import AnswerStore
from penstock.views.feed import Mark
from penstock.views.retention import kept_from, now_at


def hold_select(
    store: AnswerStore, query: QueryAt, plan: SelectPlan, window: Window, log: LogAccess, ready: CurrentRows | None
) -> SelectAt:
    answer, mark = query.state, query.mark
    table = store.state.tables_by_id[plan.table_id]
    static = store.state.rows(table.id)
    head = mark.end.data.get(table.id, 0)

    def reader() -> LogReader:
        return log.reader(table, static, head)

    held = SelectAt(
        cycle=mark.cycle,
        query_id=query.id,
        plan=plan,
        matches=_matches(store, query, plan, window, MatchEvaluator(plan, reader)),
        values=list(store.matches.queries[query.id].own.values),
        instant=WindowAt(
            store.state.retention(table.id), head, now_at(store, mark, query.id, answer), answer.start_us, window
        ),
        reader=reader,
        fresh=lambda: log.fresh(table, static),
        ready=ready,
    )
    return held if plan.lasting is None else _lasting_at(held, mark.watermarks.get(table.id), kept_from(store, table))


def _lasting_at(held: SelectAt, watermark_us: int | None, kept_from_us: int) -> LastingAt:
    known = {each.name: getattr(held, each.name) for each in fields(held)}
    return LastingAt(**known, watermark_us=watermark_us, kept_from_us=kept_from_us)


def _matches(
    store: AnswerStore, query: QueryAt, plan: SelectPlan, window: Window, evaluate: MatchEvaluator
) -> WindowMatches:
    """A query's present matches, with the rows that a window of rows counts."""
    answer, kept = query.state, store.matches.queries[query.id]
    known = kept.own
    predicate = plan.static_predicate
    # Records have all matches and counted rows only while the definition counts rows, and those of the past by filling.
    counts = isinstance(window, RowsWindow) and isinstance(plan.window, RowsWindow) and answer.settled
    found: Blocks | MatchPositions = _copy(known.matches)
    if not counts and not plan.calls_user_code:
        match_store = store.matches.stores.get(plan.table_id)
        found = MatchPositions(
            query.id,
            _copy(known.matches),
            match_store.view() if match_store is not None else MatchStoreAt(),
            answer.known,
            answer.reach,
            known.evaluated,
            evaluate,
            keep=answer.strategy != "none",
        )
    heard = store.heard_sids(plan.table_id, predicate) if isinstance(window, RowsWindow) else None
    matches = _lasting(store, kept.lasting, plan, found) if kept.lasting is not None else found
    if predicate is None:
        return WindowMatches(matches, heard=heard)
    base = _copy(known.base) if counts else None
    return WindowMatches(matches, base, store.passing(plan.table_id, predicate), heard)


def _lasting(store: AnswerStore, memory: HoldCache, plan: SelectPlan, true: Blocks | MatchPositions) -> HoldPositions:
    """What lasts of the rows at which a condition is true."""
    table_id, predicate = plan.table_id, plan.static_predicate
    return HoldPositions(
        plan=plan,
        true=true,
        passing=store.passing(table_id, predicate) if predicate is not None else None,
        heard=store.heard_sids(table_id, predicate),
        sids=store.state.rows(table_id).sids,
        floor=store.state.retention(table_id),
        memory=memory,
    )


@dataclass(frozen=True, slots=True)
class KeptInstants:
    """The instants of kept cycles. Called by readers, without a lock, after the cycle that they look at."""

    views: AnswerOwner
    query: QueryAt
    at: WindowAt  # one with the same window

    def are_after(self, cycle: int) -> bool:
        """Whether the cycle after this one is kept no more."""
        return self.views.feed.oldest() > cycle + 1

    def between(self, first: int, last: int) -> list[WindowAt]:
        """The instants of the cycles between two others, as far as they are kept."""
        table_id, query = expect(SelectPlan, self.query.state.plan).table_id, self.query
        with self.views.locked() as store:
            return [
                replace(self.at, head=mark.end.data.get(table_id, 0), now_us=now_at(store, mark, query.id, query.state))
                for mark in self.views.feed.between(first, last)
            ]


def _copy(blocks: dict[int, BitMap]) -> dict[int, BitMap]:
    return {block: BitMap(found) for block, found in blocks.items()}


class SelectView(View):
    """Selections."""

    def at(self, views: AnswerOwner, query: QueryDefinition, mark: Mark, log: LogAccess, asked: bool) -> AnswerAt:
        found, window = views.query_at(query, mark)
        assert not isinstance(window, JoinWindows)
        ready, cut_ms = None, None
        if mark is views.feed.last():
            if asked:
                views.storage_choice.note(query.id, mark.cycle)
            chosen = views.storage_choice.of(query.id, found.state, only_strategy(found.state))
            if asked and chosen != "complete":
                measured: Measured = "cut_ms" if chosen == "partial" else "evaluate_ms"
                cut_ms = partial(views.storage_choice.note_ms, query.id, measured=measured)
            ready = views.ready if chosen == "complete" else None
        plan = expect(SelectPlan, found.state.plan)
        held = replace(hold_select(views.store, found, plan, window, log, ready), cut_ms=cut_ms)
        if not isinstance(window, TimeWindow) or plan.lasting is not None:
            return held
        instants = KeptInstants(views, found, held.instant)
        return replace(held, stretch=views.windows.begin(query.id, mark.cycle), instants=instants)

    def budget(self, plan: Plan) -> Budget:
        return "selections"

    def classify(self, plan: Plan, state: CatalogState) -> Classification:
        asked = expect(SelectPlan, plan)
        bound = window_bound(asked.window, state.tables_by_id.get(asked.table_id))
        if asked.keep_us is not None:
            bound = replace(bound, reason=f"{bound.reason}, and those of {format_duration(asked.keep_us)} before it")
        return Classification(_final_rows(asked, state), bound)

    def full_window_bytes(self, plan: Plan, state: CatalogState, segments_of: SegmentsOf) -> int | None:
        """A bit for each reading of the table."""
        asked = expect(SelectPlan, plan)
        window = asked.window if asked.keep_us is None else reach_of(asked, asked.window)
        rows = full_window_rows(window, segments_of(asked.table_id))
        return rows // 8 if rows is not None else None

    def memory(self, store: AnswerStore, query_id: int) -> int:
        return store.matches.memory_of(query_id)

    def runs(self, plan: Plan) -> str:
        return "shared pass"

    def only_strategy(self, plan: Plan, window: AnyWindow | None, asked: str | None) -> str | None:
        if plan.kernel is not None and plan.kernel.calls_user_code:
            return "it calls user functions, which only workers run"
        if not isinstance(window, TimeWindow):
            return "a window of rows is cut when asked"
        if plan.kernel is not None and plan.kernel.lasting is not None and asked != "none":
            return "what has to last is looked for when asked"  # late rows take others back, so no answer only grows
        return None


def _final_rows(plan: SelectPlan, state: CatalogState) -> FinalRows:
    if plan.lasting is None:
        return FinalRows("at once", "a reading that satisfies the conditions does so for ever")
    if not isinstance(plan.window, TimeWindow):
        return FinalRows("never", "a late reading may break or mend what has to last, and LAST n ROWS has no times")
    final = final_by_watermark("once the watermark has passed the reading", (plan.table_id,), state)
    return while_kept(while_kept(final, (plan.window,), 0, state), (), plan.lasting.us, state)


VIEW = SelectView()
