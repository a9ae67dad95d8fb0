"""The page: boxes on the belt with their verdicts, and for one of them the spectrum, the probabilities and what to do."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from nicegui import ui

from apps.hazmat.decision import decide, fitted_sum
from apps.hazmat.follow import WORDS, Box, Boxes
from apps.hazmat.hypotheses import Hypotheses, material_shapes
from apps.hazmat.matching import METHODS
from apps.hazmat.peaks import peaks
from apps.hazmat.snip import snip
from apps.hazmat.spectrum import BINS, Array, energy

NOTICE = "Not a certified instrument: a demonstration with recorded spectra of check sources."
STORY = (
    "Closed boxes pass between four detectors. Each material sends gamma rays of its own energies: peaks in the spectrum. After every second the "
    "server compares what was counted with all that could be in the box, and decides as soon as the chance of a mistake is small enough."
)
STYLES = {
    "alarm": ("warning", "bg-red-700 text-white"),
    "safe": ("check_circle", "bg-green-700 text-white"),
    "more": ("hourglass_top", "bg-blue-800 text-white"),
    "inspect": ("pan_tool", "bg-amber-600 text-black"),
    "fault": ("report_problem", "bg-gray-700 text-white"),
}
"""An icon and colours; the word stands beside them, so that colour is never alone."""
REFRESH_S = 1.0
_METHODS = {
    "decide": "likelihood of all counts (decides)",
    "nearest": "5 nearest spectra of the library",
    "clusters": "nearest centre of a material's spectra",
    "tree": "decision tree over 24 energies",
}
_METHOD_COLUMNS = [
    {"name": "method", "label": "method", "field": "method", "align": "left"},
    {"name": "finding", "label": "takes it for", "field": "finding", "align": "left"},
]
_KEV = [round(float(kev), 1) for kev in energy(np.arange(0.5, BINS))]


def build(followed: Boxes, hypotheses: Hypotheses, background: Array, limits: tuple[float, float]) -> None:
    """Draw the page of one browser. `background` is the site's, `limits` are those of the alarm and of safe, as logarithms."""
    chosen: dict[str, str | None] = {"box": None}
    ui.label("Boxes on the belt").classes("text-2xl font-bold")
    ui.label(STORY).classes("max-w-4xl")
    ui.label(NOTICE).classes("text-sm text-gray-600")
    problem = ui.label().classes("text-red-700 font-mono whitespace-pre-wrap")
    with ui.row().classes("w-full no-wrap flex-col md:flex-row"):
        belt = ui.column().classes("w-full md:w-72 gap-1")
        with ui.column().classes("w-full grow"):
            banner = ui.row().classes("w-full items-center p-4 rounded text-xl")
            action = ui.label().classes("text-lg")
            spectrum = ui.echart(_spectrum_options()).classes("w-full h-72")
            with ui.row().classes("w-full no-wrap flex-col md:flex-row"):
                bars = ui.echart(_bar_options()).classes("w-full h-64")
                course = ui.echart(_course_options(limits)).classes("w-full h-64")
            with ui.row().classes("w-full no-wrap flex-col md:flex-row"):
                library = ui.echart(_library_options()).classes("w-full h-64")
                with ui.column().classes("w-full gap-1"):
                    ui.label("What each method takes it for").classes("font-bold")
                    ui.label(
                        "Only the first one decides. The others name the nearest thing they know, and not how sure they are."
                    )
                    methods = ui.table(rows=[], columns=_METHOD_COLUMNS, row_key="method").props("dense wrap-cells")
            ui.label("Decisions").classes("text-lg font-bold")
            history = ui.column().classes("gap-0 font-mono text-sm whitespace-pre-wrap")

    def choose(name: str | None) -> Callable[[], None]:
        def take() -> None:
            chosen["box"] = name
            refresh()

        return take

    def refresh() -> None:
        boxes = followed.newest()
        problem.text = followed.problem
        belt.clear()
        with belt:
            ui.button("follow the newest", on_click=choose(None)).props("flat dense")
            for box in boxes[:12]:
                _chip(box, choose(box.name))
        shown = next((box for box in boxes if box.name == chosen["box"]), boxes[0] if boxes else None)
        history.clear()
        with history:
            for row in reversed(followed.decisions()[-10:]):
                after = "" if row["after_s"] is None else f"{row['after_s']:.0f} s"
                ui.label(f"{row['box']}  {WORDS[row['verdict']]:<16} {after:>5}  {row['first_finding'] or ''}")
        if shown is None:
            return
        _show_banner(banner, shown)
        action.text = f"What to do: {followed.what_to_do(shown.row)}"
        if shown.row["bins"] is None:
            return
        _show_charts(shown, hypotheses, (spectrum, bars, course, library))
        methods.rows = method_rows(shown.row, background)

    refresh()
    ui.timer(REFRESH_S, refresh)


