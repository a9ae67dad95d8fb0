"""Limits of a worker: memory for all its work, time for a user's function."""

from __future__ import annotations

import contextlib
import resource

import pyarrow as pa

from penstock.expr.time_limit import limit_functions
from penstock.pipeline.tasks import WorkerLimits

_memory_mb = 0


def limit_worker(limits: WorkerLimits) -> None:
    """Hold this process to the limits of a task. Too much memory is a MemoryError then, which is traced to its query.

    What the process has at its first task does not count: Arrow reserves a gigabyte of addresses and uses little of it.
    Nor do mapped files, and memory that is shared with other processes.
    """
    global _memory_mb
    limit_functions(limits.function_timeout_ms / 1000)
    if limits.memory_mb and limits.memory_mb != _memory_mb:
        _memory_mb = limits.memory_mb
        with contextlib.suppress(ValueError, KeyError, OSError):  # not Linux, or a harder limit was set from outside
            pa.allocate_buffer(1)
            _, most = resource.getrlimit(resource.RLIMIT_DATA)
            resource.setrlimit(resource.RLIMIT_DATA, (_data_bytes() + (_memory_mb << 20), most))


def _data_bytes() -> int:
    """The memory of this process that RLIMIT_DATA counts."""
    with open("/proc/self/status") as facts:
        sizes = dict(line.split(":", 1) for line in facts)
    return int(sizes["VmData"].split()[0]) << 10
