"""Queries with a bounded state stay flat while new keys and readings come; a twin without a bound grows.

Short by default. `make soak` plays two hours of readings, with new keys each second.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.operators.aggregate.own.bodies import ENERGY
from tests.support.examples import SOAK
from tests.support.pipe import Pipe

SECONDS = 7200 if SOAK else 60
KEYS = 20 if SOAK else 150  # new ones each second
SLOPE_MAX = 1 << 20
"""Bytes per minute by which all bounded queries together may grow."""
WINDOW = "BEGIN (NOW - 4 SECONDS) END (NOW)"
BOUNDED = {
    "selected": f"SELECT id, value FROM probes WHERE value > 2 {WINDOW}",
    "newest": "SELECT id, value FROM probes BEGIN (LAST 100 ROWS)",
    "groups": f"SELECT value, COUNT(*) AS n FROM probes GROUP BY value {WINDOW}",
    "panes": f"SELECT value, window_end, MAX(value) AS m FROM probes GROUP BY value, TUMBLE(1 SECOND) {WINDOW}",
    "different": f"SELECT COUNT(DISTINCT value) AS n FROM probes {WINDOW}",
    "held": f"SELECT id, value FROM probes WHERE (value > 2) FOR 2 SECONDS {WINDOW}",
    "latched": "SELECT place, MAX(value) AS m, COUNT(*) AS n FROM probes GROUP BY place, LATCH",
    "joined": f"SELECT a.value FROM probes a, probes b WHERE a.value = b.value WINDOW(a, b) = 1 SECOND {WINDOW}",
    "paired": (
        f"SELECT a.value, b.ts FROM probes a LEFT JOIN probes b ON a.value = b.value + 1 WINDOW(a, b) = 1 SECOND {WINDOW}"
    ),
    "both": (
        f"SELECT a.value, b.ts FROM probes a FULL JOIN probes b ON a.value = b.value + 1 WINDOW(a, b) = 1 SECOND {WINDOW}"
    ),
    "pairs": (
        "SELECT a.value, COUNT(*) AS n FROM probes a, probes b WHERE a.value = b.value WINDOW(a, b) = 1 SECOND"
        f" GROUP BY a.value {WINDOW}"
    ),
    "sampled": (
        f"SELECT a.value, RESAMPLE(b.value, 1 SECOND) AS other FROM probes a, probes b WHERE a.id = b.id {WINDOW}"
    ),
    "sessions": f"SELECT value, window_end, COUNT(*) AS n FROM probes GROUP BY value, SESSION(500 MS) {WINDOW}",
    "best": f"SELECT value, COUNT(*) AS n FROM probes GROUP BY value QUALIFY RANK() OVER (ORDER BY value DESC) < 4 {WINDOW}",
    "first": f"SELECT value FROM probes QUALIFY ROW_NUMBER() OVER (PARTITION BY id ORDER BY value DESC) < 4 {WINDOW}",
    "steps": f"SELECT value - LAG(value) OVER (PARTITION BY id ORDER BY ts) AS step FROM probes {WINDOW}",
    "united": f"SELECT id, value FROM probes WHERE value > 2 {WINDOW} UNION ALL SELECT 0, value FROM probes {WINDOW}",
    "summed": (
        "SELECT value, COUNT(*) AS n FROM (SELECT value FROM probes UNION ALL SELECT value + 1 FROM probes) u"
        f" GROUP BY value {WINDOW}"
    ),
    "used": f"SELECT place, energy(value) AS e FROM probes GROUP BY place {WINDOW}",
}
GROWING = {
    # With another key, so that they share no cells with those above.
    "by_key": "SELECT value, COUNT(*) AS n FROM probes GROUP BY value, LATCH",
    "since": "SELECT place, value, COUNT(*) AS n FROM probes GROUP BY place, value BEGIN (START) END (NOW)",
}


@pytest.mark.timeout(7200 if SOAK else 600)
def test_bounded_queries_stay_flat_while_a_twin_grows(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes(cycles_keep=4)  # windows reach back from the oldest cycle that is kept
    pipe.set_intervals(trim_cycles=2, snapshot_cycles=10 if not SOAK else 100)
    pipe.probes()
    pipe.db.execute(ENERGY)
    for name, question in BOUNDED.items():
        pipe.db.execute(f"CREATE QUERY {name} WITH (bounded = true) AS {question}")
    for name, question in GROWING.items():
        pipe.db.execute(f"CREATE QUERY {name} AS {question}")
        assert pipe.db.query(name)["state_bound"].startswith("unbounded: ")
    ids = {name: pipe.db.query(name)["id"] for name in (*BOUNDED, *GROWING)}
    sizes: dict[str, list[int]] = {name: [] for name in ids}
    for second in range(SECONDS):
        pipe.clock.advance(999_000)  # and a millisecond with the push
        pipe.push(*(float(second * KEYS + key) for key in range(KEYS)), sensor=1 + second % 2)
        pipe.engine.drain()
        if second % 100 == 99:
            while pipe.db.housekeeper.compactor.compact(pipe.db.catalog.state.tables["probes"].id):
                pass  # many small files become few
        for name, query_id in ids.items():
            if second % 4 == 0 and name in BOUNDED:
                pipe.db.standing.invoke(name)  # what is found when asked counts, too
            sizes[name].append(pipe.db.standing.memory_of(query_id))
    third = SECONDS // 3
    for name, found in sizes.items():
        begin, end = max(found[:third]), max(found[2 * third :])
        print(f"{name}: {begin} bytes in the first third, {end} in the last")
        if name in BOUNDED:
            assert end <= 1.25 * begin + 4096, (name, begin, end)
        else:
            assert end > 1.8 * begin, (name, begin, end)
    together = np.sum([sizes[name][third:] for name in BOUNDED], axis=0)
    slope = float(np.polyfit(np.arange(len(together)) / 60, together, 1)[0])
    print(f"all that are bounded: {slope:.0f} bytes a minute")
    assert slope < SLOPE_MAX