def _chip(box: Box, on_click: Callable[[], None]) -> None:
    icon, colours = STYLES[box.row["verdict"]]
    text = f"{box.name}: {WORDS[box.row['verdict']]}"
    if box.row["verdict"] == "alarm":
        text += f", {box.row['finding']}"
    with (
        ui.row()
        .classes(f"w-full items-center px-2 py-1 rounded cursor-pointer no-wrap {colours}")
        .on("click", on_click)
    ):
        ui.icon(icon)
        ui.label(text)


def _show_banner(banner: ui.row, box: Box) -> None:
    row = box.row
    icon, colours = STYLES[row["verdict"]]
    banner.clear()
    banner.classes(replace=f"flex flex-row flex-wrap gap-4 w-full items-center p-4 rounded text-xl {colours}")
    with banner:
        ui.icon(icon).classes("text-4xl")
        ui.label(f"{box.name}: {WORDS[row['verdict']]}").classes("font-bold").mark("verdict")
        if row["verdict"] in ("alarm", "fault"):
            ui.label(str(row["finding"]))
        if row["verdict"] == "alarm":
            ui.label(f"{row['confidence']:.0%} sure")
        if row["verdict"] == "more":
            ui.label(f"about {row['predicted_s']:.0f} s more")
        elif row["after_s"] is not None:
            ui.label(f"after {row['after_s']:.0f} s")


def _show_charts(box: Box, hypotheses: Hypotheses, charts: tuple[ui.echart, ...]) -> None:
    spectrum, bars, course, library = charts
    bins, live_s = np.array(box.row["bins"], dtype=np.float64), float(box.row["live_s"])
    found = decide(hypotheses, bins[None, :], np.array([live_s]))
    probability = found.probability[0]
    series = spectrum.options["series"]
    series[0]["data"] = _log_points(bins)
    series[1]["data"] = _log_points(snip(bins))
    best = hypotheses.findings[int(probability.argmax())] if box.row["verdict"] == "alarm" else "none"
    series[2]["data"] = _log_points(fitted_sum(hypotheses, bins, best))
    series[0]["markLine"]["data"] = [
        {"xAxis": round(p.kev, 1), "label": {"formatter": f"{p.line or '?'} {p.kev:.0f}"}} for p in peaks(bins)
    ]
    order = np.argsort(-probability)[:6][::-1]
    bars.options["yAxis"]["data"] = [hypotheses.findings[i] for i in order]
    bars.options["series"][0]["data"] = [round(100 * float(probability[i]), 1) for i in order]
    course.options["series"][0]["data"] = [[live, log_m] for live, log_m, _ in box.course]
    course.options["series"][1]["data"] = [[live, log_safe] for live, _, log_safe in box.course]
    likely = hypotheses.findings[int(probability.argmax())].split(" + ")
    shapes = [material_shapes()[name] for name in likely if name in hypotheses.materials]
    library.options["title"]["text"] = f"Library: {' + '.join(likely)}" if shapes else "Library: no match"
    library.options["series"][0]["data"] = _log_points(1000 * np.sum(shapes, axis=0)) if shapes else []
    for chart in charts:
        chart.update()


