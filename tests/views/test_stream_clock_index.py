"""NOW of many streams at once: the same as of each alone, also at cycles that are past."""

from __future__ import annotations

import os
import random

import numpy as np
import pytest

from penstock.catalog.model import TIME_COLUMN
from penstock.clock import SECOND
from penstock.views.stream_clock_index import NowKey
from tests.support.pipe import BEGAN_US, Pipe

VALID = "WITH (time = 'valid', out_of_order = 'accept')"


@pytest.mark.parametrize("seed", range(40 if os.environ.get("PENSTOCK_SOAK") else 6))
def test_every_query_has_the_now_of_its_own_sensors_at_every_kept_cycle(pipe: Pipe, seed: int) -> None:
    rng = random.Random(seed)
    pipe.probes(VALID)
    pipe.db.execute("INSERT INTO probes VALUES " + ", ".join(f"({i}, 'north', NULL)" for i in range(3, 70)))
    conditions = ["", "WHERE id = 2", "WHERE 2 = id", "WHERE place = 'north'", "WHERE id > 5 AND id < 9", "WHERE TRUE"]
    expected: dict[tuple[str, int], int | None] = {}
    newest: dict[tuple[int, str], int] = {}
    places = {1: "north", 2: "south"} | dict.fromkeys(range(3, 70), "north")
    passes = {
        "": lambda i, p: True,
        "WHERE id = 2": lambda i, p: i == 2,
        "WHERE 2 = id": lambda i, p: i == 2,
        "WHERE place = 'north'": lambda i, p: p == "north",
        "WHERE id > 5 AND id < 9": lambda i, p: 5 < i < 9,
        "WHERE TRUE": lambda i, p: True,
    }
    live: dict[str, str] = {}
    born: dict[str, int] = {}
    for step in range(12):
        name = f"q{step}"
        if rng.random() < 0.7:
            live[name] = rng.choice(conditions)
            pipe.db.execute(
                f"CREATE QUERY {name} AS SELECT {TIME_COLUMN} FROM probes {live[name]} BEGIN (NOW - 5 SECONDS) END (NOW)"
            )
        if live and rng.random() < 0.3:
            pipe.db.execute(f"ALTER QUERY {rng.choice(sorted(live))} SET BEGIN (NOW - {rng.randrange(1, 9)} SECONDS)")
        if live and rng.random() < 0.2:
            gone = rng.choice(sorted(live))
            pipe.db.execute(f"DROP QUERY {gone}")
            del live[gone]
        if rng.random() < 0.3:
            moved = rng.choice((1, 2, 7))
            places[moved] = rng.choice(("north", "south"))
            pipe.db.execute(f"UPDATE probes SET place = '{places[moved]}' WHERE id = {moved}")
        for _ in range(rng.randrange(4)):
            sensor, ts = rng.choice((1, 2, 7, 8, 69)), BEGAN_US + rng.randrange(20) * SECOND
            pipe.db.push("probes", [{"id": sensor, "value": 1.0, "ts": ts}])
            newest[sensor, places[sensor]] = max(newest.get((sensor, places[sensor]), 0), ts)
        record = pipe.engine.cycle()
        assert record is None or not record.end.fill or pipe.engine.drain() is None
        last = pipe.db.standing.feed.last()
        assert last is not None
        if rng.random() < 0.1:
            pipe.restart()
        for query, condition in live.items():
            born.setdefault(query, last.cycle)
            known = [ts for (i, p), ts in newest.items() if passes[condition](i, p)]
            expected[query, last.cycle] = max(known, default=None)
        for (query, cycle), now in expected.items():
            if query in live and cycle >= max(born[query], pipe.db.standing.feed.oldest()):
                window = pipe.db.standing.windows.at(pipe.db.standing.store.state.queries[query].id, cycle)
                if window is not None:
                    assert pipe.db.standing.held(query, cycle).now_us == now, (seed, step, query, cycle)


def test_a_stream_that_nobody_read_then_has_no_now_then(pipe: Pipe) -> None:
    pipe.probes(VALID)
    pipe.db.push("probes", [{"id": 2, "value": 1.0, "ts": BEGAN_US}])
    pipe.engine.drain()
    before = pipe.db.standing.feed.last()
    pipe.db.execute("CREATE QUERY one AS SELECT value FROM probes WHERE id = 2 BEGIN (NOW - 1 HOUR) END (NOW)")
    pipe.engine.drain()
    (key,) = _keys(pipe)
    last = pipe.db.standing.feed.last()
    assert before is not None and last is not None
    assert before.nows.get(key) is None and last.nows.get(key) == BEGAN_US
    pipe.db.execute("DROP QUERY one")
    pipe.db.execute("CREATE QUERY other AS SELECT value FROM probes WHERE id = 1 BEGIN (NOW - 1 HOUR) END (NOW)")
    pipe.engine.drain()
    (key,) = _keys(pipe)
    newest = pipe.db.standing.feed.last()
    assert newest is not None
    # It has the place that the first one had; what stood there is not its own.
    assert last.nows.get(key) is None and newest.nows.get(key) is None
    assert len(np.unique(pipe.db.standing.store.newest[1])) == 2


def _keys(pipe: Pipe) -> list[NowKey]:
    return [(i, p) for i, table in pipe.db.standing.store.window_index.nows._tables.items() for p in table.places]
