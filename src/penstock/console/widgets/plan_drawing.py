"""A plan as boxes and arrows, top to bottom, with the rows per second on the arrows."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from penstock.database.plan_graph import Box, PlanGraph

ROOM, WIDEST, NARROWEST = 970, 236, 148  # of a page at 1280 px, and of a box
GAP_X, GAP_Y, LINE = 14, 46, 17
WIDER_Y = 26  # more, above a box that many arrows lead to: they stand beside each other's numbers
_CHAR = 7.0
_LINES = 5


def draw(graph: PlanGraph, rates: Mapping[tuple[int, int], str]) -> str:
    """An SVG. Boxes stand as low as what they feed allows, so a chain is one column."""
    depth = _depths(graph)
    rows: dict[int, list[int]] = {}
    for place, level in enumerate(depth):
        rows.setdefault(level, []).append(place)
    heights = [_height(box) for box in graph.boxes]
    # A row of many boxes has narrow ones; a box that stands alone has room.
    wide = {level: _box_width(len(row)) for level, row in rows.items()}
    width = max(len(row) * wide[level] + (len(row) - 1) * GAP_X for level, row in rows.items())
    left, top, y = [0.0] * len(depth), [0.0] * len(depth), 4.0
    for level in sorted(rows):
        line, box_width = rows[level], wide[level]
        start = (width - len(line) * box_width - (len(line) - 1) * GAP_X) / 2
        tallest = max(heights[p] for p in line)
        for i, place in enumerate(line):
            left[place] = start + i * (box_width + GAP_X)
            top[place] = y + tallest - heights[place]
        y += tallest + GAP_Y + (WIDER_Y if _crowded(graph, depth, level) else 0)
    parts = [
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0L8 4L0 8z"/></marker></defs>'
    ]
    said: list[str] = []
    for source, target in graph.arrows:
        x1, y1 = left[source] + wide[depth[source]] / 2, top[source] + heights[source]
        x2, y2 = left[target] + wide[depth[target]] / 2, top[target] - 2
        # Straight down for as long as its number stands beside it.
        bend = y1 + 22 if y2 - y1 > GAP_Y else y1
        middle = (bend + y2) / 2
        parts.append(
            f'<path d="M{x1:.0f} {y1:.0f}L{x1:.0f} {bend:.0f}C{x1:.0f} {middle:.0f} {x2:.0f} {middle:.0f} {x2:.0f} {y2:.0f}"'
            ' marker-end="url(#tip)"/>'
        )
        rate = rates.get((source, target))
        if rate:
            said.append(f'<text class="rate" x="{x1 + 8:.0f}" y="{y1 + 20:.0f}">{escape(rate)}</text>')
    parts += said  # above all arrows
    for place, box in enumerate(graph.boxes):
        parts.append(_box(box, left[place], top[place], wide[depth[place]], heights[place]))
    total = y - GAP_Y + 8
    return f'<svg width="{width + 8:.0f}" height="{total:.0f}" viewBox="-4 0 {width + 8:.0f} {total:.0f}" role="img">{"".join(parts)}</svg>'


def _crowded(graph: PlanGraph, depth: list[int], level: int) -> bool:
    """Whether a box of the next row has more than two arrows."""
    into = [target for _, target in graph.arrows if depth[target] == level + 1]
    return any(into.count(target) > 2 for target in into)


def _box_width(count: int) -> int:
    return max(NARROWEST, min(WIDEST, (ROOM - (count - 1) * GAP_X) // count))


def _depths(graph: PlanGraph) -> list[int]:
    """How many arrows lie between a box and the answer, turned round: the answer is deepest."""
    below = [0] * len(graph.boxes)
    for source, target in reversed(graph.arrows):
        below[source] = max(below[source], below[target] + 1)
    # Arrows are in no promised order, so until nothing moves any more.
    moved = True
    while moved:
        moved = False
        for source, target in graph.arrows:
            if below[source] < below[target] + 1:
                below[source], moved = below[target] + 1, True
    deepest = max(below)
    return [deepest - b for b in below]


def _height(box: Box) -> int:
    return 30 + LINE * min(len(box.lines), _LINES) + (4 if box.lines else 0)


def _box(box: Box, x: float, y: float, width: int, height: int) -> str:
    room = int((width - 22) / _CHAR)
    lines = list(box.lines[:_LINES])
    if len(box.lines) > _LINES:
        lines[-1] = f"and {len(box.lines) - _LINES + 1} more"
    shown = "".join(
        f'<text class="detail" x="{x + 12:.0f}" y="{y + 38 + i * LINE:.0f}">{escape(_cut(line, room))}</text>'
        for i, line in enumerate(lines)
    )
    whole = escape("\n".join([box.title, *box.lines]))
    return (
        f'<g><title>{whole}</title><rect class="box {box.kind}" x="{x:.0f}" y="{y:.0f}" width="{width}" height="{height}" rx="8"/>'
        f'<text x="{x + 12:.0f}" y="{y + 20:.0f}">{escape(_cut(box.title, room))}</text>{shown}</g>'
    )


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 1] + "…"
