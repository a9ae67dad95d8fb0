"""The processes of a pool of code workers that wait for a request."""

from __future__ import annotations

from penstock.expr.code_workers import CodeWorkers


def idle_pids(workers: CodeWorkers) -> list[int]:
    return [worker.pid for worker in workers._idle]
