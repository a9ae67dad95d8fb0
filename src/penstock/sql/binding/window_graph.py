"""The windows between streams that one SELECT states: which streams they connect, and what follows for every pair."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from penstock.errors import PenstockError, error, suggest
from penstock.expr.windows import FOREVER, RowsWindow, Window
from penstock.operators.join.kernels.bounds import Bounds, ContradictoryWindows, close
from penstock.sql.binding.context import SelectContext, WindowGraph
from penstock.sql.nodes import WindowJoin
from penstock.sql.positions import point, span_of
from penstock.sql.scope import BoundSource
from penstock.types import format_duration

# Two streams and the clause that says how far apart they may be.
StatedPair = tuple[BoundSource, BoundSource, WindowJoin]


def state_pairs(clauses: Sequence[WindowJoin], context: SelectContext) -> list[StatedPair]:
    """Every pair that a clause names; `WINDOW = w` names all pairs of FROM."""
    own = own_streams(context)
    pairs: list[StatedPair] = []
    for clause in clauses:
        if clause.args.get("left") is not None:
            left, right = (_named(clause, side, context) for side in ("left", "right"))
            if left is right:
                detail = f'"{left.alias}" has no window with itself'
                hint = f"name the table twice: {left.name} a, {left.name} b"
                raise _at(clause, context, error("invalid_window", detail=detail, hint=hint))
            pairs.append((left, right, clause))
        elif len(own) < 2:
            detail = "a window needs two streams"
            hint = "name them: WINDOW(a, b) = d" if context.role == "exists" else "BEGIN .. END bounds one stream"
            raise _at(clause, context, error("invalid_window", detail=detail, hint=hint))
        else:
            pairs.extend((a, b, clause) for a, b in combinations(own, 2))
    return pairs


def graph_of(pairs: list[StatedPair], context: SelectContext, standing: bool) -> WindowGraph:
    """What the pairs say about all streams. Raises where they contradict each other or leave a stream out."""
    own = own_streams(context)
    around = [s for pair in pairs for s in pair[:2] if s not in own]
    streams = (*dict.fromkeys(around), *own)
    number = {stream: place for place, stream in enumerate(streams)}
    stated = [(number[a], number[b], int(c.args["low"]), int(c.args["high"])) for a, b, c in pairs]
    try:
        bounds = close(len(streams), stated)
    except ContradictoryWindows as failure:
        raise _contradiction(failure, streams, pairs, context) from None
    _check_connected(streams, bounds, pairs, context, standing)
    return WindowGraph(streams, bounds)


def own_streams(context: SelectContext) -> list[BoundSource]:
    return [source for source in context.sources if source.kind in ("sensors", "query")]


def _named(clause: WindowJoin, side: str, context: SelectContext) -> BoundSource:
    name = clause.args[side].name
    known = own_streams(context)
    # EXISTS may tie its streams to those of the SELECT around it; there is nothing else a window could wait for.
    if context.role == "exists" and context.parent is not None:
        known += own_streams(context.parent)
    found = next((s for s in known if s.alias == name), None)
    if found is None:
        names = [s.alias for s in known]
        hint = suggest(name, names) or "the streams of FROM are " + ", ".join(names)
        if any(s.alias == name for s in context.sources):
            detail = f'"{name}" has no stream, and so no times to be near'
            raise _at(clause, context, error("invalid_window", detail=detail, hint=hint))
        raise _at(clause, context, error("table_not_found", table=name, hint=hint))
    return found


def _contradiction(
    failure: ContradictoryWindows, streams: Sequence[BoundSource], pairs: list[StatedPair], context: SelectContext
) -> PenstockError:
    cycle = [streams[i] for i in failure.streams]
    steps = {frozenset(step) for step in zip(cycle, cycle[1:] + cycle[:1], strict=True)}
    clause = [c for a, b, c in pairs if frozenset((a, b)) in steps][-1]
    detail = f"no times can satisfy the windows between {_listed([streams[i] for i in sorted(failure.streams)])}"
    hint = f"taken together they miss each other by {format_duration(failure.excess)}"
    return _at(clause, context, error("invalid_window", detail=detail, hint=hint))


def _check_connected(
    streams: Sequence[BoundSource], bounds: Bounds, pairs: list[StatedPair], context: SelectContext, standing: bool
) -> None:
    """Every stream has to be near every other in time, or BEGIN .. END has to say how far back it goes."""
    groups = [[streams[i] for i in group] for group in bounds.components()]
    if len(groups) == 1:
        return
    waits = any(stream not in context.sources for stream in streams)
    if not waits and all(any(_is_bounded(context.windows.of(s.alias), standing) for s in group) for group in groups):
        return
    first, loose = streams[0].alias, [s for group in groups[1:] for s in group]
    detail = f'no window connects {_listed(loose)} with "{first}"'
    hint = f"add WINDOW({first}, {loose[0].alias}) = d"
    hint += "" if waits else ", or bound the query with BEGIN (NOW - d) END (NOW)"
    clauses = pairs[0][2].parent
    assert clauses is not None
    raise point(error("invalid_window", detail=detail, hint=hint), context.text, span_of(clauses))


def _is_bounded(window: Window, standing: bool) -> bool:
    """Whether a window of BEGIN .. END stays small: a landmark of a standing query grows for ever."""
    if isinstance(window, RowsWindow) or window.slides:
        return True
    if window.begin.anchor == "constant" and window.begin.offset_us <= -FOREVER:
        return False
    return window.ends or not standing


def _listed(streams: Sequence[BoundSource]) -> str:
    names = [f'"{stream.alias}"' for stream in streams]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _at(clause: WindowJoin, context: SelectContext, failure: PenstockError) -> PenstockError:
    return point(failure, context.text, span_of(clause))
