"""A join whose windows hold far more than the memory for joins is refused before it stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.clock import WallClock
from penstock.database.database import Database
from penstock.errors import PenstockError
from penstock.settings import Settings
from tests.support.local_engine import LocalEngine

JOIN = "CREATE QUERY pairs AS SELECT a.v, b.v AS w FROM t a, t b WINDOW(a,b) = {} WHERE a.k = b.k"


def test_a_join_far_beyond_the_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.operators.join.buffer_budget.BYTES_PER_ROW", 1 << 20)
    settings = Settings(data=str(tmp_path / "data"), group_commit_ms=0, join_memory_mb=1)
    db = Database(settings, WallClock(), engine=lambda *a: LocalEngine(*a))
    db.start()
    try:
        db.execute("CREATE TABLE t (id INT PRIMARY KEY, r STREAM (k INT, v DOUBLE)) WITH (time = 'valid')")
        db.execute("INSERT INTO t VALUES (1, NULL)")
        start = 1_700_000_000_000_000
        db.push("t", [{"id": 1, "ts": start + i * 1_000_000, "k": i, "v": 1.0} for i in range(100)])
        with pytest.raises(PenstockError) as refused:
            db.execute(JOIN.format("1 HOUR"))
        assert refused.value.condition == "over_budget"
        assert "200 rows" in refused.value.message and refused.value.hint is not None
        db.execute(JOIN.format("3 SECONDS"))
    finally:
        db.stop()
