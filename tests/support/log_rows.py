"""Rows of a log for tests that write and read it themselves."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from penstock.streams.log.segment_rows import read_slice
from penstock.streams.log.segments import list_files, list_segments, slices


def batch(*values: float) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "_vid": pa.array([0] * len(values), pa.int32()),
            "ts": pa.array([7] * len(values), pa.int64()).cast(pa.timestamp("us", tz="UTC")),
            "ppm": pa.array(values, pa.float64()),
            "seq": pa.array([1] * len(values), pa.int32()),
        }
    )


def stored(folder: Path, table_id: int, column: str = "ppm") -> list[float]:
    segments = list_segments(folder / "log", table_id)
    end = segments[-1].end if segments else 0
    return [x for piece in slices(segments, 0, end) for x in read_slice(piece, [column]).column(column).to_pylist()]


def log_heads(log_folder: Path) -> dict[int, int]:
    """One past the newest row of every table that has a segment, as files say it."""
    ends = {int(folder.name): [segment.end for segment in list_files(folder)] for folder in log_folder.iterdir()}
    return {table_id: max(found) for table_id, found in ends.items() if found}
