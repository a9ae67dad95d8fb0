"""Units of join work in a cycle, in parts: new rows for running joins, ranges of history for joins that fill."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.cache import Cache
from penstock.catalog.model import QueryDefinition
from penstock.catalog.state import CatalogState
from penstock.cycle.offset import Offset
from penstock.operators.join.steps.key_ranges import RANGES, Share, share_of
from penstock.sql.plan import JoinPlan, has_join, plan_from_json
from penstock.sql.planning.join.keys import is_looked_up
from penstock.streams.log.segments import Listing, Slice

LIVE = -1
# Below this a second part costs more than it saves; without a look-up each row meets a whole window.
SPREAD_ROWS = 20_000
SPREAD_ROWS_WITHOUT_KEY = 200


@dataclass(frozen=True, slots=True)
class TableStep:
    """One table's share of a step: its log begins at `first`, the step goes from `start` to `end`."""

    first: int
    start: int
    end: int
    slices: tuple[Slice, ...]


@dataclass(frozen=True, slots=True)
class JoinUnit:
    """One part of one step for some queries. `generation` is LIVE, or the number of the fill that it belongs to.

    `algorithms`: what the planner chose, by the join's number, a group's by its least. All parts of a step have the same, and
    a task that is tried again does not choose anew. What is not named runs as `algorithms.default_of` says.
    """

    queries: tuple[int, ...]
    tables: dict[int, TableStep]
    part: int
    parts: int
    generation: int
    algorithms: Mapping[int, str] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """How many rows of the log are new, for all parts together."""
        return sum(step.end - step.start for step in self.tables.values())

    @property
    def share(self) -> Share:
        """The range of key hashes of this part, where there is a key."""
        return share_of(self.part, self.parts)


def join_plans(state: CatalogState) -> dict[int, JoinPlan]:
    """The joins that run: not paused, and over tables that are all there. The same object until a definition changes."""
    queries = state.queries_by_id  # a change puts another dict in its place
    known = _KNOWN.get(id(queries))
    if known is not None:
        return known[1]
    found = {}
    for query_id, definition in queries.items():
        if has_join(definition.stored_plan) and not definition.paused:
            before = _PLANS.get(query_id)
            if before is None or (before[0] is not definition and before[0] != definition):
                before = (definition, plan_from_json(definition.plan).window_join)
            plan = before[1]
            _PLANS[query_id] = (definition, plan)
            if plan is not None and plan.tables_read <= state.tables_by_id.keys():
                found[query_id] = plan
    for gone in _PLANS.keys() - queries.keys():
        del _PLANS[gone]
    _KNOWN.put(id(queries), (queries, found))
    return found


# The planner and the tasks may run in one process, each with a state of its own.
_KNOWN: Cache[int, tuple[dict[int, QueryDefinition], dict[int, JoinPlan]]] = Cache(most=4)
_PLANS: dict[int, tuple[QueryDefinition, JoinPlan | None]] = {}  # None: its branches run the joins


def tables_of(plan: JoinPlan) -> tuple[int, ...]:
    return tuple(sorted({i.table_id for i in plan.inputs}))


def join_units(listed: Listing, start: Offset, end: Offset, state: CatalogState, parts: int) -> list[JoinUnit]:
    """All join work of the cycle (start, end). A pure function of its arguments and the log."""
    plans = join_plans(state)
    fresh = {t for t, head in end.data.items() if head > start.data.get(t, 0)}
    steps: list[tuple[tuple[int, ...], dict[int, tuple[int, int]], int]] = []
    together: dict[tuple[tuple[int, ...], bool, bool], list[int]] = {}
    for query_id, plan in plans.items():
        if fresh & set(tables_of(plan)):
            alike = (tables_of(plan), bool(plan.inputs[0].keys), is_looked_up(plan))
            together.setdefault(alike, []).append(query_id)
    for (tables, _, _), queries in together.items():
        ranges = {t: (start.data.get(t, 0), end.data.get(t, 0)) for t in tables}
        steps.append((tuple(queries), ranges, LIVE))
    for query_id, left in remaining_fills(start, state).items():
        until = end.join_fill.get(query_id, {})
        ranges = {t: (first, until[t][0] if t in until else target) for t, (first, target) in left.items()}
        if any(a < b for a, b in ranges.values()):
            steps.append(((query_id,), ranges, state.query_positions[query_id][1]))
    units = []
    for members, ranges, generation in steps:
        shares = {t: _share(listed, t, a, b, state) for t, (a, b) in ranges.items()}
        rows = sum(b - a for a, b in ranges.values())
        spreads = rows >= (SPREAD_ROWS if is_looked_up(plans[members[0]]) else SPREAD_ROWS_WITHOUT_KEY)
        count = min(parts, RANGES) if spreads else 1
        units += [JoinUnit(members, shares, part, count, generation) for part in range(count)]
    return units


def _share(listed: Listing, table_id: int, start: int, end: int, state: CatalogState) -> TableStep:
    return TableStep(min(state.retention(table_id), start), start, end, listed.files(table_id, start, end))


def remaining_fills(start: Offset, state: CatalogState) -> dict[int, dict[int, tuple[int, int]]]:
    """What is left of joins' histories; not of those that changed since, and not what retention has taken."""
    left = {}
    for query_id, by_table in start.join_fill.items():
        if query_id not in join_plans(state) or state.query_positions[query_id][1] > start.journal:
            continue
        left[query_id] = {
            t: (min(max(first, state.retention(t)), target), target) for t, (first, target) in by_table.items()
        }
    return left


def advance_fills(
    left: Mapping[int, Mapping[int, tuple[int, int]]], budget: int
) -> dict[int, dict[int, tuple[int, int]]]:
    """Advance every filling join by its share of the budget, each of its tables in proportion to its remaining rows."""
    after = {}
    for query_id, by_table in left.items():
        rows = {t: target - first for t, (first, target) in by_table.items()}
        total, room = sum(rows.values()), max(1, budget // len(left))
        if total > room:
            after[query_id] = {
                t: (first + min(rows[t], -(-rows[t] * room // total)), target)
                for t, (first, target) in by_table.items()
            }
    return after
