"""Files of cells: tiles are written once, and mapped into memory again after a restart.

`DATA/slices/<family>/<a random name>.arrow` has tiles of one measure. A snapshot names the files, and holds only cells that are in none.
Files are soft: they are not in backups, and a power cut may take one. Where one is missing or damaged, the log is sliced again. No file is ever written
twice under one name, so a snapshot never finds other cells in a file than those that it names.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import uuid
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from penstock.disk_sync import sync_file
from penstock.operators.aggregate.partials.base import Mergeable, Numbers
from penstock.operators.aggregate.partials.tiles import CellFile, CellTile, LevelTile
from penstock.streams.log.checksums import SEAL, forget_whole, open_sealed, open_stream, sealed_file

_log = logging.getLogger("penstock.queries")
FOLDER = "slices"
FILE_CELLS = 1 << 14
"""Fewer cells of a measure stay in snapshots: many small files would take more than they save. Not finer cells of a wide slot."""
FILE_BYTES, FILE_TILES = 8 << 20, 256
"""A file is full with so many bytes or tiles: so much is written at a time."""
_HEAD = b"penstock.tiles"
# What a damaged file can end in: lengths are read before any checksum.
_UNREADABLE = (OSError, pa.ArrowException, ValueError, KeyError, TypeError, IndexError, AttributeError, MemoryError)


@dataclass(frozen=True, slots=True)
class FileBatch:
    """Tiles of one measure that make one file."""

    family: str
    tiles: Sequence[LevelTile]


@dataclass(frozen=True, slots=True)
class MappedFile:
    """A file that was written, and its tiles as they are mapped."""

    batch: FileBatch
    file: CellFile
    columns: Sequence[Mapping[str, Numbers]]

    def adopt(self) -> None:
        """Have the tiles use the file in place of their own arrays. Called under the lock of the store."""
        for place, (each, columns) in enumerate(zip(self.batch.tiles, self.columns, strict=True)):
            each.tile.adopt(columns, self.file, place)


def file_batches(family: str, tiles: Sequence[LevelTile], partial: Mergeable) -> list[FileBatch]:
    """Tiles in as many files as they need; where they have few cells, only those that a snapshot leaves out."""
    if sum(len(each.tile) for each in tiles) < FILE_CELLS:
        tiles = [each for each in tiles if each.is_refined]
    if not tiles:
        return []
    found: list[list[LevelTile]] = [[]]
    room = FILE_BYTES
    for each in tiles:
        if found[-1] and (room <= 0 or len(found[-1]) == FILE_TILES):
            found.append([])
            room = FILE_BYTES
        found[-1].append(each)
        room -= each.tile.nbytes(partial)
    return [FileBatch(family, batch) for batch in found]


class CellFiles:
    """The files of cells of a data folder."""

    def __init__(self, root: Path) -> None:
        self._folder = root / FOLDER

    def write(self, batch: FileBatch) -> MappedFile | None:
        """Write tiles to a new file and map it; None where the disk does not take it: the cells stay in memory."""
        heads: list[dict[str, Any]] = []
        arrays: dict[str, pa.Array] = {}
        for place, each in enumerate(batch.tiles):
            columns = each.tile.columns()
            heads.append({"start": each.start, "width": each.tile.width, "slots": each.slots})
            arrays |= {f"{place}.{name}": _one_row(column) for name, column in columns.items()}
        table = pa.record_batch(arrays)
        schema = table.schema.with_metadata({_HEAD: orjson.dumps(heads)})
        path = self._folder / batch.family / f"{uuid.uuid4().hex}.arrow"
        try:
            for folder in (self._folder, path.parent):
                folder.mkdir(exist_ok=True, mode=0o700)
            sealed_file(schema, [table.replace_schema_metadata(schema.metadata)])(path)
            path.chmod(0o400)
            sync_file(path)  # the arrays in memory are given up for it: the disk must have it
            _, mapped = _mapped(path)
        except (OSError, pa.ArrowException) as problem:
            _log.warning("cells stay in memory and in snapshots: %s", problem)
            path.unlink(missing_ok=True)
            return None
        file = CellFile(path.name, sum(len(each.tile) for each in batch.tiles))
        return MappedFile(batch, file, mapped)

    def open(self, family: str, named: Mapping[str, Sequence[int]], partial: Mergeable) -> list[LevelTile] | None:
        """The tiles that a snapshot names; None where a file is missing or damaged."""
        found = []
        for name, places in named.items():
            path = self._folder / family / name
            forget_whole(path)  # it may have changed since this process wrote it
            try:
                heads, columns = _mapped(path)
                tiles = [CellTile.of(head["width"], each, partial) for head, each in zip(heads, columns, strict=True)]
                file = CellFile(name, sum(map(len, tiles)))
                for place in places:
                    tiles[place].file = file, place
                    found.append(LevelTile(heads[place]["start"], heads[place]["slots"], tiles[place]))
            except _UNREADABLE as problem:
                _log.warning("cells are sliced from the log again: %s: %s", path.name, problem)
                return None
        return found

    def sweep(self, used: Mapping[str, Container[str]]) -> None:
        """Remove all files but these, by family."""
        if not self._folder.is_dir():
            return
        for folder in list(self._folder.iterdir()):
            if folder.name not in used:
                shutil.rmtree(folder, ignore_errors=True)
                continue
            for path in list(folder.iterdir()):
                if path.name not in used[folder.name]:
                    with contextlib.suppress(OSError):
                        path.unlink()


def _one_row(column: Numbers) -> pa.Array:
    """An array as one list: columns of a file may have different lengths so."""
    return pa.LargeListArray.from_arrays(np.array([0, len(column)]), pa.array(column))


def _mapped(path: Path) -> tuple[list[dict[str, Any]], list[dict[str, Numbers]]]:
    """What a file says of each tile, and the arrays of each. Raises ArrowInvalid where they are not as they were written."""
    with pa.memory_map(str(path)) as source:
        schema = open_sealed(path, source)
        if SEAL not in schema.metadata:  # its name is what was damaged: nothing was compared
            raise pa.ArrowInvalid("the file has no seal")
        batch = open_stream(source).read_next_batch()
    heads = orjson.loads(schema.metadata[_HEAD])
    columns: list[dict[str, Numbers]] = [{} for _ in heads]
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        place, _, own = name.partition(".")
        columns[int(place)][own] = column.values.to_numpy(zero_copy_only=True)
    return heads, columns
