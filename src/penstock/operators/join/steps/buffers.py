"""Buffers of the host: runs as files in shared memory, one folder per stream, attached by any worker.

A file's name is its log range and its share of the keys, and its content follows from those. So a file can be missing,
repeated by a replay or removed at any time, and nothing is lost: what no file covers is read from the log. A run may
hold more keys than the part that reads it: these are never looked up.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock.cycle.log_batch import one_array
from penstock.operators.join.kernels.runs import Run, attach_run, merge_runs
from penstock.operators.join.steps.key_ranges import WHOLE, KeyRange, Share

_NAME = re.compile(r"^(\d{16})-(\d{16})-(\d\d)-(\d\d)\.run$")
_GONE = re.compile(r"^(\d{16})-(\d{16})-(\d\d)-(\d\d)-(-?\d+)\.gone$")
_attached: dict[Path, Run] = {}
# More runs than this make every probe slower; fewer mean that rows are merged again and again.
MOST_RUNS = 8
LARGEST_MERGE = 4_000_000


@dataclass(frozen=True, slots=True, order=True)
class DroppedRows:
    """Rows that are not buffered any more; none of them is later than `max_ts`."""

    cells: KeyRange
    max_ts: int

    @property
    def name(self) -> str:
        return f"{_text(self.cells)}-{self.max_ts}.gone"


@dataclass(frozen=True, slots=True)
class BufferedRun:
    """A buffered run, and its log range and key range."""

    cells: KeyRange
    run: Run


@dataclass(frozen=True, slots=True)
class BufferFolder:
    """The runs of one stream, as one part uses them. Each file belongs to the part of its first key, which removes it."""

    path: Path
    share: Share = WHOLE

    def runs(self, areas: Sequence[KeyRange]) -> list[BufferedRun]:
        """Runs that do not overlap, oldest first, which together hold what is buffered of some areas."""
        before = max((a.end for a in areas), default=0)
        chosen: list[BufferedRun] = []
        for path, cells in self._files():
            wanted = cells.end <= before and any(cells.touches(a) for a in areas)
            if not wanted or any(cells.touches(c.cells) for c in chosen):
                continue
            run = _attach(path, cells)
            if run is not None:
                chosen.append(BufferedRun(cells, run))
        return chosen

    def gone(self) -> list[DroppedRows]:
        """Log ranges with dropped runs, oldest first."""
        try:
            names = os.listdir(self.path)
        except FileNotFoundError:
            return []
        return sorted(DroppedRows(_cells(m), int(m[5])) for n in names if (m := _GONE.match(n)))

    def publish(self, run: Run, share: Share) -> None:
        """Write a run to its file, so that later steps can read it."""
        target = self._path_of(KeyRange(run.first, run.end, share))
        if target.exists():
            return
        # The link leads into this host's shared memory, where the folder may not exist yet.
        os.makedirs(os.path.realpath(self.path), mode=0o700, exist_ok=True)
        key = {"#key": run.key} if run.keyed else {}
        batch = pa.record_batch({"#ts": run.ts, "#pos": run.pos, **key, **run.columns})
        aside = self.path / f".{uuid.uuid4().hex}.run"
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

        Rows of the step itself stay apart: another part may still have to distinguish them from old ones.
        """
        runs: list[BufferedRun] = []
        for path, cells in self._own_files():
            run = _attach(path, cells)
            if run is not None and (len(run) == 0 or run.max_ts >= keep_from):
                runs.append(BufferedRun(cells, run))
            else:
                self._drop(path, cells, run)
        self._join_neighbours_gone()
        # Empty runs show that there is nothing to read; they are not needed before the oldest kept row.
        oldest = min((h.cells.first for h in runs if len(h.run)), default=max((h.cells.first for h in runs), default=0))
        for empty in [h for h in runs if not len(h.run) and h.cells.end <= oldest]:
            runs.remove(empty)
            self._drop(self._path_of(empty.cells), empty.cells, empty.run)
        inside = [h for h in runs if h.cells.end <= before and self.share.has(h.cells.share)]
        for group in _to_merge(layers(inside, self.share)):
            self.publish(merge_runs([h.run for h in group]), self.share)
            for one in group:
                _remove(self._path_of(one.cells))

    def _path_of(self, cells: KeyRange) -> Path:
        return self.path / f"{_text(cells)}.run"

    def _drop(self, path: Path, cells: KeyRange, run: Run | None) -> None:
        """Remove a run, but remember the time of its latest row: a step that needs only later rows does not read this range."""
        if run is not None:
            (self.path / DroppedRows(cells, run.max_ts).name).touch()
        _remove(path)

    def _join_neighbours_gone(self) -> None:
        """One name for ranges that touch: there must not be more and more of them."""
        mine = [g for g in self.gone() if self._owns(g.cells)]
        cuts = sorted({cut for g in mine for cut in (g.cells.share.low, g.cells.share.high)})
        known: dict[Share, list[DroppedRows]] = {Share(low, high): [] for low, high in pairwise(cuts)}
        for each in mine:
            # Steps of one part and of several take turns: what the one left is cut as the other's is.
            for share in [s for s in known if each.cells.share.has(s)]:
                first, end, latest = each.cells.first, each.cells.end, each.max_ts
                if known[share] and first <= known[share][-1].cells.end:
                    last = known[share].pop()
                    first, end = last.cells.first, max(last.cells.end, end)
                    latest = max(last.max_ts, latest)
                known[share].append(DroppedRows(KeyRange(first, end, share), latest))
        wanted = {g.name for some in known.values() for g in some}
        for name in wanted - {g.name for g in mine}:
            (self.path / name).touch()
        for each in mine:
            if each.name not in wanted:
                (self.path / each.name).unlink(missing_ok=True)

    def shrink(self, room: int) -> int:
        """Drop the oldest runs until the rest fits into `room` bytes; returns the bytes that are left."""
        sizes = [(path, cells, _size(path)) for path, cells in self._own_files()]
        for path, cells, size in reversed(sizes):
            room -= size
            if room < 0:
                self._drop(path, cells, _attach(path, cells))
        return max(0, room)

    def _owns(self, cells: KeyRange) -> bool:
        return self.share.low <= cells.share.low < self.share.high

    def _own_files(self) -> list[tuple[Path, KeyRange]]:
        return [(path, cells) for path, cells in self._files() if self._owns(cells)]

    def _files(self) -> list[tuple[Path, KeyRange]]:
        """Oldest first; of those that begin together the longest first."""
        try:
            names = os.listdir(self.path)
        except FileNotFoundError:
            return []
        found = [(self.path / n, _cells(m)) for n in names if (m := _NAME.match(n))]
        return sorted(found, key=lambda f: (f[1].first, -f[1].end, f[1].share.low, -f[1].share.high))


