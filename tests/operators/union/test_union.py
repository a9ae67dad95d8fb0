"""UNION ALL as a user meets it: columns, windows, NOW, EXPLAIN, changes of the query, failures."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from penstock.clock import SECOND, format_timestamp
from penstock.errors import PenstockError
from penstock.operators.union.plan import UnionPlan
from penstock.sql.plan import plan_from_json, plan_to_json
from tests.support.pipe import BEGAN_US, Pipe

VALID = "WITH (time = 'valid', out_of_order = 'accept', idle = '10 SECONDS')"
MINUTE = "BEGIN (NOW - 1 MINUTE) END (NOW)"
BOTH = f"SELECT n, ts FROM left_arm UNION ALL SELECT v, ts FROM right_arm {MINUTE}"


class Arms(Pipe):
    """Two streams in valid time."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, BEGAN_US + 100 * SECOND)
        for name in ("left_arm", "right_arm"):
            self.db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, r STREAM (n INT, v DOUBLE)) {VALID}")
            self.db.execute(f"INSERT INTO {name} VALUES (1, NULL)")

    def at(self, table: str, second: int, value: int) -> None:
        ts = format_timestamp(BEGAN_US + second * SECOND)
        self.db.push(table, [{"id": 1, "n": value, "v": value + 0.5, "ts": ts}])

    def cycle(self) -> None:
        self.clock.advance(SECOND)
        self.engine.drain()

    def values(self, name: str = "q") -> list[float]:
        return sorted(self.answer(name, "n"))


@pytest.fixture
def arms(tmp_path: Path) -> Arms:
    return Arms(tmp_path / "data")


def test_types_are_unified_and_each_row_keeps_its_time(arms: Arms) -> None:
    arms.db.execute(f"CREATE QUERY q AS {BOTH}")
    arms.at("left_arm", 1, 7)
    arms.at("right_arm", 2, 3)
    arms.at("right_arm", 0, 3)
    arms.at("left_arm", 2, 9)
    arms.cycle()
    table = arms.db.invoke("q").table
    assert [str(t) for t in table.schema.types] == ["double", "timestamp[us, tz=UTC]"]
    rows = Counter((row["n"], row["ts"].second) for row in table.to_pylist())
    assert rows == Counter({(7.0, 1): 1, (3.5, 2): 1, (3.5, 0): 1, (9.0, 2): 1})


def test_equal_rows_of_two_branches_come_twice(arms: Arms) -> None:
    arms.db.execute(f"CREATE QUERY q AS SELECT n FROM left_arm UNION ALL SELECT n FROM left_arm WHERE n > 1 {MINUTE}")
    arms.at("left_arm", 1, 1)
    arms.at("left_arm", 1, 2)
    arms.cycle()
    assert arms.values() == [1, 2, 2]


def test_the_slower_stream_holds_now_back_until_it_is_idle(arms: Arms) -> None:
    arms.db.execute(f"CREATE QUERY q AS {BOTH}")
    arms.at("left_arm", 0, 1)
    arms.at("right_arm", 0, 1)
    arms.cycle()
    arms.at("left_arm", 5, 2)
    arms.cycle()
    assert arms.values() == [1, 1.5]  # NOW is still second 0
    for _ in range(6):
        arms.at("left_arm", 8, 3)
        arms.clock.advance(2 * SECOND)
        arms.cycle()
    assert 2 in arms.values()


def test_a_window_of_its_own_and_that_of_the_whole(arms: Arms) -> None:
    arms.db.execute(
        f"CREATE QUERY q AS SELECT n FROM left_arm BEGIN (LAST 1 ROWS) UNION ALL SELECT n FROM right_arm {MINUTE}"
    )
    for second in (0, 30, 80):
        arms.at("left_arm", second, second)
        arms.at("right_arm", second, second)
    arms.cycle()
    assert arms.values() == [30, 80, 80]
    arms.db.execute("ALTER QUERY q SET BEGIN (NOW - 2 MINUTES)")
    arms.cycle()
    arms.cycle()
    assert arms.values() == [0, 30, 80, 80]
    assert arms.db.query("q")["window"] == "BEGIN (LAST 1 ROWS), BEGIN (NOW - 2m) END (NOW)"


