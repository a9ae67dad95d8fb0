"""Series of symbols at every committed cycle of random histories, against plain loops over all rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from penstock.operators.aggregate.partials import tiles
from penstock.views.standing_queries import Intervals
from tests.operators.mining.story import PLACES, Story, same
from tests.operators.mining.test_series import SECOND, SEEDS
from tests.oracle import mining
from tests.support.pipe import Pipe

WINDOW = "BEGIN (NOW - 130 SECONDS) END (NOW)"
EVERY = 2 * SECOND


@pytest.mark.parametrize("seed", SEEDS)
def test_periods_and_patterns_of_symbols_are_those_of_all_rows(
    seed: int, pipes: Callable[..., Pipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiles, "RECENT", 2)
    story = Story(pipes(intervals=Intervals(snapshot_cycles=7, trim_cycles=5)), seed, 30)
    periods = "every => 2 SECONDS, strength => 0.05"
    patterns = "every => 2 SECONDS, period => 20 SECONDS, phase => 4 SECONDS, confidence => 0.4, top => 1000"
    text = (
        f"SELECT place, PERIODS(word, {periods}) AS w, PERIODS(flag, {periods}) AS f, PERIODIC_PATTERNS(word, {patterns}) AS p,"
        f" PERIODIC_PATTERNS(grade, {patterns}) AS g, PERIODIC_PATTERNS(flag, {patterns}) FILTER (WHERE id < 3) AS b"
        f" FROM probes GROUP BY place {WINDOW}"
    )
    single = f"SELECT PERIODS(word, strength => 0.05) FILTER (WHERE id = 1) AS p FROM probes {WINDOW}"
    story.pipe.db.execute(f"CREATE QUERY q AS {text}")
    story.pipe.db.execute(f"CREATE QUERY single AS {single}")
    seen = Counter[str]()
    for _ in story.cycles(40):
        low, now = story.now_us - 130 * SECOND, story.now_us
        answer = story.answer("q")
        assert [row["place"] for row in answer] == [
            place for place in PLACES.values() if mining.whole_slots(story.of(place), low, now, EVERY)
        ]
        for row in answer:
            own = [each for each in story.words if each[0].group == row["place"]]
            flags = [replace(word, symbol=flag) for word, flag, _ in own]
            grades = [replace(word, symbol=grade) for word, _, grade in own]
            words, flag, grade = (
                mining.symbol_slots(rows, low, now, EVERY) for rows in ([word for word, _, _ in own], flags, grades)
            )
            assert same(row["w"], mining.symbol_periods(words, 0.05)) and same(
                row["f"], mining.symbol_periods(flag, 0.05)
            )
            assert same(row["p"], mining.periodic_patterns(words, 10, 2, 0.4)[:1000])
            assert same(row["g"], mining.periodic_patterns(grade, 10, 2, 0.4)[:1000])
            assert same(row["b"], mining.periodic_patterns(flag, 10, 2, 0.4)[:1000] if row["place"] != "west" else [])
            seen.update({name: len(row[name]) for name in "wfpgb"})
        readings = mining.symbol_readings([word for word, _, _ in story.words if word.group == "north"], low, now)
        assert same(story.answer("single"), [{"p": mining.symbol_periods(readings, 0.05)}])
        seen["single"] += len(story.answer("single")[0]["p"])
        assert story.pipe.db.execute(text).table.to_pylist() == answer
        assert story.pipe.db.execute(single).table.to_pylist() == story.answer("single")
    assert all(seen[name] for name in (*"wfpgb", "single")), seen
