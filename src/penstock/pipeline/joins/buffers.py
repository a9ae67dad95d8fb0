"""Buffers of the host: runs as files in shared memory, one folder per stream and part, attached by any worker.

A file's name is the log range that it stands for, and its content follows from that range. So a file can be missing,
repeated by a replay or removed at any time, and nothing is lost: what no file covers is read from the log.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock.operators.joins.runs import Run, attach_run, merge_runs

_NAME = re.compile(r"^(\d{16})-(\d{16})\.run$")
_GONE = re.compile(r"^(\d{16})-(\d{16})-(-?\d+)\.gone$")
_attached: dict[Path, Run] = {}
# More runs than this make every probe slower; fewer mean that rows are merged again and again.
MOST_RUNS = 8
LARGEST_MERGE = 4_000_000


@dataclass(frozen=True, slots=True, order=True)
class Gone:
    """A log range whose rows are not buffered any more; none of them is later than `max_ts`."""

    first: int
    end: int
    max_ts: int

    @property
    def name(self) -> str:
        return f"{self.first:016d}-{self.end:016d}-{self.max_ts}.gone"


@dataclass(frozen=True, slots=True)
class BufferFolder:
    """The runs of one stream and part."""

    path: Path

    def runs(self, before: int) -> list[Run]:
        """Runs below a log position that do not overlap, oldest first."""
        chosen: list[Run] = []
        at = -1
        for path, first, end in self._files():
            if end > before or first < at:
                continue
            run = _attach(path, first, end)
            if run is not None:
                chosen.append(run)
                at = end
        return chosen

    def gone(self) -> list[Gone]:
        """Log ranges whose rows were here and were dropped, oldest first."""
        try:
            names = os.listdir(self.path)
        except FileNotFoundError:
            return []
        return sorted(Gone(int(m[1]), int(m[2]), int(m[3])) for n in names if (m := _GONE.match(n)))

    def publish(self, run: Run) -> None:
        """Make a run visible to whoever comes next."""
        target = self._path_of(run)
        if target.exists():
            return
        # The link leads into this host's shared memory, where nobody may have been before.
        os.makedirs(os.path.realpath(self.path), mode=0o700, exist_ok=True)
        names = ["#ts", "#pos", *(["#key"] if run.keyed else []), *run.columns]
        arrays = [
            pa.array(run.ts),
            pa.array(run.pos),
            *([pa.array(run.key)] if run.keyed else []),
            *run.columns.values(),
        ]
        aside = self.path / f".{uuid.uuid4().hex}.run"
        batch = pa.RecordBatch.from_arrays(arrays, names)
        try:
            with pa.OSFile(str(aside), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
                writer.write_batch(batch)
            os.rename(aside, target)
        except BaseException:
            aside.unlink(missing_ok=True)
            raise
        _attached[target] = run

    def tidy(self, keep_from: int, before: int) -> None:
        """Drop runs that time has passed, and merge what became too many below a log position.

        Rows of the step itself stay apart: another part may still have to tell them from old ones.
        """
        runs = []
        for path, first, end in self._files():
            run = _attach(path, first, end)
            if run is not None and (len(run) == 0 or run.max_ts >= keep_from):
                runs.append(run)
            else:
                self._drop(path, run)
        self._join_neighbours_gone()
        # Empty runs say that there is nothing to read; before the oldest row that is kept nobody asks.
        kept = [r.first for r in runs if len(r)]
        for run in [r for r in runs if not len(r) and r.end <= (kept[0] if kept else runs[-1].first)]:
            runs.remove(run)
            _remove(self._path_of(run))
        for group in _to_merge([r for r in runs if r.end <= before]):
            self.publish(merge_runs(group))
            for run in group:
                _remove(self._path_of(run))

    def _path_of(self, run: Run) -> Path:
        return self.path / f"{run.first:016d}-{run.end:016d}.run"

    def _drop(self, path: Path, run: Run | None) -> None:
        """Remove a run, but remember up to which time its rows went: whoever looks for later ones need not read them."""
        if run is not None:
            (self.path / Gone(run.first, run.end, run.max_ts).name).touch()
        _remove(path)

    def _join_neighbours_gone(self) -> None:
        """One name for ranges that touch: there must not be more and more of them."""
        known: list[Gone] = []
        for each in self.gone():
            if known and each.first <= known[-1].end:
                last = known.pop()
                known.append(Gone(last.first, max(last.end, each.end), max(last.max_ts, each.max_ts)))
            else:
                known.append(each)
        wanted = {g.name for g in known}
        for name in wanted:
            (self.path / name).touch()
        for each in self.gone():
            if each.name not in wanted:
                (self.path / each.name).unlink(missing_ok=True)

    def shrink(self, room: int) -> int:
        """Drop the oldest runs until the rest fits; returns what is left of the room."""
        sizes = [(path, first, end, path.stat().st_size) for path, first, end in self._files()]
        for path, first, end, size in reversed(sizes):
            room -= size
            if room < 0:
                self._drop(path, _attach(path, first, end))
        return max(0, room)

    def _files(self) -> list[tuple[Path, int, int]]:
        """Oldest first; of those that begin together the longest first."""
        try:
            names = os.listdir(self.path)
        except FileNotFoundError:
            return []
        found = [(self.path / n, int(m[1]), int(m[2])) for n in names if (m := _NAME.match(n))]
        return sorted(found, key=lambda f: (f[1], -f[2]))


def _attach(path: Path, first: int, end: int) -> Run | None:
    """A run as this worker sees it; None where it has gone, or is torn."""
    if path in _attached:
        return _attached[path]
    try:
        reader = pa.ipc.open_file(pa.memory_map(str(path)))
        table = reader.read_all()
        columns = {n: _one(table.column(n)) for n in table.column_names}
        ts, pos = columns.pop("#ts").to_numpy(), columns.pop("#pos").to_numpy()
        key = columns.pop("#key").to_numpy() if "#key" in columns else None
    except (OSError, pa.ArrowException, KeyError, TypeError):
        return None
    _attached[path] = attach_run(first, end, ts, pos, key, columns)
    return _attached[path]


def _one(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)


def _remove(path: Path) -> None:
    _attached.pop(path, None)
    path.unlink(missing_ok=True)


def forget_removed() -> None:
    """Let go of runs that another worker removed: a mapped file keeps its memory until the last one does."""
    for path in [p for p in _attached if not p.exists()]:
        del _attached[path]


def _to_merge(runs: Sequence[Run]) -> Iterable[Sequence[Run]]:
    """The newest neighbours, as long as each is no larger than all after it together: a row is merged log n times."""
    if len(runs) <= MOST_RUNS:
        return []
    start, rows = len(runs) - 1, len(runs[-1])
    while start > 0 and runs[start - 1].end == runs[start].first:
        larger = len(runs[start - 1])
        if (larger > rows and len(runs) - start > 1) or rows + larger > LARGEST_MERGE:
            break
        start, rows = start - 1, rows + larger
    return [runs[start:]] if len(runs) - start > 1 else []


def buffer_folders(root: Path, parts: set[str]) -> list[BufferFolder]:
    """All buffers of some parts, whoever used them last."""
    try:
        streams = os.listdir(root)
    except FileNotFoundError:
        return []
    return [BufferFolder(root / stream / part) for stream in streams for part in sorted(parts)]


def remove_unused(root: Path, used: set[str]) -> None:
    """Remove the buffers of streams that nobody joins any more."""
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(root):
            if name not in used:
                shutil.rmtree(root / name, ignore_errors=True)


def newest_time(runs: Iterable[Run]) -> int | None:
    times = [r.max_ts for r in runs if len(r)]
    return int(np.max(times)) if times else None
