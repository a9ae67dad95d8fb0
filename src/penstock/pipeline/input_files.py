"""Rows that the server gives to Spark in files, because they are too many to be in memory at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from penstock.types import Field

BATCH_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class InputFiles:
    """A relation as files, each with some of its rows. The files exist for as long as their writer keeps references to them."""

    fields: tuple[Field, ...]
    files: tuple[Path, ...]

    def options(self) -> dict[str, str]:
        """What the data source `penstock` needs to read them."""
        return {
            "schema": ", ".join(f.to_spark() for f in self.fields),
            "files": orjson.dumps([str(f) for f in self.files]).decode(),
        }


def write_handed(path: Path, rows: pa.Table) -> None:
    """Soft: nothing is synced, and after a crash the folder is swept."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
            writer.write_table(rows, max_chunksize=BATCH_ROWS)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


@dataclass
class InputFilesTask(InputPartition):
    """One of the files; without any there is one task that reads nothing."""

    file: str | None

    def __post_init__(self) -> None:
        super().__init__(None)


class InputFilesReader(DataSourceReader):
    """Reads the files of a relation, one task per file."""

    def __init__(self, options: dict[str, str]) -> None:
        self._files: list[str] = orjson.loads(options["files"])

    def partitions(self) -> Sequence[InputPartition]:
        return [InputFilesTask(f) for f in self._files] or [InputFilesTask(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, InputFilesTask)
        if partition.file is not None:
            with pa.memory_map(partition.file) as source:
                reader = pa.ipc.open_file(source)
                for number in range(reader.num_record_batches):
                    yield reader.get_batch(number)