def method_rows(row: dict[str, Any], background: Array) -> list[dict[str, str]]:
    """A line of the table for `decide` and for each of the three ways to match."""
    bins, live_s = np.array([row["bins"]], dtype=np.float64), np.array([row["live_s"]], dtype=np.float64)
    found = {method: str(match(bins, live_s, background)[0]) for method, match in METHODS.items()}
    said = {"decide": f"{WORDS[row['verdict']]}: {row['finding']}", **found}
    return [{"method": text, "finding": said[method]} for method, text in _METHODS.items()]


def _log_points(values: Array) -> list[list[float]]:
    return [[kev, max(round(float(value), 2), 0.5)] for kev, value in zip(_KEV, values, strict=True)]


def _axes(name: str) -> dict[str, Any]:
    """Energy to the right, on a scale on which lines are equally wide; counts upwards, logarithmic."""
    return {
        "xAxis": {"type": "log", "min": 28, "max": 2900, "name": "keV", "nameLocation": "middle", "nameGap": 24},
        "yAxis": {"type": "log", "min": 0.5, "name": name},
        "grid": {"left": 50, "right": 20, "bottom": 40, "top": 40},
        "animation": False,
    }


def _spectrum_options() -> dict[str, Any]:
    line = {"type": "line", "showSymbol": False, "data": []}
    marks = {"symbol": "none", "data": [], "lineStyle": {"type": "dashed"}}
    return {
        **_axes("counts"),
        "title": {"text": "Spectrum, all detectors", "left": 90, "textStyle": {"fontSize": 14}},
        "legend": {"right": 10, "top": 0},
        "series": [
            {**line, "name": "counts", "step": "middle", "markLine": marks},
            {**line, "name": "below peaks"},
            {**line, "name": "fitted sum", "lineStyle": {"width": 3, "opacity": 0.7}},
        ],
    }


def _library_options() -> dict[str, Any]:
    line = {"type": "line", "showSymbol": False, "data": [], "areaStyle": {}}
    return {
        **_axes("of 1000"),
        "title": {"text": "Library", "left": 90, "textStyle": {"fontSize": 14}},
        "series": [line],
    }


def _bar_options() -> dict[str, Any]:
    return {
        "title": {"text": "If it is a threat: which, %", "left": 90, "textStyle": {"fontSize": 14}},
        "xAxis": {"type": "value", "min": 0, "max": 100},
        "yAxis": {"type": "category", "data": []},
        "grid": {"left": 130, "right": 30, "bottom": 30, "top": 40},
        "series": [{"type": "bar", "data": [], "label": {"show": True, "position": "right"}}],
        "animation": False,
    }


def _course_options(limits: tuple[float, float]) -> dict[str, Any]:
    def marked(name: str, limit: float, place: str) -> dict[str, Any]:
        label = {"formatter": f"{name} limit", "position": place}
        mark = {"symbol": "none", "data": [{"yAxis": round(limit, 2)}], "label": label}
        return {"type": "line", "name": name, "showSymbol": False, "data": [], "markLine": mark}

    return {
        "title": {"text": "Evidence over time (ln)", "left": 90, "textStyle": {"fontSize": 14}},
        "legend": {"right": 10, "top": 0},
        "xAxis": {"type": "value", "name": "live seconds", "nameLocation": "middle", "nameGap": 24},
        "yAxis": {"type": "value", "min": -20, "max": 20},
        "grid": {"left": 50, "right": 20, "bottom": 40, "top": 40},
        "series": [marked("alarm", limits[0], "insideEndTop"), marked("safe", limits[1], "insideEndBottom")],
        "animation": False,
    }


def log_limits(alpha: float, beta: float) -> tuple[float, float]:
    return -math.log(alpha), -math.log(beta)
