"""The rules of time and order against a model that looks at all accepted readings, one at a time."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.catalog.model import Deduplicate, Table
from penstock.errors import PenstockError
from tests.streams.doubles import make_table
from tests.support.examples import examples
from tests.support.ingest_bench import NOW, Bench

AHEAD, WITHIN, KEEP = 20, 6, 15


@dataclass
class Model:
    """What language.md says, without state beyond the readings accepted so far."""

    table: Table
    accepted: list[tuple[int, int, int]] = field(default_factory=list)  # sensor, ts, seq
    late: int = 0
    clamped: int = 0

    def push(self, rows: list[dict[str, Any]], now: int) -> list[str]:
        return [self._one(row, now) for row in rows]

    def _one(self, row: dict[str, Any], now: int) -> str:
        options = self.table.options
        if row["sensor_id"] > 4:
            return "sensor_not_found"
        own = [ts for sensor, ts, _ in self.accepted if sensor == row["sensor_id"]]
        newest = max(own, default=None)
        latest = max((ts for _, ts, _ in self.accepted), default=None)
        ts = row.get("ts")
        if ts is None:
            ts = now if newest is None else max(now, newest)
        else:
            if ts > now + options.max_ahead_us:
                return "too_far_ahead"
            if options.retention_us is not None and latest is not None and ts < latest - options.retention_us:
                return "before_retention"
        if options.lateness_us is not None and latest is not None and ts < latest - options.lateness_us:
            return "too_late"
        unordered = newest is not None and ts < newest
        clamped = unordered and options.out_of_order == "clamp"
        if clamped:
            assert newest is not None
            ts, unordered = newest, False
        if options.deduplicate is not None and newest is not None:
            within = options.deduplicate.within_us
            for sensor, other, seq in self.accepted:
                same = sensor == row["sensor_id"] and seq == row["seq"]
                if same and abs(other - ts) <= within and other >= newest - within:
                    return "duplicate_reading"
        if unordered and options.out_of_order == "refuse":
            return "out_of_order"
        self.accepted.append((row["sensor_id"], ts, row["seq"]))
        self.clamped += clamped
        self.late += latest is not None and not unordered and ts < latest
        return "accepted"


readings = st.fixed_dictionaries(
    {
        "sensor_id": st.sampled_from([1, 1, 2, 3, 5]),
        "ts": st.one_of(st.none(), st.integers(NOW - 30, NOW + 30)),
        "seq": st.integers(0, 3),
    }
)
steps = st.one_of(
    st.tuples(st.just("push"), st.lists(readings, min_size=1, max_size=12)),
    st.tuples(st.just("push"), st.lists(readings, min_size=1, max_size=12)),
    st.tuples(st.just("lost"), st.lists(readings, min_size=1, max_size=6)),
    st.tuples(st.just("advance"), st.integers(-5, 10)),
    st.tuples(st.just("restart"), st.none()),
    st.tuples(st.just("remember"), st.none()),
)


@pytest.mark.parametrize("out_of_order", ["refuse", "clamp", "accept"])
@given(
    retention=st.sampled_from([None, KEEP]),
    lateness=st.sampled_from([None, 0, 5]),
    deduplicate=st.sampled_from([None, Deduplicate(("seq",), WITHIN)]),
    script=st.lists(steps, min_size=1, max_size=8),
)
@settings(max_examples=examples(40), deadline=None)
def test_any_sequence_of_pushes_failures_and_restarts_gives_what_the_rules_say(
    tmp_path_factory: pytest.TempPathFactory,
    out_of_order: str,
    retention: int | None,
    lateness: int | None,
    deduplicate: Deduplicate | None,
    script: list[tuple[str, Any]],
) -> None:
    folder: Path = tmp_path_factory.mktemp("model")
    kept = {"retention_us": retention, "lateness_us": lateness, "deduplicate": deduplicate}
    table = make_table(out_of_order=out_of_order, max_ahead_us=AHEAD, **kept)
    bench, model = Bench(folder, table), Model(table)
    counted = 0
    try:
        for step, what in script:
            if step == "advance":
                bench.clock.advance(what)
            elif step == "restart":
                bench.restart()
                counted = len(model.accepted)
            elif step == "remember":
                bench.ingest.tables.remember(table, at_least_rows=1)
            elif step == "lost":
                _push_in_vain(bench, what)
            else:
                rows = [{**row, "ppm": 1.0} for row in what]
                expected = model.push(rows, bench.clock.now_us())
                receipt = bench.push(rows)
                refused = {refusal.index: refusal.condition for refusal in receipt.refused}
                assert [refused.get(i, "accepted") for i in range(len(rows))] == expected
                assert receipt.accepted == expected.count("accepted")
                assert receipt.position == len(model.accepted)
        assert [(vid + 1, ts, seq) for vid, ts, seq in bench.stored("_vid", "ts", "seq")] == model.accepted
        counters = bench.ingest.counters("probes")
        assert counters["accepted"] == len(model.accepted) - counted
        if counted == 0:
            assert (counters["late"], counters["clamped"]) == (model.late, model.clamped)
    finally:
        bench.log.close()


def _push_in_vain(bench: Bench, rows: list[dict[str, Any]]) -> None:
    """Two pushes that a full disk loses together: the second was judged on top of the first."""

    def full(step: str) -> None:
        if step == "log:written":
            raise OSError(errno.ENOSPC, "No space left on device")

    bench.crash_point = full
    whole = [{**row, "ppm": 1.0} for row in rows]
    futures = [bench.ingest.push("probes", whole), bench.ingest.push("probes", whole)]
    for future in futures:
        problem = future.exception(5)
        assert problem is None or (isinstance(problem, PenstockError) and problem.condition == "disk_full")
    assert futures[0].exception() is not None or futures[0].result().accepted == 0
    bench.crash_point = lambda step: None


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 3)), min_size=1, max_size=10))
@settings(max_examples=25, deadline=None)
def test_transaction_times_never_decrease_whatever_the_clock_does(
    tmp_path_factory: pytest.TempPathFactory, script: list[tuple[int, int]]
) -> None:
    bench = Bench(tmp_path_factory.mktemp("model"), make_table(time="transaction"))
    highest, expected = 0, []
    for offset, count in script:
        bench.clock.set(NOW + offset)
        highest = max(highest, NOW + offset)
        bench.push([{"sensor_id": 1, "ppm": 1.0, "seq": 1}] * count)
        expected += [highest] * count
        if offset % 7 == 0:
            bench.restart()
    bench.log.close()
    assert [ts for (ts,) in bench.stored("ts")] == expected
