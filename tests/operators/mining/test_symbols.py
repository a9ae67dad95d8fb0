"""Series of symbols at every committed cycle of random histories, against plain loops over all rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from penstock.clock import format_timestamp
from penstock.operators.aggregate.partials import tiles
from penstock.views.standing_queries import Intervals
from tests.operators.mining.story import PLACES, Story, same
from tests.operators.mining.test_series import SECOND, SEEDS, at
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
        once = story.answer("single")
        assert same(once, [{"p": mining.symbol_periods(readings, 0.05)}])
        seen["single"] += len(once[0]["p"])
        assert story.pipe.db.execute(text).table.to_pylist() == answer
        assert story.pipe.db.execute(single).table.to_pylist() == once
    # Words and flags at random have a period by chance only: not each of them in every story.
    assert all(seen[name] for name in "pgb") and seen["w"] + seen["f"] + seen["single"], seen


def of_lanes(rows: list[mining.SymbolRow]) -> list[list[mining.SymbolRow]]:
    """The rows by what they say for `by`; NULL is a value, as in GROUP BY."""
    return [[row for row in rows if row.by == lane] for lane in {row.by for row in rows}]


@pytest.mark.parametrize("seed", SEEDS)
def test_frequent_sequences_are_those_of_all_rows(
    seed: int, pipes: Callable[..., Pipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiles, "RECENT", 2)
    story = Story(pipes(intervals=Intervals(snapshot_cycles=7, trim_cycles=5)), seed, 30)
    texts = {
        "slots": "SELECT place, FREQUENT_SEQUENCES(value, by => lane, every => 2 SECONDS, levels => ARRAY[17, 23], longest => 3,"
        " within => 8 SECONDS, top => 1000) AS f, COUNT(*) AS n, SERIES(value, every => 2 SECONDS) AS s, SUM(grade) AS g,"
        f" SERIES(value, every => 2 SECONDS, slot => SUM) AS t FROM probes GROUP BY place {WINDOW}",
        "words": "SELECT FREQUENT_SEQUENCES(word, by => id, every => 2 SECONDS, gap => 1, share => 0.6, top => 1000) AS f,"
        f" FREQUENT_SEQUENCES(flag, by => id, every => 4 SECONDS, collapse => false) AS b FROM probes {WINDOW}",
        "readings": "SELECT FREQUENT_SEQUENCES(grade, by => lane, share => 1, gap => 2, within => 4, top => 1000)"
        f" FILTER (WHERE id < 3) AS f, FREQUENT_SEQUENCES(value, by => lane, levels => ARRAY[20]) AS v, COUNT(*) AS n FROM probes {WINDOW}",
        "panes": "SELECT place, window_start AS w, FREQUENT_SEQUENCES(word, by => lane, every => 2 SECONDS) AS f FROM probes"
        f" GROUP BY place, SLIDE(60 SECONDS, 20 SECONDS) {WINDOW}",
        "newest": "SELECT FREQUENT_SEQUENCES(word, by => lane) AS f, COUNT(*) AS n FROM probes BEGIN (LAST 40 ROWS)",
        "own": "SELECT FREQUENT_SEQUENCES(word, 60 SECONDS, by => lane) AS f, FREQUENT_SEQUENCES(word, by => lane) AS a,"
        f" COUNT(*) AS n FROM probes {WINDOW}",
    }
    for name, text in texts.items():
        story.pipe.db.execute(f"CREATE QUERY {name} AS {text}")
    seen = Counter[str]()
    for _ in story.cycles(30):
        answers = {name: story.answer(name) for name in texts}
        low, now = story.now_us - 130 * SECOND, story.now_us
        rows = [word for word, _, _ in story.words]
        inside = [row for row in rows if low <= row.ts <= now]
        of_id = [[row for row in rows if row.group == place] for place in PLACES.values()]
        truth = []
        for place in PLACES.values():
            own, same_place = story.of(place), [row for row in rows if row.group == place]
            if not any(row.ts >= low for row in own):
                continue
            lanes = [
                mining.slots([each for each in own if each.position in {row.position for row in lane}], low, now, EVERY)
                for lane in of_lanes(same_place)
            ]
            found = mining.frequent_sequences([mining.at_levels(lane, [17, 23]) for lane in lanes], longest=3, within=4)
            grades = [g for word, _, g in story.words if word.group == place and word.ts >= low and g is not None]
            total = (sum(grades) + 2**63) % 2**64 - 2**63 if grades else None
            series = [mining.slots(own, low, now, EVERY, how) for how in ("MEAN", "SUM")]
            s, t = ([{"at": at(a), "value": v} for a, v in zip(e.times, e.values, strict=True)] for e in series)
            n = sum(row.ts >= low for row in own)
            truth.append({"place": place, "f": found[:1000], "n": n, "s": s, "g": total, "t": t})
        assert same(answers["slots"], truth)
        words = [mining.symbol_slots(own, low, now, EVERY) for own in of_id]
        flags = [
            [replace(word, symbol=flag) for word, flag, _ in story.words if word.group == p] for p in PLACES.values()
        ]
        slots = [mining.symbol_slots(own, low, now, 2 * EVERY) for own in flags]
        truth = [
            {
                "f": mining.frequent_sequences(words, 0.6, gap=1)[:1000],
                "b": mining.frequent_sequences(slots, collapse=False)[:20],
            }
        ]
        assert same(answers["words"], truth)
        then = story.chance.choice(story.rows).ts  # the answer of a time has all rows of it that are known today
        words = [mining.symbol_slots(own, then - 130 * SECOND, then, EVERY) for own in of_id]
        answer = story.pipe.db.execute(f"SELECT * FROM words AS OF '{format_timestamp(then)}'").table.to_pylist()
        assert same(answer[0]["f"], mining.frequent_sequences(words, 0.6, gap=1)[:1000])
        grades = [replace(word, symbol=g) for word, _, g in story.words if word.group != "west"]
        levels = [replace(row, symbol=int(v >= 20)) for row, v in readings_of(story)]
        truth = [
            {
                "f": mining.frequent_sequences(
                    [mining.symbol_readings(own, low, now) for own in of_lanes(grades)], 1, gap=2, within=4
                )[:1000],
                "v": mining.frequent_sequences([mining.symbol_readings(own, low, now) for own in of_lanes(levels)])[
                    :20
                ],
                "n": len(inside),
            }
        ]
        assert same(answers["readings"], truth)
        truth = []
        for begin in range((low - 60 * SECOND) // (20 * SECOND) * 20 * SECOND, now + 1, 20 * SECOND):
            since, until = max(low, begin), min(now, begin + 60 * SECOND - 1)
            for place in PLACES.values():
                own = [row for row in rows if row.group == place]
                if any(mining.whole_slots(story.of(place), since, until, EVERY)):
                    lanes = [mining.symbol_slots(lane, since, until, EVERY) for lane in of_lanes(own)]
                    truth.append({"place": place, "w": at(begin), "f": mining.frequent_sequences(lanes)[:20]})
        assert same(answers["panes"], truth)
        last = sorted(rows, key=lambda row: (row.ts, row.position))[-40:]
        lanes = [mining.symbol_readings(lane, 0, now) for lane in of_lanes(last)]
        assert same(answers["newest"], [{"f": mining.frequent_sequences(lanes)[:20], "n": len(last)}])
        short, whole = (
            mining.frequent_sequences([mining.symbol_readings(lane, since, now) for lane in of_lanes(rows)])[:20]
            for since in (now - 60 * SECOND, low)
        )
        assert same(answers["own"], [{"f": short, "a": whole, "n": len(inside)}])
        for name in texts:
            seen[name] += sum(len(row["f"]) for row in answers[name])
        name = story.chance.choice([name for name in texts if name != "newest"])
        assert story.pipe.db.execute(texts[name]).table.to_pylist() == answers[name], name
    assert all(seen[name] for name in texts), seen


def readings_of(story: Story) -> list[tuple[mining.SymbolRow, float]]:
    """Each number that counts, with its row."""
    pairs = zip((word for word, _, _ in story.words), story.rows, strict=True)
    return [(word, row.value) for word, row in pairs if row.value is not None and mining.is_reading(row.value)]
