"""Join combinations with ordinary tables: with the rows that match and are alive at the combination's journal position.

A row has versions, each alive for journal positions [born, died); all of them stay, by number. A row may have had a hundred
thousand versions, nearly all of them born later than an old reading. So they are not tried one after the other: a tree holds
the earliest birth of every stretch, and stretches that were born too late are skipped whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from penstock.expr.conditions import cheap_and_costly, true_rows
from penstock.expr.evaluate import Functions, evaluate, evaluate_mask
from penstock.expr.expression import Expr
from penstock.expr.kernel import kernel
from penstock.operators.join.kernels.combinations import Combinations
from penstock.operators.join.kernels.keys import Bools, Ints, key_numbers
from penstock.operators.join.kernels.step import PAIRS

_NEVER = np.iinfo(np.int64).max
# Joined with each matching row, also with none, or kept if there is one or none.
Use = Literal["inner", "left", "exists", "missing"]


@dataclass(frozen=True, slots=True)
class Versions:
    """A table's versions in order of their key and, for one key, of when they died. Without a key all have the same.

    `codes` has both in one number, so that one binary search finds the versions of a key that outlive a position.
    """

    count: int  # of all versions so far
    vids: Ints
    numbers: Ints  # their keys
    born: Ints
    births: Ints  # the same as a tree: see `earliest_births`
    keys: Ints  # every key once
    deaths: Ints  # every journal position at which one died
    codes: Ints

    def look_up(self, key: Ints, known: Bools, journal: Ints) -> tuple[Ints, Ints]:
        """[begin, end): the versions with each key that die after each position."""
        group = np.searchsorted(self.keys, key)
        known = known & (self.keys[np.minimum(group, len(self.keys) - 1)] == key) if len(self.keys) else known & False
        width = len(self.deaths) + 1
        begin = np.searchsorted(self.codes, group * width + np.searchsorted(self.deaths, journal, side="right"))
        end = np.searchsorted(self.codes, (group + 1) * width)
        return np.where(known, begin, 0), np.where(known, end, 0)


def order_versions(
    versions: pa.Table, predicate: Expr | None, keys: Sequence[Expr], before: Versions | None = None
) -> Versions:
    """The versions that pass a predicate and have a key. `before`: what this gave for the first of them."""
    known = before.count if before is not None else 0
    vids, numbers = _passing(versions.slice(known), predicate, keys)
    vids += known
    if before is not None:
        vids, numbers = np.concatenate([before.vids, vids]), np.concatenate([before.numbers, numbers])
    # Sorting is stable, and quick for what is nearly in order: so is all but the new end.
    order = np.argsort(numbers, kind="stable")
    vids, numbers = vids[order], numbers[order]
    first = np.ones(len(numbers), np.bool_)
    first[1:] = numbers[1:] != numbers[:-1]
    deaths, death = np.unique(versions.column("_died").to_numpy()[vids], return_inverse=True)
    codes = (np.cumsum(first) - 1) * (len(deaths) + 1) + death
    order = np.argsort(codes, kind="stable")
    vids = vids[order]
    born = versions.column("_born").to_numpy()[vids]
    births = earliest_births(born)
    return Versions(versions.num_rows, vids, numbers, born, births, numbers[first], deaths, codes[order])


def _passing(versions: pa.Table, predicate: Expr | None, keys: Sequence[Expr]) -> tuple[Ints, Ints]:
    count = versions.num_rows
    passing = evaluate_mask(predicate, versions, count)
    numbers: Ints = np.zeros(count, np.int64)
    if keys:
        numbers, known = key_numbers([evaluate(k, versions, count) for k in keys])
        passing = passing & known
    vids = np.flatnonzero(passing)
    return vids, numbers[vids]


@dataclass(frozen=True, slots=True)
class LookupTable:
    """One ordinary table of a join: `place` is where combinations keep its version, after the places of the streams."""

    place: int
    alias: str
    versions: Versions
    columns: Mapping[str, pa.Array]  # by version
    keys: tuple[Expr, ...]  # a combination's values for the key of `versions`
    conditions: tuple[Expr, ...]
    use: Use


def with_table(
    made: Combinations, journal: Ints, aliases: Sequence[str], table: LookupTable, functions: Functions
) -> Iterator[tuple[Combinations, Ints]]:
    """Combinations with each row that matches, or those that have one or none, and their journal positions."""
    begin, end = _candidates(made, journal, aliases, table, functions)
    counts = count_alive(table.versions.births, begin, end, journal)
    if int(counts.sum()) > PAIRS and len(made) > 1:
        middle = len(made) // 2
        for first, last in ((0, middle), (middle, len(made))):
            yield from with_table(made.slice(first, last), journal[first:last], aliases, table, functions)
        return
    left, right = pick_alive(table.versions.births, begin, journal, counts)
    found = _joined(made.take(left), table, table.versions.vids[right])
    cheap, costly = cheap_and_costly(table.conditions)
    for condition in (*cheap, costly):
        if len(left) == 0:
            break
        mask = true_rows(condition, found.evaluable(aliases), len(left), functions)
        if not mask.all():
            kept = np.flatnonzero(mask)
            found, left = found.take(kept), left[kept]
    if table.use in ("inner", "left") and len(left):
        yield found, journal[left]
    if table.use == "inner":
        return
    has_row = np.zeros(len(made), np.bool_)
    has_row[left] = True
    kept = np.flatnonzero(has_row if table.use == "exists" else ~has_row)
    if len(kept):
        rest = made.take(kept)
        yield (_joined(rest, table, np.full(len(kept), -1)) if table.use == "left" else rest), journal[kept]


def _candidates(
    made: Combinations, journal: Ints, aliases: Sequence[str], table: LookupTable, functions: Functions
) -> tuple[Ints, Ints]:
    count = len(made)
    number, known = np.zeros(count, np.int64), np.ones(count, np.bool_)
    if table.keys:
        columns = made.evaluable(aliases)
        number, known = key_numbers([evaluate(k, columns, count, functions) for k in table.keys])
    return table.versions.look_up(number, known, journal)


def _joined(made: Combinations, table: LookupTable, vids: Ints) -> Combinations:
    index = pa.array(vids, mask=vids < 0)  # no version: NULL in every column
    added = {f"{table.alias}.{name}": column.take(index) for name, column in table.columns.items()}
    return Combinations({**made.pos, table.place: vids}, made.ts, made.key, {**made.columns, **added})


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
