"""Rows in the order of their values: what is picked is what the condition says, NaN and NULL included."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.expr.evaluate import evaluate_mask
from penstock.expr.expression import Call, Column, Expr, Literal
from penstock.operators.join.kernels import probe
from penstock.operators.join.kernels.combinations import Combinations
from penstock.operators.join.kernels.probe import as_by_value, pick
from penstock.operators.join.kernels.runs import Run, build_run
from penstock.types import BIGINT, BOOLEAN, DOUBLE

A, B = Column("a.v", DOUBLE), Column("b.v", DOUBLE)
MOVED = Call("add", (B, Literal(0.5, DOUBLE)), DOUBLE)


def _run(seed: int, rows: int) -> Run:
    chance = np.random.default_rng(seed)
    values = chance.choice([None, np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, 1.0, 1.5, 2.0], rows).tolist()
    ts = np.arange(rows) * 10
    return build_run(0, rows, ts, np.arange(rows), None, {"v": pa.array(values, pa.float64(), from_pandas=False)})


@pytest.mark.parametrize("operation", ["lt", "le", "gt", "ge"])
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("pick_ns", [0.0, 6.0])
def test_what_is_picked_by_value_is_what_the_condition_says(
    operation: str, swapped: bool, pick_ns: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "SORT_NS", 0.0)
    monkeypatch.setattr(probe, "PICK_NS", pick_ns)
    condition = Call(operation, (A, MOVED) if swapped else (MOVED, A), BOOLEAN)
    by_value = as_by_value(condition, "b")
    assert by_value is not None and by_value.given == A
    outer, run = Combinations.of(0, "a", _run(1, 40)), _run(2, 60)
    begin = np.random.default_rng(3).integers(0, 30, 40)
    end = begin + np.random.default_rng(4).integers(0, 31, 40)
    picked = pick(by_value, outer, ("a", "b"), "b", run, (begin, end))
    assert picked is not None and (pick_ns > 0 or picked.answered.all())
    left, right = picked.inside(begin, end, slice(0, 40))
    pairs = [(i, row) for i in range(40) if picked.answered[i] for row in range(begin[i], end[i])]
    columns = {
        "a.v": outer.columns["a.v"].take(pa.array([i for i, _ in pairs], pa.int64())),
        "b.v": run.columns["v"].take(pa.array([row for _, row in pairs], pa.int64())),
    }
    wanted = [pair for pair, holds in zip(pairs, evaluate_mask(condition, columns, len(pairs)), strict=True) if holds]
    assert wanted and sorted(zip(left.tolist(), right.tolist(), strict=True)) == sorted(wanted)


def test_only_comparisons_of_one_stream_with_others_are_picked_by_value() -> None:
    def compared(left: Expr, right: Expr) -> Expr:
        return Call("lt", (left, right), BOOLEAN)

    assert as_by_value(compared(A, B), "b") is not None
    assert as_by_value(compared(Call("sub", (A, B), DOUBLE), Literal(1.0, DOUBLE)), "b") is None
    assert as_by_value(compared(B, Literal(1.0, DOUBLE)), "b") is None
    assert as_by_value(compared(Column("a.n", BIGINT), Column("b.n", BIGINT)), "b") is None, "doubles cannot hold them"


def test_a_run_is_not_put_in_order_for_a_few_rows() -> None:
    by_value = as_by_value(Call("lt", (A, B), BOOLEAN), "b")
    assert by_value is not None
    outer, run = Combinations.of(0, "a", _run(1, 1)), _run(2, 60)
    assert pick(by_value, outer, ("a", "b"), "b", run, (np.array([0]), np.array([60]))) is None