def _cells(name: re.Match[str]) -> KeyRange:
    return KeyRange(int(name[1]), int(name[2]), Share(int(name[3]), int(name[4])))


def _text(cells: KeyRange) -> str:
    return f"{cells.first:016d}-{cells.end:016d}-{cells.share.low:02d}-{cells.share.high:02d}"


def _attach(path: Path, cells: KeyRange) -> Run | None:
    """A run as this worker sees it; None where it has gone, or is torn."""
    if path in _attached:
        return _attached[path]
    try:
        reader = pa.ipc.open_file(pa.memory_map(str(path)))
        table = reader.read_all()
        columns = {n: one_array(table.column(n)) for n in table.column_names}
        ts, pos = columns.pop("#ts").to_numpy(), columns.pop("#pos").to_numpy()
        key = columns.pop("#key").to_numpy() if "#key" in columns else None
    except (OSError, pa.ArrowException, KeyError, TypeError):
        return None
    _attached[path] = attach_run(cells.first, cells.end, ts, pos, key, columns)
    return _attached[path]


def _size(path: Path) -> int:
    with contextlib.suppress(FileNotFoundError):
        return path.stat().st_size
    return 0


def _remove(path: Path) -> None:
    _attached.pop(path, None)
    path.unlink(missing_ok=True)


def forget_removed() -> None:
    """Let go of runs that another worker removed: a mapped file keeps its memory until the last one does."""
    for path in [p for p in _attached if not p.exists()]:
        del _attached[path]


def layers(runs: Sequence[BufferedRun], share: Share) -> list[list[BufferedRun]]:
    """The newest runs, oldest first, in groups that each hold all keys of the share for one log range, without a gap."""
    found: list[list[BufferedRun]] = []
    chosen: list[BufferedRun] = []
    for one in runs:
        if any(one.cells.touches(c.cells) for c in chosen):
            continue  # what another run covers already
        chosen.append(one)
        if found and one.cells.first < max(h.cells.end for h in found[-1]):
            found[-1].append(one)
        else:
            found.append([one])
    start = len(found)
    while start > 0 and _is_whole(found[start - 1], share):
        if start < len(found) and _end(found[start - 1]) != found[start][0].cells.first:
            break
        start -= 1
    return found[start:]


def _end(layer: Sequence[BufferedRun]) -> int:
    return max(h.cells.end for h in layer)


def _is_whole(layer: Sequence[BufferedRun], share: Share) -> bool:
    return sum(h.cells.area for h in layer) == (_end(layer) - layer[0].cells.first) * share.size


def _to_merge(found: Sequence[Sequence[BufferedRun]]) -> Iterable[Sequence[BufferedRun]]:
    """The newest neighbours, as long as each is no larger than all after it together: a row is merged log n times."""
    if sum(map(len, found)) <= MOST_RUNS:
        return []
    sizes = [sum(len(h.run) for h in layer) for layer in found]
    start, rows = len(found) - 1, sizes[-1]
    while start > 0:
        larger = sizes[start - 1]
        if (larger > rows and len(found) - start > 1) or rows + larger > LARGEST_MERGE:
            break
        start, rows = start - 1, rows + larger
    group = [h for layer in found[start:] for h in layer]
    return [group] if len(group) > 1 else []


def buffer_folders(root: Path, share: Share) -> list[BufferFolder]:
    """The buffer folders of all streams under a root."""
    try:
        return [BufferFolder(root / stream, share) for stream in os.listdir(root) if not stream.startswith(".")]
    except FileNotFoundError:
        return []


def remove_unused(root: Path, used: set[str]) -> None:
    """Remove the buffers of streams that no join reads any more."""
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(root):
            if name not in used and not name.startswith("."):
                shutil.rmtree(root / name, ignore_errors=True)


def newest_time(runs: Iterable[Run]) -> int | None:
    times = [r.max_ts for r in runs if len(r)]
    return int(np.max(times)) if times else None
