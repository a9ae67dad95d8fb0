"""What is kept of answers with RESAMPLE: little, and of each query rather the newest than three or none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from penstock.operators.resample.sample_cache import MOST_BYTES, CachedSamples, SampleCache

PLAN = cast(Any, "what is asked")


def answer(cycle: int, share: float) -> CachedSamples:
    """An answer that takes a share of all that may be kept."""
    sized = SimpleNamespace(nbytes=int(share * MOST_BYTES))
    return CachedSamples(PLAN, cycle, cast(Any, sized), cast(Any, SimpleNamespace(table=SimpleNamespace(nbytes=0))))


def known(samples: SampleCache, query_id: int, cycle: int) -> int | None:
    found = samples.before(query_id, PLAN, cycle)
    return None if found is None else found.cycle


def test_a_large_answer_is_kept_alone() -> None:
    samples = SampleCache()
    for cycle in range(6):
        samples.keep(1, answer(cycle, 0.6))
        assert known(samples, 1, cycle) == cycle, "the next one would have to read its whole window"
        assert samples.memory_of(1) <= MOST_BYTES
    samples.keep(2, answer(6, 1.1))
    assert known(samples, 2, 6) is None and known(samples, 1, 6) == 5


def test_queries_in_turn_keep_their_newest_before_anybody_keeps_older_ones() -> None:
    samples = SampleCache()
    for cycle in range(4):
        for query_id in range(4):
            assert known(samples, query_id, cycle) == (cycle - 1 if cycle else None)
            samples.keep(query_id, answer(cycle, 0.2))
            assert sum(samples.memory_of(q) for q in range(4)) <= MOST_BYTES
    samples.keep(9, answer(4, 0.5))  # then whoever was asked longest ago makes room
    assert [known(samples, query_id, 4) for query_id in (0, 1, 2, 3, 9)] == [None, None, 3, 3, 4]
    samples.tidy({9})
    assert known(samples, 3, 4) is None and known(samples, 9, 4) == 4


def test_small_answers_are_kept_for_who_lags_behind() -> None:
    samples = SampleCache()
    for cycle in range(5):
        samples.keep(1, answer(cycle, 0.1))
    assert [known(samples, 1, cycle) for cycle in range(5)] == [None, None, 2, 3, 4]
