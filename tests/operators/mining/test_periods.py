"""PERIODS, CHANGE_POINTS and FORECAST at every committed cycle of random histories, against plain loops over all rows."""

from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist

import pytest

from penstock.operators.aggregate.partials import tiles
from penstock.views.standing_queries import Intervals
from tests.operators.mining.story import PLACES, Story, same
from tests.operators.mining.test_series import SECOND, SEEDS, at
from tests.oracle import mining
from tests.support.examples import SOAK
from tests.support.pipe import Pipe

WINDOW = "BEGIN (NOW - 130 SECONDS) END (NOW)"
# The best partition of single readings takes the cube of their number.
OWN_S = 30 if SOAK else 12
EVERY = 2 * SECOND


@pytest.mark.parametrize("seed", SEEDS)
def test_periods_changes_and_forecasts_are_those_of_all_rows(
    seed: int, pipes: Callable[..., Pipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiles, "RECENT", 2)
    story = Story(pipes(intervals=Intervals(snapshot_cycles=7, trim_cycles=5)), seed, 30)
    text = (
        "SELECT place, PERIODS(value, every => 2 SECONDS, strength => 0.1) AS p,"
        " FORECAST(value, every => 2 SECONDS, ahead => 3, season => 10 SECONDS, level => 0.5) AS f,"
        " PERIODIC_PATTERNS(value, every => 2 SECONDS, period => 20 SECONDS, phase => 4 SECONDS, levels => ARRAY[15, 20.5, 25],"
        " confidence => 0.3, top => 1000) AS m,"
        " CHANGE_POINTS(value, every => 2 SECONDS, penalty => 0.5, shortest => 4) AS c"
        f" FROM probes GROUP BY place {WINDOW}"
    )
    story.pipe.db.execute(f"CREATE QUERY q AS {text}")
    story.pipe.db.execute(
        "CREATE QUERY single AS SELECT PERIODS(value, strength => 0.1, top => 2) AS p,"
        f" CHANGE_POINTS(value, {OWN_S} SECONDS, penalty => 0.5, shortest => 4) AS c FROM probes {WINDOW}"
    )
    seen = {"p": 0, "f": 0, "c": 0, "m": 0, "single": 0}
    for _ in story.cycles(50):
        low, now = story.now_us - 130 * SECOND, story.now_us
        places = [p for p in PLACES.values() if mining.whole_slots(story.of(p), low, now, EVERY)]
        answer = story.answer("q")
        assert [row["place"] for row in answer] == places
        for row in answer:
            series = mining.slots(story.of(row["place"]), low, now, EVERY)
            assert same(row["p"], mining.periods(series, strength=0.1))
            band = NormalDist().inv_cdf(0.75)
            forecast = [
                {"at": at(int(line[0])), "value": line[1], "lower": line[2], "upper": line[3]}
                for line in mining.forecast(series, 3, 5, band)
            ]
            assert same(row["f"], forecast)
            assert same(row["m"], mining.periodic_patterns(mining.at_levels(series, [15, 20.5, 25]), 10, 2, 0.3)[:1000])
            points = mining.change_points(series, 0.5, 4)
            assert same(row["c"], [{**each, "at": at(int(each["at"] or 0))} for each in points])
            for name in "pfcm":
                seen[name] += len(row[name])
        single = mining.readings(story.rows, low, now)
        points = mining.change_points(mining.readings(story.rows, now - OWN_S * SECOND, now), 0.5, 4)
        changes = [{**each, "at": at(int(each["at"] or 0))} for each in points]
        assert same(story.answer("single"), [{"p": mining.periods(single, strength=0.1, top=2), "c": changes}])
        seen["single"] += len(changes)
        assert story.pipe.db.execute(text).table.to_pylist() == answer
    assert all(seen.values()), seen
