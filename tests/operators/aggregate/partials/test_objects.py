"""What aggregates of texts say they take is what their values take: exactly for few cells, nearly so for many."""

from __future__ import annotations

import random
import sys

import numpy as np
import pyarrow as pa
import pytest

from penstock.operators.aggregate.partials.base import Partial, State, Values
from penstock.operators.aggregate.partials.objects import shared_bytes, size_of
from penstock.operators.aggregate.partials.registry import make_partial
from penstock.types import INT, TEXT, Type


def taken(partial: Partial, texts: list[str | list[int] | None], type_: Type, cells: list[int]) -> State:
    column = partial.convert(pa.array(texts, type_.to_arrow()))
    at, count = np.array(cells), len(texts)
    rows = np.arange(count)
    state = partial.empty(max(cells) + 1)
    partial.add(state, Values(at, (column,), rows, rows, np.array([t is not None for t in texts])))
    return state


def beside(partial: Partial, state: State) -> int:
    """What the arrays take themselves, which hold places of values only."""
    return sum(field.nbytes for field in state.values())


@pytest.mark.parametrize("name", ["object_ends", "ordered"])
def test_a_text_that_is_both_ends_of_its_cell_counts_once(name: str) -> None:
    partial = make_partial(name, (TEXT,))
    texts: list[str | list[int] | None] = ["x" * 100_000, "y"]
    state = taken(partial, texts, TEXT, [0, 1])
    assert partial.nbytes(state) - beside(partial, state) == sum(map(sys.getsizeof, texts))
    one_more = taken(partial, [*texts, "z" * 50_000], TEXT, [0, 1, 1])
    assert partial.nbytes(one_more) - partial.nbytes(state) == sys.getsizeof("z" * 50_000)


def test_nulls_take_nothing_and_arrays_what_is_in_them() -> None:
    partial = make_partial("object_ends", (TEXT,))
    state = taken(partial, [None, None], TEXT, [0, 1])
    assert partial.nbytes(state) == beside(partial, state)
    numbers = Type("ARRAY", element=INT)
    arrays = make_partial("object_ends", (numbers,))
    state = taken(arrays, [list(range(1000, 2000))], numbers, [0])
    assert arrays.nbytes(state) - beside(arrays, state) >= 1000 * (8 + sys.getsizeof(1000))


@pytest.mark.parametrize("name", ["object_ends", "ordered", "distinct"])
@pytest.mark.parametrize("seed", range(3))
def test_some_of_many_cells_speak_for_all(name: str, seed: int) -> None:
    chance = random.Random(seed)
    partial = make_partial(name, (TEXT,))
    # Every eighth group has long texts, and cells come in turns of the groups: no step may meet only those.
    texts: list[str | list[int] | None] = [
        chance.choice("abc") * chance.randint(*((5000, 9000) if i % 8 == 0 else (0, 100))) for i in range(6000)
    ]
    state = taken(partial, texts, TEXT, list(range(6000)))
    truth = sum(map(sys.getsizeof, texts))
    assert truth * 0.7 < partial.nbytes(state) - beside(partial, state) < truth * 1.5, seed


def test_distinct_texts_count_with_their_lengths() -> None:
    partial = make_partial("distinct", (TEXT,))
    state = taken(partial, [f"{i:0>2000}" for i in range(50)], TEXT, [0] * 50)
    assert partial.nbytes(state) > 50 * 2000


def test_values_that_few_cells_have_are_not_counted_for_all_of_them() -> None:
    field = np.empty(10_000, object)
    field[::50] = [(f"symbol {place}",) for place in range(200)]
    real = sum(map(size_of, field[::50]))
    assert real / 3 < shared_bytes(field) < 3 * real
