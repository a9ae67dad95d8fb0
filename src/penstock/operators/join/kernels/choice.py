"""What a step costs by each algorithm, expected from the numbers of new, old and near rows and of results.

The figures are nanoseconds, fitted to `python -m bench.quality --only joins` (decision 0053); only their proportions matter,
since `join.algorithm_choice` corrects them by what steps really took. The answer is the same whatever is chosen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from penstock.operators.join.kernels.scan import Programs
from penstock.operators.join.kernels.step import Join, RunRows, Way

VISIT_NS = 40_000  # one search of one run, whatever is in it: calls of numpy and arrow
PROBE_NS = 40  # one look-up in one run
INDEX_NS = 60  # one row of a new run put into the index of an equality
BUILD_NS = 60  # one row gathered from the runs and put into one table
EQUAL_NS = 0.6  # one candidate's key and time against those wanted
SCAN_NS = 1.2  # one candidate against a compiled condition
RESULT_NS = 60  # one partial combination gathered, or a whole one
GATHER_NS = 200_000  # an algorithm of the papers before its first row: arrays of all streams
OLD_NS, INSERT_NS = 55, 190  # one old row gathered from the runs and swept, one new row that looks for partners as well
LOOP_NS = 1.4  # one candidate of a nested loop: its window and its key
TEST_NS = 14  # one condition as a program, for one candidate
REFINE_NS = 100  # one combination that is found by larger windows, and tested by its own
DROPPED_NS = 200  # one combination that is made, and then dropped by a condition that has no program
# The algorithms of the papers hold all combinations of a step at once, those too that a condition without a program drops.
# A step that is ten times as large as the last one must still fit.
HELD_ROWS = 200_000
_MOST_JOINS = 256


@dataclass(frozen=True, slots=True)
class StepSize:
    """What a step has to do, by stream: new rows, those of them that begin combinations here, old rows, runs.

    `near[i][j]` are the rows of stream j in the window of a row of stream i, as if the streams had begun long ago.
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
    near = tuple(tuple((join.bounds[i][j] + join.bounds[j][i]) * weights[j] for j in streams) for i in streams)
    fresh, starts = tuple(len(r.fresh) for r in rows), tuple(len(r.starts) for r in rows)
    return StepSize(fresh, starts, tuple(r.near() for r in rows), tuple(r.runs() + 1 for r in rows), near)


def ways_of(join: Join, size: StepSize, keyed: bool) -> tuple[Way, ...]:
    """The cheapest way for each stream by itself, before it is known how many combinations there will be."""
    return tuple(_cheapest(_way_costs(join, size, keyed, stream, size.starts)) for stream in size.streams)


def _cheapest(costs: Mapping[Way, float]) -> Way:
    return min(costs, key=lambda way: costs[way])


def _way_costs(join: Join, size: StepSize, keyed: bool, stream: int, looks: Sequence[float]) -> dict[Way, float]:
    """Nanoseconds to find partners in one stream. `looks[i]`: how often the turn of stream i looks for one in another stream."""
    linked = any(link.columns[stream] is not None for link in join.links)
    turns = [i for i in size.streams if i != stream and size.starts[i]]
    count, runs = sum(looks[i] for i in turns), size.runs[stream]
    rows, index = size.old[stream] + size.fresh[stream], INDEX_NS if linked else 0
    visits, near = len(turns) * VISIT_NS, sum(looks[i] * min(rows, size.near[i][stream]) for i in turns)
    if not keyed and not linked:
        return {"probe": near * SCAN_NS + visits * runs}
    few = min(2, runs)
    return {
        "probe": count * runs * PROBE_NS + visits * runs + index * size.fresh[stream],
        "build": count * few * PROBE_NS
        + visits * few
        + index * rows
        + (BUILD_NS * size.old[stream] + VISIT_NS if runs > few else 0),
        "scan": (count * rows if keyed else near) * EQUAL_NS + visits * runs,
    }


def expected_ms(join: Join, size: StepSize, keyed: bool, uniform: bool, results: int) -> dict[str, float]:
    """Milliseconds by algorithm, known how many combinations there are. What memory might not hold is left out.

    `uniform`: whether the forward algorithms can run it. `backward` is `hash` or `nested_loop`, and is not weighed by itself.
    """
    partials = [_partials(begun, size, results) for begun in size.starts]
    looks = [sum(each) / len(each) for each in partials]
    ways = [_way_costs(join, size, keyed, stream, looks) for stream in size.streams]
    common = (results + sum(map(sum, partials)) - sum(size.starts)) * RESULT_NS + VISIT_NS
    found = {"scan": common + sum(w.get("scan", w["probe"]) for w in ways)}
    if keyed or join.links:  # else each period is scanned, whatever the way
        chosen = ways_of(join, size, keyed) if len(ways) > 2 else tuple(map(_cheapest, ways))
        found["sorted_runs"] = common + sum(w["probe"] for w in ways)
        found["per_side"] = common + sum(w[way] for w, way in zip(ways, chosen, strict=True))
    found.update(_papers(join, size, keyed, uniform, results))
    return {name: ns / 1e6 for name, ns in found.items()}


def _partials(begun: int, size: StepSize, results: int) -> list[float]:
    """Combinations of one, two and more streams, all but whole ones: as if each stream multiplied them by the same."""
    steps = len(size.fresh) - 1
    if steps == 1 or not begun:
        return [float(begun)] * steps
    growth = (max(results * begun / sum(size.starts), 0.01) / begun) ** (1 / steps)
    return [begun * growth**depth for depth in range(steps)]


def _papers(join: Join, size: StepSize, keyed: bool, uniform: bool, results: int) -> Iterator[tuple[str, float]]:
    programs, without = _conditions(join)
    made = _made(size, results) if without and not keyed else results
    if made > HELD_ROWS:
        return
    swept: float = GATHER_NS + sum(size.old) * OLD_NS + sum(size.fresh) * INSERT_NS
    swept += results * RESULT_NS + (made * DROPPED_NS if without else 0)
    # They look for partners in the order of rates, not along equalities that only some streams share.
    walked = _made(size, results) if join.links else _loops(size, results)
    looped = swept + walked * (LOOP_NS + TEST_NS * (programs + len(join.links)))
    chained = swept if keyed else looped
    refined = 0 if uniform else results * REFINE_NS
    yield "extended", chained
    yield "lca", chained + refined
    yield "gca", chained + 1.05 * refined
    yield "nested_loop", looped
    if keyed:
        yield "hash", chained
    if uniform:
        yield "forward", looped
    if uniform and keyed:
        yield "forward_hash", 0.95 * chained


def _loops(size: StepSize, results: int) -> float:
    """Candidates of nested loops: a new row walks the older half of the window of the stream with the fewest rows, and so on."""
    total, whole = 0.0, replace(size, starts=size.fresh)
    for start in size.streams:
        walked = (min(size.old[j] + size.fresh[j], size.near[start][j] / 2) for j in size.streams if j != start)
        total += sum(_partials(size.fresh[start], whole, results)) * min(walked)
    return total


def _made(size: StepSize, results: int) -> float:
    """Combinations inside the windows, whatever their values."""
    total = float(results)
    for start in size.streams:
        each = float(size.fresh[start])
        for j in size.streams:
            each *= max(1.0, min(size.old[j] + size.fresh[j], size.near[start][j])) if j != start else 1.0
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
    others = sorted((cost, name) for name, cost in costs.items() if name != algorithm)
    own = f"expected {costs[algorithm]:.1f} ms" if algorithm in costs else "itself not weighed"
    return own + "".join(f", {name} {cost:.1f} ms" for cost, name in others[:3])
