"""MATCHES at every committed cycle of random histories, against plain loops over all rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.clock import format_timestamp
from penstock.operators.aggregate.partials import tiles
from penstock.views.standing_queries import Intervals
from tests.operators.mining.story import PLACES, Story
from tests.operators.mining.test_series import SECOND, SEEDS, at
from tests.oracle import mining
from tests.support.pipe import Pipe

WINDOW = "BEGIN (NOW - 60 SECONDS) END (NOW)"
SHAPE = [10.0, 30.5, 20.0, -5.0]
CALL = "MATCHES(value, {0}shape => ARRAY[10, 30.5, 20, -5]{1})"


def same(found: list[dict[str, Any]], truth: list[dict[str, Any]]) -> bool:
    """Whether the places are the same, and the distances as well as correlations of 9 digits tell."""
    return [line["at"] for line in found] == [at(line["at"]) for line in truth] and all(
        abs(one["distance"] ** 2 - two["distance"] ** 2) < 1e-8 * max(1, two["distance"])
        for one, two in zip(found, truth, strict=True)
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_matches_are_those_of_all_rows(seed: int, pipes: Callable[..., Pipe], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "RECENT", 2)
    story = Story(pipes(intervals=Intervals(snapshot_cycles=7, trim_cycles=5)), seed, 30)
    slots = f"SELECT place, {CALL.format('every => 2 SECONDS, ', '')} AS m FROM probes GROUP BY place {WINDOW}"
    single = f"SELECT {CALL.format('', ', top => 2, normalise => false')} AS m FROM probes {WINDOW}"
    story.pipe.db.execute(f"CREATE QUERY slots AS {slots}")
    story.pipe.db.execute(f"CREATE QUERY single AS {single}")
    known: dict[int, list[dict[str, Any]]] = {}

    def is_right(answer: list[dict[str, Any]], now: int) -> bool:
        low = now - 60 * SECOND
        places = [p for p in PLACES.values() if mining.whole_slots(story.of(p), low, now, 2 * SECOND)]
        truth = [mining.matches(mining.slots(story.of(p), low, now, 2 * SECOND), SHAPE) for p in places]
        right = [row["place"] for row in answer] == places
        return right and all(same(row["m"], own) for row, own in zip(answer, truth, strict=True))

    seen = 0
    for cycle in story.cycles(40):
        now = story.now_us
        known[cycle] = story.answer("slots")
        seen += sum(len(row["m"]) for row in known[cycle])
        assert is_right(known[cycle], now)
        readings = mining.readings(story.rows, now - 60 * SECOND, now)
        (row,) = story.answer("single")
        assert same(row["m"], mining.matches(readings, SHAPE, 2, normalise=False))
        assert story.pipe.db.execute(slots).table.to_pylist() == known[cycle]
        assert story.pipe.db.execute(single).table.to_pylist() == [row]
        then = story.chance.choice(story.rows).ts
        answer = story.pipe.db.execute(f"SELECT * FROM slots AS OF '{format_timestamp(then)}'").table.to_pylist()
        assert is_right(answer, then)
        asked = story.chance.choice([c for c in known if c > cycle - 8])
        assert story.answer("slots", asked) == known[asked]
    assert seen
