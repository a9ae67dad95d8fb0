"""Each algorithm does what its name says: the counters of one are not those of another."""

from __future__ import annotations

import numpy as np
import pytest

from bench.joins_baselines import BASELINES
from penstock.operators.join.kernels.bounds import Bounds, close
from penstock.operators.join.papers.registry import ALGORITHMS
from penstock.operators.join.papers.sides import COUNTED, Counters, Side
from tests.operators.join.brute import windows


def streams(n: int, rows: int, span: int, keys: int | None, seed: int = 1) -> list[Side]:
    rng = np.random.default_rng(seed)
    return [
        Side(
            np.sort(rng.integers(0, span, rows)),
            np.ones(rows, np.bool_),
            None if keys is None else rng.integers(0, keys, rows),
        )
        for _ in range(n)
    ]


def counted(name: str, sides: list[Side], bounds: Bounds) -> Counters:
    counters = Counters()
    {**ALGORITHMS, **BASELINES}[name].run(sides, bounds, None, counters)
    return counters


UNIFORM = close(3, windows("uniform clique", 3, [100]))
KEYED = streams(3, 2_000, 20_000, 50)


def test_the_forward_algorithms_make_no_window_test_in_mode_2() -> None:
    for name in ("forward", "forward_hash"):
        counters = counted(name, KEYED, UNIFORM)
        assert counters["results"] > 0
        assert counters["window_tests"] == counters["refinements"] == 0
        assert counters["admissions"] > 0
        # Mode 1 looks at the oldest tuple of each stream, not at pairs of tuples.
        assert counters["sweep_tests"] <= 3 * (counters["mode_switches"] + counters["dropped"])


def test_the_backward_algorithms_test_windows_and_know_no_modes() -> None:
    for name in ("nested_loop", "hash", "backward", "extended"):
        counters = counted(name, KEYED, UNIFORM)
        assert counters["window_tests"] > 0
        assert counters["admissions"] == counters["mode_switches"] == counters["sweep_tests"] == 0


def test_hash_chains_touch_a_fraction_of_what_nested_loops_touch() -> None:
    loops, chains = counted("nested_loop", KEYED, UNIFORM), counted("hash", KEYED, UNIFORM)
    assert loops["results"] == chains["results"]
    assert chains["window_tests"] * 10 < loops["window_tests"]
    assert counted("forward_hash", KEYED, UNIFORM)["key_comparisons"] * 10 < loops["key_comparisons"]


def test_joins_without_order_in_time_test_what_is_long_too_old() -> None:
    assert (
        counted("ripple", KEYED, UNIFORM)["window_tests"] > 5 * counted("nested_loop", KEYED, UNIFORM)["window_tests"]
    )
    assert counted("xjoin", KEYED, UNIFORM)["window_tests"] > 5 * counted("hash", KEYED, UNIFORM)["window_tests"]
    assert counted("ripple", KEYED, UNIFORM)["dropped"] == 0


def test_a_purge_every_10_000_tuples_drops_what_is_too_old() -> None:
    long = streams(2, 15_000, 150_000, 500)
    assert 10_000 < counted("xjoin", long, close(2, [(0, 1, -100, 100)]))["dropped"] < 30_000


def test_lca_admits_less_and_refines_less_than_gca() -> None:
    # Four streams; every pair within 80 but one within 500.
    pairs = [(i, j, -500, 500) if (i, j) == (0, 1) else (i, j, -80, 80) for i in range(4) for j in range(i + 1, 4)]
    bounds, sides = close(4, pairs), streams(4, 300, 9_000, 3)
    wide, narrow = counted("gca", sides, bounds), counted("lca", sides, bounds)
    assert wide["results"] == narrow["results"] > 0
    assert narrow["key_comparisons"] < wide["key_comparisons"]
    assert narrow["refinements"] < wide["refinements"]
    assert wide["window_tests"] == narrow["window_tests"] == 0


def test_extended_tests_a_path_by_its_own_windows_and_conservative_approaches_refine() -> None:
    bounds, sides = close(4, windows("directed path", 4, [60])), streams(4, 300, 9_000, 3)
    assert counted("extended", sides, bounds)["refinements"] == 0
    assert counted("lca", sides, bounds)["refinements"] > 0


@pytest.mark.parametrize("slow", [4, 400])
def test_a_slow_stream_keeps_forward_in_mode_1(slow: int) -> None:
    fast = streams(3, 3_000, 30_000, None)
    few = Side(np.linspace(0, 29_999, slow).astype(np.int64), np.ones(slow, np.bool_))
    counters = counted("forward", [*fast[:2], few], close(3, windows("uniform clique", 3, [20])))
    # A tuple that Mode 1 leaves behind never looks for partners; those near the slow stream do.
    assert counters["iterations"] <= 2 * slow * 12
    assert counters["results"] > 0


def test_what_is_far_from_every_fresh_row_is_not_looked_at() -> None:
    old = [Side(side.ts, side.ts > 19_000, side.key) for side in KEYED]
    every, few = counted("hash", KEYED, UNIFORM), counted("hash", old, UNIFORM)
    assert few["window_tests"] * 10 < every["window_tests"]


def test_counters_add_up_over_steps_and_have_names() -> None:
    counters = Counters()
    for _ in range(2):
        ALGORITHMS["hash"].run(KEYED, UNIFORM, None, counters)
    assert counters["results"] == 2 * counted("hash", KEYED, UNIFORM)["results"]
    assert list(counters.as_dict()) == list(COUNTED)


def test_the_registry_says_what_an_algorithm_cannot_do() -> None:
    path = close(3, windows("path", 3, [5]))
    assert ALGORITHMS["hash"].refusal(UNIFORM, keyed=False) == "hash needs an equality between all streams"
    refusal = ALGORITHMS["forward"].refusal(path, keyed=True)
    assert refusal is not None and refusal.endswith("these windows are a path")
    assert ALGORITHMS["forward"].refusal(close(2, [(0, 1, 0, 5)]), keyed=False) is None
    assert ALGORITHMS["lca"].refusal(path, keyed=False) is None
