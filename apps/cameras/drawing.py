"""The map at the end: the town as an SVG, with a line in its colour for every car that was followed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from xml.sax.saxutils import escape

from apps.cameras.paths import Path
from apps.cameras.town import CAMERAS, HEIGHT_M, ROUTES, WIDTH_M, roads
from apps.cameras.view import colour

SCALE = 4.0
MARGIN = 40.0
# Cars on one road drive beside each other, so that each can be told from the next.
LANE, LANES = 2.2, 9


def draw_map(paths: Sequence[Path], caption: str) -> str:
    """The SVG's text."""
    width, height = WIDTH_M * SCALE + 2 * MARGIN, HEIGHT_M * SCALE + 2 * MARGIN + 24
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" font-family="sans-serif">',
        f'<rect width="{width:g}" height="{height:g}" fill="#14191f"/>',
    ]
    for one, other in sorted(roads()):
        (x1, y1), (x2, y2) = _spot(one), _spot(other)
        lines.append(
            f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="#2c3640" stroke-width="26" '
            'stroke-linecap="round"/>'
        )
    for number, path in enumerate(paths):
        shift = (number % LANES - LANES // 2) * LANE
        for one, other in pairwise(ROUTES[path.route]):
            (x1, y1), (x2, y2) = _lane(one, other, shift)
            lines.append(
                f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour(path.feature)}" '
                'stroke-width="1.6" stroke-opacity="0.85"/>'
            )
    for name in CAMERAS:
        x, y = _spot(name)
        lines.append(f'<circle cx="{x:g}" cy="{y:g}" r="11" fill="#f2f2f2" stroke="#14191f" stroke-width="3"/>')
        lines.append(
            f'<text x="{x:g}" y="{y - 20:g}" fill="#f2f2f2" font-size="17" text-anchor="middle" '
            f'paint-order="stroke" stroke="#14191f" stroke-width="5">{escape(name)}</text>'
        )
    lines.append(f'<text x="{MARGIN:g}" y="{height - 18:g}" fill="#9fb0c0" font-size="17">{escape(caption)}</text>')
    return "\n".join([*lines, "</svg>", ""])


def _lane(one: str, other: str, shift: float) -> tuple[tuple[float, float], tuple[float, float]]:
    """The road between two cameras, moved sideways; the same side whichever way it is driven."""
    (x1, y1), (x2, y2) = _spot(min(one, other)), _spot(max(one, other))
    length = math.hypot(x2 - x1, y2 - y1)
    aside, along = -(y2 - y1) / length * shift, (x2 - x1) / length * shift
    return (x1 + aside, y1 + along), (x2 + aside, y2 + along)


def _spot(camera: str) -> tuple[float, float]:
    x, y = CAMERAS[camera]
    return MARGIN + x * SCALE, MARGIN + (HEIGHT_M - y) * SCALE
