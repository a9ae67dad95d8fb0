"""FORECAST: errors, bands and time against AutoETS of statsforecast, from many origins of real and generated series."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.mining import Figures
from bench.mining.calls import HOUR_US, Call, series_of, share_in_sql, slotted
from bench.mining.generated import noise, walk, wave
from bench.mining.nab import labelled_series
from bench.mining.peers import ask_peer
from bench.mining.plots import bars
from bench.report import Report
from bench.tables import write_table
from penstock.operators.mining.series import Floats

SEASON, HISTORY, AHEAD, ORIGINS = 24, 14 * 24, 24, 30
CALL = Call("forecast", HOUR_US, {"ahead": AHEAD, "season": SEASON, "level": 0.95})
REAL = ("ambient_temperature_system_failure", "machine_temperature_system_failure", "occupancy_6005", "speed_t4013")
COUNT = 1200
SEED = 7


def generated_sets() -> dict[str, Floats]:
    """Hours with a day: with a trend, with a level that wanders, and with a season that slowly changes."""
    rng = np.random.default_rng(SEED)
    at = np.arange(COUNT)
    return {
        "season and trend": 5 * wave("sine", SEASON, COUNT) + 0.02 * at + noise(rng, COUNT),
        "wandering level": 5 * wave("saw", SEASON, COUNT) + walk(rng, COUNT) / 2 + noise(rng, COUNT),
        "growing season": 5 * wave("sine", SEASON, COUNT) * (1 + at / COUNT) + noise(rng, COUNT, 0.7),
    }


def forecast_sets() -> dict[str, Floats]:
    """By name the values by hour; those of NAB where they are there."""
    known = labelled_series()
    real = {name: slotted(known[name].times, known[name].values, HOUR_US).values for name in REAL if name in known}
    return generated_sets() | real


def windows_of(values: Floats) -> list[tuple[Floats, Floats]]:
    """History and what came, at evenly spread origins; the last slot may not be whole. A history begins with a value."""
    origins = np.linspace(HISTORY, len(values) - AHEAD - 1, ORIGINS).astype(int)
    found = []
    for origin in np.unique(origins):
        history = values[origin - HISTORY : origin]
        if not np.isnan(history[0]) and not np.isnan(history[-1]):
            found.append((history, values[origin : origin + AHEAD]))
    return found


def filled(values: Floats) -> Floats:
    """Without gaps: AutoETS takes none. Straight lines fill them."""
    present = np.flatnonzero(~np.isnan(values))
    return np.interp(np.arange(len(values)), present, values[present])


def measure_forecasts(report: Report) -> Figures:
    by_set = {name: windows_of(values) for name, values in forecast_sets().items()}
    if len(by_set) < len(REAL) + len(generated_sets()):
        report.say("[bold red]THE REAL SERIES OF FORECASTS ARE LEFT OUT: PENSTOCK_SERIES names the folder of NAB's")
    ours = {name: [_found(history) for history, _ in windows] for name, windows in by_set.items()}
    histories = {f"{name}/{n}": filled(h) for name, windows in by_set.items() for n, (h, _) in enumerate(windows)}
    task = {"season": SEASON, "ahead": AHEAD, "level": 95}
    peer = ask_peer(report, "statsforecast", task, histories)
    table = [_line(name, windows, ours[name], peer) for name, windows in by_set.items()]
    write_table("mining_forecasts", f"{AHEAD} hours ahead from {HISTORY} hours, up to {ORIGINS} origins each", table)
    _draw(table)
    some = [series_of(by_set[name][0][0]) for name in by_set]
    seconds = [CALL.seconds(series) for series in some]
    figures: Figures = {"forecast_coverage_least": min(line["coverage"] for line in table)}
    figures["forecast_ratio_naive_worst"] = max(line["error"] / line["error of the season before"] for line in table)
    if peer is not None:
        ratios = [line["error / AutoETS"] for line in table]
        figures["forecast_ratio_autoets_worst"] = max(ratios)
        figures["forecast_ratio_autoets"] = float(np.median(ratios))
        figures["forecast_sets_within_1.1"] = float(sum(ratio <= 1.1 for ratio in ratios))
        figures |= {f"forecast_ratio_autoets {line['set']}": line["error / AutoETS"] for line in table}
        figures["forecast_coverage_least_autoets"] = min(line["coverage of AutoETS"] for line in table)
        figures["forecast_speed_ratio_autoets"] = float(np.median(peer["seconds"]) / np.median(seconds))
    figures["forecast_ms"] = 1000 * float(np.median(seconds))
    figures["forecast_sql_equal_share"] = share_in_sql(report.say, CALL, some[:4])
    return figures


def _found(history: Floats) -> dict[str, Floats]:
    lines = np.array([line[1:] for line in CALL.find(series_of(history))], np.float64)
    return {"value": lines[:, 0], "lower": lines[:, 1], "upper": lines[:, 2]}


def _line(
    name: str, windows: list[tuple[Floats, Floats]], ours: list[dict[str, Floats]], peer: dict[str, Any] | None
) -> dict[str, Any]:
    truths = [truth for _, truth in windows]
    naive = [filled(history)[-SEASON:][:AHEAD] for history, _ in windows]
    line: dict[str, Any] = {
        "set": name,
        "origins": len(windows),
        "error": _error(truths, [one["value"] for one in ours]),
        "error of the season before": _error(truths, naive),
        "coverage": _coverage(truths, ours),
    }
    if peer is not None:
        theirs = [{key: np.array(v) for key, v in peer["found"][f"{name}/{n}"].items()} for n in range(len(windows))]
        line["error / AutoETS"] = line["error"] / _error(truths, [one["value"] for one in theirs])
        line["coverage of AutoETS"] = _coverage(truths, theirs)
        line["width / AutoETS"] = _width(ours) / _width(theirs)
    return line


def _error(truths: list[Floats], values: list[Floats]) -> float:
    """The mean absolute error over all origins and steps."""
    return float(np.nanmean([np.abs(truth - value) for truth, value in zip(truths, values, strict=True)]))


def _coverage(truths: list[Floats], found: list[dict[str, Floats]]) -> float:
    inside = [(one["lower"] <= truth) & (truth <= one["upper"]) for truth, one in zip(truths, found, strict=True)]
    return float(np.sum(inside) / np.sum(~np.isnan(truths)))


def _width(found: list[dict[str, Floats]]) -> float:
    return float(np.mean([one["upper"] - one["lower"] for one in found]))


def _draw(table: list[dict[str, Any]]) -> None:
    def column(name: str) -> dict[str, float | None]:
        return {line["set"].replace("_system_failure", ""): line.get(name) for line in table}

    panels = {
        "error / error of AutoETS": {"ours": column("error / AutoETS")},
        "share inside the band of 95 %": {"ours": column("coverage"), "AutoETS": column("coverage of AutoETS")},
    }
    bars("mining_forecasts", panels, dict(zip(panels, (1.1, 0.9), strict=True)))
