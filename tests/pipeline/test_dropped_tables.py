"""A table that is dropped while a question about it is answered: the question hears so."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from penstock.cycle import definitions
from penstock.errors import PenstockError
from penstock.pipeline.history import HistoryReader, HistoryRequest
from penstock.pipeline.spark_sql import translate
from tests.support.pipe import Pipe


def asked(pipe: Pipe) -> HistoryReader:
    """A question about all of the table, as its runner would hand it to Spark."""
    table = pipe.db.catalog.state.tables["probes"]
    offset = pipe.db.standing.store.offset
    assert offset is not None
    folder = str(pipe.db.folder.root)
    end = offset.data[table.id]
    request = HistoryRequest(folder, "stream", table.name, table.id, offset.journal, ("value",), end=end)
    return HistoryReader({"request": request.to_option()})


def filled(pipe: Pipe) -> HistoryReader:
    pipe.probes()
    pipe.push(1.0, 2.0)
    pipe.engine.drain()
    return asked(pipe)


def drop(pipe: Pipe) -> None:
    """So long ago that the files, which are kept for those who read them, are gone."""
    pipe.db.execute("DROP TABLE probes")
    pipe.db.log.remove_dropped(0)


def test_the_reader_finds_what_is_there(pipe: Pipe) -> None:
    reader = filled(pipe)
    rows = [r for p in reader.partitions() for b in reader.read(p) for r in b.column("value").to_pylist()]
    assert rows == [1.0, 2.0]


def test_a_drop_before_the_files_were_listed_is_named(pipe: Pipe) -> None:
    reader = filled(pipe)
    drop(pipe)
    with pytest.raises(PenstockError) as caught:
        reader.partitions()
    assert (caught.value.condition, caught.value.message) == ("table_not_found", 'there is no table "probes"')


@pytest.mark.parametrize("worker_knows", [True, False])
def test_a_drop_before_the_files_were_read_is_named(pipe: Pipe, worker_knows: bool) -> None:
    reader = filled(pipe)
    parts = reader.partitions()
    before = pipe.db.catalog.state.position
    pipe.db.execute("DROP TABLE probes")
    if not worker_knows:
        pipe.db.log.remove_dropped(0)
    definitions._CACHE.clear()
    definitions.definitions_at(str(pipe.db.folder.root), before + worker_knows)
    with pytest.raises(PenstockError) as caught:
        list(reader.read(parts[0]))
    assert caught.value.condition == "table_not_found"


def test_the_name_and_the_reason_survive_the_way_through_spark() -> None:
    trace = (
        'Traceback\n  File "history.py"\npenstock.errors.PenstockError: there is no table "probes"\n\n\tat org.apache'
    )
    told = translate(PySparkException(trace))
    assert (told.condition, told.message) == ("table_not_found", 'there is no table "probes"')
    assert told.hint == "it was dropped while the question was answered"
