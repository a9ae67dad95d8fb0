"""Correlated aggregates in m buckets: root mean square error over all answers against exact, ours beside the paper's words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.papers.base import Floats
from bench.papers.correlated.baselines import heuristic_answers
from bench.papers.correlated.buckets import CorrelatedBuckets, Cut, How
from bench.papers.correlated.exact import exact_answers, landmark_starts, sliding_starts
from bench.papers.correlated.question import Outer, Question, above_avg, near_max, near_min
from bench.report import Report
from bench.tables import plot, write_table

ROWS = 20_000
BUCKETS = (5, 10)
SLIDING = 2_000
WAYS: tuple[tuple[How, Cut], ...] = (
    ("piecemeal", "uniform"),
    ("piecemeal", "quantile"),
    ("wholesale", "uniform"),
    ("wholesale", "quantile"),
    ("equi_depth", "uniform"),
)
Method = Callable[[Question, Floats, Floats, int], Floats]
METHODS: dict[str, Method] = {
    "piecemeal uniform": lambda q, x, y, m: CorrelatedBuckets(q, m).update(x, y).value,
    "piecemeal quantile": lambda q, x, y, m: CorrelatedBuckets(q, m, cut="quantile").update(x, y).value,
    "wholesale uniform": lambda q, x, y, m: CorrelatedBuckets(q, m, "wholesale").update(x, y).value,
    "wholesale quantile": lambda q, x, y, m: CorrelatedBuckets(q, m, "wholesale", "quantile").update(x, y).value,
    "equi-depth": lambda q, x, y, m: CorrelatedBuckets(q, m, "equi_depth").update(x, y).value,
    "keep-all / running mean": lambda q, x, y, m: heuristic_answers(q, x, y, "keep_all"),
    "reset": lambda q, x, y, m: heuristic_answers(q, x, y, "reset"),
}


def measure_correlated(report: Report, scale: float, series: Path) -> None:
    """`scale` below 1 repeats less often; `series` is a folder with files of `timestamp,value`."""
    table = []
    for data, share, draw in sources(series):
        for order in ("as drawn", "partly reversed"):
            runs = [draw(seed) for seed in range(max(1, round(5 * scale)))]
            if order == "partly reversed":
                runs = [partly_reversed(x) for x in runs]
            for question in questions(share):
                for m in BUCKETS:
                    table.append({"data": data, "order": order, **row(question, runs, m)})
        report.say(f"correlated: {data}")
    write_table(
        "statistics_correlated",
        "Correlated aggregates, landmark window: root mean square errors",
        table,
    )
    tell(report, table)
    compare_sliding(series)
    plot_over_time()


def sources(series: Path) -> Iterator[tuple[str, float, Callable[[int], Floats]]]:
    """Name, share e of near the extreme, and how a run is drawn."""
    yield "lognormal", 99.0, lambda seed: np.random.default_rng(seed).lognormal(5, 2, ROWS)
    yield "zipf", 9.0, lambda seed: np.minimum(np.random.default_rng(seed).zipf(1.5, ROWS), 1e6).astype(np.float64)
    yield "multifractal", 99.0, multifractal
    for path in sorted(series.glob("*.csv")):
        values = np.loadtxt(path, delimiter=",", skiprows=1, usecols=1)
        yield path.stem, 1.0, partial(_always, values[values > 0])


def _always(values: Floats, seed: int) -> Floats:
    return values


def multifractal(seed: int) -> Floats:
    """80 % of the rows in the lower half of the range, and so on within each half."""
    rng = np.random.default_rng(seed)
    halves = rng.random((ROWS, 20)) < 0.2
    return np.asarray(1 + 1e5 * (halves * 0.5 ** np.arange(1, 21)).sum(axis=1))


def partly_reversed(x: Floats) -> Floats:
    """Half of the rows, at random places, in descending order among themselves."""
    found = x.copy()
    places = np.flatnonzero(np.random.default_rng(61).random(len(x)) < 0.5)
    found[places] = np.sort(found[places])[::-1]
    return found


def questions(share: float) -> Iterator[Question]:
    outers: tuple[Outer, ...] = ("count", "sum")
    for outer in outers:
        yield near_min(share, outer)
        yield near_max(share / (1 + share), outer)
        yield above_avg(outer=outer)


def row(question: Question, runs: list[Floats], m: int) -> dict[str, Any]:
    found: dict[str, list[float]] = {name: [] for name in METHODS}
    means = []
    for x in runs:
        y = np.random.default_rng(62).exponential(10, len(x))
        exact = np.nan_to_num(exact_answers(question, x, y, landmark_starts(len(x))))
        means.append(exact.mean())
        for name, method in METHODS.items():
            found[name].append(float(np.sqrt(np.mean((method(question, x, y, m) - exact) ** 2))))
    return {
        "inner": question.inner,
        "outer": question.outer,
        "m": m,
        "mean of exact": float(np.mean(means)),
        **{name: float(np.mean(errors)) for name, errors in found.items()},
    }


def compare_sliding(series: Path) -> None:
    """COUNT over the last 2 000 rows: the extreme leaves, thresholds rise and fall."""
    table = []
    for data, share, draw in sources(series):
        x = draw(0)
        starts = sliding_starts(np.arange(len(x)), SLIDING)
        for question in questions(share):
            if question.outer != "count":
                continue
            exact = exact_answers(question, x, x, starts)
            for m in BUCKETS:
                found: dict[str, Any] = {
                    "data": data,
                    "inner": question.inner,
                    "m": m,
                    "mean of exact": float(exact.mean()),
                }
                for how, cut in WAYS:
                    band = CorrelatedBuckets(question, m, how, cut, sliding=True).update(x, x, starts)
                    found[f"{how} {cut}"] = float(np.sqrt(np.mean((band.value - exact) ** 2)))
                table.append(found)
    title = f"Correlated aggregates, COUNT over the last {SLIDING} rows: root mean square errors"
    write_table("statistics_correlated_sliding", title, table)


def tell(report: Report, table: list[dict[str, Any]]) -> None:
    """The keys, and the paper's statements with ours beside them."""

    def of(data: str, inner: str, m: int = 10) -> dict[str, Any]:
        wanted = (data, "as drawn", inner, "count", m)
        return next(r for r in table if (r["data"], r["order"], r["inner"], r["outer"], r["m"]) == wanted)

    least, mean, rows = of("lognormal", "min"), of("multifractal", "avg"), ROWS * len(table)
    report.put("rmse_min_piecemeal_uniform", least["piecemeal uniform"], rows)
    report.put("rmse_avg_piecemeal_uniform", mean["piecemeal uniform"])
    report.put("rmse_min_equi_depth", least["equi-depth"])
    report.put("rmse_avg_equi_depth", mean["equi-depth"])
    report.put("rmse_avg_running_mean", mean["keep-all / running mean"])
    worst = max(least["keep-all / running mean"], least["reset"])
    lines = [
        ("COUNT near MIN, m = 10, skewed values", "below 5", least["piecemeal uniform"]),
        ("... equi-depth", "drifts away", least["equi-depth"]),
        ("... heuristics keep-all and reset", "worst", worst),
        ("COUNT above AVG, m = 10, multifractal", "below 30", mean["piecemeal uniform"]),
        ("... equi-depth", "up to 180", mean["equi-depth"]),
        ("... running mean", "-", mean["keep-all / running mean"]),
        ("COUNT near MIN, m = 5, skewed values", "-", of("lognormal", "min", 5)["piecemeal uniform"]),
    ]
    stated = [{"statement": s, "the paper": p, "ours": ours} for s, p, ours in lines]
    write_table("statistics_correlated_paper", f"The paper's statements and ours, {ROWS} values", stated)


def plot_over_time() -> None:
    """Absolute error along the stream, averaged over 500 answers."""
    panels = {}
    for title, question, x in (
        ("COUNT near MIN, lognormal", near_min(99), np.random.default_rng(0).lognormal(5, 2, ROWS)),
        ("COUNT above AVG, multifractal", above_avg(), multifractal(0)),
    ):
        exact = exact_answers(question, x, x, landmark_starts(ROWS))
        marks = list(range(500, ROWS + 1, 500))
        panels[title] = {
            name: (marks, np.abs(method(question, x, x, 10) - exact).reshape(-1, 500).mean(axis=1).tolist())
            for name, method in METHODS.items()
            if name != "wholesale uniform"
        }
    plot("statistics_correlated", panels, "tuples", log="y")
