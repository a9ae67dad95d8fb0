"""Keys of readings against a plain dictionary of tuples."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.streams.ingest.rules import NO_TIME, KeyMemory
from tests.support.examples import examples

NAN = float("nan")
COLUMNS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int32(), [None, 0, 1, -1, 2**31 - 1]),
    (pa.int64(), [None, 0, 2**62, -(2**63)]),
    (pa.float64(), [None, 0.0, -0.0, NAN, float("inf"), 0.1]),
    (pa.bool_(), [None, True, False]),
    (pa.string(), [None, "", "a", "A", "a longer text"]),
    (pa.binary(), [None, b"", b"\x00"]),
    (pa.decimal128(8, 2), [None, Decimal("0.00"), Decimal("1.50"), Decimal("-1.50")]),
    (pa.timestamp("us", "UTC"), [None, 0, 5]),
    (pa.list_(pa.int32()), [None, [], [1], [1, None]]),
]


def plain(value: Any) -> Any:
    """A value as a part of a key: unequal values differ, and NaN is itself."""
    return "NaN" if value != value else repr(value) if isinstance(value, list) else value


class Model:
    """Each key's number is its place in the order of first coming."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}

    def find(self, sids: list[int], columns: list[list[Any]]) -> list[int]:
        keys = zip(sids, *([plain(v) for v in column] for column in columns), strict=True)
        return [self.numbers.setdefault(key, len(self.numbers)) for key in keys]

    def keep(self, chosen: set[int]) -> None:
        kept = [key for key, number in self.numbers.items() if number in chosen]
        self.numbers = {key: number for number, key in enumerate(kept)}


@given(st.data())
@settings(max_examples=examples(60), deadline=None)
def test_equal_keys_of_a_sensor_have_equal_numbers_and_others_do_not(draw: st.DataObject) -> None:
    chosen = draw.draw(st.lists(st.sampled_from(COLUMNS), max_size=3))
    memory, model = KeyMemory(10, len(chosen)), Model()
    for _ in range(draw.draw(st.integers(1, 4))):
        size = draw.draw(st.integers(0, 30))
        sids = draw.draw(st.lists(st.integers(0, 2), min_size=size, max_size=size))
        columns = [draw.draw(st.lists(st.sampled_from(v), min_size=size, max_size=size)) for _, v in chosen]
        arrays = [pa.array(values, kind) for values, (kind, _) in zip(columns, chosen, strict=True)]
        if draw.draw(st.booleans()):
            arrays = [pa.chunked_array([a.slice(0, size // 2), a.slice(size // 2)]) for a in arrays]
        assert memory.numbers(np.array(sids, np.int32), arrays).tolist() == model.find(sids, columns)
        assert len(memory) == len(model.numbers) <= len(memory.times)
        if draw.draw(st.booleans()):
            kept = draw.draw(st.sets(st.integers(0, max(len(memory) - 1, 0))))
            memory.times[:] = NO_TIME
            memory.times[list(kept)] = 95
            memory.sweep(np.array([100, 100, 100], np.int64))
            model.keep(kept)
            assert len(memory) == len(model.numbers)


def test_many_keys_keep_their_numbers_while_the_table_grows_and_shrinks() -> None:
    memory = KeyMemory(10, 2)
    sids, values = np.arange(200_000, dtype=np.int32) % 1000, np.arange(200_000)
    words = pa.array([str(v // 7) for v in values.tolist()])
    for first in range(0, 200_000, 10_000):
        part = slice(first, first + 10_000)
        found = memory.numbers(sids[part], [values[part], words[first : first + 10_000]])
        assert found.tolist() == list(range(first, first + 10_000))
    assert memory.numbers(sids, [values, words]).tolist() == list(range(200_000))
    memory.times[:200_000] = np.where(values % 3 == 0, 95, 5)
    memory.sweep(np.full(1000, 100, dtype=np.int64))
    assert len(memory) == 66_667
    kept = values % 3 == 0
    assert memory.numbers(sids[kept], [values[kept], words.filter(pa.array(kept))]).tolist() == list(range(66_667))
    assert memory.times[:66_667].tolist() == [95] * 66_667
