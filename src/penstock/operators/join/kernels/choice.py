"""Choose the algorithm of a step by estimated cost, from the numbers of new, old and near rows.

Nanoseconds per row as `make bench-joins` saw them; only their proportions matter. The answer is the same whatever is
chosen, so every step and every part may choose anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.operators.join.kernels.step import Join, RunRows

PROBE_NS = 40  # one look-up in one run
INSERT_NS = 250  # one row gathered from the runs and put into hash chains that last for a step
SWEEP_NS = 290  # the same, in the forward algorithm's two modes
SCAN_NS = 2.2  # one candidate against a compiled condition
OURS = ("sorted_runs", "scan")


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen algorithm, its expected cost (ms), and the costs of the others."""

    algorithm: str
    cost_ms: float
    why: str


def choose(
    join: Join, rows: Sequence[RunRows], keyed: bool, hint: str | None, uniform: bool, hot: bool = False
) -> Choice:
    """The cheapest algorithm for these rows, or the one that the hint names.

    `hot`: whether rows of hot keys are divided among parts; only our own step supports that.
    """
    if len(rows) == 1:
        return Choice("scan", 0.0, "each new row of the one stream is a combination")
    costs = _costs(join, rows, keyed, uniform)
    if hint is not None:
        return Choice(hint, costs.get(hint, 0.0), "the hint asks for it")
    if hot:
        return Choice("sorted_runs", costs["sorted_runs"], "hot keys are shared out between the parts")
    best = min(costs, key=lambda name: costs[name])
    others = ", ".join(
        f"{name} {cost:.1f} ms" for name, cost in sorted(costs.items(), key=lambda c: c[1]) if name != best
    )
    what = "an equality connects all streams" if keyed else "no equality connects all streams"
    if join.links:
        what = "equalities connect some streams, which are looked up"
    return Choice(best, costs[best], f"{what}; expected {costs[best]:.1f} ms" + (f", {others}" if others else ""))


def _costs(join: Join, rows: Sequence[RunRows], keyed: bool, uniform: bool) -> dict[str, float]:
    fresh = [len(r.starts) for r in rows]
    streams = range(len(rows))
    if join.links:
        return {"sorted_runs": sum(fresh[i] * _looked_up(join, rows, i) for i in streams) / 1e6}
    if not keyed:
        near = {
            (i, j): (join.bounds[i][j] + join.bounds[j][i]) * rows[j].weight()
            for i in streams
            for j in streams
            if i != j
        }
        scanned = sum(fresh[i] * min(near[i, j] for j in streams if j != i) for i in streams)
        # Parts share out the new rows by place in the log, so all of them must do the same thing.
        return {"scan": scanned * SCAN_NS / 1e6}
    new = sum(fresh)
    runs = sum(r.runs() + 1 for r in rows) / len(rows)
    old = sum(r.near() for r in rows)
    costs = {"sorted_runs": new * (len(rows) - 1) * runs * PROBE_NS / 1e6, "hash": (new + old) * INSERT_NS / 1e6}
    if uniform:
        costs["forward_hash"] = (new + old) * SWEEP_NS / 1e6
    return costs


def _looked_up(join: Join, rows: Sequence[RunRows], start: int) -> float:
    """Nanoseconds to find the partners of one new row: a look-up in every run where an equality leads, else a scan."""
    bound, cost = [start], 0.0
    while len(bound) < len(rows):
        left = [s for s in range(len(rows)) if s not in bound]
        linked = [s for s in left if any(link.reaches(s, bound) for link in join.links)]
        if linked:
            bound.append(linked[0])
            cost += (rows[linked[0]].runs() + 1) * PROBE_NS
            continue
        near = {s: min(join.bounds[b][s] + join.bounds[s][b] for b in bound) * rows[s].weight() for s in left}
        bound.append(min(near, key=lambda s: near[s]))
        cost += near[bound[-1]] * SCAN_NS
    return cost
