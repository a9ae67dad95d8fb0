"""The terminal's picture: the town with the cars that were followed, the newest paths, a few figures."""

from __future__ import annotations

import colorsys
import itertools
import math

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from apps.cameras.paths import Path, Score
from apps.cameras.town import CAMERAS, HEIGHT_M, ROUTES, WIDTH_M, length_m, roads
from apps.cameras.traffic import SECOND
from penstock.clock import format_timestamp

COLUMNS, ROWS = 72, 20
BESIDE = 42
REMEMBERED_S = 30.0


def colour(feature: float) -> str:
    """A car's feature as a colour, the same in the terminal and on the map."""
    red, green, blue = colorsys.hsv_to_rgb(max(0.0, min(feature, 1000.0)) / 1001, 0.75, 0.95)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"


def draw(paths: list[Path], score: Score, now_us: int, width: int) -> RenderableType:
    """The whole picture; a narrow terminal has room for the town alone."""
    town: RenderableType = Panel(draw_town(paths, now_us), title="the town", border_style="dim", width=COLUMNS + 4)
    if width >= COLUMNS + 4 + BESIDE:
        beside = Table.grid(padding=(0, 1))
        beside.add_row(town, _newest(paths))
        town = beside
    return Group(town, Text(summary(score)), Text("Ctrl-C ends it and draws the map.", "dim"))


def summary(score: Score) -> str:
    return f"{score.driven} cars drove a whole route, {score.found} were followed, {score.wrong} paths are mistaken"


def describe(path: Path) -> str:
    """A path in one line."""
    began = format_timestamp(path.times_us[0])[11:19]
    seconds = (path.times_us[-1] - path.times_us[0]) / SECOND
    return f"{began}  {' -> '.join(ROUTES[path.route])} in {seconds:.0f} s"


def draw_town(paths: list[Path], now_us: int) -> Text:
    """Roads, cameras, and the ways of the cars that were followed of late, driven again a little later."""
    cells: dict[tuple[int, int], tuple[str, str]] = {}
    for one, other in sorted(roads()):
        for step in range(101):
            cells[_cell(*_between(one, other, step / 100))] = (".", "grey50")
    for path in paths:
        age_s = (now_us - path.times_us[-1]) / SECOND
        if age_s < REMEMBERED_S:
            cells[_cell(*_on_the_way(path, age_s / REMEMBERED_S))] = ("●", f"bold {colour(path.feature)}")
    for name, (x, y) in CAMERAS.items():
        row, column = _cell(x, y)
        first = min(max(column - len(name) // 2, 0), COLUMNS - len(name))
        for place, letter in enumerate(name):
            cells[(row, first + place)] = (letter, "bold white")
    text = Text(no_wrap=True)
    for row in range(ROWS):
        for column in range(COLUMNS):
            text.append(*cells.get((row, column), (" ", "")))
        text.append("\n" if row < ROWS - 1 else "")
    return text


def _newest(paths: list[Path]) -> Panel:
    text = Text(no_wrap=True, overflow="ellipsis")
    for path in sorted(paths, key=lambda path: -path.times_us[-1])[:ROWS]:
        text.append("● ", f"bold {colour(path.feature)}")
        seconds = (path.times_us[-1] - path.times_us[0]) / SECOND
        text.append(f"{format_timestamp(path.times_us[-1])[11:19]} {path.route}, {seconds:.0f} s\n")
    if not paths:
        text.append("nobody has arrived yet:\na drive takes 15 to 40 seconds", "dim")
    return Panel(text, title="arrived", border_style="dim", width=BESIDE, height=ROWS + 2)


def _on_the_way(path: Path, share: float) -> tuple[float, float]:
    """Where a share of a route's length ends."""
    places = ROUTES[path.route]
    lengths = [length_m(a, b) for a, b in itertools.pairwise(places)]
    left = share * math.fsum(lengths)
    for one, other, length in zip(places[:-1], places[1:], lengths, strict=True):
        if left <= length:
            return _between(one, other, left / length)
        left -= length
    return CAMERAS[places[-1]]


def _between(one: str, other: str, share: float) -> tuple[float, float]:
    (x1, y1), (x2, y2) = CAMERAS[one], CAMERAS[other]
    return x1 + (x2 - x1) * share, y1 + (y2 - y1) * share


def _cell(x: float, y: float) -> tuple[int, int]:
    row = min(int((1 - y / HEIGHT_M) * ROWS), ROWS - 1)
    return row, min(int(x / WIDTH_M * COLUMNS), COLUMNS - 1)
