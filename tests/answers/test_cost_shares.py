"""What a query costs is its own: functions, slices, joins and histories are not everybody's."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest

from penstock.answers.costs import own_ms
from penstock.answers.units import UnitKey, reported_work
from penstock.cycle import result_rows
from penstock.cycle.commits import RESULT_SCHEMA, CommitRecord
from tests.support.pipe import Pipe

WINDOW = "BEGIN (NOW - 1 HOUR) END (NOW)"
ODD = "CREATE FUNCTION odd(x DOUBLE) RETURNS BOOLEAN LANGUAGE python AS $$ x % 2 == 1 $$"


def told(record: CommitRecord, kind: str) -> list[dict[str, Any]]:
    rows = [row for row in record.results.to_pylist() if row["kind"] == kind]
    return [{"query": row["query"], **orjson.loads(row["payload"])} for row in rows]


def units(record: CommitRecord, kind: str) -> dict[str, int]:
    """Nanoseconds by name of the units of a kind."""
    found = [unit for said in told(record, "spent") for unit in said.get("units", ())]
    return {name: ns for of_kind, name, _, _, ns in found if of_kind == kind}


class Spending:
    """What each query cost more than the plain one, by the last cycle."""

    def __init__(self, pipe: Pipe) -> None:
        self.pipe = pipe
        self.before = self._sums()

    def _sums(self) -> dict[str, float]:
        definitions = self.pipe.db.catalog.state.queries.values()
        return {d.name: self.pipe.db.costs.of(d.id)["ms"] for d in definitions}

    def cycle(self) -> CommitRecord:
        self.before = self._sums()
        record = self.pipe.engine.cycle()
        assert record is not None
        return record

    def own(self, name: str) -> float:
        now = self._sums()
        spent = {n: ms - self.before.get(n, 0.0) for n, ms in now.items()}
        return spent[name] - spent["plain"]


@pytest.fixture
def spent(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> Spending:
    monkeypatch.setattr(result_rows, "LEAST_MS", 0.0)
    pipe.probes()
    pipe.db.execute(ODD)
    pipe.db.execute(f"CREATE QUERY plain AS SELECT value FROM probes {WINDOW}")
    pipe.engine.drain()
    return Spending(pipe)


def test_a_function_costs_those_who_call_it(spent: Spending) -> None:
    pipe = spent.pipe
    pipe.db.execute(f"CREATE QUERY one AS SELECT value FROM probes WHERE odd(value) {WINDOW}")
    pipe.db.execute(f"CREATE QUERY two AS SELECT value FROM probes WHERE odd(value) AND value > 2 {WINDOW}")
    pipe.engine.drain()
    pipe.push(1.0, 2.0, 3.0)
    calls = {name: ns / 1e6 for name, ns in units(spent.cycle(), "call").items()}
    assert calls.keys() == {"odd"} and calls["odd"] > 0
    for name in ("one", "two"):
        assert spent.own(name) == pytest.approx(calls["odd"] / 2, abs=0.01)


def test_slices_cost_those_who_aggregate(spent: Spending) -> None:
    pipe = spent.pipe
    pipe.db.execute(f"CREATE QUERY many AS SELECT COUNT(*) AS n FROM probes {WINDOW}")
    pipe.engine.drain()
    pipe.push(1.0, 2.0)
    (ns,) = units(spent.cycle(), "slices").values()
    assert ns > 0
    assert spent.own("many") == pytest.approx(ns / 1e6, abs=0.01)


def test_a_join_costs_itself(spent: Spending) -> None:
    pipe = spent.pipe
    pipe.db.execute("CREATE QUERY pairs AS SELECT a.value FROM probes a, probes b WINDOW = 1 SECOND WHERE a.id < b.id")
    pipe.engine.drain()
    pipe.push(1.0)
    pipe.push(2.0, sensor=2)
    said = told(spent.cycle(), "join_info")
    assert spent.own("pairs") == pytest.approx(sum(s["ms"] for s in said), abs=0.01)
    assert pipe.db.query("pairs")["memory"] > 0


def test_a_history_costs_whose_window_reaches_it(spent: Spending) -> None:
    pipe = spent.pipe
    pipe.push(1.0, 2.0)
    pipe.engine.drain()
    pipe.db.execute(f"CREATE QUERY late AS SELECT value FROM probes WHERE odd(value) {WINDOW}")
    said = [s for record in (spent.cycle(), pipe.engine.cycle()) if record for s in told(record, "spent")]
    filled = sum(s["ms"] for s in said if s.get("queries") == [pipe.db.definition("late").id])
    assert filled > 0 and pipe.answer("late") == [1.0]
    assert spent.own("late") == pytest.approx(filled, abs=0.02)


def test_invocations_are_counted_beside_the_cycles(spent: Spending) -> None:
    pipe = spent.pipe
    pipe.push(1.0)
    pipe.engine.drain()
    before = pipe.db.query("plain")
    assert before["asked_ms"] == 0
    pipe.db.invoke("plain")
    after = pipe.db.query("plain")
    assert after["asked_ms"] > 0 and after["ms"] == before["ms"]
    pipe.db.costs.note_asked(10_000, 1.0)  # dropped meanwhile: nobody's


def test_parts_are_shared_among_their_users_and_what_nobody_uses_any_more_is_nobodys() -> None:
    users: dict[UnitKey, list[int]] = {("call", 9, "f"): [4, 5], ("call", 9, "g"): [], ("slices", 9, "family"): [6]}
    units = [["read", "", 9, 9, 7_000_000], ["call", "f", 9, 2, 8_000_000], ["call", "g", 9, 9, 1_000_000]]
    units += [["call", "gone", 9, 9, 2_000_000], ["slices", "family", 9, 9, 2_000_000], ["slices", "", 9, 9, 1_000_000]]
    rows = [
        (9, "spent", {"units": units}),
        (9, "spent", {"queries": [4, 6], "ms": 10.0}),
        (7, "join_info", {"ms": 6.0, "shared_with": 2}),
        (4, "match", {}),
    ]
    told_by = [{"query": q, "kind": k, "rows": 0, "position": 0, "payload": orjson.dumps(p)} for q, k, p in rows]
    queries, ms = own_ms(reported_work(pa.Table.from_pylist(told_by, RESULT_SCHEMA)), users)
    assert {int(q): float(ms[queries == q].sum()) for q in np.unique(queries)} == {4: 9.0, 5: 4.0, 6: 8.0, 7: 2.0}
