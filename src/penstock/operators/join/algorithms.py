"""Every algorithm that a step of a join can run by, our own and the papers', under one name each.

In: a join, the rows of its streams, and a name. Out: the step's combinations, the same for every name. `steps.task` calls it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.expr.evaluate import Functions
from penstock.operators.join.kernels.bounds import Bounds
from penstock.operators.join.kernels.choice import step_size, ways_of
from penstock.operators.join.kernels.combinations import Combinations
from penstock.operators.join.kernels.step import Join, RunRows, Way, join_step
from penstock.operators.join.papers.registry import ALGORITHMS
from penstock.operators.join.papers.run_sides import gathered_step
from penstock.operators.join.papers.sides import Counters

OURS = ("sorted_runs", "scan", "per_side")
"""They share rows out between parts; the others need all rows of a key, or of the join, in one part."""
NAMES = (*OURS, *ALGORITHMS)


def default_of(keyed: bool, linked: bool) -> str:
    """What runs until something else is known to be cheaper: on no workload of the bench is `per_side` far from the best."""
    return "per_side" if keyed or linked else "scan"


def runnable(name: str, bounds: Bounds, keyed: bool) -> str:
    """The algorithm itself, or one that gives parts the same rows, where it is not for such a join."""
    if name in OURS or ALGORITHMS[name].refusal(bounds, keyed) is None:
        return name
    return "backward"


def run_step(
    name: str, join: Join, rows: Sequence[RunRows], bounds: Bounds, functions: Functions
) -> Iterator[Combinations]:
    """The step's combinations, by the algorithm of that name."""
    if name in OURS:
        yield from join_step(join, rows, functions, _ways(name, join, rows))
    else:
        yield from gathered_step(join, rows, ALGORITHMS[name], bounds, functions, Counters())


def _ways(name: str, join: Join, rows: Sequence[RunRows]) -> tuple[Way, ...]:
    if name == "per_side" and len(rows) > 1:
        return ways_of(join, step_size(join, rows), rows[0].fresh.keyed)
    return ("scan" if name == "scan" else "probe",) * len(rows)
