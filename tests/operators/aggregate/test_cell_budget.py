"""The memory for cells is shared: a query that does not fit beside the others is refused, and one that outgrows it fails alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import PenstockError
from penstock.operators.aggregate import cell_estimate
from penstock.operators.aggregate.cell_estimate import guess_groups
from penstock.views.standing_queries import Intervals
from tests.support.pipe import Pipe

HOUR = "BEGIN (NOW - 1 HOUR) END (NOW)"


def create(pipe: Pipe, name: str, where: str, window: str = HOUR, key: str = "value") -> None:
    pipe.db.execute(
        f"CREATE QUERY {name} AS SELECT {key}, COUNT(*) AS n FROM probes WHERE {where} GROUP BY {key} {window}"
    )
    pipe.engine.drain()


def push(pipe: Pipe, first: int, end: int) -> None:
    """A reading of each of some values, a second after the last ones."""
    pipe.clock.advance(1_000_000)
    ids = pa.array([1] * (end - first), pa.int32())
    pipe.db.push("probes", pa.table({"id": ids, "value": pa.array([float(i) for i in range(first, end)])}))
    pipe.engine.drain()


def states(pipe: Pipe) -> dict[str, str]:
    return {query["name"]: query["state"] for query in pipe.db.queries()}


@pytest.fixture
def crowded(pipes: Callable[..., Pipe]) -> Pipe:
    """A megabyte for cells, and a query that has kept most of it since before the start."""
    pipe = pipes(slices_memory_mb=1)
    pipe.probes()
    create(pipe, "old", "value < 1000000")
    push(pipe, 0, 20_000)
    pipe.restart()
    push(pipe, 0, 1)
    return pipe


def test_the_query_that_outgrows_the_memory_fails_and_not_a_larger_one(crowded: Pipe) -> None:
    create(crowded, "new", "value >= 1000000")
    for part in range(30):
        push(crowded, 1_000_000 + part * 500, 1_000_500 + part * 500)
    assert states(crowded) == {"old": "RUNNING", "new": "FAILED"}
    with pytest.raises(PenstockError, match="slices") as refused:
        crowded.db.invoke("new")
    assert refused.value.condition == "over_budget"
    assert crowded.db.invoke("old").table.num_rows == 20_000


def test_an_old_query_that_grows_fails_and_not_a_new_one_that_does_not(crowded: Pipe) -> None:
    create(crowded, "new", "value >= 1000000")
    push(crowded, 1_000_000, 1_000_500)
    for part in range(30):
        push(crowded, 20_000 + part * 500, 20_500 + part * 500)
    assert states(crowded) == {"old": "FAILED", "new": "RUNNING"}
    assert crowded.db.invoke("new").table.num_rows == 500


def test_groups_of_readings_are_estimated_from_the_log(crowded: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cell_estimate, "FEW_ROWS", 1000)
    with pytest.raises(PenstockError, match="a full window has about") as refused:
        create(crowded, "many", "value >= 0 AND value < 9999", "BEGIN (NOW - 1 DAY) END (NOW)")
    assert refused.value.condition == "over_budget"
    create(crowded, "few", "value >= 0 AND value < 9999", "BEGIN (NOW - 10 SECONDS) END (NOW)", "place")


def test_a_query_has_to_fit_beside_the_others(crowded: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cell_estimate, "FEW_ROWS", 1000)
    second = "BEGIN (NOW - 1200 MILLISECONDS) END (NOW)"
    with pytest.raises(PenstockError, match="other queries take") as refused:
        create(crowded, "beside", "value >= 0", second)
    assert refused.value.condition == "over_budget"
    create(crowded, "shared", "value < 1000000", second)
    crowded.db.execute("DROP QUERY old")
    crowded.db.execute("DROP QUERY shared")
    crowded.engine.drain()
    create(crowded, "beside", "value >= 0", second)


def test_a_longer_window_that_does_not_fit_is_refused_and_a_shorter_one_never_is(
    crowded: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(crowded, "brief", "value >= 0", "BEGIN (NOW - 2 MILLISECONDS) END (NOW)")
    monkeypatch.setattr(cell_estimate, "FEW_ROWS", 1000)
    with pytest.raises(PenstockError, match="other queries take") as refused:
        crowded.db.execute("ALTER QUERY brief SET BEGIN (NOW - 1 HOUR)")
    assert refused.value.condition == "over_budget"
    assert "MILLISECONDS" in crowded.db.query("brief")["sql"]
    monkeypatch.setattr(cell_estimate, "CELL_BYTES", 1 << 20)
    crowded.db.execute("ALTER QUERY old SET BEGIN (NOW - 59 MINUTES)")


def test_a_history_that_outgrows_the_memory_fails_without_a_cycle(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes(slices_memory_mb=1, answer_read_max_rows=1000)
    pipe.probes()
    push(pipe, 0, 60_000)
    create(pipe, "many", "value >= 0")
    with pytest.raises(PenstockError, match="slices"):
        pipe.db.standing.is_ready("many", 60.0)
    assert states(pipe) == {"many": "FAILED"} and pipe.db.query("many")["memory"] < 1000


def test_a_window_that_was_made_too_long_fails_alone_and_not_those_that_share_its_cells(
    pipes: Callable[..., Pipe],
) -> None:
    pipe = pipes(slices_memory_mb=1, answer_read_max_rows=1000, cycles_keep=2, intervals=Intervals(trim_cycles=1))
    pipe.probes()
    brief = "BEGIN (NOW - 10 SECONDS) END (NOW)"
    create(pipe, "stays", "value >= 0", brief)
    create(pipe, "altered", "value >= 0", brief)
    for part in range(20):
        push(pipe, 3000 * part, 3000 * part + 3000)
        pipe.clock.advance(20_000_000)
    for _ in range(4):
        push(pipe, 1, 3)
    assert states(pipe) == {"stays": "RUNNING", "altered": "RUNNING"}
    pipe.db.execute("ALTER QUERY altered SET BEGIN (NOW - 1 HOUR)")
    pipe.engine.drain()
    with pytest.raises(PenstockError, match="slices"):
        pipe.db.standing.is_ready("altered", 60.0)
    push(pipe, 1, 3)
    assert states(pipe) == {"stays": "RUNNING", "altered": "FAILED"}
    assert pipe.db.invoke("stays").table.to_pylist() == [{"value": 1.0, "n": 5}, {"value": 2.0, "n": 5}]
    assert pipe.db.query("stays")["memory"] < 100_000


@pytest.mark.parametrize("groups", [1, 40, 3000, 100_000, 1_000_000])
def test_the_number_of_groups_is_guessed_from_a_sample(groups: int) -> None:
    """Of groups that are about equally frequent. Where some are rare, there may be more than that."""
    sample = np.random.default_rng(groups).integers(0, groups, 65_536)
    assert guess_groups(sample, 1 << 40) == pytest.approx(groups, rel=0.05)
    assert guess_groups(np.arange(65_536), 100_000) == 100_000, "no more than rows"
