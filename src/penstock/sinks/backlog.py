"""What a sink has not delivered yet, on disk: so that a target may be away for longer than cycles are kept.

A file holds the batches of several cycles: their rows one after the other, and in its metadata how many belong to each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from pathlib import Path

import orjson
import pyarrow as pa

from penstock.damage import damage_of
from penstock.sinks.base import SinkBatch
from penstock.streams.log.atomic_file import make_folder, store, sweep
from penstock.streams.log.checksums import read_sealed, sealed_file

_KEY = b"penstock"


class Backlog:
    """Batches in the order of their cycles. One thread uses it; one file of them is in memory at a time."""

    def __init__(self, folder: Path, most_bytes: int) -> None:
        self._folder = folder
        self._most = most_bytes
        self._files: deque[Path] = deque()
        self._sizes: dict[Path, int] = {}
        self._loaded: deque[SinkBatch] = deque()
        self.count = 0  # batches that wait here; any thread may look
        self._was_lost = False
        if folder.is_dir():
            sweep(folder)
            self._files.extend(sorted(folder.glob("*.arrow")))
            self._sizes = {path: path.stat().st_size for path in self._files}
            self.count = sum(int(path.stem.split("-")[2]) for path in self._files)

    @property
    def bytes(self) -> int:
        return sum(self._sizes.values())

    @property
    def is_full(self) -> bool:
        return self.bytes >= self._most

    @property
    def last_cycle(self) -> int | None:
        return int(self._files[-1].stem.split("-")[1]) if self._files else None

    def append(self, batches: Sequence[SinkBatch]) -> None:
        """Keep batches, durably."""
        same: list[SinkBatch] = []
        for batch in batches:
            if same and batch.table.schema != same[0].table.schema:
                self._store(same)
                same = []
            same.append(batch)
        if same:
            self._store(same)

    def _store(self, batches: Sequence[SinkBatch]) -> None:
        make_folder(self._folder)
        header = [[b.cycle, b.now_us, b.whole, b.table.num_rows] for b in batches]
        rows = pa.concat_tables([b.table for b in batches]).replace_schema_metadata({_KEY: orjson.dumps(header)})

        write = sealed_file(rows.schema, rows.combine_chunks().to_batches())
        path = self._folder / f"{batches[0].cycle:012d}-{batches[-1].cycle:012d}-{len(batches)}.arrow"
        store(self._folder, path, write)
        self._files.append(path)
        self._sizes[path] = path.stat().st_size
        self.count += len(batches)

    def first(self) -> SinkBatch | None:
        """The oldest batch; it stays until `remove_first`."""
        if not self._loaded and self._files:
            try:
                self._loaded.extend(_read(self._files[0]))
            except (OSError, pa.ArrowException, ValueError, KeyError, TypeError) as problem:
                self._give_up(problem)
        return self._loaded[0] if self._loaded else None

    def _give_up(self, problem: Exception) -> None:
        """A file cannot be read: what waits after it would come after a gap, so the sink begins anew instead."""
        report = damage_of(self._folder.parents[2])
        detail = f"{problem}; the sink goes on with the whole answer"
        for path in self._files:
            if path.exists():
                report.set_aside(path, "sinks", detail, healed=True)
        self._files.clear()
        self._sizes.clear()
        self.count = 0
        self._was_lost = True

    def take_lost(self) -> bool:
        """Whether batches were lost since this was last asked."""
        lost, self._was_lost = self._was_lost, False
        return lost

    def remove_first(self) -> None:
        self._loaded.popleft()
        self.count -= 1
        if not self._loaded:
            # Until here its file stays: after a crash the sink's position says what of it was delivered.
            path = self._files.popleft()
            del self._sizes[path]
            path.unlink(missing_ok=True)


def _read(path: Path) -> list[SinkBatch]:
    with pa.OSFile(str(path), "rb") as source:
        rows = read_sealed(path, source)
    found, begin = [], 0
    for cycle, now_us, whole, count in orjson.loads(rows.schema.metadata[_KEY]):
        found.append(SinkBatch(cycle, now_us, rows.slice(begin, count).replace_schema_metadata(None), whole))
        begin += count
    return found
