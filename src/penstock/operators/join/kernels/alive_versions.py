"""Which versions are alive at a position, among those that die after it: the ones that were born by then.

A row may have had a hundred thousand versions, nearly all of them born later than an old reading. So they are not tried one
after the other: a tree holds the earliest birth of every stretch, and stretches that were born too late are skipped whole.
"""

from __future__ import annotations

import numpy as np

from penstock.expr.kernel import kernel
from penstock.operators.join.kernels.keys import Ints

_NEVER = np.iinfo(np.int64).max


def earliest_births(born: Ints) -> Ints:
    """A binary tree: the births themselves in its second half, above each pair the earlier of the two, its root at 1."""
    leaves = 1 << max(0, (len(born) - 1).bit_length())
    tree = np.full(2 * leaves, _NEVER, np.int64)
    tree[leaves : leaves + len(born)] = born
    while leaves > 1:
        tree[leaves // 2 : leaves] = np.minimum(tree[leaves : 2 * leaves : 2], tree[leaves + 1 : 2 * leaves : 2])
        leaves //= 2
    return tree


@kernel
def _next_born(tree: Ints, place: int, position: int) -> int:
    """The first place from `place` on with a version born by a position; the number of places if there is none."""
    leaves = len(tree) // 2
    if place >= leaves:
        return leaves
    node = place + leaves
    while tree[node] > position:
        while node & 1:
            node >>= 1
            if node <= 1:
                return leaves
        node += 1
    while node < leaves:
        node *= 2
        if tree[node] > position:
            node += 1
    return node - leaves


@kernel
def count_alive(tree: Ints, begin: Ints, end: Ints, journal: Ints) -> Ints:
    """How many versions in [begin, end) were born by each position."""
    counts = np.zeros(len(begin), np.int64)
    for i in range(len(begin)):
        if begin[i] < end[i]:
            place = _next_born(tree, begin[i], journal[i])
            while place < end[i]:
                counts[i] += 1
                place = _next_born(tree, place + 1, journal[i])
    return counts


@kernel
def pick_alive(tree: Ints, begin: Ints, journal: Ints, counts: Ints) -> tuple[Ints, Ints]:
    """Pairs (position, version) of those that `count_alive` counted."""
    total = counts.sum()
    left, right = np.empty(total, np.int64), np.empty(total, np.int64)
    at = 0
    for i in range(len(begin)):
        place = begin[i]
        for _ in range(counts[i]):
            place = _next_born(tree, place, journal[i])
            left[at], right[at] = i, place
            at += 1
            place += 1
    return left, right
