"""SERIES, VECTOR_SUM and VECTOR_AVG at every committed cycle of random histories, against plain loops over all rows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock.clock import format_timestamp
from penstock.operators.aggregate.partials import tiles
from penstock.views.standing_queries import Intervals
from tests.operators.mining.story import PLACES, Story, same
from tests.oracle import mining
from tests.support.examples import seeds
from tests.support.pipe import Pipe

SECOND = 1_000_000
SEEDS = seeds(1, 20)
SLOTS = ("MEAN", "LAST", "MIN", "MAX", "SUM", "COUNT")


def at(us: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)


def shown(series: mining.Elements) -> list[dict[str, Any]]:
    return [{"at": at(t), "value": v} for t, v in zip(series.times, series.values, strict=True)]


@pytest.fixture
def story(request: pytest.FixtureRequest, pipes: Callable[..., Pipe], monkeypatch: pytest.MonkeyPatch) -> Story:
    """A story that soon has cells in tiles, snapshots and rows that no window reaches."""
    monkeypatch.setattr(tiles, "RECENT", 2)
    return Story(pipes(intervals=Intervals(snapshot_cycles=7, trim_cycles=5)), request.param)


@pytest.mark.parametrize("story", SEEDS, indirect=True)
def test_series_by_slots_are_those_of_all_rows(story: Story) -> None:
    for how in SLOTS:
        story.pipe.db.execute(
            f"CREATE QUERY q_{how} AS SELECT place, SERIES(value, every => 5 SECONDS, slot => {how}) AS s FROM probes"
            " GROUP BY place BEGIN (NOW - 60 SECONDS) END (NOW - 3 SECONDS)"
        )
    story.pipe.db.execute(
        "CREATE QUERY fine AS SELECT place, COUNT(*) AS n, SERIES(value, every => 500 MS) AS s FROM probes"
        " WHERE id < 3 GROUP BY place BEGIN (NOW - 20 SECONDS) END (NOW)"
    )
    story.pipe.db.execute(
        "CREATE QUERY one AS SELECT SERIES(value, 30 SECONDS, every => 7 SECONDS) FILTER (WHERE value > 20) AS s,"
        " SERIES(value, 5 SECONDS) AS r FROM probes"
    )
    known: dict[int, list[dict[str, Any]]] = {}
    later = "CREATE QUERY later AS SELECT place, SERIES(value, every => 250 MS) AS s FROM probes GROUP BY place"
    for cycle in story.cycles(40):
        now = story.now_us
        for how in SLOTS:
            low, until, every = now - 60 * SECOND, now - 3 * SECOND, 5 * SECOND
            truth = [
                {"place": place, "s": shown(mining.slots(story.of(place), low, until, every, how))}
                for place in PLACES.values()
                if mining.whole_slots(story.of(place), low, until, every)
            ]
            assert same(story.answer(f"q_{how.lower()}"), truth), how
            if how == "MEAN":
                known[cycle] = truth
        truth = []
        now = max(
            (row.ts for row in story.rows if row.group != "west"), default=0
        )  # NOW of the sensors that pass WHERE
        for place in ("north", "south"):
            inside = [row for row in story.of(place) if row.ts >= now - 20 * SECOND]
            if inside:
                series = mining.slots(story.of(place), now - 20 * SECOND, now, SECOND // 2)
                truth.append({"place": place, "n": len(inside), "s": shown(series)})
        assert same(story.answer("fine"), truth)
        now = story.now_us
        above = [row for row in story.rows if row.value is not None and row.value > 20]
        truth = [
            {
                "s": shown(mining.slots(above, now - 30 * SECOND, now, 7 * SECOND)),
                "r": shown(mining.readings(story.rows, now - 5 * SECOND, now)),
            }
        ]
        assert same(story.answer("one"), truth)
        if len(known) == 15:  # the same rows and groups as the first queries, in finer slots from now on
            story.pipe.db.execute(f"{later} BEGIN (NOW - 12 SECONDS) END (NOW)")
            story.pipe.engine.drain()
        if len(known) >= 15:
            truth = [
                {"place": place, "s": shown(mining.slots(story.of(place), now - 12 * SECOND, now, SECOND // 4))}
                for place in PLACES.values()
                if mining.whole_slots(story.of(place), now - 12 * SECOND, now, SECOND // 4)
            ]
            assert same(story.answer("later"), truth)
        then = story.chance.choice(story.rows).ts  # the answer of a time has all rows of it that are known today
        answer = story.pipe.db.execute(f"SELECT * FROM q_last AS OF '{format_timestamp(then)}'").table.to_pylist()
        truth = [
            {
                "place": place,
                "s": shown(mining.slots(story.of(place), then - 60 * SECOND, then - 3 * SECOND, every, "LAST")),
            }
            for place in PLACES.values()
            if mining.whole_slots(story.of(place), then - 60 * SECOND, then - 3 * SECOND, every)
        ]
        assert same(answer, truth), then
        asked = story.chance.choice([c for c in known if c > cycle - 8])
        assert same(story.answer("q_mean", asked), known[asked]), asked


@pytest.mark.parametrize("story", SEEDS, indirect=True)
def test_series_of_panes_are_those_of_all_rows_and_asked_once_they_are_the_same(story: Story) -> None:
    asked = {
        "tumbling": ("TUMBLE(20 SECONDS)", 20, 20),
        "sliding": ("SLIDE(30 SECONDS, 10 SECONDS)", 30, 10),
    }
    texts = {}
    for name, (panes, _, _) in asked.items():
        texts[name] = (
            "SELECT place, window_start AS b, SERIES(value, every => 5 SECONDS, slot => MAX) AS s, SERIES(value) AS r"
            f" FROM probes GROUP BY place, {panes} BEGIN (NOW - 70 SECONDS) END (NOW)"
        )
        story.pipe.db.execute(f"CREATE QUERY {name} AS {texts[name]}")
    for _ in story.cycles(40):
        low, now = story.now_us - 70 * SECOND, story.now_us
        for name, (_, width, step) in asked.items():
            width, step = width * SECOND, step * SECOND
            truth = []
            for begin in range((low - width) // step * step, now + 1, step):
                since, until = max(low, begin), min(now, begin + width - 1)
                for place in PLACES.values():
                    rows = story.of(place)
                    if any(since <= row.ts <= until for row in rows):
                        series = mining.slots(rows, since, until, 5 * SECOND, "MAX")
                        single = mining.readings(rows, since, until)
                        truth.append({"place": place, "b": at(begin), "s": shown(series), "r": shown(single)})
            assert same(story.answer(name), truth), name
        name = story.chance.choice(list(texts))
        assert story.pipe.db.execute(texts[name]).table.to_pylist() == story.answer(name)


@pytest.mark.parametrize("story", SEEDS, indirect=True)
def test_sums_of_vectors_are_those_of_all_rows(story: Story) -> None:
    text = (
        "SELECT place, VECTOR_SUM(vector) AS s, VECTOR_AVG(vector) AS a, VECTOR_SUM(counts) AS c, VECTOR_AVG(counts) AS m"
        " FROM probes GROUP BY place HAVING COUNT(*) > 2 BEGIN (NOW - 45 SECONDS) END (NOW)"
    )
    story.pipe.db.execute(f"CREATE QUERY q AS {text}")
    for _ in story.cycles(40):
        truth = []
        for place in PLACES.values():
            own = [r for r in story.vectors if r[0].group == place and r[0].ts >= story.now_us - 45 * SECOND]
            if len(own) > 2:
                sums = [mining.vector_sum([r[i] for r in own], mean) for i in (1, 2) for mean in (False, True)]  # type: ignore[misc]
                truth.append(dict(zip(("place", "s", "a", "c", "m"), (place, *sums), strict=True)))
        assert same(story.answer("q"), truth)
        assert same(story.pipe.db.execute(text).table.to_pylist(), story.answer("q"))
