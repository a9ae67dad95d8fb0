"""From a row's log position to the journal entry it came after."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.catalog.histories import HeadHistory
from tests.catalog.bench import CatalogBench
from tests.support.new_query import new_query


def last_entry(heads_seen: list[int], log_position: int) -> int:
    """By definition: the last entry whose head is not beyond the position; entries count from 1."""
    return max((n for n, head in enumerate(heads_seen, start=1) if head <= log_position), default=0)


@given(st.lists(st.integers(0, 6), max_size=12), st.integers(0, 4), st.booleans())
def test_every_log_position_finds_the_last_entry_before_it(moves: list[int], before: int, shrinks: bool) -> None:
    """Also where a log lost its end, and for entries from before the table came."""
    seen = [0] * before + (moves if shrinks else sorted(moves))
    history = HeadHistory()
    for number, head in enumerate(seen, start=1):
        if number > before:
            history.take(head, number)
    heads, entries = history.steps(len(seen))
    assert (np.diff(heads) > 0).all()
    for position in range(8):
        index = np.searchsorted(heads, position, side="right")
        assert ([0, *entries.tolist()][index]) == last_entry(seen, position)


def test_a_thousand_entries_without_readings_are_one_step(bench: CatalogBench) -> None:
    table = bench.make_sensors()
    for number in range(5):
        bench.catalog.create_queries([new_query(f"before_{number}", "", {}, ("sensors",))])
    bench.heads[table.id] = 40
    for number in range(5):
        bench.catalog.create_queries([new_query(f"after_{number}", "", {}, ("sensors",))])
    heads, entries = bench.state.journal_positions(table.id)
    assert (heads.tolist(), entries.tolist()) == ([0, 40], [6, 11])
    assert bench.state.journal_positions(table.id)[0] is heads


def test_a_table_that_is_gone_has_no_steps_and_a_later_one_starts_at_zero(bench: CatalogBench) -> None:
    first = bench.make_sensors()
    bench.heads[first.id] = 10
    bench.catalog.drop("table", ["sensors"])
    second = bench.make_sensors()
    heads, entries = bench.state.journal_positions(second.id)
    assert (second.id, heads.tolist(), entries.tolist()) == (2, [0], [3])
