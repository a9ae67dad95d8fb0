"""A file of join results that is damaged or gone: its query fails by name, the others answer, and reading anew heals it."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import PenstockError
from penstock.operators.join.steps import results
from tests.support.pipe import Pipe


@pytest.mark.parametrize("how", ["flipped", "empty", "gone"])
def test_only_the_query_whose_results_are_damaged_fails(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch, how: str, tmp_path: Path
) -> None:
    monkeypatch.setattr(results, "INLINE_ROWS", 2)
    pipe.probes()
    join = "SELECT a.value FROM probes a, probes b WINDOW(a,b) = 1 MINUTE WHERE a.id = b.id AND {} < b.value"
    for name, value in (("pairs", "a.value"), ("others", "a.value + 1")):
        pipe.db.execute(f"CREATE QUERY {name} AS {join.format(value)} BEGIN (NOW - 1 HOUR) END (NOW)")
    pipe.db.execute("CREATE QUERY seen AS SELECT value FROM probes BEGIN (NOW - 1 HOUR) END (NOW)")
    pipe.engine.drain()
    pipe.push(*map(float, range(6)))
    pipe.engine.drain()
    before = {name: sorted(pipe.answer(name)) for name in ("pairs", "others", "seen")}
    number = pipe.db.catalog.state.queries["pairs"].id
    (file,) = (pipe.folder / "results").glob(f"{number}-*.arrow")
    pipe.db.stop()
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data if how == "flipped" else b"")
    if how == "gone":
        file.unlink()
    pipe.open()
    with pytest.raises(PenstockError) as caught:
        pipe.answer("pairs")
    assert caught.value.condition == "corrupt_segment" and file.name in caught.value.message
    assert {name: sorted(pipe.answer(name)) for name in ("others", "seen")} == {
        n: before[n] for n in ("others", "seen")
    }
    (row,) = pipe.db.system.table("penstock.damage").to_pylist()
    assert (row["file"], row["kind"], row["healed"]) == (f"results/{file.name}", "results", False)
    assert row["queries"] == "pairs" and row["since"] is not None
    health = pipe.db.health()
    assert health.ready and file.name in str(health.details["damage"])
    pipe.db.execute("ALTER QUERY pairs PAUSE")
    pipe.db.execute("ALTER QUERY pairs RESUME")
    pipe.engine.drain()
    assert sorted(pipe.answer("pairs")) == before["pairs"]
