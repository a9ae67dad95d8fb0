"""What a step costs by each algorithm, expected from the numbers of new, old and near rows and of results.

The figures are nanoseconds, fitted to `python -m bench.quality --only joins` (decision 0053); only their proportions matter,
since `join.learning` corrects them by what steps really took. The answer is the same whatever is chosen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf

from penstock.operators.join.kernels.scan import Programs
from penstock.operators.join.kernels.step import Join, RunRows, Way

VISIT_NS = 60_000  # one search of one run, whatever is in it: calls of numpy and arrow
PROBE_NS = 40  # one look-up in one run
INDEX_NS = 60  # one row of a new run put into the index of an equality
BUILD_NS = 90  # one row gathered from the runs and put into one table
EQUAL_NS = 1.0  # one candidate's key and time against those wanted
SCAN_NS = 2.2  # one candidate against a compiled condition
RESULT_NS = 60  # one partial combination gathered, or a whole one
GATHER_NS = 500_000  # an algorithm of the papers before its first row: arrays of all streams
INSERT_NS = 250  # one row gathered from the runs and put into hash chains that last for a step
SWEEP_NS = 290  # the same, in the forward algorithm's two modes
LOOP_NS = 3.0  # one candidate of a nested loop: its window and its key
TEST_NS = 25  # one condition as a program, for one candidate
DROPPED_NS = 200  # one combination that is made, and then dropped by a condition that has no program
# Combinations that an algorithm of the papers would hold at once, before conditions without a program drop most of them.
HELD_ROWS = 5_000_000
_MOST_JOINS = 256


@dataclass(frozen=True, slots=True)
class StepSize:
    """What a step has to do, by stream: new rows, those of them that begin combinations here, old rows, runs.

    `near[i][j]` are the rows of stream j that lie in the window of a row of stream i.
    """

    fresh: tuple[int, ...]
    starts: tuple[int, ...]
    old: tuple[int, ...]
    runs: tuple[int, ...]
    near: tuple[tuple[float, ...], ...]

    @property
    def streams(self) -> range:
        return range(len(self.fresh))


def step_size(join: Join, rows: Sequence[RunRows]) -> StepSize:
    streams = range(len(rows))
    weights = [r.weight() for r in rows]
    known = [len(r.fresh) + r.near() for r in rows]
    near = tuple(
        tuple(min(known[j], (join.bounds[i][j] + join.bounds[j][i]) * weights[j]) for j in streams) for i in streams
    )
    fresh, starts = tuple(len(r.fresh) for r in rows), tuple(len(r.starts) for r in rows)
    return StepSize(fresh, starts, tuple(r.near() for r in rows), tuple(r.runs() + 1 for r in rows), near)


def ways_of(join: Join, size: StepSize, keyed: bool) -> tuple[Way, ...]:
    """The cheapest way for each stream by itself."""
    chosen: list[Way] = []
    for stream in size.streams:
        costs = _way_costs(join, size, keyed, stream)
        chosen.append(min(costs, key=lambda way: costs[way]))
    return tuple(chosen)


def _way_costs(join: Join, size: StepSize, keyed: bool, stream: int) -> dict[Way, float]:
    """Nanoseconds to look for the partners that one stream has for the new rows of the others; only the ways that differ."""
    linked = any(link.columns[stream] is not None for link in join.links)
    turns = [i for i in size.streams if i != stream and size.starts[i]]
    looks, runs = sum(size.starts[i] for i in turns), size.runs[stream]
    rows = size.old[stream] + size.fresh[stream]
    if not keyed and not linked:
        return {"probe": 0.0}
    index = INDEX_NS if linked else 0
    scanned = rows * looks if keyed else sum(size.starts[i] * size.near[i][stream] for i in turns)
    visits = len(turns) * VISIT_NS
    return {
        "probe": looks * runs * PROBE_NS + visits * runs + index * size.fresh[stream],
        "build": looks * min(2, runs) * PROBE_NS
        + visits * min(2, runs)
        + (BUILD_NS * size.old[stream] + VISIT_NS if runs > 2 else 0)
        + index * rows,
        "scan": scanned * EQUAL_NS + visits * runs,
    }


def expected_ms(join: Join, size: StepSize, keyed: bool, uniform: bool, results: int) -> dict[str, float]:
    """Milliseconds by algorithm, known how many combinations there are; infinite where memory would not hold what it makes.

    `uniform`: whether the forward algorithms can run it.
    """
    same: tuple[Way, ...] = ("probe",) * len(size.fresh)
    found = {"sorted_runs": _ours(join, size, keyed, same, results)} if keyed or join.links else {}
    found["scan"] = _ours(join, size, keyed, ("scan",) * len(size.fresh), results)
    found["per_side"] = _ours(join, size, keyed, ways_of(join, size, keyed), results)
    found.update(_papers(join, size, keyed, uniform, results))
    return {name: ns / 1e6 for name, ns in found.items()}


def _ours(join: Join, size: StepSize, keyed: bool, ways: Sequence[Way], results: int) -> float:
    total = results * RESULT_NS + VISIT_NS
    for stream in size.streams:
        if keyed or any(link.columns[stream] is not None for link in join.links):
            total += _way_costs(join, size, keyed, stream)[ways[stream]]
    begun = sum(size.starts)
    for start in size.streams:
        share = results * size.starts[start] / begun if begun else 0.0
        for depth, partial in enumerate(_partials(size, start, share)):
            others = [j for j in size.streams if j != start]
            if depth:  # first look-ups are in the costs of the ways
                total += partial * RESULT_NS
                if keyed or join.links:
                    total += partial * sum(size.runs[j] for j in others) / len(others) * PROBE_NS
            if not keyed and not join.links:
                total += partial * min(size.near[start][j] for j in others) * SCAN_NS
                total += VISIT_NS * sum(size.runs[j] for j in others) / len(others) if size.starts[start] else 0
    return total


def _partials(size: StepSize, start: int, results: float) -> Iterator[float]:
    """Combinations of one, two and more streams, all but whole ones: as if each stream multiplied them by the same."""
    first, steps = size.starts[start], len(size.fresh) - 1
    growth = (max(results, 0.01) / first) ** (1 / steps) if first else 0.0
    for depth in range(steps):
        yield first * growth**depth


def _papers(join: Join, size: StepSize, keyed: bool, uniform: bool, results: int) -> Iterator[tuple[str, float]]:
    rows = sum(size.old) + sum(size.fresh)
    gathered = GATHER_NS + rows * INSERT_NS + results * RESULT_NS
    with_program, without = _conditions(join)
    made = _made(size, keyed, results) if without or join.links else 0.0
    if made > HELD_ROWS:
        gathered = inf
    gathered += made * DROPPED_NS
    looped = gathered + _loops(size, results) * (LOOP_NS + TEST_NS * with_program)
    chained = gathered if keyed else looped
    yield "hash", gathered if keyed else inf
    yield "backward", chained
    yield "extended", chained
    yield "lca", chained + rows * (SWEEP_NS - INSERT_NS) + results * RESULT_NS
    yield "gca", chained + rows * (SWEEP_NS - INSERT_NS) + 2 * results * RESULT_NS
    yield "nested_loop", looped
    if uniform:
        yield "forward", looped + rows * (SWEEP_NS - INSERT_NS)
        if keyed:
            yield "forward_hash", gathered + rows * (SWEEP_NS - INSERT_NS)


def _loops(size: StepSize, results: int) -> float:
    """Candidates of nested loops: each row of the step walks the window of the stream with the fewest rows, then of the others."""
    begun, total = sum(size.fresh), 0.0
    for start in size.streams:
        nearest = min(size.near[start][j] for j in size.streams if j != start)
        share = results * size.fresh[start] / begun if begun else 0.0
        whole = StepSize(size.fresh, size.fresh, size.old, size.runs, size.near)
        total += sum(partial * nearest for partial in _partials(whole, start, share))
        # Old rows look for new ones that came before them.
        total += 0.5 * min(size.old[start], nearest) * nearest
    return total


def _made(size: StepSize, keyed: bool, results: int) -> float:
    """Combinations before conditions without a program; with a key, about as many as there are whole ones."""
    if keyed:
        return float(results)
    total = 0.0
    for start in size.streams:
        each = float(size.fresh[start])
        for j in size.streams:
            each *= max(1.0, size.near[start][j]) if j != start else 1.0
        total += each
    return total


@lru_cache(_MOST_JOINS)
def _conditions(join: Join) -> tuple[int, int]:
    """How many conditions run as programs, and how many do not."""
    programs = Programs(join.aliases, join.conditions)
    covered = sum(map(programs.covers, join.conditions))
    return covered, len(join.conditions) - covered


def explained(costs: Mapping[str, float], algorithm: str) -> str:
    """The cost of an algorithm and of the three that come next, in words."""
    others = sorted((cost, name) for name, cost in costs.items() if name != algorithm and cost < inf)
    more = "".join(f", {name} {cost:.1f} ms" for cost, name in others[:3])
    return f"expected {costs.get(algorithm, inf):.1f} ms{more}"
