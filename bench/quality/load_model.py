"""The model of the cycle's time, T = a / (1 - b r), against the median of cycles at loads of 0.3 to 0.95.

For each mix of queries a server is held at rates that the fit of the rate before gives for these loads. So each prediction is made
before its rate is seen, as a controller would make it: a and b come from the steps before. The first fit is of two low rates.
The same error with a and b of the step itself (`own`) says how much of it is the form of the model.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

from bench.foundations import drain
from bench.mining.plots import saved
from bench.queries_server import cycles_after, hold, named, register, set_up, task_of, warm_up
from bench.query_workload import selections
from bench.server import Server

LOADS = (0.3, 0.5, 0.7, 0.8, 0.9, 0.95)
CALIBRATION_RATES = (5_000, 20_000)
MOST_RATE = 600_000
SECONDS = 15.0
SEED = 51
SENSORS = 10_000
BURN = "CREATE FUNCTION burn(x INT) RETURNS BOOLEAN LANGUAGE python AS $$ sum(range(x % 16 + 8)) % 2 == 1 $$"
WINDOW = "BEGIN (NOW - 1 SECOND) END (NOW)"
Queries = list[tuple[str, str]]


def _functions() -> Queries:
    return [
        (f"f{n}", f"SELECT sensor_id, a FROM readings WHERE burn(a + {n}) AND b > {16 * n} {WINDOW}") for n in range(4)
    ]


def _joins() -> Queries:
    """Joins with windows of their own, which share nothing."""
    select = "SELECT x.a, y.b FROM readings x, readings y WINDOW = {} MILLISECONDS"
    where = "WHERE x.sensor_id = y.sensor_id AND x.a > 128 AND y.b < 64"
    return [(f"j{n}", f"{select.format(50 + 10 * n)} {where}") for n in range(4)]


def _aggregates() -> Queries:
    return [("g0", f"SELECT sensor_id, AVG(a) AS m, MAX(b) AS most FROM readings GROUP BY sensor_id {WINDOW}")]


MIXES: dict[str, Callable[[], Queries]] = {
    "selections": lambda: named(selections(20_000, SEED), 50_000.0),
    "functions": lambda: [*named(selections(20, SEED), 50_000.0), *_functions()],
    "joins": lambda: [*named(selections(20, SEED), 50_000.0), *_joins()],
    "all": lambda: [*named(selections(1_000, SEED), 50_000.0), *_functions()[:2], *_joins()[:2], *_aggregates()],
}


@dataclass(frozen=True, slots=True)
class Step:
    """One rate that was held. Times are milliseconds; `own_ms` is what the fit of the step itself says."""

    mix: str
    aimed: float
    rate: float
    load: float
    predicted_ms: float
    own_ms: float
    measured_ms: float
    keeps_up: bool

    @property
    def error(self) -> float:
        return abs(self.predicted_ms - self.measured_ms) / self.measured_ms

    @property
    def own_error(self) -> float:
        return abs(self.own_ms - self.measured_ms) / self.measured_ms


def cycle_ms(fit: tuple[float, float], rate: float) -> float:
    """How long a cycle lasts at a rate, by a in milliseconds and b in microseconds."""
    base_ms, row_us = fit
    return base_ms / max(0.01, 1 - row_us * rate / 1e6)


def run(settings: Any = None) -> dict[str, float | None]:
    """Hold every load with every mix. `settings` may have `seconds`, how long each is held."""
    seconds = float(getattr(settings, "seconds", None) or SECONDS)
    say = getattr(settings, "say", print)
    steps = [step for mix in MIXES for step in measure(mix, seconds, say)]
    draw(steps)
    return figures(steps)


def measure(mix: str, seconds: float, say: Callable[[str], None] = print) -> list[Step]:
    with Server(headroom=1.0) as server:
        set_up(server, sensors=SENSORS)
        server.sql(BURN)
        register(server, MIXES[mix]())
        warm_up(server)
        for low in CALIBRATION_RATES:
            hold(server, task_of(server, low, seconds, SEED, sensors=SENSORS))
        fit, steps = _fit(server), []
        for number, aimed in enumerate(LOADS):
            # Where more rows took no longer, the fit has no slope, and no rate is too high for it.
            rate = min(MOST_RATE, round(aimed / fit[1] * 1e6)) if fit[1] > 0 else MOST_RATE
            # Cycles are longer near the limit, and a median needs some of them.
            lasting = seconds * (2 if aimed >= 0.9 else 1)
            before = server.status()["cycle"]
            found = hold(server, task_of(server, rate, lasting, SEED + 1 + number, sensors=SENSORS))
            own = _fit(server)
            steady = _periods_ms(cycles_after(server, before))
            real = found["rate"]
            times = (cycle_ms(fit, real), cycle_ms(own, real), statistics.median(steady))
            steps.append(
                Step(mix, aimed, real, own[1] * real / 1e6, *times, found["backlog_rows"] < 3 * real * times[2])
            )
            say(f"{mix} at {aimed}: {real:,.0f} rows/s, {times[0]:.0f} ms predicted, {times[2]:.0f} ms measured")
            drain(server)
            if not steps[-1].keeps_up:
                break
            fit = own
        return steps


def _fit(server: Server) -> tuple[float, float]:
    status = server.status()
    return float(status["load_base_ms"]), float(status["load_row_us"])


def _periods_ms(cycles: Sequence[dict[str, Any]]) -> list[float]:
    """From the NOW of a cycle to the next one's: the second half of a step, when the rate has settled."""
    begins = [datetime.fromisoformat(c["now"]).timestamp() * 1000 for c in cycles if c["rows"]]
    periods = [later - earlier for earlier, later in pairwise(begins)]
    return periods[len(periods) // 2 :] or [float("nan")]


def figures(steps: Sequence[Step]) -> dict[str, float | None]:
    """The worst error of a step, the median, the same with the step's own fit, and the worst by load and mix."""
    found: dict[str, float | None] = {
        "load_model_error": max(step.error for step in steps),
        "load_model_error_median": statistics.median(step.error for step in steps),
        "load_model_error_own": max(step.own_error for step in steps),
        "load_model_steps": float(len(steps)),
        "load_model_kept_up": sum(step.keeps_up for step in steps) / len(steps),
    }
    for step in steps:
        name = f"{step.mix}_{round(step.aimed * 100)}"
        found[f"load_model_error_{name}"] = step.error
        found[f"load_model_rate_{name}"] = step.rate
        found[f"load_model_measured_ms_{name}"] = step.measured_ms
    return found


def draw(steps: Sequence[Step]) -> None:
    """bench/results/load_model.png: measured and predicted times of a cycle by load."""
    with saved("load_model", (14, 4), 1, len(MIXES)) as axes:
        for axis, mix in zip(axes, MIXES, strict=True):
            of_mix = [step for step in steps if step.mix == mix]
            at = [step.aimed for step in of_mix]
            axis.plot(at, [s.measured_ms for s in of_mix], "o-", label="measured p50")
            axis.plot(at, [s.predicted_ms for s in of_mix], "x--", label="predicted by the step before")
            axis.plot(at, [s.own_ms for s in of_mix], "+:", label="its own fit")
            axis.set_title(mix, fontsize=10)
            axis.set_xlabel("load that was aimed at")
            axis.set_ylabel("ms of a cycle")
            axis.legend(fontsize=7)