def test_history_a_restart_and_an_earlier_cycle(arms: Arms) -> None:
    arms.at("left_arm", 1, 1)
    arms.at("right_arm", 1, 2)
    arms.cycle()
    arms.db.execute(f"CREATE QUERY q AS {BOTH}")
    arms.cycle()
    before = arms.db.invoke("q")
    assert arms.values() == [1, 2.5]
    arms.at("left_arm", 1, 3)
    arms.cycle()
    arms.restart()
    assert arms.values() == [1, 2.5, 3]
    assert arms.db.invoke("q", before.cycle).table == before.table


def test_a_past_time_is_answered_from_the_log(arms: Arms) -> None:
    arms.db.execute(f"CREATE QUERY q AS {BOTH}")
    for second in (0, 10, 100):
        arms.at("left_arm", second, second)
        arms.at("right_arm", second, second)
    arms.cycle()
    found = arms.db.execute(f"SELECT * FROM q AS OF '{format_timestamp(BEGAN_US + 10 * SECOND)}'").table
    assert sorted(found.column("n").to_pylist()) == [0, 0.5, 10, 10.5]


def test_a_subscriber_gets_each_row_once(arms: Arms) -> None:
    arms.db.execute(f"CREATE QUERY q AS {BOTH}")
    arms.cycle()
    subscription, told = arms.db.subscribe("q"), list[float]()
    for second in range(6):
        arms.at("left_arm", second, second)
        arms.at("right_arm", second, second)
        arms.cycle()
    while (event := subscription.next(0)) is not None:
        told += event.table.column("n").to_pylist()
    subscription.close()
    assert sorted(told) == sorted(arms.values())


def test_it_is_stored_described_explained_and_dropped_with_its_branches(arms: Arms) -> None:
    arms.db.execute(f"CREATE QUERY before AS SELECT n FROM left_arm {MINUTE}")
    arms.db.execute(f"CREATE QUERY q AS {BOTH}")
    arms.db.execute(f"CREATE QUERY after AS SELECT n FROM left_arm {MINUTE}")
    arms.at("left_arm", 1, 1)
    arms.at("right_arm", 1, 1)
    arms.cycle()
    definition = arms.db.definition("q")
    assert definition.numbers == (2, 3, 4) and arms.db.definition("after").id == 5
    plan = plan_from_json(definition.plan)
    assert isinstance(plan, UnionPlan) and plan_from_json(plan_to_json(plan)) == plan
    facts = arms.db.query("q")
    assert (facts["state"], facts["runs"], facts["matched"], facts["rows"]) == ("RUNNING", "shared pass", 2, 2)
    assert {name: fact["name"] for name, fact in enumerate(arms.db.queries())} == {0: "after", 1: "before", 2: "q"}
    lines = arms.db.execute("EXPLAIN q").table.column("plan").to_pylist()
    assert lines[0] == "the rows of 2 branches, each with its ts; NOW is the smallest of their streams"
    assert lines[1].startswith("  1: shared pass") and any(line.startswith("  2: shared pass") for line in lines)
    assert sum(line.startswith(("  branch 1: answer kept", "  branch 2: answer kept")) for line in lines) == 2
    arms.restart()
    assert arms.db.definition("q").numbers == (2, 3, 4)
    arms.db.execute("DROP QUERY q")
    arms.cycle()
    assert not any(arms.db.standing.store.knows(number) for number in definition.numbers)
    assert arms.db.standing.memory_of(3) == 0
    arms.db.execute(f"CREATE QUERY q AS {BOTH}")
    assert arms.db.definition("q").numbers == (6, 7, 8)


