"""The memory of joins: buffers and what workers keep beside them, together within join_memory_mb."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from penstock.clock import SECOND
from penstock.operators.join.kernels import run_cache
from penstock.operators.join.steps import task
from tests.support.pipe import Pipe

ORIGIN = 1_700_000_000 * SECOND
MEMORY = 1 << 20
LINKED = (
    "CREATE QUERY linked AS SELECT s0.n AS n0, s1.n AS n1, s2.n AS n2 FROM s0, s1, s2 WINDOW = 8 SECONDS"
    " WHERE s0.k = s1.k AND s1.m = s2.m"
)


def test_what_is_kept_beside_buffers_counts_in_the_memory_of_joins(
    pipes: Callable[..., Pipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task, "CORES", 2)
    pipe = pipes(join_memory_mb=1)
    for table in ("s0", "s1", "s2"):
        pipe.db.execute(
            f"CREATE TABLE {table} (id INT PRIMARY KEY, r STREAM (k INT, m INT, n INT))"
            " WITH (time = 'valid', out_of_order = 'accept', max_ahead = '100000 DAYS')"
        )
        pipe.db.execute(f"INSERT INTO {table} VALUES (1, NULL)")
    pipe.db.execute(LINKED)
    pipe.engine.drain()
    rng = np.random.default_rng(9)
    most_beside = most_files = found = 0
    for step in range(12):
        for table in ("s0", "s1", "s2"):
            rows = [
                {"id": 1, "ts": ORIGIN + (step * 2_000 + i) * 500, "k": int(k), "m": int(m), "n": i}
                for i, (k, m) in enumerate(rng.integers(0, 20_000, (2_000, 2)))
            ]
            pipe.db.push(table, rows)
        pipe.engine.drain()
        files = sum(f.stat().st_size for f in pipe.db.folder.buffers.rglob("*.run"))
        most_beside, most_files = max(most_beside, run_cache.held_bytes()), max(most_files, files)
        assert files + run_cache.held_bytes() * task.CORES <= MEMORY
        found = pipe.db.standing.invoke("linked").table.num_rows
    assert most_beside > 0 and most_files + most_beside * task.CORES > MEMORY // 2 and found > 100
