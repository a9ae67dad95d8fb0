"""Tables whose static rows changed very often: old readings are read with their own versions, whatever came since."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.expr.evaluate import evaluate_mask
from penstock.expr.expression import Call, Column, Literal, to_json
from penstock.pipeline.history import HistoryReader, HistoryRequest
from penstock.types import BOOLEAN, TEXT
from tests.support.pipe import Pipe
from tests.support.watched import watched

NORTH = Call("eq", (Column("place", TEXT), Literal("north", TEXT)), BOOLEAN)


@pytest.mark.parametrize("seed", range(3))
def test_history_with_many_versions_looks_at_those_of_its_rows(pipe: Pipe, seed: int) -> None:
    rng = np.random.default_rng(seed)
    pipe.probes()
    expected = []
    place = "north"
    for number in range(120):
        if rng.random() < 0.9:
            place = str(rng.choice(["north", "south", "west"]))
            pipe.db.execute(f"UPDATE probes SET place = '{place}' WHERE id = 1")
        if rng.random() < 0.2:
            pipe.push(float(number))
            expected += [float(number)] * (place == "north")
    pipe.engine.drain()
    table, offset = pipe.db.catalog.state.tables["probes"], pipe.db.standing.store.offset
    assert offset is not None
    request = HistoryRequest(
        str(pipe.db.folder.root), "stream", table.name, table.id, offset.journal, ("value",),
        end=offset.data[table.id], static_predicate=to_json(NORTH),
    )  # fmt: skip
    looked: list[int] = []
    with watched(evaluate_mask, tell=lambda given: looked.append(given["rows"])):
        reader = HistoryReader({"request": request.to_option()})
        batches = [batch for task in reader.partitions() for batch in reader.read(task)]
    assert [v for batch in batches for v in batch.column(0).to_pylist()] == expected
    assert len(expected) > 2 and 0 < sum(looked) <= offset.data[table.id]
