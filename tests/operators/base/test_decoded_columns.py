"""Compacted files, read through what is kept of them decoded: the same rows as read from the file."""

from __future__ import annotations

import os
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.operators.base import open_files
from penstock.operators.base.open_files import DecodedColumns, OpenFiles
from penstock.streams.log.segment_rows import read_slice
from penstock.streams.log.segments import Segment, Slice

ROWS = 1000


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Segment:
    monkeypatch.setattr(open_files, "ROW_GROUP_ROWS", 100)
    table = pa.table({"a": np.arange(ROWS), "b": [f"text {i}" if i % 7 else None for i in range(ROWS)]})
    path = tmp_path / f"{50:016d}-{50 + ROWS:016d}-0-9.parquet"
    pq.write_table(table, path, row_group_size=100)
    return Segment(path, 50, 50 + ROWS, 0, 9, "parquet")


@pytest.mark.parametrize("seed", range(5))
def test_any_rows_and_columns_are_those_of_the_file(file: Segment, seed: int) -> None:
    rng = random.Random(seed)
    files = OpenFiles(DecodedColumns(most_bytes=rng.choice((0, 2_000, 1 << 20))))
    fields = [pa.field("a", pa.int64()), pa.field("b", pa.string()), pa.field("late", pa.float64())]
    for _ in range(60):
        first = rng.randrange(ROWS)
        end = rng.randrange(first + 1, min(ROWS, first + rng.choice((1, 90, 400))) + 1)
        schema = pa.schema(rng.sample(fields, rng.randrange(1, 4)))
        expected = read_slice(Slice(file.path, "parquet", 50 + first, first, end - first), schema=schema)
        assert files.read(file, first, end, schema).equals(expected), (seed, first, end, schema.names)
    assert files._decoded._kept.nbytes == sum(column.nbytes for column in files._decoded._kept.values())
    assert files._decoded._kept.nbytes <= files._decoded._most_bytes


def test_a_file_that_was_written_anew_is_read_anew(file: Segment) -> None:
    files, schema = OpenFiles(), pa.schema([pa.field("a", pa.int64())])
    assert files.read(file, 3, 5, schema).column("a").to_pylist() == [3, 4]
    pq.write_table(pa.table({"a": np.arange(ROWS) + 7}), file.path, row_group_size=100)
    os.utime(file.path, ns=(1, 1))
    assert files.read(file, 3, 5, schema).column("a").to_pylist() == [10, 11]


def test_columns_that_nobody_asked_for_lately_go_when_others_come(file: Segment) -> None:
    now = [0.0]
    files, schema = OpenFiles(DecodedColumns(clock=lambda: now[0])), pa.schema([pa.field("a", pa.int64())])
    for group in range(10):
        now[0] += 0.6 * open_files.MOST_IDLE_S
        files.read(file, 0, 10, schema)  # asked for again and again
        files.read(file, 100 * group, 100 * group + 10, schema)
        assert len(files._decoded._kept) <= 3
        assert {key[2] for key, _ in files._decoded._kept.items()} >= {0, group}