def test_a_pause_counts_for_all_branches(arms: Arms) -> None:
    arms.db.execute(f"CREATE QUERY q AS {BOTH}")
    arms.cycle()
    arms.db.execute("ALTER QUERY q PAUSE")
    arms.at("left_arm", 1, 1)
    arms.at("right_arm", 1, 1)
    arms.cycle()
    assert arms.db.query("q")["state"] == "PAUSED"
    arms.db.execute("ALTER QUERY q RESUME")
    arms.cycle()
    arms.cycle()
    assert arms.values() == [1, 1.5]


def test_one_branch_in_quarantine_takes_the_query_out(arms: Arms) -> None:
    arms.db.execute(f"CREATE QUERY q AS {BOTH}")
    arms.cycle()
    number = arms.db.definition("q").branches[1]
    arms.db.catalog.quarantine_queries({number: "it stops the cycle"})
    arms.cycle()
    assert arms.db.query("q")["state"] == "FAILED" and arms.db.definition("q").quarantined == "it stops the cycle"
    with pytest.raises(PenstockError, match="it stops the cycle"):
        arms.db.invoke("q")
    arms.db.execute("ALTER QUERY q RESUME")
    arms.at("left_arm", 1, 1)
    arms.at("right_arm", 1, 1)
    arms.cycle()
    arms.cycle()
    assert arms.values() == [1, 1.5]


@pytest.mark.parametrize(
    ("sql", "caret", "message"),
    [
        ("SELECT n FROM left_arm UNION ALL SELECT n, v FROM right_arm", "n, v FROM", "one side has 1 columns"),
        ("SELECT n FROM left_arm UNION ALL SELECT CAST(n AS TEXT) FROM right_arm", "n AS TEXT", "cannot combine"),
        ("SELECT n FROM left_arm UNION ALL SELECT m FROM right_arm", "m", 'has no column "m"'),
    ],
)
def test_bad_input_has_a_caret(arms: Arms, sql: str, caret: str, message: str) -> None:
    with pytest.raises(PenstockError, match=message) as found:
        arms.db.execute(f"CREATE QUERY q AS {sql}")
    shown = found.value.render().splitlines()
    at = shown[2].index("^")
    assert shown[1][at:].startswith(caret)


def final_rows_told(arms: Arms, name: str, columns: tuple[str, ...]) -> list[tuple[object, ...]]:
    subscription, told = arms.db.subscribe(name, final=True), list[tuple[object, ...]]()
    for second in (0, 5, 5, 9, 20, 31, 45):
        arms.at("left_arm", second, second)
        if second % 5 == 0:
            arms.at("right_arm", second, second)
        arms.cycle()
        while (event := subscription.next(0)) is not None:
            told += [tuple(row[column] for column in columns) for row in event.table.to_pylist()]
    subscription.close()
    return told


def test_rows_of_selections_are_final_at_once(arms: Arms) -> None:
    arms.db.execute(f"CREATE QUERY q AS {BOTH}")
    arms.cycle()
    assert Counter(final_rows_told(arms, "q", ("n",))) == Counter((n,) for n in arms.values())
    assert any("final: at once" in line for line in arms.db.execute("EXPLAIN q").table.column("plan").to_pylist())


def test_final_rows_of_a_full_join_come_once(arms: Arms) -> None:
    for name in ("left_arm", "right_arm"):
        arms.db.execute(f"ALTER TABLE {name} SET lateness = '1 SECOND'")
    arms.db.execute(
        "CREATE QUERY q AS SELECT a.n, b.v FROM left_arm a FULL JOIN right_arm b ON a.id = b.id"
        " WINDOW(a, b) = 2 SECONDS BEGIN (NOW - 1 MINUTE) END (NOW)"
    )
    arms.cycle()
    told = final_rows_told(arms, "q", ("n", "v"))
    assert arms.db.query("q")["final"].startswith("with a partner at once")
    pairs = {(0, 0.5), (5, 5.5), (20, 20.5), (45, 45.5)}
    assert Counter(told) == Counter({**dict.fromkeys(pairs, 1), (5, 5.5): 4, (9, None): 1, (31, None): 1})
