"""Verify the files of a data folder: compare every checksum, and check that files agree with each other.

`verify_file` reads one file. `files_of` lists all that have something to verify, and `verify_folder` reads them all and
compares what they name. `penstock check` reads a folder that no server uses, the scrubber the files of a running server: each
once in `scrub_days`, slowly, so that damage is found before the last good backup is deleted. A running server repairs what it
can: a new snapshot covers damaged commit records and journal lines.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.catalog.folder_format import is_id_whole, read_format
from penstock.catalog.journal import JournalReader, bad_line
from penstock.catalog.snapshot import read_text
from penstock.catalog.state import CatalogState
from penstock.clock import SECOND, Clock
from penstock.cycle.commit_files import CommitRecord, list_numbers, read_record, record_name, snapshot_name
from penstock.damage import DamageReport
from penstock.disk_sync import replace_file
from penstock.errors import PenstockError
from penstock.manifest import MANIFEST, verify_backup
from penstock.security.users import AccountFile
from penstock.services import Service
from penstock.streams.ingest.idempotency import bad_lines
from penstock.streams.log.checksums import check_file, check_schema, check_seal, forget_whole
from penstock.streams.log.segments import first_missing, list_what_is_there, parse_segment

_UNREADABLE = (OSError, pa.ArrowException, ValueError, KeyError, TypeError, IndexError, OverflowError, PenstockError)


@dataclass(frozen=True, slots=True)
class Problem:
    """One damaged or missing file, by its path in the folder."""

    file: str
    kind: str
    detail: str


def files_of(root: Path) -> Iterator[tuple[Path, str]]:
    """Every file that has a checksum or a form, with its kind, in order."""
    for folder, kind in _FOLDERS.items():
        if (root / folder).is_dir():
            found = sorted(path for path in (root / folder).rglob("*") if path.suffix in _SUFFIXES)
            yield from ((path, kind) for path in found if path.is_file())
    yield from ((root / name, kind) for name, kind in _FILES.items() if (root / name).is_file())


_FOLDERS = {
    "journal": "journal",
    "commits": "commit_record",
    "log": "log",
    "results": "results",
    "rollups": "rollups",
    "streams": "keys",
    "sinks": "sinks",
}
_FILES = {"security/accounts.json": "accounts", "folder_id": "folder_id", "usage.json": "usage"}
_SUFFIXES = (".arrow", ".parquet", ".jsonl", ".json", ".zst")


def verify_file(root: Path, path: Path) -> str | None:
    """What is wrong with a file; None if it is intact or gone. Reads the disk, not the cache."""
    try:
        _drop_cache(path)
        forget_whole(path)
        _verify(root, path)
    except FileNotFoundError:
        return None  # compaction, retention or a commit replaced it
    except _UNREADABLE as problem:
        message = problem.message if isinstance(problem, PenstockError) else str(problem)
        return message.split("\n", 1)[0] or type(problem).__name__
    return None


def _verify(root: Path, path: Path) -> None:
    inside = path.relative_to(root).parts
    if inside[0] == "commits":
        read_record(path)
        forget_whole(path)
        verify_data(path)  # with the footer, which records are read without
    elif inside[0] == "journal":
        if path.suffix == ".zst":
            read_text(path)
        elif (bad := bad_line(path)) is not None:
            raise ValueError(bad)
    elif inside[0] == "security":
        AccountFile(root).read()
    elif path.name == "keys.jsonl":
        count = bad_lines(path)
        if count:
            raise ValueError(f"{count} idempotency keys cannot be read")
    elif path.name == "folder_id":
        if not is_id_whole(root):
            raise ValueError("it is not what was written")
    elif path.suffix == ".json":
        orjson.loads(path.read_bytes())
    else:
        verify_data(path)


def verify_data(path: Path) -> None:
    """Raise if an Arrow or Parquet file is damaged, or does not have the rows that its name states."""
    rows = None
    if path.suffix == ".arrow":
        source = pa.BufferReader(path.read_bytes())
        reader = pa.ipc.open_file(source)
        check_seal(path, source, reader)
        rows = sum(reader.get_batch(i).num_rows for i in range(reader.num_record_batches))
    elif path.suffix == ".parquet":
        sealed = check_file(path)
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            check_schema(file.schema_arrow)
            rows = file.metadata.num_rows
            for group in range(0 if sealed else file.num_row_groups):
                file.read_row_group(group, use_threads=False)
    segment = parse_segment(path)
    if segment is not None and rows is not None and rows != segment.rows:
        raise ValueError(f"it holds {rows} rows instead of {segment.rows}")


def verify_folder(root: Path, took: Callable[[int], None] = lambda size: None) -> list[Problem]:
    """Everything that is wrong with a folder that no server uses; `took` is called with the size of each file that was read."""
    problems = []
    for path, kind in files_of(root):
        detail = verify_file(root, path)
        if detail is not None:
            problems.append(Problem(str(path.relative_to(root)), kind, detail))
        took(path.stat().st_size if path.exists() else 0)
    known = {problem.file for problem in problems}
    problems += [problem for problem in _compare(root) if problem.file not in known]
    if (root / MANIFEST).exists():
        problems += [Problem(MANIFEST, "backup", text) for text in verify_backup(root)]
    return problems


def _compare(root: Path) -> Iterator[Problem]:
    """Check that files agree: the journal with itself, commit records with the journal and the log."""
    if read_format(root) is None:
        yield Problem("format_version", "folder_id", "it does not say which format the folder has")
    state = CatalogState()
    reader = JournalReader(root)
    try:
        state.apply_many(reader.entries())
    except PenstockError as problem:
        yield Problem("journal", "journal", problem.message)
        return
    yield from (Problem("journal", "journal", f"{p.message}; a snapshot covers it") for p in reader.damage)
    last = _newest_record(root)
    if last is None:
        return
    if last.end.journal > state.position:
        detail = f"it ends with entry {state.position}, but commit records name entry {last.end.journal}"
        yield Problem("journal", "journal", detail)
    for table_id, table in state.tables_by_id.items():
        if table.stream is None:
            continue
        segments = list_what_is_there(root / "log", table_id)
        first, end = state.retention(table_id), last.end.data.get(table_id, 0)
        while (lost := first_missing([s for s in segments if s.end > first], first, end)) is not None:
            yield Problem(f"log/{table_id}/{lost:016d}-...", "log", "the file is missing")
            first = min((s.first for s in segments if s.first > lost), default=end)


def _newest_record(root: Path) -> CommitRecord | None:
    """The last commit record or snapshot that can be read."""
    cycles, snapshots = list_numbers(root / "commits")
    names = [*((c, record_name(c)) for c in cycles), *((s, snapshot_name(s)) for s in snapshots)]
    for _, name in sorted(names, reverse=True):
        try:
            return read_record(root / "commits" / name)
        except PenstockError:
            continue
    return None


def _drop_cache(path: Path) -> None:
    """Have the next read come from the disk, where the system can: what rots there does not rot in memory."""
    if not hasattr(os, "posix_fadvise"):
        return
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


BYTES_PER_S = 10_000_000
FIRST_S = 60.0
SAVE_EVERY = 100
DAY_S = 86_400.0
_LEAST_S = 0.001  # for a file of any size: thousands of small ones are not read at once, either


class Scrubber:
    """Reads the files in a background thread and notes what has rotted. `cover` repairs damage of some kinds: whether it did.

    Its progress is kept in `scrub.json`, so that a restart continues it.
    """

    def __init__(
        self,
        root: Path,
        report: DamageReport,
        clock: Clock,
        days: float,
        cover: Callable[[str], bool] = lambda kind: False,
    ) -> None:
        self._root = root
        self._report = report
        self._clock = clock
        self._period_us = int(days * DAY_S * SECOND)
        self._cover = cover
        self._file = root / "scrub.json"
        self._began_us, self._after = self._read()
        self._waiting: list[tuple[Path, str]] = []
        self._in_order = 0  # so many of those that wait are a round; what is after them comes first
        self._since_saved = 0
        self.service = Service("scrubber", self.step, first_s=FIRST_S)

    def services(self) -> list[Service]:
        return [self.service]

    def start(self) -> None:
        if self._period_us > 0:
            self.service.start()

    def close(self) -> None:
        self.service.stop()
        self.service.join()
        self._save()

    def step(self) -> float:
        """Read one file; the seconds until the next."""
        if not self._waiting:
            now_us = self._clock.now_us()
            if self._began_us is not None and not self._after:
                left_us = self._began_us + self._period_us - now_us
                if left_us > 0:
                    return min(left_us / SECOND, 3600.0)
            self._begin(now_us)
        if not self._waiting:
            self._after = ""
            return 60.0
        path, kind = self._waiting.pop()
        size = self._look_at(path, kind)
        if not self._waiting:
            self._after = ""
        elif len(self._waiting) < self._in_order:  # what comes first does not move the place in the round
            self._after = str(path.relative_to(self._root))
        self._since_saved += 1
        if self._since_saved >= SAVE_EVERY or not self._waiting:
            self._save()
        return max(_LEAST_S, size / BYTES_PER_S)

    def _begin(self, now_us: int) -> None:
        """Go on with the round that a restart has cut off, or begin the next one. Files known to be damaged come first."""
        found = list(files_of(self._root))
        left = [each for each in found if str(each[0].relative_to(self._root)) > self._after] if self._after else found
        if not self._after or self._began_us is None:
            self._began_us = now_us
        damaged = {row.file for row in self._report.open_rows()}
        known = [each for each in found if str(each[0].relative_to(self._root)) in damaged]
        self._in_order = len(left)
        self._waiting = [*sorted(left, key=lambda each: str(each[0]), reverse=True), *known]

    def _look_at(self, path: Path, kind: str) -> int:
        detail = verify_file(self._root, path)
        if detail is None:
            self._report.heal(path)
        else:
            covered = self._cover(kind)
            told = f"{detail}; a new snapshot covers it" if covered else detail
            self._report.note(path, kind, told, healed=covered)
        with contextlib.suppress(OSError):
            return path.stat().st_size
        return 0

    def _read(self) -> tuple[int | None, str]:
        try:
            found = orjson.loads(self._file.read_bytes())
            return int(found["began_us"]), str(found["after"])
        except (OSError, ValueError, KeyError, TypeError):
            return None, ""

    def _save(self) -> None:
        self._since_saved = 0
        if self._began_us is None:
            return
        with contextlib.suppress(OSError):  # soft
            replace_file(self._file, orjson.dumps({"began_us": self._began_us, "after": self._after}))
