"""PERIODS: planted periods among noise and gaps, and what it finds where there is none."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.mining import Figures
from bench.mining.calls import HOUR_US, SECOND_US, Call, series_of, share_in_sql
from bench.mining.generated import SHAPES, noise, walk, wave, with_gaps
from bench.mining.plots import bars
from bench.report import Report
from bench.tables import write_table
from penstock.operators.mining.series import Floats

CALL = Call("periods", HOUR_US)
GAPS = (0.0, 0.2, 0.4, 0.6)
COUNT, EACH, SHORTEST, LONGEST = 2000, 200, 5, 250
"""Elements of a series; series of each kind; planted periods."""
LENGTHS = ((5, 49), (50, 149), (150, 250))
NOISES = {"white": 0.0, "AR 0.9": 0.9, "walk": None}
HARDER = {"AR 0.9 noise": (1.0, 0.9), "a quarter of the variance": (0.5, 0.0)}
"""Beside white noise of the same variance: the size of the wave, and how alike neighbours of the noise are."""
SEED = 2


def planted(number: int, size: float = 1.0, phi: float = 0.0) -> tuple[str, float, int, Floats]:
    """Shape, share of gaps, period and values."""
    rng = np.random.default_rng([SEED, number])
    shape, gaps = SHAPES[number % len(SHAPES)], GAPS[number // len(SHAPES) % len(GAPS)]
    period = int(rng.integers(SHORTEST, LONGEST + 1))
    values = size * wave(shape, period, COUNT) + noise(rng, COUNT, phi)
    return shape, gaps, period, with_gaps(rng, values, gaps)


def without_period(kind: str, number: int) -> Floats:
    rng = np.random.default_rng([SEED + 1, list(NOISES).index(kind), number])
    phi = NOISES[kind]
    values = walk(rng, COUNT) if phi is None else noise(rng, COUNT, phi)
    return with_gaps(rng, values, GAPS[number % len(GAPS)])


def measure_periods(report: Report) -> Figures:
    found = [_judged(number) for number in range(EACH)]
    harder = {name: [_judged(number, *how) for number in range(EACH)] for name, how in HARDER.items()}
    false = {kind: [len(CALL.find(series_of(without_period(kind, n)))) for n in range(EACH)] for kind in NOISES}
    table: list[dict[str, Any]] = [_line("all", found)]
    table += [_line(f"gaps {gaps:.0%}", [f for f in found if f["gaps"] == gaps]) for gaps in GAPS]
    table += [_line(shape, [f for f in found if f["shape"] == shape]) for shape in SHAPES]
    table += [
        _line(f"periods of {low} to {high}", [f for f in found if low <= f["period"] <= high]) for low, high in LENGTHS
    ]
    table += [_line(name, lines) for name, lines in harder.items()]
    table += [
        {"series": f"{kind}, no period", "with a period": float(np.mean(np.array(n) > 0))} for kind, n in false.items()
    ]
    write_table(
        "mining_periods", f"{EACH} series of {COUNT} elements with a planted period, and as many without one", table
    )
    shown = {line["series"]: line["found"] for line in table if "found" in line}
    noise_shown = {kind: float(np.mean(np.array(numbers) > 0)) for kind, numbers in false.items()}
    panels = {
        "period found (within a slot, top 3)": {"share": shown},
        "series of noise with a period": {"share": noise_shown},
    }
    bars("mining_periods", panels, dict(zip(panels, (0.9, 0.05), strict=True)))
    figures: Figures = {
        "period_found_share": table[0]["found"],
        "period_found_share_by_lag": table[0]["found by lag"],
        "period_further_per_series": table[0]["further"],
        "period_false_share": float(np.mean(np.concatenate(list(false.values())) > 0)),
    }
    figures |= {f"period_false_share {kind}": share for kind, share in noise_shown.items()}
    figures |= {f"period_found_share {name}": shown[name] for name in HARDER}
    some = [series_of(planted(number)[-1]) for number in range(0, EACH, EACH // 4)]
    figures["periods_sql_equal_share"] = share_in_sql(report.say, CALL, some)
    figures["periods_ms"] = 1000 * CALL.seconds(some[0])
    return figures


def _judged(number: int, size: float = 1.0, phi: float = 0.0) -> dict[str, Any]:
    shape, gaps, period, values = planted(number, size, phi)
    lines = CALL.find(series_of(values))
    lengths = [seconds * SECOND_US / HOUR_US for _, seconds, *_ in lines]
    return {
        "shape": shape,
        "gaps": gaps,
        "period": period,
        "found": any(abs(length - period) <= 1 for length in lengths),
        "found by lag": any(abs(lag - period) <= 1 for lag, *_ in lines),
        "further": sum(abs(length - period) > max(1, period / 20) for length in lengths),
    }


def _line(name: str, found: list[dict[str, Any]]) -> dict[str, Any]:
    shares = {key: float(np.mean([each[key] for each in found])) for key in ("found", "found by lag", "further")}
    return {"series": name, **shares, "with a period": None}
