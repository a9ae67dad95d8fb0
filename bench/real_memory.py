"""What processes really take: pages that several of them share count once, shared memory that nobody mapped counts too."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import psutil


def real_memory_mb(processes: Iterable[psutil.Process], shared: Iterable[Path]) -> float:
    """`shared` are folders of files in shared memory; on a disk, where they belong to the page cache, they count nothing."""
    own = mapped = 0
    for process in processes:
        found = proportional(process.pid)
        own += found.get("Pss", 0)
        mapped += found.get("Pss_Shmem", 0)
    return (own + max(0, sum(map(shared_bytes, shared)) - mapped)) / 2**20


def proportional(pid: int) -> dict[str, int]:
    """Bytes by kind, each page divided by the number of processes that have it."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:  # it is gone
        return {}
    return parse_rollup(text)


def parse_rollup(text: str) -> dict[str, int]:
    lines = (line.split() for line in text.splitlines()[1:])
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in lines if len(words) == 3 and words[2] == "kB"}


def shared_bytes(folder: Path) -> int:
    target = Path(os.path.realpath(folder))
    if not target.is_relative_to("/dev/shm"):
        return 0
    total = 0
    for path in target.rglob("*"):
        try:
            total += path.stat().st_blocks * 512
        except OSError:  # removed meanwhile
            continue
    return total
