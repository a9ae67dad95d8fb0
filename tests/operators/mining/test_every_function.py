"""What holds for every mining function of the registry, in random histories: one answer, however it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from penstock.clock import format_timestamp
from penstock.errors import PenstockError
from penstock.operators.aggregate.partials import tiles
from penstock.operators.mining.registry import FUNCTIONS
from penstock.views.standing_queries import Intervals
from tests.operators.mining.calls import WINDOW, call, question
from tests.operators.mining.story import Story, same
from tests.operators.mining.test_series import SECOND, at
from tests.support.examples import SOAK
from tests.support.pipe import Pipe

Rows = list[dict[str, Any]]
PANE = timedelta(seconds=120)
LONG_S = 400
# Of an odd number of seconds: it is no multiple of a slot.
OWN = "105 SECONDS"
CYCLES = 60 if SOAK else 45


def stated(time: datetime) -> str:
    return format_timestamp(round(time.timestamp() * SECOND))


def by_place(rows: Rows) -> dict[str, Any]:
    return {row["place"]: row["found"] for row in rows}


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_a_function_has_one_answer_however_it_is_asked_for(
    name: str, pipes: Callable[..., Pipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiles, "RECENT", 2)
    story = Story(pipes(intervals=Intervals(snapshot_cycles=7, trim_cycles=5)), 7, 30)
    texts = {
        "whole": question(name),
        "panes": f"SELECT place, window_start AS b, {call(name)} AS found FROM probes GROUP BY place, TUMBLE(120 SECONDS) BEGIN (NOW - {LONG_S} SECONDS) END (NOW)",
        "own": f"SELECT place, {call(name, OWN)} AS found FROM probes GROUP BY place {WINDOW}",
    }
    for asked, text in texts.items():
        story.pipe.db.execute(f"CREATE QUERY {asked} AS {text}")

    def once(text: str) -> Rows:
        found: Rows = story.pipe.db.execute(text).table.to_pylist()
        return found

    known: dict[int, dict[str, Rows]] = {}
    seen, compared = dict.fromkeys(texts, 0), 0
    for cycle in story.cycles(CYCLES):
        known[cycle] = {asked: story.answer(asked) for asked in texts}
        if cycle % 3:
            continue
        for asked, text in texts.items():
            assert same(once(text), known[cycle][asked]), asked
            seen[asked] += sum(row["found"] not in (None, []) for row in known[cycle][asked])
            earlier = story.chance.choice([c for c in known if c > cycle - 6])
            assert same(once(f"SELECT * FROM {asked} AS OF CYCLE {earlier}"), known[earlier][asked]), (asked, earlier)
        # A window of its own is that of a query with this window, for every place that has rows there.
        short = by_place(once(question(name, f"BEGIN (NOW - {OWN}) END (NOW)")))
        own = by_place(known[cycle]["own"])
        assert set(short) <= set(own) and all(same(own[place], found) for place, found in short.items())
        if cycle % 6 == 0:
            low, now = at(story.now_us - LONG_S * SECOND), at(story.now_us)
            for begin in {row["b"] for row in known[cycle]["panes"]}:
                end = min(now, begin + PANE - timedelta(microseconds=1))
                pane = [row for row in known[cycle]["panes"] if row["b"] == begin]
                try:
                    alone = once(question(name, f"BEGIN ('{stated(max(low, begin))}') END ('{stated(end)}')"))
                except PenstockError as refused:  # a pane that has only just begun is too short for a window
                    assert refused.condition == "invalid_window"
                else:
                    assert same(by_place(pane), by_place(alone)), begin
                    compared += 1
    assert compared and all(seen.values()), seen
    before = {asked: story.answer(asked) for asked in texts}
    story.pipe.restart()
    assert {asked: same(story.answer(asked), rows) for asked, rows in before.items()} == dict.fromkeys(texts, True)
    assert {asked: same(once(text), before[asked]) for asked, text in texts.items()} == dict.fromkeys(texts, True)
