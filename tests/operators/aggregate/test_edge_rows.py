"""Rows of slots that a window cuts: none is missing and none counts twice, whichever threads read them."""

from __future__ import annotations

import random
import threading

import numpy as np
import pyarrow as pa

from penstock.expr.expression import Column
from penstock.operators.aggregate.edge_rows import EdgeCache
from penstock.operators.aggregate.groups import Groups
from penstock.operators.aggregate.partials.cell_sums import CellRange
from penstock.operators.aggregate.shape import Measure
from penstock.operators.aggregate.slicer import FamilyRows
from penstock.types import DOUBLE

VALUE = Column("value", DOUBLE)
COUNT = Measure("count", (VALUE,))
KEY = ("family", (0, 1000))


def rows_at(*positions: int) -> FamilyRows:
    places = np.array(positions, np.int64)
    values = pa.array(places.astype(float))
    return FamilyRows(places % 1000, places, np.zeros(len(places), np.int64), [], {VALUE: values})


def count(cache: EdgeCache, groups: Groups, head: int, floor: int = 0) -> int:
    edge = cache.of(*KEY, groups, frozenset({VALUE}))
    total = edge.sum(0, 999, CellRange(0, 999, floor, head))
    return int(total.of(COUNT, None).state["count"].sum()) if total is not None else 0


def test_rows_of_a_range_that_another_thread_has_added_in_part_are_added_for_the_rest() -> None:
    cache, groups = EdgeCache(), Groups()
    edge = cache.of(*KEY, groups, frozenset({VALUE}))
    cache.add(KEY, edge, (10, 100), [rows_at(10, 50)])
    cache.add(KEY, edge, (100, 150), [rows_at(120)])
    cache.add(KEY, edge, (100, 200), [rows_at(120, 180)])
    assert count(cache, groups, 200) == 4
    assert count(cache, groups, 150) == 3
    assert count(cache, groups, 200, floor=100) == 2


def test_a_slot_without_rows_has_no_sum() -> None:
    cache, groups = EdgeCache(), Groups()
    edge = cache.of(*KEY, groups, frozenset({VALUE}))
    cache.add(KEY, edge, (0, 100), [rows_at()])
    assert count(cache, groups, 100) == 0


def test_groups_that_are_numbered_anew_and_other_arguments_begin_with_nothing() -> None:
    cache, groups = EdgeCache(), Groups()
    edge = cache.of(*KEY, groups, frozenset({VALUE}))
    cache.add(KEY, edge, (0, 100), [rows_at(5)])
    assert count(cache, groups, 100) == 1
    assert count(cache, Groups(), 100) == 0
    assert cache.of(*KEY, groups, frozenset()).covered == ()
    cache.clear()
    assert cache.nbytes == 0 and count(cache, groups, 100) == 0


def test_readers_at_many_heads_see_their_own_rows_while_rows_are_added() -> None:
    cache, groups, lock = EdgeCache(), Groups(), threading.Lock()
    wrong: list[tuple[int, int]] = []

    def read(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(150):
            head = chance.randrange(1, 900)
            with lock:
                edge = cache.of(*KEY, groups, frozenset({VALUE}))
                cache.add(KEY, edge, (0, head), [rows_at(*range(0, head, 3))])
            total = edge.sum(0, 999, CellRange(0, 999, 0, head))
            found = int(total.of(COUNT, None).state["count"].sum()) if total is not None else 0
            if found != len(range(0, head, 3)):
                wrong.append((head, found))

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
