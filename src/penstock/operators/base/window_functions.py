"""Window functions over the rows of one table: ranks, and the values of other rows of a partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.expr.evaluate import evaluate
from penstock.operators.aggregate.partials.base import Ints
from penstock.operators.aggregate.partials.slices import number_groups
from penstock.operators.base.row_order import value_ranks
from penstock.sql.plan.window_calls import WindowCall, window_name


@dataclass(frozen=True, slots=True)
class Partitions:
    """Rows by partition and order. Arrays are in that order; `places` says which rows they are."""

    places: Ints
    begins: Ints  # where the partition of each row begins
    sizes: Ints
    peers: Ints  # where the rows begin that are alike in the order
    last_peers: Ints  # and where the last of them is

    @staticmethod
    def of(groups: Ints, keys: Sequence[Ints]) -> Partitions:
        """`keys`: what rows are ordered by, the first one first; rows that are alike in all keep their order."""
        places = np.lexsort((*reversed(keys), groups))
        count = len(places)
        new, unlike = np.ones(count, np.bool_), np.ones(count, np.bool_)
        new[1:] = groups[places][1:] != groups[places][:-1]
        unlike[1:] = new[1:]
        for key in keys:
            unlike[1:] |= key[places][1:] != key[places][:-1]
        begins, peers = (np.flatnonzero(firsts) for firsts in (new, unlike))
        partition, peer = np.cumsum(new) - 1, np.cumsum(unlike) - 1
        ends, last_peers = (np.append(firsts[1:], count) for firsts in (begins, peers))
        return Partitions(places, begins[partition], (ends - begins)[partition], peers[peer], last_peers[peer] - 1)

    def values(self, call: WindowCall) -> np.ndarray:
        """The value of a rank per row, in the order of the rows."""
        at = np.arange(len(self.places))
        found: np.ndarray
        match call.function:
            case "row_number":
                found = at - self.begins + 1
            case "rank":
                found = self.peers - self.begins + 1
            case "dense_rank":
                found = np.cumsum(self.peers == at)
                found = found - found[self.begins] + 1 if len(found) else found
            case "percent_rank":
                found = (self.peers - self.begins) / np.maximum(self.sizes - 1, 1)
            case "cume_dist":
                found = (self.last_peers - self.begins + 1) / np.maximum(self.sizes, 1)
            case _:
                assert call.function == "ntile"
                found = _bucket(at - self.begins, self.sizes, call.count)
        values = np.empty(len(at), found.dtype)
        values[self.places] = found
        return values

    def other_rows(self, call: WindowCall) -> Ints:
        """The row that LAG or LEAD of each row sees; -1 where there is none."""
        at = np.arange(len(self.places))
        other = at - call.count if call.function == "lag" else at + call.count
        inside = (other >= self.begins) & (other < self.begins + self.sizes)
        found = np.full(len(at), -1)
        found[self.places[inside]] = self.places[other[inside]]
        return found


def _bucket(row: Ints, sizes: Ints, buckets: int) -> Ints:
    """NTILE: the first buckets have one row more where rows do not divide."""
    small, larger = sizes // buckets, sizes % buckets
    in_larger = larger * (small + 1)
    found: Ints = np.where(row < in_larger, row // (small + 1), larger + (row - in_larger) // np.maximum(small, 1))
    return found + 1


def partitions_of(call: WindowCall, columns: Mapping[str, pa.Array], count: int) -> Partitions:
    """The rows of some columns by what a call has in OVER."""
    groups = np.zeros(count, np.int64)
    if call.partition:
        groups, _ = number_groups([evaluate(each, columns, count) for each in call.partition], count)
    keys = []
    for key in call.order:
        ranks = value_ranks(evaluate(key.expr, columns, count), key.descending, key.nulls_first)
        keys.append(ranks)
    return Partitions.of(groups, keys)


def window_columns(calls: Sequence[WindowCall], columns: Mapping[str, pa.Array], count: int) -> dict[str, pa.Array]:
    """The value of each call per row, by its name. Rows that are alike in an order are taken as they stand."""
    found: dict[str, pa.Array] = {}
    known: dict[tuple[object, ...], Partitions] = {}
    for place, call in enumerate(calls):
        over = (call.partition, call.order)
        rows = known.get(over)
        if rows is None:
            rows = known[over] = partitions_of(call, columns, count)
        if call.arguments:
            found[window_name(place)] = _of_others(call, rows.other_rows(call), columns, count)
        else:
            found[window_name(place)] = pa.array(rows.values(call)).cast(call.type.to_arrow())
    return found


def _of_others(call: WindowCall, others: Ints, columns: Mapping[str, pa.Array], count: int) -> pa.Array:
    value = evaluate(call.arguments[0], columns, count).cast(call.type.to_arrow())
    if len(call.arguments) == 1:
        return value.take(pa.array(others, mask=others < 0))
    missing = evaluate(call.arguments[1], columns, count).cast(call.type.to_arrow())
    own = np.arange(count)
    return pa.concat_arrays([value, missing]).take(pa.array(np.where(others < 0, count + own, others)))
