"""Cut a join on a key into parts by the key's hash: no combination crosses parts, and a part's tables fit in the cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from penstock.expr.kernel import kernel
from penstock.operators.join.papers.sides import Int64s, Side

ROWS_PER_PART = 30_000
MOST_PARTS = 64
# Not the multiplier of the buckets in `search`: the keys of one part must still spread over all buckets.
_MULTIPLIER = np.uint64(0xFF51AFD7ED558CCD)
_SHIFT = np.uint64(58)


def parts_of(sides: Sequence[Side]) -> Iterator[tuple[list[Side], list[Int64s]]]:
    """The parts as sides of their own, each in the order of time, with the rows that they came from."""
    count = 1
    while count < MOST_PARTS and count * ROWS_PER_PART < sum(map(len, sides)):
        count *= 2
    cut = []
    for side in sides:
        assert side.key is not None, "parts are cut by key"
        order, edges = _by_part(side.key, count)
        cut.append((_take(side, order), order, edges))
    for part in range(count):
        spans = [slice(edges[part], edges[part + 1]) for _, _, edges in cut]
        yield (
            [_take(side, span) for (side, _, _), span in zip(cut, spans, strict=True)],
            [order[span] for (_, order, _), span in zip(cut, spans, strict=True)],
        )


def _take(side: Side, rows: Int64s | slice) -> Side:
    return Side(
        side.ts[rows],
        side.fresh[rows],
        None if side.key is None else side.key[rows],
        None if side.columns is None else side.columns[:, rows],
        None if side.valid is None else side.valid[:, rows],
    )


@kernel
def _by_part(key: Int64s, count: int) -> tuple[Int64s, Int64s]:
    """Rows part by part, in their order within each; and where each part begins."""
    mask = np.uint64(count - 1)  # of the MOST_PARTS highest values
    edges = np.zeros(count + 1, np.int64)
    for row in range(len(key)):
        edges[((np.uint64(key[row]) * _MULTIPLIER) >> _SHIFT & mask) + np.uint64(1)] += 1
    for part in range(count):
        edges[part + 1] += edges[part]
    order, fill = np.empty(len(key), np.int64), edges.copy()
    for row in range(len(key)):
        part = int((np.uint64(key[row]) * _MULTIPLIER) >> _SHIFT & mask)
        order[fill[part]] = row
        fill[part] += 1
    return order, edges
