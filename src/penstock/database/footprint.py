"""The memory, processor time and disk space that the server uses on this machine, per process and per table."""

from __future__ import annotations

from dataclasses import dataclass

import psutil

from penstock.database.database import Database
from penstock.types import format_duration


@dataclass(frozen=True, slots=True)
class LogSize:
    """The size of the log of one table. Retention deleted the rows before `first`."""

    table: str
    bytes: int
    files: int
    first: int
    head: int
    oldest_us: int | None
    newest_us: int | None
    retention: str | None
    retention_us: int | None


def log_sizes(database: Database) -> list[LogSize]:
    """From the names of the files and their sizes; nothing is read."""
    from penstock.streams.log.segments import list_files

    found = []
    for table in database.sensor_tables():
        files = list_files(database.folder.log / str(table.id))
        size = 0
        for segment in files:
            try:
                size += segment.path.stat().st_size
            except FileNotFoundError:
                continue  # compaction has replaced it
        retention = table.options.retention_us
        found.append(
            LogSize(
                table.name,
                size,
                len(files),
                database.log.floor(table.id),
                database.log.head(table.id),
                min((s.min_ts for s in files), default=None),
                max((s.max_ts for s in files), default=None),
                format_duration(retention) if retention else None,
                retention,
            )
        )
    return found


@dataclass(frozen=True, slots=True)
class Process:
    """One of the server's processes; `cpu` is in processors since the last look at it."""

    pid: int
    role: str
    cpu: float
    bytes: int
    threads: int


class Processes:
    """Remembers processes between requests, so that their CPU time can be compared."""

    def __init__(self) -> None:
        self._known: dict[int, psutil.Process] = {}

    def look(self) -> list[Process]:
        """This process first, then those below it, the biggest first."""
        here = psutil.Process()
        alive = {p.pid: self._known.get(p.pid, p) for p in [here, *here.children(recursive=True)]}
        self._known = alive
        found = []
        for pid, process in alive.items():
            try:
                with process.oneshot():
                    role = "server" if pid == here.pid else _role(process)
                    memory = int(process.memory_info().rss)
                    found.append(Process(pid, role, process.cpu_percent() / 100, memory, process.num_threads()))
            except psutil.Error:
                continue  # it ended meanwhile
        return sorted(found, key=lambda p: (p.role != "server", -p.bytes))


def _role(process: psutil.Process) -> str:
    line = " ".join(process.cmdline())
    if "java" in process.name():
        return "Spark (Java)"
    if "pyspark.daemon" in line or "pyspark/daemon" in line:
        return "worker"
    if "planner" in line or "data_source" in line:
        return "planner"
    return "worker" if "python" in process.name() else process.name()
