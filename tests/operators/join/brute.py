"""All combinations by the definition, and random streams to try algorithms on."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
from hypothesis import strategies as st

from penstock.operators.join.kernels.bounds import Bounds, Pair, close
from penstock.operators.join.papers.sides import Side

Combination = tuple[int, ...]


def combinations(
    sides: Sequence[Side], bounds: Bounds, holds: Callable[[Combination], bool] = lambda rows: True
) -> list[Combination]:
    """Every combination with equal keys, inside the windows, that holds and has a fresh row, sorted."""
    found: list[Combination] = [()]
    for side in sides:
        found = [
            (*rows, row)
            for rows in found
            for row in range(len(side))
            if all(_join(sides, bounds, s, other, len(rows), row) for s, other in enumerate(rows))
        ]
    fresh = (rows for rows in found if any(side.fresh[row] for side, row in zip(sides, rows, strict=True)))
    return sorted(filter(holds, fresh))


def _join(sides: Sequence[Side], bounds: Bounds, i: int, a: int, j: int, b: int) -> bool:
    left, right = sides[i], sides[j]
    apart = int(right.ts[b]) - int(left.ts[a])
    for x, y, low, high in bounds.given:
        if (x, y) == (i, j) and not ((low is None or low <= apart) and (high is None or apart <= high)):
            return False
    return left.key is None or right.key is None or bool(left.key[a] == right.key[b])


def as_combinations(found: Sequence[np.ndarray]) -> list[Combination]:
    assert len({len(rows) for rows in found}) == 1
    return sorted(zip(*(rows.tolist() for rows in found), strict=True))


def windows(form: str, n: int, sizes: Sequence[int]) -> list[Pair]:
    """Pairs of a form; `sizes` are used in turn."""
    size = itertools.cycle(sizes)
    everyone = list(itertools.combinations(range(n), 2))
    chain = [(i, i + 1) for i in range(n - 1)]
    match form:
        case "uniform clique":
            return [(i, j, -sizes[0], sizes[0]) for i, j in everyone]
        case "clique":
            return [(i, j, -w, w) for (i, j), w in zip(everyone, size, strict=False)]
        case "path":
            return [(i, j, -w, w) for (i, j), w in zip(chain, size, strict=False)]
        case "directed path":
            return [(i, j, 0, w) for (i, j), w in zip(chain, size, strict=False)]
        case "graph":
            star = [(0, j) for j in range(1, n)]
            return [(i, j, -w, w) for (i, j), w in zip([*star, (n - 2, n - 1)], size, strict=False)]
        case "between":
            return [(i, j, min(w, 2 - w // 2), w) for (i, j), w in zip(chain, size, strict=False)]
    raise ValueError(form)


FORMS = ("uniform clique", "clique", "path", "directed path", "graph", "between")


@st.composite
def joins(draw: st.DrawFn, form: str, streams: st.SearchStrategy[int], keyed: bool) -> tuple[list[Side], Bounds, int]:
    """Streams with ties, bursts, lag and skew, their windows, and the seed that splits them into steps."""
    n = draw(streams)
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    # Many streams need wide windows and few keys to find anything at all.
    sizes = [int(size) for size in rng.integers(0, 10, 3) + rng.integers(0, 3 * n - 4)]
    keys = 6 if n < 4 else 2
    most = {2: 24, 3: 12, 4: 8}.get(n, 6)
    sides = []
    for _ in range(n):
        rows = int(rng.integers(most // 2, most + 1)) if rng.random() < 0.97 else 0
        kind = rng.integers(0, 3)
        if kind == 0:
            ts = rng.integers(0, 20, rows)
        elif kind == 1:
            ts = rng.integers(0, 2, rows) * 12 + rng.integers(0, 2, rows)
        else:
            ts = 5 + np.cumsum(rng.integers(0, 3, rows))
        key = np.minimum(rng.zipf(1.5, rows), keys) if keyed else None
        fresh = rng.random(rows) < rng.choice([0.0, 0.3, 0.3, 1.0])
        values = np.round(rng.normal(size=(2, rows)), 1)
        valid = rng.random((2, rows)) < 0.9
        sides.append(
            Side(np.sort(ts).astype(np.int64), fresh, None if key is None else key.astype(np.int64), values, valid)
        )
    return sides, close(n, windows(form, n, sizes)), seed
