"""Any history: operations that succeed and fail, restarts and full disks.

At every prefix the journal gives back the state that was in memory.
"""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.catalog import journal
from penstock.catalog.model import Deduplicate, Function, StreamColumn, StreamType, Table, TableOptions, plan_text
from penstock.catalog.rollup_records import RollupDefinition, RollupFile, RollupStep, Tier
from penstock.catalog.state import CatalogState, load_state
from penstock.errors import PenstockError
from penstock.types import DOUBLE, INT, TEXT, Field, parse_type
from tests.catalog.bench import CatalogBench, everything
from tests.support.examples import examples
from tests.support.new_query import new_query

pytestmark = pytest.mark.usefixtures("unsynced")

NAMES = st.sampled_from(["a", "b", "c"])
TYPES = st.sampled_from(
    ["INT", "TEXT", "DOUBLE", "TIMESTAMP", "DECIMAL(6, 2)", "BINARY", "BOOLEAN", "ARRAY<DOUBLE>", "STRUCT<x: BINARY>"]
)
OPTIONS = st.builds(
    TableOptions,
    time=st.sampled_from(["valid", "transaction"]),
    retention_us=st.none() | st.integers(1, 9),
    deduplicate=st.none() | st.just(Deduplicate(("ppm", "ts"), 5)),
)
STREAMS = st.none() | st.builds(
    StreamColumn,
    st.just("reading"),
    st.just((Field("ppm", DOUBLE),)),
    st.none() | NAMES,
    st.sampled_from([None, "tcp"]),
    st.just({"port": "1"}),
)

SOME = st.lists(NAMES, max_size=2, unique=True).map(tuple)
SIDS = st.lists(st.integers(0, 6), max_size=3)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "INT": st.integers(-2, 2),
    "TEXT": st.text("ab\x1f", max_size=2),
    "DOUBLE": st.sampled_from([0.0, -0.0, 1.5, float("inf"), float("nan")]),
    "TIMESTAMP": st.integers(-5, 5),
    "DECIMAL": st.sampled_from(["1", "1.00", "-2.5"]),
    "BINARY": st.binary(max_size=2),
    "BOOLEAN": st.booleans(),
    "ARRAY": st.lists(st.none() | st.sampled_from([1.0, float("inf")]), max_size=2),
    "STRUCT": st.fixed_dictionaries({"x": st.none() | st.binary(max_size=1)}),
}


def create_table(bench: CatalogBench, draw: st.DataObject) -> None:
    columns = [Field("k", parse_type(draw.draw(st.sampled_from(["INT", "TEXT", "DOUBLE"]))))]
    columns += [Field(f"c{i}", parse_type(t)) for i, t in enumerate(draw.draw(st.lists(TYPES, max_size=2)))]
    chosen = tuple(columns[: draw.draw(st.integers(0, 3))])
    key = draw.draw(st.sampled_from([("k",), (), ("k", "c0")]))
    bench.catalog.create_table(Table(0, draw.draw(NAMES), chosen, key, draw.draw(STREAMS), draw.draw(OPTIONS)))


def a_row(bench: CatalogBench, draw: st.DataObject, table: str) -> tuple[Any, ...]:
    found = bench.state.tables.get(table)
    if found is None:
        return (1,)
    values = [draw.draw(st.none() | VALUES[c.type.kind]) for c in found.columns]
    return (*values, draw.draw(st.sampled_from([None, "here"]))) if found.stream else tuple(values)


def insert(bench: CatalogBench, draw: st.DataObject) -> None:
    table = draw.draw(NAMES)
    bench.catalog.insert_rows(table, [a_row(bench, draw, table) for _ in range(draw.draw(st.integers(0, 3)))])


def change(bench: CatalogBench, draw: st.DataObject) -> None:
    table = draw.draw(NAMES)
    bench.catalog.update_rows(table, {sid: a_row(bench, draw, table) for sid in draw.draw(SIDS)})


def remove(bench: CatalogBench, draw: st.DataObject) -> None:
    bench.catalog.delete_rows(draw.draw(NAMES), draw.draw(SIDS))


def add_column(bench: CatalogBench, draw: st.DataObject) -> None:
    column = Field(draw.draw(st.sampled_from(["c0", "d", "e"])), draw.draw(st.sampled_from([INT, TEXT])))
    bench.catalog.add_column(draw.draw(NAMES), column, to_stream=draw.draw(st.booleans()))


def create_queries(bench: CatalogBench, draw: st.DataObject) -> None:
    new = st.builds(
        new_query, NAMES | st.sampled_from(["q", "r", "s"]), st.just("SELECT"), st.just({}), SOME, SOME, SOME
    )
    bench.catalog.create_queries(draw.draw(st.lists(new, max_size=3)))


