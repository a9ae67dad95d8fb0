"""What is kept beside runs: used again, bounded for all of them together, gone with them."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from penstock.operators.join.kernels import run_cache, runs
from penstock.operators.join.kernels.probe import by_key
from penstock.operators.join.kernels.runs import Run, build_run, cut_below
from penstock.operators.join.kernels.scan import doubles
from tests.support.watched import watched

ROWS = 10_000


@pytest.fixture(autouse=True)
def nothing_held() -> Iterator[None]:
    most, held = run_cache._most, dict(run_cache._held)
    run_cache._held.clear()
    yield
    run_cache.allow(most)
    run_cache._held.update(held)


def run_at(first: int, key: np.ndarray | None = None) -> Run:
    rng = np.random.default_rng(first)
    pos = np.arange(first, first + ROWS)
    columns = {"link": pa.array(rng.integers(0, 50, ROWS)), "x": pa.array(rng.random(ROWS))}
    return build_run(first, first + ROWS, pos + rng.integers(0, 100, ROWS), pos, key, columns)


def test_indexes_of_all_runs_together_keep_to_the_bytes_that_are_allowed() -> None:
    some = [run_at(i * ROWS) for i in range(12)]
    one = by_key(some[0], "link")
    run_cache.allow(3 * one.nbytes)
    for turn in range(3):
        for run in some:
            assert by_key(run, "link").pos.tolist() == by_key(run, "link").pos.tolist()
            doubles(run, ["x"])
            assert 0 < run_cache.held_bytes() <= 3 * one.nbytes, turn
    assert by_key(some[-1], "link") is by_key(some[-1], "link")
    assert sum(len(r.cache) > 0 for r in some) == 2


def test_what_is_used_stays_and_what_lies_idle_goes() -> None:
    some = [run_at(i * ROWS) for i in range(5)]
    run_cache.allow(2 * by_key(some[0], "link").nbytes + 1000)
    kept = by_key(some[0], "link")
    for run in some[1:]:
        by_key(run, "link")
        assert by_key(some[0], "link") is kept
    assert [len(r.cache) for r in some] == [1, 0, 0, 0, 1]


def test_one_index_larger_than_all_that_is_allowed_is_kept_until_the_next() -> None:
    run_cache.allow(10)
    first, second = run_at(0), run_at(ROWS)
    assert by_key(first, "link") is by_key(first, "link")
    by_key(second, "link")
    assert len(first.cache) == 0 and len(second.cache) == 1


def test_what_is_beside_a_run_goes_with_it() -> None:
    run = run_at(0)
    by_key(run, "link")
    assert run_cache.held_bytes() > 0
    del run
    gc.collect()
    assert run_cache.held_bytes() == 0 and not run_cache._held


@pytest.mark.parametrize("keyed", [False, True])
def test_a_run_that_retention_cuts_is_cut_once_for_each_cut(keyed: bool) -> None:
    run = run_at(0, np.random.default_rng(7).integers(0, 2**60, ROWS) if keyed else None)
    built: list[int] = []
    for floor in (10, 10, 10, 4_000, 4_000, ROWS - 1):
        with watched(runs.build_run, tell=lambda given: built.append(given["first"])):
            cut = cut_below(run, floor)
        assert sorted(cut.pos.tolist()) == list(range(floor, ROWS)) and cut.first == floor and cut.keyed == keyed
    assert built == [10, 4_000, ROWS - 1]
    assert len(run.cache) == 1 and run_cache.held_bytes() < run.nbytes
