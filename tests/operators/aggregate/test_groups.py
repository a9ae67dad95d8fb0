"""Groups are numbered as a dictionary of tuples numbers them."""

from __future__ import annotations

import math
import random
import threading
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.operators.aggregate import groups as module
from penstock.operators.aggregate.groups import Groups
from penstock.operators.aggregate.partials.slices import number_groups

VALUES: dict[pa.DataType, list[Any]] = {
    pa.int32(): [None, 0, 1, -1, 2**31 - 1],
    pa.int64(): [None, 0, 1, -1, -(2**63), 2**63 - 1],
    pa.float64(): [None, 0.0, -0.0, math.nan, -math.nan, math.inf, -math.inf, 1.5],
    pa.string(): [None, "", "a", "b", "ab", "\0", "a\0", "ä", "x" * 1000],
    pa.binary(): [None, b"", b"\0", b"\xff\xfe"],
    pa.bool_(): [None, True, False],
    pa.timestamp("us", "UTC"): [None, 0, 1, -(2**60)],
    pa.decimal128(38, 10): [None, Decimal(0), Decimal("1e-10"), Decimal("-1"), Decimal(10**27)],
    pa.null(): [None],
}
Key = tuple[Any, ...]


class Model:
    """Numbers of keys, one by one."""

    def __init__(self) -> None:
        self.numbers: dict[Key, int] = {}

    def number(self, keys: list[Key]) -> list[int]:
        return [self.numbers.setdefault(normal(key), len(self.numbers)) for key in keys]


def normal(key: Key) -> Key:
    """NaNs are equal, and both zeros are one."""
    return tuple("NaN" if isinstance(v, float) and math.isnan(v) else v for v in key)


def made(chance: random.Random, types: list[pa.DataType], count: int) -> list[pa.Array]:
    """Values of few kinds and, of texts and whole numbers, some that are seldom twice."""
    columns = []
    for type_ in types:
        values = [chance.choice(VALUES[type_]) for _ in range(count)]
        if type_ in (pa.int64(), pa.string()):
            rare = [chance.randint(-1000, 1000) for _ in values]
            values = [
                (n if type_ == pa.int64() else f"text {n}") if chance.random() < 0.7 else v
                for v, n in zip(values, rare, strict=True)
            ]
        columns.append(pa.array(values, type_, from_pandas=False))
    return columns


def tuples(columns: list[pa.Array]) -> list[Key]:
    plain = (c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in columns)
    return [normal(key) for key in zip(*(column.to_pylist() for column in plain), strict=True)]


@pytest.mark.parametrize("seed", range(60))
def test_keys_get_the_numbers_that_a_dictionary_gives_them(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FEW_GROUPS", 1)
    chance = random.Random(seed)
    types = chance.choices(list(VALUES), k=chance.randint(1, 4))
    groups, model = Groups(types), Model()
    for _ in range(chance.randint(1, 8)):
        # A part of longer arrays, as log readers give it.
        begin, count = chance.randint(0, 5), chance.choice([0, 1, 10, 300])
        keys = [column.slice(begin, count) for column in made(chance, types, begin + count + 3)]
        assert groups.number(keys).tolist() == model.number(tuples(keys))
        assert len(groups) == len(model.numbers)
        found = groups.columns(np.arange(len(groups)))
        assert [column.type for column in found] == types
        assert tuples(found) == list(model.numbers)
        some = np.array(chance.choices(range(len(groups)), k=5) if len(groups) else [], np.int64)
        assert tuples(groups.columns(some)) == [list(model.numbers)[g] for g in some.tolist()]
        if chance.random() < 0.3 and len(groups) > 2:
            used = np.array(sorted(chance.sample(range(len(groups)), len(groups) // 3)), np.int64)
            left = groups.without_unused(used)
            if left is not None:
                kept = [list(model.numbers)[g] for g in used.tolist()]
                assert left[1][used].tolist() == list(range(len(kept)))
                groups, model = left[0], Model()
                model.number(kept)


@pytest.mark.parametrize("seed", range(20))
def test_rows_are_in_one_group_if_their_keys_are_equal(seed: int) -> None:
    chance = random.Random(seed)
    types = chance.choices(list(VALUES), k=chance.randint(1, 3))
    keys = made(chance, types, 200)
    numbers, found = number_groups(keys, 200)
    assert [tuples(found)[n] for n in numbers.tolist()] == tuples(keys)
    assert len(set(tuples(keys))) == len(tuples(found))


@pytest.mark.parametrize("seed", range(40))
def test_lines_are_ordered_by_window_and_key_with_null_last(seed: int) -> None:
    chance = random.Random(seed)
    types = [type_ for type_ in chance.choices(list(VALUES), k=chance.randint(1, 3)) if type_ != pa.null()] or [
        pa.bool_()
    ]
    groups = Groups(types)
    for _ in range(3):
        groups.number(made(chance, types, chance.choice([0, 5, 100])))
        lines = [(w, g) for w in chance.choice([[7], [1, 5, 9]]) for g in range(len(groups)) if chance.random() < 0.5]
        windows, numbers = (np.array([line[i] for line in lines], np.int64) for i in range(2))
        keys = tuples(groups.columns(np.arange(len(groups))))
        wanted = sorted(range(len(lines)), key=lambda i: (lines[i][0], [rank(v) for v in keys[lines[i][1]]]))
        assert groups.in_order(windows, numbers).tolist() == wanted


def rank(value: Any) -> tuple[bool, bool, Any]:
    missing, not_a_number = value is None, value == "NaN"
    return (missing, not_a_number, 0 if missing or not_a_number else value)


def test_without_keys_there_is_one_group() -> None:
    groups = Groups()
    assert len(groups) == 0 and groups.columns(np.empty(0, np.int64)) == []
    assert groups.number([]).tolist() == [0] and groups.number([], 3).tolist() == [0, 0, 0]
    assert len(groups) == 1 and groups.columns(np.zeros(2, np.int64)) == []
    assert groups.in_order(np.array([1, 2]), np.zeros(2, np.int64)).tolist() == [0, 1]
    assert number_groups([], 2)[0].tolist() == [0, 0]


def test_few_bytes_are_taken_by_a_group_and_long_texts_count() -> None:
    numbers, texts = Groups([pa.int64()]), Groups([pa.string()])
    assert numbers.nbytes == texts.nbytes == 0
    numbers.number([pa.array(range(100_000))])
    assert 8 <= numbers.nbytes / 100_000 <= 32
    texts.number([pa.array([str(i) for i in range(1000)])])
    before = texts.nbytes
    texts.number([pa.array(["x" * 1_000_000])])
    assert 1_000_000 <= texts.nbytes - before <= 2_100_000


def test_known_groups_can_be_read_while_others_are_numbered() -> None:
    groups = Groups([pa.int64(), pa.string()])
    known = groups.number([pa.array(range(100)), pa.array(map(str, range(100)))])
    wrong: list[Any] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            numbers, texts = groups.columns(known)
            if numbers.to_pylist() != list(range(100)) or texts.to_pylist() != list(map(str, range(100))):
                wrong.append((numbers, texts))

    reader = threading.Thread(target=read)
    reader.start()
    for begin in range(100, 200_000, 10_000):
        more = range(begin, begin + 10_000)
        groups.number([pa.array(more), pa.array([f"{i}" for i in more])])
    done.set()
    reader.join()
    assert wrong == [] and len(groups) == 200_100