def change_query(bench: CatalogBench, draw: st.DataObject) -> None:
    bench.catalog.change_query(
        draw.draw(NAMES), plan={"n": draw.draw(st.integers(0, 2))}, paused=draw.draw(st.booleans())
    )


def drop(bench: CatalogBench, draw: st.DataObject) -> None:
    kind = draw.draw(st.sampled_from(["table", "stream_type", "function", "query", "rollup"]))
    bench.catalog.drop(kind, [draw.draw(NAMES | st.sampled_from(["q", "r"]))], cascade=draw.draw(st.booleans()))


def create_rollup(bench: CatalogBench, draw: st.DataObject) -> None:
    tables = list(bench.state.tables.values())
    if tables:
        table = draw.draw(st.sampled_from(tables))
        made = RollupDefinition(
            0, draw.draw(NAMES), table.id, table.name, "SELECT 1", plan_text({}), (Tier(60, 90), Tier(120))
        )
        bench.catalog.create_rollup(replace(made, since_us=7))


def close_rollup(bench: CatalogBench, draw: st.DataObject) -> None:
    for rollup in bench.state.rollups.values():
        before = bench.state.rolled_up(rollup.id)
        assert before is not None
        position = before.position + draw.draw(st.integers(0, 3))
        file = RollupFile(before.next_number, 60, 0, 1, 2, 3, 4, 5)
        removed = draw.draw(st.lists(st.sampled_from([f.number for f in before.files]))) if before.files else []
        closing = RollupStep(position, (file,), tuple(removed), draw.draw(st.none() | st.integers(0, 5)))
        assert bench.catalog.close_rollup(rollup, before, closing)
        assert not bench.catalog.close_rollup(rollup, before, closing), "somebody else was faster"


def log_readings(bench: CatalogBench, draw: st.DataObject) -> None:
    for table_id in bench.state.tables_by_id:
        bench.heads[table_id] = bench.heads.get(table_id, 0) + draw.draw(st.integers(0, 2))
    bench.clock.advance(1)


def fill_the_disk(bench: CatalogBench, draw: st.DataObject) -> None:
    """The next operation meets a disk with room for a few bytes."""
    real = journal.os.write
    room = [draw.draw(st.integers(0, 300))]

    def write(descriptor: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = real(descriptor, data[: room[0]])
        room[0] -= written
        return written

    with pytest.MonkeyPatch.context() as full:
        full.setattr(journal.os, "write", write)
        draw.draw(st.sampled_from(CHANGES))(bench, draw)


CHANGES: list[Callable[[CatalogBench, st.DataObject], None]] = [
    create_table,
    create_table,
    insert,
    insert,
    insert,
    change,
    remove,
    add_column,
    create_queries,
    change_query,
    create_rollup,
    close_rollup,
    drop,
    lambda bench, draw: bench.catalog.create_stream_type(StreamType(draw.draw(NAMES), (Field("ppm", DOUBLE),))),
    lambda bench, draw: bench.catalog.create_function(Function(draw.draw(NAMES), (), DOUBLE, "return 1.0")),
    lambda bench, draw: bench.catalog.observe(draw.draw(st.integers(1, 3)), draw.draw(SIDS), draw.draw(SIDS)),
    lambda bench, draw: bench.catalog.observe(draw.draw(st.integers(1, 3)), [], [], draw.draw(SIDS)),
    lambda bench, draw: bench.catalog.retain(draw.draw(st.integers(1, 3)), draw.draw(st.integers(0, 9))),
]
STEPS = [*CHANGES, log_readings, fill_the_disk, lambda bench, draw: bench.reopen()]


def plain(state: CatalogState) -> Any:
    # NaN is unequal to itself; its text is not.
    return repr(everything(state))


def live_through(folder: Path, draw: st.DataObject) -> None:
    bench = CatalogBench(folder)
    remembered = {0: plain(CatalogState())}
    follower, reader = CatalogState(), journal.JournalReader(folder)
    for _ in range(draw.draw(st.integers(5, 25))):
        step = draw.draw(st.sampled_from(STEPS))
        before = (bench.state.position, plain(bench.state))
        try:
            step(bench, draw)
        except PenstockError as refusal:
            assert refusal.condition not in ("internal_error", "corrupt_journal")
            assert (bench.state.position, plain(bench.state)) == before
        remembered[bench.state.position] = plain(bench.state)
        for entry in reader.read():
            follower.apply_many([entry])
        assert plain(follower) == plain(bench.state)
    for position, expected in remembered.items():
        assert plain(load_state(folder, upto=position)) == expected
    bench.reopen()
    assert plain(bench.state) == remembered[bench.state.position]
    bench.close()


@settings(max_examples=examples(30), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_any_history_comes_back_from_the_journal(draw: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        live_through(Path(folder), draw)
