"""The joins that run, as workers see them: prepared once for as long as a definition stands."""

from __future__ import annotations

from penstock.pipeline.definitions import Definitions
from penstock.pipeline.joins.prepared import PreparedJoin, prepare
from penstock.pipeline.joins.sharing import shared_joins
from penstock.sql.plan import has_join, join_of, plan_from_json

_REACHES: dict[tuple[int, int], dict[str, int]] = {}
_PREPARED: dict[tuple[int, int, int], PreparedJoin] = {}
_RUNNING: dict[tuple[int, int], dict[int, PreparedJoin]] = {}


def running_joins(definitions: Definitions) -> dict[int, PreparedJoin]:
    """All joins that are not paused; the same object until a definition changes."""
    state = definitions.state
    key = (id(definitions), state.position)
    if key not in _RUNNING:
        running = [q for q, d in state.queries_by_id.items() if has_join(d.plan) and not d.paused]
        _RUNNING.clear()
        _RUNNING[key] = {query_id: prepared_join(definitions, query_id) for query_id in running}
    return _RUNNING[key]


def prepared_join(definitions: Definitions, query_id: int) -> PreparedJoin:
    """A query's join, prepared once for as long as its definition stands."""
    key = (id(definitions), query_id, definitions.state.query_positions[query_id][1])
    if key not in _PREPARED:
        for stale in [k for k in _PREPARED if k[1] == query_id or k[0] != id(definitions)]:
            del _PREPARED[stale]
        plan = join_of(plan_from_json(definitions.state.queries_by_id[query_id].plan))
        assert plan is not None
        _PREPARED[key] = prepare(plan)
    return _PREPARED[key]


def reaches(definitions: Definitions) -> dict[str, int]:
    """The streams that running joins read, by name, and how far the widest of them reaches."""
    state = definitions.state
    key = (id(definitions), state.position)
    if key not in _REACHES:
        found: dict[str, int] = {}
        joins = running_joins(definitions)
        for join in (*joins.values(), *(group.join for group in shared_joins(joins))):
            for stream in join.streams:
                name = stream.signature(state.functions)
                found[name] = max(found.get(name, 0), join.reach())
        _REACHES.clear()
        _REACHES[key] = found
    return _REACHES[key]


def spare_streams(definitions: Definitions) -> set[str]:
    """Streams that joins read only when they do not run as one."""
    functions, joins = definitions.state.functions, running_joins(definitions)
    groups = shared_joins(joins)
    grouped = {number for group in groups for number in group.numbers}
    alone = [join for number, join in joins.items() if number not in grouped]
    needed = {s.signature(functions) for join in (*alone, *(g.join for g in groups)) for s in join.streams}
    return set(reaches(definitions)) - needed
