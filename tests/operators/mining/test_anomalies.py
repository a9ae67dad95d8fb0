"""ANOMALIES, ANOMALY and BASELINE at every committed cycle of random histories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from penstock.operators.aggregate.partials import tiles
from penstock.views.standing_queries import Intervals
from tests.operators.mining.story import PLACES, Story, same
from tests.operators.mining.test_series import SECOND, SEEDS, at
from tests.oracle import mining
from tests.support.pipe import Pipe

HISTORY = mining.Scoring(history=40, score=2.5, quiet=3)
SEASONAL = mining.Scoring(history=40, score=2.0, season=5, seasons=2, smooth=2, robust=False)
ASKED = {
    "plain": ("every => 2 SECONDS, history => 80 SECONDS, score => 2.5, quiet => 6 SECONDS", HISTORY),
    "seasonal": (
        "every => 2 SECONDS, history => 80 SECONDS, score => 2, season => 10 SECONDS, seasons => 2, smooth => 4 SECONDS,"
        " robust => false",
        SEASONAL,
    ),
}


def shown(series: mining.Elements, line: tuple[int, dict[str, Any]]) -> dict[str, Any]:
    return {"at": at(series.times[line[0]]), **line[1]}


@pytest.mark.parametrize("seed", SEEDS)
def test_anomalies_and_baselines_are_those_of_all_rows(
    seed: int, pipes: Callable[..., Pipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiles, "RECENT", 2)
    story = Story(pipes(intervals=Intervals(snapshot_cycles=7, trim_cycles=5)), seed, 30)
    window = "BEGIN (NOW - 130 SECONDS) END (NOW)"
    for name, (options, _) in ASKED.items():
        call, newest = f"ANOMALIES(value, {options})", f"ANOMALY(value, {options.replace(', quiet => 6 SECONDS', '')})"
        story.pipe.db.execute(
            f"CREATE QUERY {name} AS SELECT place, {call} AS a, {newest} AS n FROM probes GROUP BY place {window}"
        )
        story.pipe.db.execute(
            f"CREATE QUERY {name}_rows AS SELECT place, UNNEST({call}) AS a FROM probes GROUP BY place {window}"
        )
        story.pipe.db.execute(
            f"CREATE QUERY {name}_high AS SELECT place, ({newest}).score AS s FROM probes GROUP BY place"
            f" HAVING ({newest}).score > 0.5 {window}"
        )
    story.pipe.db.execute(
        "CREATE QUERY usual AS SELECT BASELINE(value, every => 2 SECONDS, season => 14 SECONDS, level => 0.5) AS b"
        f" FROM probes {window}"
    )
    story.pipe.db.execute(
        "CREATE QUERY single AS SELECT (ANOMALY(value, history => 30)).score AS s, ANOMALIES(value, history => 25, score => 2)"
        " AS a FROM probes BEGIN (LAST 60 ROWS)"
    )
    seen = Counter[str]()
    for _ in story.cycles(45):
        low, now, every = story.now_us - 130 * SECOND, story.now_us, 2 * SECOND
        for name, (_, asked) in ASKED.items():
            whole, rows, high = [], [], []
            for place in PLACES.values():
                series = mining.slots(story.of(place), low, now, every)
                if not mining.whole_slots(story.of(place), low, now, every):
                    continue
                found = [shown(series, line) for line in mining.anomalies(series, asked)]
                newest = mining.anomaly(series, asked)
                told = None if newest is None else shown(series, newest)
                whole.append({"place": place, "a": found, "n": told})
                rows += [{"place": place, "a": each} for each in found]
                high += [{"place": place, "s": told["score"]}] if told is not None and told["score"] > 0.5 else []
            assert same(story.answer(name), whole) and same(story.answer(f"{name}_rows"), rows)
            assert same(story.answer(f"{name}_high"), high)
            seen[name] += len(rows)
        usual = mining.baseline(mining.slots(story.rows, low, now, every), 7, 0.5)
        assert same(story.answer("usual"), [{"b": usual}])
        last = sorted(story.rows, key=lambda row: (row.ts, row.position))[-60:]
        series = mining.readings(last, 0, now)
        newest = mining.anomaly(series, mining.Scoring(history=30))
        found = [shown(series, line) for line in mining.anomalies(series, mining.Scoring(history=25, score=2))]
        truth = [{"s": None if newest is None else newest[1]["score"], "a": found}]
        assert same(story.answer("single"), truth)
        seen["single"] += len(found)
    assert all(seen[name] for name in (*ASKED, "single")), seen
