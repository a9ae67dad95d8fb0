"""Memory, error and speed of the synopses against exact answers, over the size of the window."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from bench.papers.base import Ints, Synopsis, Values
from bench.papers.exponential import ExponentialCount, ExponentialHistogram, ExponentialSum
from bench.papers.norm import exact_norm
from bench.papers.registry import make
from bench.report import Report
from bench.tables import Lines, plot, write_table

WINDOWS = (1_000, 10_000, 100_000, 1_000_000)
EPSILONS = (0.1, 0.01)
STEPS = 20
EXACT_BYTES_PER_ROW = 16
"""What an exact answer would keep of a row: its value and its time."""


def measure_synopses(report: Report, scale: float) -> None:
    """`scale` below 1 leaves out the largest windows."""
    windows = [w for w in WINDOWS if w <= max(10_000, WINDOWS[-1] * scale)]
    measure_histograms(report, windows)
    measure_kinds(report, windows)


def ones(rng: np.random.Generator, n: int) -> Ints:
    return np.ones(n, np.int64)


def coins(rng: np.random.Generator, n: int) -> Ints:
    return rng.integers(0, 2, n)


def bursts(rng: np.random.Generator, n: int) -> Ints:
    """Long stretches of ones and of zeros, of very different length."""
    lengths = np.minimum(rng.pareto(0.7, n) + 1, n).astype(np.int64)
    return (np.repeat(np.arange(n), lengths)[:n] % 2).astype(np.int64)


def adversary(rng: np.random.Generator, n: int) -> Ints:
    """Blocks of doubling size, the largest first, a quarter of the pieces of each filled with ones; then zeros."""
    parts, size = [], n // 4
    while size >= 8:
        block = np.zeros((8, size // 8), np.int64)
        block[rng.permutation(8)[:2]] = 1
        parts.append(block.ravel())
        size //= 2
    found = np.concatenate(parts)
    return np.concatenate([found, np.zeros(n - len(found), np.int64)])


def amounts(rng: np.random.Generator, n: int) -> Ints:
    return np.minimum(rng.lognormal(3, 2, n), 1e6).astype(np.int64)


INPUTS: tuple[tuple[str, type[ExponentialHistogram], Callable[[np.random.Generator, int], Ints]], ...] = (
    ("count of ones", ExponentialCount, ones),
    ("count of coins", ExponentialCount, coins),
    ("count of bursts", ExponentialCount, bursts),
    ("count, adversary", ExponentialCount, adversary),
    ("sum, lognormal", ExponentialSum, amounts),
)


def measure_histograms(report: Report, windows: list[int]) -> None:
    """The worst error of exponential histograms over all steps and many sub-windows, as a share of what is allowed."""
    table, worst = [], 0.0
    for window in windows:
        for epsilon in EPSILONS:
            for name, kind, draw in INPUTS:
                values = draw(np.random.default_rng(51), 2 * window)
                histogram = kind(epsilon=epsilon, window=window)
                share, most_bytes, us = follow(histogram, values)
                worst = max(worst, share)
                table.append(
                    {
                        "input": name,
                        "window": window,
                        "epsilon": epsilon,
                        "worst error / epsilon": share,
                        "bytes": most_bytes,
                        "bytes, exact": window * EXACT_BYTES_PER_ROW,
                        "us per row": us,
                    }
                )
                if (name, window, epsilon) == ("count of ones", 1_000_000, 0.01):
                    report.put("eh_bytes_window_1e6", most_bytes, 2 * window)
    write_table("statistics_exponential", "Exponential histograms against exact", table)
    report.put("eh_worst_error_over_bound", worst, sum(2 * row["window"] for row in table))
    lines = {
        f"epsilon {e}": (
            windows,
            [max(r["bytes"] for r in table if r["window"] == w and r["epsilon"] == e) for w in windows],
        )
        for e in EPSILONS
    }
    exact = {"exact": (windows, [w * EXACT_BYTES_PER_ROW for w in windows])}
    errors: Lines = {
        name: (
            windows,
            [max(r["worst error / epsilon"] for r in table if (r["input"], r["window"]) == (name, w)) for w in windows],
        )
        for name, *_ in INPUTS
    }
    plot("statistics_exponential", {"bytes": {**lines, **exact}}, "window, rows", log="xy")
    plot("statistics_exponential_error", {"worst error / epsilon": errors}, "window, rows", log="x")


def follow(histogram: ExponentialHistogram, values: Ints) -> tuple[float, int, float]:
    """Worst error as a share of epsilon, most bytes, microseconds per row."""
    assert histogram.window is not None
    before = np.concatenate([[0], np.cumsum(values)])
    epsilon, worst, most_bytes, spent = histogram.parameters["epsilon"], 0.0, 0, 0.0
    rng = np.random.default_rng(52)
    for begin, end in batches(len(values)):
        began = time.perf_counter()
        histogram.update(values[begin:end], np.arange(begin, end))
        spent += time.perf_counter() - began
        most_bytes = max(most_bytes, histogram.nbytes)
        asked = np.concatenate([[histogram.window], rng.integers(1, histogram.window, 50), 2 ** np.arange(10)])
        for window in asked.tolist():
            exact = int(before[end] - before[max(0, end - window)])
            if exact:
                worst = max(worst, abs(histogram.answer(window).value - exact) / (epsilon * exact))
    return worst, most_bytes, 1e6 * spent / len(values)


def batches(count: int) -> Iterator[tuple[int, int]]:
    edges = np.linspace(0, count, STEPS + 1).astype(int).tolist()
    return pairwise(edges)


Exact = Callable[[Values], float]


def kinds(window: int) -> list[tuple[str, str, Synopsis, Exact]]:
    """Label, which column, synopsis and exact answer."""
    step = window // 50

    def sliced(of: str, **inner: Any) -> Synopsis:
        return make("sliced", of=of, window=window, step=step, inner=inner)

    found: list[tuple[str, str, Synopsis, Exact]] = [
        ("sum of reals", "real", make("real_sum", epsilon=0.01, window=window), np.sum),
        ("average", "real", make("average", epsilon=0.01, window=window), np.mean),
        ("minimum", "real", make("min", window=window), np.min),
        ("distinct, timed bitmaps", "key", make("distinct", epsilon=0.1, window=window), lambda v: len(np.unique(v))),
        ("distinct, HLL per slice", "key", sliced("hll_distinct", log_size=11), lambda v: len(np.unique(v))),
        ("median, KLL per slice", "real", sliced("kll_quantiles"), np.median),
        (
            "most frequent, per slice",
            "key",
            sliced("frequent", top=1),
            lambda v: np.unique(v, return_counts=True)[1].max(),
        ),
    ]
    if window <= 10_000:
        # 128 random numbers a row: beyond this the measurement takes longer than it tells.
        for p in (1.0, 2.0):
            norm = make("norm", p=p, window=window)
            found.append((f"L{p:.0f} norm", "key", norm, partial(exact_norm, p=p)))
    return found


def measure_kinds(report: Report, windows: list[int]) -> None:
    """Memory, error, stated error and time of all other kinds on skewed keys and lognormal numbers."""
    table = []
    for window in windows:
        rng = np.random.default_rng(53)
        columns: dict[str, Values] = {
            "real": rng.lognormal(5, 2, 2 * window),
            "key": rng.zipf(1.2, 2 * window) % 1_000_000,
        }
        for label, column, synopsis, exact in kinds(window):
            table.append({"kind": label, "window": window, **errors(synopsis, columns[column], exact)})
    write_table("statistics_kinds", "Synopses against exact, relative errors", table)
    labels = dict.fromkeys(row["kind"] for row in table)
    panels = {
        quantity: {
            label: (
                [r["window"] for r in table if r["kind"] == label],
                [max(r[quantity], 1e-6) for r in table if r["kind"] == label],
            )
            for label in labels
        }
        for quantity in ("bytes", "worst error")
    }
    plot("statistics_kinds", panels, "window, rows", log="xy")


def errors(synopsis: Synopsis, values: Values, exact: Exact) -> dict[str, float]:
    times, worst, stated, inside, asked = np.arange(len(values)), 0.0, 0.0, 0, 0
    most_bytes, spent = 0, 0.0
    for begin, end in batches(len(values)):
        began = time.perf_counter()
        synopsis.update(values[begin:end], times[begin:end])
        spent += time.perf_counter() - began
        most_bytes = max(most_bytes, synopsis.nbytes)
        answer = synopsis.answer()
        truth = float(exact(values[max(0, synopsis.covered_since(None)) : end]))
        worst = max(worst, abs(answer.value - truth) / abs(truth))
        stated = max(stated, answer.error / abs(truth))
        slack = 1e-9 * abs(truth)
        inside += answer.lower - slack <= truth <= answer.upper + slack
        asked += 1
    return {
        "worst error": worst,
        "stated error": stated,
        "within bounds": inside / asked,
        "confidence": answer.confidence,
        "bytes": most_bytes,
        "bytes, exact": len(values) // 2 * EXACT_BYTES_PER_ROW,
        "us per row": 1e6 * spent / len(values),
    }
