"""Files of a rollup: immutable Parquet, complete or absent, named by the journal."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.cache import Cache
from penstock.cancellation import check
from penstock.catalog.rollup_records import RollupFile
from penstock.errors import error
from penstock.operators.aggregate.rollups.cells import RollupCells, Shape
from penstock.operators.aggregate.shape import Measure, measure_name
from penstock.streams.log.atomic_file import CrashPoint, make_folder, no_crash, store
from penstock.streams.log.checksums import KEY, ROOM, check_footer, check_schema, seal_footer, sealed_schema
from penstock.types import format_duration

FOLDER = "rollups"
MEMORY_BYTES = 64 << 20
_MEASURES = b"penstock.measures"


def path_of(root: Path, rollup_id: int, every_us: int, number: int) -> Path:
    return root / FOLDER / str(rollup_id) / format_duration(every_us) / f"{number:010d}.parquet"


def write_cells(
    root: Path,
    rollup_id: int,
    cells: RollupCells,
    shape: Shape,
    place: tuple[int, int, int],
    crash_point: CrashPoint = no_crash,
) -> RollupFile:
    """Put cells in a file; `place`: its number, the width of its cells and where its block begins."""
    number, every_us, block_us = place
    columns: dict[str, pa.Array] = {"start": pa.array(cells.starts)}
    columns |= {f"key.{i}": key for i, key in enumerate(cells.keys)}
    for at, (partial, state) in enumerate(zip(shape.partials(), cells.states, strict=True)):
        columns |= {f"{at}.{name}": partial.to_arrow(name, field) for name, field in state.items()}
    names = orjson.dumps([measure_name(measure) for measure in shape.measures])
    table = pa.table(columns).replace_schema_metadata({_MEASURES: names})
    path = path_of(root, rollup_id, every_us, number)
    for folder in (root / FOLDER, path.parent.parent, path.parent):
        make_folder(folder)

    def write(aside: Path) -> None:
        with pq.ParquetWriter(
            aside, sealed_schema(table.schema), compression="zstd", write_page_checksum=True
        ) as writer:
            writer.write_table(table)
            writer.add_key_value_metadata({KEY: ROOM})
        seal_footer(aside)

    store(root / "tmp", path, write, crash_point, "rollup")
    return RollupFile(
        number,
        every_us,
        block_us,
        int(cells.earliest.min()),
        int(cells.latest.max()),
        len(cells),
        cells.readings,
        path.stat().st_size,
    )


def read_cells(
    root: Path, rollup_id: int, file: RollupFile, shape: Shape, measures: Sequence[Measure] | None = None
) -> RollupCells:
    """The cells of a file, with some of the measures or all."""
    check()
    found = shape.measures if measures is None else tuple(measures)
    path = path_of(root, rollup_id, file.every_us, file.number)
    try:
        check_footer(path)
        with pq.ParquetFile(path, memory_map=True, page_checksum_verification=True) as opened:
            check_schema(opened.schema_arrow)
            names: list[str] = orjson.loads(opened.schema_arrow.metadata[_MEASURES])
            fields = [(names.index(measure_name(m)), m.make()) for m in found]
            keys = [f"key.{i}" for i in range(len(shape.family.keys))]
            wanted = [f"{at}.{name}" for at, partial in fields for name in partial.fields()]
            table = opened.read(columns=["start", *keys, *wanted], use_threads=False).combine_chunks()
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as problem:
        raise error(
            "corrupt_segment",
            segment=str(path.relative_to(root)),
            detail=str(problem),
            hint="put the file back from a backup, or drop the rollup",
        ) from problem
    states = tuple(
        {name: partial.from_arrow(name, _array(table, f"{at}.{name}")) for name in partial.fields()}
        for at, partial in fields
    )
    return RollupCells(tuple(_array(table, name) for name in keys), table.column("start").to_numpy(), states)


def _array(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], column.type)])


class RollupFiles:
    """Reads files and keeps the last ones in memory: a subscriber to a long window needs the same files every cycle."""

    def __init__(self, root: Path, most_bytes: int = MEMORY_BYTES) -> None:
        self.root = root
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._known: Cache[tuple[int, int, tuple[Measure, ...]], RollupCells] = Cache(most_bytes=most_bytes)

    def read(self, rollup_id: int, file: RollupFile, shape: Shape, measures: tuple[Measure, ...]) -> RollupCells:
        wanted = (rollup_id, file.number, measures)
        with self._lock:
            known = self._known.get(wanted)
        if known is not None:
            return known
        cells = read_cells(self.root, rollup_id, file, shape, measures)
        states = sum(m.make().nbytes(state) for m, state in zip(measures, cells.states, strict=True))
        size = int(cells.starts.nbytes) + sum(int(key.nbytes) for key in cells.keys) + states
        if size <= self._most_bytes:
            with self._lock:
                self._known.put(wanted, cells, size)
        return cells
