"""Answers of series that go on from the one before: the same as fresh ones, and no work where no slot has changed. What they cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import PenstockError
from penstock.operators.aggregate.finish_times import FinishTimes
from penstock.operators.aggregate.partials import tiles
from penstock.operators.aggregate.series import Spent
from penstock.operators.base.table_answer import TableAnswer
from penstock.views.standing_queries import Intervals
from tests.operators.mining.story import Story
from tests.support.examples import seeds
from tests.support.pipe import Pipe

QUERIES = {
    "plain": "SERIES(value, every => 5 SECONDS) AS a FROM probes GROUP BY place BEGIN (NOW - 40 SECONDS) END (NOW)",
    "counted": "SERIES(value, every => 2 SECONDS, slot => COUNT) AS a, COUNT(*) AS n FROM probes GROUP BY place"
    " BEGIN (NOW - 15 SECONDS) END (NOW - 2 SECONDS)",
    "words": "SERIES(value, every => 3 SECONDS, slot => SUM) AS a, SERIES(value, every => 3 SECONDS) AS b FROM probes"
    " GROUP BY place BEGIN (NOW - 30 SECONDS) END (NOW)",
    "growing": "SERIES(value, every => 10 SECONDS) AS a FROM probes GROUP BY place",
    "panes": "SERIES(value, every => 5 SECONDS) AS a FROM probes GROUP BY place, TUMBLE(30 SECONDS) BEGIN (NOW - 2 MINUTES) END (NOW)",
    "own": "SERIES(value, 20 SECONDS, every => 5 SECONDS) AS a, SERIES(value, every => 5 SECONDS) AS b FROM probes"
    " GROUP BY place BEGIN (NOW - 60 SECONDS) END (NOW)",
    "found": "ANOMALIES(value, every => 2 SECONDS, history => 50 SECONDS, score => 1) AS a,"
    " CHANGE_POINTS(value, every => 2 SECONDS, shortest => 3) AS b FROM probes GROUP BY place BEGIN (NOW - 2 MINUTES) END (NOW)",
}


@pytest.mark.parametrize("seed", seeds(2, 8))
def test_an_answer_that_goes_on_from_the_one_before_is_that_of_a_fresh_start(
    pipes: Callable[..., Pipe], monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(tiles, "RECENT", 2)
    story = Story(pipes(intervals=Intervals(snapshot_cycles=7, trim_cycles=5)), seed)
    for name, asks in QUERIES.items():
        story.pipe.db.execute(f"CREATE QUERY {name} AS SELECT place, {asks}")
    for cycle in story.cycles(40):
        answers = {name: story.answer(name, cycle) for name in QUERIES}
        earlier = {name: story.answer(name, cycle - 1) for name in QUERIES} if cycle % 3 == 0 else {}
        story.pipe.db.standing.store.slices.series.clear()
        assert answers == {name: story.answer(name, cycle) for name in QUERIES}
        story.pipe.db.standing.store.slices.series.clear()
        assert earlier == {name: story.answer(name, cycle - 1) for name in earlier}
        if cycle % 4:  # others go on from an answer that is not the one of the cycle before
            for name in QUERIES:
                story.answer(name, cycle)


def held(pipe: Pipe, name: str = "q") -> TableAnswer:
    found = pipe.db.standing.held(name)
    assert isinstance(found, TableAnswer)
    return found


def followed(pipe: Pipe, call: str = "SERIES(value, every => 10 SECONDS)") -> None:
    pipe.db.execute(
        "CREATE TABLE probes (id INT PRIMARY KEY, reading STREAM (value DOUBLE)) WITH (time = 'valid', out_of_order = 'accept')"
    )
    pipe.db.execute("INSERT INTO probes VALUES (1, NULL), (2, NULL)")
    pipe.db.execute(f"CREATE QUERY q AS SELECT id, {call} AS a FROM probes GROUP BY id BEGIN (NOW - 1 HOUR) END (NOW)")


def send(pipe: Pipe, sensor: int, late_us: int = 0) -> None:
    pipe.clock.advance(1_000_000)
    ts = pipe.clock.now_us() - late_us
    pipe.db.push("probes", [{"id": sensor, "value": float(ts % 97), "ts": ts}])
    pipe.engine.drain()


def test_where_no_slot_has_changed_the_answer_is_the_same_object_and_a_subscriber_has_no_event(
    pipes: Callable[..., Pipe],
) -> None:
    pipe = pipes()
    followed(pipe)
    for _ in range(25):
        send(pipe, 1)
    before, kinds = held(pipe), []
    before.answer()
    for _ in range(20):
        send(pipe, 1)
        after = held(pipe)
        kinds.append(after.answer() is before.answer())
        entered = after.changed(before, before.inside())[1]
        assert not kinds[-1] or not len(entered)
        before = after
    assert (
        kinds.count(False) <= 4 and kinds.count(True) >= 16
    )  # NOW passes two ends of slots: each moves END, and then BEGIN


def test_after_a_late_reading_only_its_group_is_looked_at_again(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes()
    followed(pipe, "PERIODS(value, every => 10 SECONDS)")
    for turn in range(65):
        send(pipe, 1 + turn % 2)
    held(pipe).answer()
    spent: list[Any] = []
    slices = pipe.db.standing.store.slices
    slices.finish = Spy(spent)
    send(pipe, 2, late_us=35_000_000)  # NOW stays in the middle of a slot
    held(pipe).answer()
    assert [each["periods"].series for each in spent] == [1]


class Spy(FinishTimes):
    """Keeps what it is told."""

    def __init__(self, told: list[Any]) -> None:
        super().__init__()
        self._told = told

    def note(self, query_id: int, spent: Mapping[str, Spent]) -> None:
        self._told.append(dict(spent))


def test_words_of_the_same_argument_have_series_of_their_own(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes()
    followed(pipe, "SERIES(value, every => 10 SECONDS, slot => SUM) AS s, SERIES(value, every => 10 SECONDS)")
    for _ in range(30):
        send(pipe, 1)
    (row,) = pipe.db.standing.invoke("q").table.to_pylist()
    assert row["s"][1]["value"] == pytest.approx(10 * row["a"][1]["value"])


def test_unnest_does_not_copy_the_array_for_each_of_its_elements(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes()
    pipe.db.execute("CREATE TABLE probes (id INT PRIMARY KEY, reading STREAM (value DOUBLE)) WITH (time = 'valid')")
    pipe.db.execute("INSERT INTO probes VALUES (1, NULL)")
    pipe.db.execute(
        "CREATE QUERY q AS SELECT id, UNNEST(SERIES(value, every => 1 MS)) AS a FROM probes GROUP BY id"
        " BEGIN (NOW - 1 MINUTE) END (NOW)"
    )
    send(pipe, 1)
    pipe.clock.advance(40_000_000)
    send(pipe, 1)
    before = pa.total_allocated_bytes()
    assert held(pipe).answer().num_rows == 41_000
    assert pa.total_allocated_bytes() - before < 100 << 20  # the square of that would be 27 GB


def test_a_query_that_would_take_more_than_the_budget_is_refused_with_its_figures(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes()
    followed(pipe)
    asks = "SELECT id, PERIODS(value, every => {}) AS p FROM probes GROUP BY id BEGIN (NOW - 1 HOUR) END (NOW)"
    with pytest.raises(PenstockError) as failed:
        pipe.db.execute(f"CREATE QUERY much AS {asks.format('10 MS')}")
    assert failed.value.condition == "over_budget"
    assert "2 groups" in failed.value.render() and "mining_budget is 25%" in failed.value.render()
    one = "SELECT PERIODS(value, every => 250 MS) AS p FROM probes BEGIN (NOW - 1 HOUR) END (NOW)"  # about 5 % each
    with pytest.raises(PenstockError) as failed:
        for number in range(10):
            pipe.db.execute(f"CREATE QUERY some_{number} AS {one}")
    assert "other mining queries have" in failed.value.render() and number > 2
    pipe.db.execute("DROP QUERY some_0")
    pipe.db.execute(f"CREATE QUERY again AS {one}")


def test_samples_and_single_readings_count_for_the_budget_by_the_rows_there_are(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes(mining_budget=0.002)
    followed(pipe)
    window = "BEGIN (NOW - 1 HOUR) END (NOW)"
    asks = {
        "many": f"CLUSTERS(3, value) AS a FROM probes {window}",
        "sampled": f"CLUSTERS(3, value, sample => 400) AS a FROM probes {window}",
        "one_sensor": f"CLUSTERS(3, value) AS a FROM probes WHERE id = 2 {window}",
        "single": f"PERIODS(value) AS a FROM probes {window}",
        "newest": "PERIODS(value) AS a FROM probes BEGIN (LAST 500 ROWS)",
        "short": f"PERIODS(value, 1 MINUTE) AS a FROM probes {window}",
    }

    def refused() -> set[str]:
        """Those that the budget refuses, each beside no other."""
        found = set()
        for name, asked in asks.items():
            try:
                pipe.db.execute(f"CREATE QUERY {name} AS SELECT {asked}")
                pipe.db.execute(f"DROP QUERY {name}")
            except PenstockError as failure:
                assert failure.condition == "over_budget" and "mining_budget" in failure.render()
                found.add(name)
        return found

    assert not refused()  # nothing is known of the rows yet
    pipe.db.execute("DROP QUERY q")
    pipe.db.execute(f"INSERT INTO probes VALUES {', '.join(f'({number}, NULL)' for number in range(3, 11))}")
    for _ in range(40):
        pipe.clock.advance(75_000_000)
        now = pipe.clock.now_us()
        times = [now - 750_000 * n for n in range(100)]
        rows = [{"id": 1 + n % 10, "value": float(n % 7), "ts": ts} for n, ts in enumerate(times[::-1])]
        assert pipe.db.push("probes", rows).accepted == 100
        pipe.engine.drain()
    assert refused() == {"many", "single"}


def test_how_many_groups_there_are_is_told_by_the_sensors_that_pass(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes(mining_budget=0.01)
    followed(pipe)
    pipe.db.execute(f"INSERT INTO probes VALUES {', '.join(f'({number}, NULL)' for number in range(10, 500))}")
    asks = (
        "SELECT id, PERIODS(value, every => 10 SECONDS) AS p FROM probes{} GROUP BY id BEGIN (NOW - 1 HOUR) END (NOW)"
    )
    with pytest.raises(PenstockError, match="492 groups"):
        pipe.db.execute(f"CREATE QUERY much AS {asks.format('')}")
    pipe.db.execute(f"CREATE QUERY some AS {asks.format(' WHERE id < 5')}")


def test_a_condition_on_readings_counts_by_a_sample_of_the_log(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes(mining_budget=0.02)
    followed(pipe)
    count = 120_000
    for _ in range(4):
        pipe.clock.advance(600_000_000)
        times = pipe.clock.now_us() - np.arange(count // 4)[::-1] * 20_000
        values = np.random.default_rng(7).permutation(count // 4) / (count // 4)
        columns = {
            "id": pa.array(np.ones(count // 4, np.int32)),
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "value": values,
        }
        assert pipe.db.push("probes", pa.table(columns)).accepted == count // 4
        pipe.engine.drain()
    asks = "CREATE QUERY {} AS SELECT PERIODS(value) AS p FROM probes WHERE value < {} BEGIN (NOW - 1 HOUR) END (NOW)"
    with pytest.raises(PenstockError, match="mining_budget"):
        pipe.db.execute(asks.format("most", 0.9))
    pipe.db.execute(asks.format("few", 0.01))


def test_what_finishing_takes_is_measured_and_shown(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes()
    followed(pipe, "PERIODS(value, every => 10 SECONDS)")
    assert pipe.db.system.table("penstock.queries").column("finish_ms").to_pylist() == [None]
    for _ in range(25):
        send(pipe, 1)
    held(pipe).answer()
    assert pipe.db.system.table("penstock.queries").column("finish_ms").to_pylist()[0] > 0
    lines = pipe.db.execute("EXPLAIN q").table.column(0).to_pylist()
    assert any(line.startswith("  finish: ") and line.endswith(" % of a core") for line in lines)
    pipe.db.execute("CREATE QUERY r AS SELECT CLUSTERS(3, value) AS a FROM probes BEGIN (NOW - 1 HOUR) END (NOW)")
    for _ in range(200):
        send(pipe, 2)
    held(pipe, "r").answer()
    assert pipe.db.system.table("penstock.queries").column("finish_ms").to_pylist()[1] > 0
    lines = pipe.db.execute("EXPLAIN r").table.column(0).to_pylist()
    assert any("ms a group and answer" in line for line in lines)


@pytest.mark.parametrize(
    ("call", "key", "readings", "most_kb"),
    [
        ("SERIES(value, every => 1 SECOND)", "id", 2, 50),
        ("SERIES(value, every => 1 SECOND, slot => LAST)", "id", 1, 50),
        ("UNNEST(SERIES(value, every => 1 SECOND))", "id", 1, 50),
        # The exception of decision 43: each of its rows has the key, here of ten letters.
        ("UNNEST(SERIES(value, every => 1 SECOND))", "name", 1, 58),
        ("PERIODIC_PATTERNS(word, every => 1 SECOND, period => 7 SECONDS)", "id", 2, 50),
        ("PERIODS(word, every => 1 SECOND)", "id", 1, 50),
        ("FREQUENT_SEQUENCES(grade, by => name, every => 1 SECOND)", "id", 1, 50),
    ],
)
def test_a_group_of_1000_slots_takes_at_most_50_kb(
    pipes: Callable[..., Pipe], call: str, key: str, readings: int, most_kb: int
) -> None:
    """What the server counts for a query that is followed, so many readings in each slot of each group.

    A slot of several readings has the error of their sum beside it, and a row per element has its key.
    """
    pipe, groups = pipes(), 100
    fields = "value DOUBLE, word TEXT, grade INT"
    pipe.db.execute(
        f"CREATE TABLE probes (id INT PRIMARY KEY, name TEXT, reading STREAM ({fields})) WITH (time = 'valid')"
    )
    sensors = ", ".join(f"({n}, 'sensor{n:04}', NULL)" for n in range(groups))
    pipe.db.execute(f"INSERT INTO probes VALUES {sensors}")
    pipe.db.execute(
        f"CREATE QUERY q AS SELECT {key}, {call} AS a FROM probes GROUP BY {key} BEGIN (NOW - 1000 SECONDS) END (NOW)"
    )
    pipe.engine.drain()
    subscription = pipe.db.subscribe("q")
    began = pipe.clock.now_us()
    for begin in range(0, 1025, 25):
        pipe.clock.advance(25_000_000)
        times = [began + 1_000_000 * (begin + second) + 1000 * n for second in range(25) for n in range(readings)]
        at = np.repeat(np.array(times), groups)
        ids = np.tile(np.arange(groups, dtype=np.int32), len(times))
        values = (at % 7919) / 7 + ids
        words = pa.array([f"state {n}" for n in range(7)]).take(pa.array(at // 1_000_000 % 7))
        columns = {"id": ids, "ts": pa.array(at, pa.timestamp("us", "UTC")), "value": values, "word": words}
        sent = pa.table({**columns, "grade": (at // 1_000_000 % 5).astype(np.int32)})
        assert pipe.db.push("probes", sent).accepted == len(sent)
        pipe.engine.drain()
        if "SERIES" in call or begin > 970:  # of others nothing is kept from answer to answer
            while subscription.next(0.0) is not None:
                pass
    answer = pipe.db.standing.invoke("q").table
    assert len(answer.column("a").to_pylist()[0]) > 0
    if "SERIES" in call:
        assert (answer.num_rows if "UNNEST" in call else sum(map(len, answer.column("a").to_pylist()))) >= 999 * groups
    (memory,) = pipe.db.system.table("penstock.queries").column("memory").to_pylist()
    assert (15 << 10) < memory / groups <= most_kb << 10
