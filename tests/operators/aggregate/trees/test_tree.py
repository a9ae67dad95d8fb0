"""The tree of aggregates against going through all rows."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from penstock.operators.aggregate.trees import tree as tree_module
from penstock.operators.aggregate.trees.tree import FANOUT, AggregateTree, Kind, NodePartial, Totals
from penstock.types import BIGINT, DOUBLE
from tests.support.examples import seeds

Row = tuple[int, int, Any]


def fill(tree: AggregateTree, rows: list[Row]) -> None:
    times, numbers = np.array([r[0] for r in rows], np.int64), np.array([r[1] for r in rows], np.int64)
    values = np.array([0 if r[2] is None else r[2] for r in rows], np.float64 if tree.kind == "double" else np.int64)
    tree.append(times, values, np.array([r[2] is not None for r in rows], np.bool_), numbers)


def check(found: Totals, rows: list[Row]) -> None:
    """Against the rows themselves, doubles by exact sums of theirs."""
    values = [v for _, _, v in rows if v is not None]
    assert (found.rows, found.value("count", BIGINT)) == (len(rows), len(values))
    total, mean = said(found, "sum"), found.value("avg", DOUBLE)
    least, greatest = said(found, "min"), said(found, "max")
    if not values:
        assert total is mean is least is greatest is None
        return
    known = [v for v in values if v == v]
    assert least == min(known) if known else math.isnan(float(least or 0))
    assert math.isnan(float(greatest or 0)) if len(known) < len(values) else greatest == max(known)
    if found.partial.parts[0].whole:
        assert total == (sum(values) + 2**63) % 2**64 - 2**63
        # Each value is rounded to a double, as Spark does it.
        assert mean == pytest.approx(
            float(Fraction(sum(values), len(values))), rel=1e-15, abs=2e-16 * max(map(abs, values))
        )
    elif all(map(math.isfinite, values)):
        assert total == pytest.approx(math.fsum(values), rel=1e-15, abs=1e-300)
        assert mean == pytest.approx(total / len(values), rel=1e-15)
    else:
        plain = sum(values)
        assert total == plain or (math.isnan(plain) and math.isnan(float(total or 0)))


def said(found: Totals, function: str) -> Any:
    """A value of the type of the column."""
    return found.value(function, found.partial.parts[0].types[0])


def any_value(rng: np.random.Generator, kind: Kind, odd: float) -> Any:
    if rng.random() < 0.1:
        return None
    if kind == "integer":
        return int(rng.integers(-(2**63), 2**63 - 1)) if rng.random() < odd else int(rng.integers(-9, 9))
    if rng.random() < odd:
        return float(rng.choice([math.nan, math.inf, -math.inf, 0.0, -0.0]))
    return float(rng.normal() * 10.0 ** rng.integers(-12, 12))


@pytest.mark.parametrize("kind", ["integer", "double"])
@pytest.mark.parametrize("seed", seeds(12))
def test_any_period_is_what_its_rows_are_while_rows_come_late_and_go(
    seed: int, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    print("seed", seed)
    rng = np.random.default_rng(seed)
    monkeypatch.setattr(tree_module, "LATE_ROWS", int(rng.choice([0, 3, 40])))
    tree, rows, now, number = AggregateTree(kind), list[Row](), 0, 0
    odd = float(rng.choice([0.0, 0.02]))
    for _ in range(30):
        batch = []
        for _ in range(int(rng.choice([0, 1, 5, 100, 1500]))):
            late = int(rng.integers(0, 400)) if rng.random() < 0.05 else int(rng.integers(0, 3))
            batch.append((max(now - late, -10_000), number, any_value(rng, kind, odd)))
            now += int(rng.integers(0, 3))
            number += 1
        fill(tree, batch)
        rows += batch
        if rng.random() < 0.3:
            before = now - int(rng.integers(0, 3000))
            tree.expire(before)
            rows = [r for r in rows if r[0] >= before]
        if rng.random() < 0.1:
            floor = number - int(rng.integers(0, 3000))
            tree.retain(lambda numbers, floor=floor: numbers >= floor)  # type: ignore[misc]
            rows = [r for r in rows if r[1] >= floor]
        assert len(tree) == len(rows)
        for _ in range(6):
            begin = now - int(rng.integers(-5, 4000))
            end = begin + int(rng.integers(-5, 4000))
            inside = [r for r in rows if begin <= r[0] <= end]
            check(tree.answer(begin, end), inside)
            check(tree.scan(begin, end, lambda n: n % 3 == 0), [r for r in inside if r[1] % 3 == 0])


def test_a_large_value_that_comes_and_goes_swallows_no_small_ones() -> None:
    tree = AggregateTree("double")
    fill(tree, [(1, 1, 0.1), (2, 2, 1e300), (3, 3, 0.2), (4, 4, -1e300)])
    assert said(tree.answer(1, 4), "sum") == pytest.approx(0.3, rel=1e-15)
    tree.expire(3)
    assert said(tree.answer(1, 3), "sum") == 0.2


def test_sums_of_integers_wrap_around_and_their_mean_does_not() -> None:
    tree = AggregateTree("integer")
    fill(tree, [(n, n, 2**63 - 1) for n in range(5000)])
    assert said(tree.answer(0, 5000), "sum") == (5000 * (2**63 - 1) + 2**63) % 2**64 - 2**63
    assert tree.answer(0, 5000).value("avg", DOUBLE) == float(5000 * (2**63 - 1)) / 5000


class CountingPartial(NodePartial):
    """Counts the rows and nodes that it is given."""

    looked = 0

    def fold(self, values: Any, valid: Any, nodes: Any, count: int) -> Any:
        self.looked += len(nodes)
        return super().fold(values, valid, nodes, count)

    def merged(self, state: Any, nodes: Any, count: int) -> Any:
        self.looked += len(nodes)
        return super().merged(state, nodes, count)


def test_an_answer_looks_at_few_rows_and_nodes() -> None:
    counts = {}
    for power in (10, 15, 20):
        tree = AggregateTree("integer")
        tree.append(np.arange(2**power), np.ones(2**power, np.int64))
        tree.partial = counting = CountingPartial("integer")
        assert said(tree.answer(3, 2**power - 5), "sum") == 2**power - 7
        counts[power] = counting.looked
    assert counts[20] <= 2 * counts[10] + 2 * FANOUT < 400


def test_expired_rows_give_their_memory_back() -> None:
    tree = AggregateTree("double")
    for batch in range(200):
        times = np.arange(1000) + 1000 * batch
        tree.append(times, times.astype(np.float64))
        tree.expire(1000 * (batch - 4))
    assert len(tree) == 5000
    assert tree.nbytes < 1_000_000
