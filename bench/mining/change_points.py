"""CHANGE_POINTS: planted steps in noise of several kinds, and ruptures with the same penalty."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.mining import Figures
from bench.mining.calls import BEGAN_US, HOUR_US, Call, series_of, share_in_sql
from bench.mining.generated import Planted, matched, noise, steps
from bench.mining.peers import ask_peer
from bench.mining.plots import bars
from bench.report import Report
from bench.tables import write_table
from penstock.operators.mining.change_points import long_run_noise
from penstock.operators.mining.series import Floats, Ints

CALL = Call("change_points", HOUR_US)
PENALTY, SHORTEST = 3.0, 10
SIZES, PHIS = (3.0, 4.0), (0.0, 0.3, 0.6, 0.8)
COUNT, EACH, SEGMENTS, APART, WITHIN = 2000, 20, 8, 120, 10
SLOW = 3
"""So many series for Pelt without C."""
SEED = 4


def planted(size: float, phi: float, number: int) -> Planted:
    """`size` 0: noise alone."""
    rng = np.random.default_rng([SEED, int(size), round(10 * phi), number])
    if size == 0:
        return Planted(noise(rng, COUNT, phi), np.empty(0, np.int64))
    return steps(rng, size, phi, COUNT, SEGMENTS, APART)


def points(values: Floats) -> Ints:
    """The elements at which segments begin."""
    times = np.array([line[0] for line in CALL.find(series_of(values))], np.int64)
    return (times - BEGAN_US) // HOUR_US


def measure_change_points(report: Report) -> Figures:
    cases = [(size, phi, n) for size in (0.0, *SIZES) for phi in PHIS for n in range(EACH)]
    data = {case: planted(*case) for case in cases}
    found = {case: points(one.values) for case, one in data.items()}
    peer = _ask_ruptures(report, data)
    table = [_line(data, found, size, phi) for size in (0.0, *SIZES) for phi in PHIS]
    figures: Figures = {
        "change_points_found_share": _share(data, found, list(data)),
        "change_points_false_per_1000": _false(data, found, list(data)),
    }
    if peer is not None:
        figures |= _against(data, found, table, peer)
    write_table("mining_change_points", f"steps within {WITHIN} slots, {EACH} series of {COUNT} slots each", table)
    _draw(table)
    some = [series_of(data[4.0, phi, 0].values) for phi in (0.0, 0.6)]
    figures["change_points_sql_equal_share"] = share_in_sql(report.say, CALL, some)
    return figures


def _ask_ruptures(report: Report, data: dict[Any, Planted]) -> dict[str, Any] | None:
    """With our penalty, and with that of users who take the noise for white."""
    names = {f"{size:g} {phi:g} {n}": one.values for (size, phi, n), one in data.items()}
    unit = PENALTY * np.log(COUNT)
    same = {name: unit * long_run_noise(values) for name, values in names.items()}
    white = {name: unit * float(np.var(np.diff(values))) / 2 for name, values in names.items()}
    slow = [f"{SIZES[0]:g} {PHIS[0]:g} {n}" for n in range(SLOW)]
    task = {"same": same, "white": white, "slow": slow, "shortest": SHORTEST}
    return ask_peer(report, "ruptures", task, names)


def _against(
    data: dict[Any, Planted], found: dict[Any, Ints], table: list[dict[str, Any]], peer: dict[str, Any]
) -> Figures:
    theirs, white = (
        {case: np.array(peer[how][f"{case[0]:g} {case[1]:g} {case[2]}"], np.int64) for case in data}
        for how in ("same", "white")
    )
    for line in table:
        cases = _cases(data, line["steps"], line["AR"])
        line["ruptures, noise taken for white: found"] = _share(data, white, cases)
        line["false per 1000 "] = _false(data, white, cases)
    ours = {case: CALL.seconds(series_of(one.values), 1) for case, one in data.items()}
    slow = [(SIZES[0], PHIS[0], n) for n in range(SLOW)]
    return {
        "change_points_same_as_ruptures": float(np.mean([np.array_equal(found[c], theirs[c]) for c in data])),
        "change_points_found_share_ruptures_white": _share(data, white, list(data)),
        "change_points_false_per_1000_ruptures_white": _false(data, white, list(data)),
        "change_points_ratio_ruptures": sum(peer["slow_s"]) / sum(ours[c] for c in slow),
        "change_points_ratio_ruptures_c": peer["fast_s"] / sum(ours.values()),
        "change_points_ms": 1000 * float(np.median(list(ours.values()))),
    }


def _cases(data: dict[Any, Planted], size: float, phi: float) -> list[Any]:
    return [case for case in data if case[:2] == (size, phi)]


def _share(data: dict[Any, Planted], found: dict[Any, Ints], cases: list[Any]) -> float | None:
    planted_ = sum(len(data[case].places) for case in cases)
    return sum(matched(found[c], data[c].places, WITHIN) for c in cases) / planted_ if planted_ else None


def _false(data: dict[Any, Planted], found: dict[Any, Ints], cases: list[Any]) -> float:
    wrong = sum(len(found[c]) - matched(found[c], data[c].places, WITHIN) for c in cases)
    return 1000 * wrong / (COUNT * len(cases))


def _line(data: dict[Any, Planted], found: dict[Any, Ints], size: float, phi: float) -> dict[str, Any]:
    cases = _cases(data, size, phi)
    return {"steps": size, "AR": phi, "found": _share(data, found, cases), "false per 1000": _false(data, found, cases)}


def _draw(table: list[dict[str, Any]]) -> None:
    def column(name: str, size: float) -> dict[str, float | None]:
        return {f"AR {line['AR']:g}": line.get(name) for line in table if line["steps"] == size}

    white = "ruptures, noise taken for white: found"
    found = {f"steps of {size:g}": column("found", size) for size in SIZES}
    found |= {f"steps of {size:g}, ruptures, white": column(white, size) for size in SIZES}
    false = {f"steps of {size:g}": column("false per 1000", size) for size in (0.0, *SIZES)}
    false["steps of 0, ruptures, white"] = column("false per 1000 ", 0.0)
    panels = {"share of steps found": found, "false points per 1000 slots": false}
    bars("mining_change_points", panels, dict(zip(panels, (0.9, 1.0), strict=True)))
