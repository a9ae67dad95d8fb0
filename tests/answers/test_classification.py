"""When the rows of a query are final, as EXPLAIN, FINAL, replies and the list of queries say it."""

from __future__ import annotations

import pytest

from penstock.clock import SECOND
from penstock.errors import PenstockError
from tests.support.pipe import BEGAN_US, Pipe

HOUR = "BEGIN (NOW - 1 HOUR) END (NOW)"
T0 = BEGAN_US // (60 * SECOND) * 60 * SECOND
TUMBLED = "SELECT window_end, COUNT(*) AS n FROM {} GROUP BY TUMBLE(10 SECONDS) {}"
CASES = [
    # question, when rows are final, and what the reason says
    (f"SELECT value FROM probes WHERE value > 3 {HOUR}", "at once", "for ever"),
    ("SELECT value FROM probes BEGIN (LAST 5 ROWS)", "at once", "for ever"),
    (f"SELECT value FROM probes WHERE (value > 3) FOR 5 SECONDS {HOUR}", "later", '"probes"'),
    ("SELECT value FROM probes WHERE (value > 3) FOR 5 SECONDS BEGIN (LAST 5 ROWS)", "never", "LAST n ROWS"),
    (f"SELECT a.value FROM probes a, late b WINDOW(a, b) = 1 SECOND {HOUR}", "at once", "stays together"),
    (f"SELECT a.value FROM late a LEFT JOIN probes b ON a.id = b.id WINDOW(a, b) = 1 SECOND {HOUR}", "later", "probes"),
    (f"SELECT a.value FROM probes a LEFT JOIN late b ON a.id = b.id WINDOW(a, b) = 1 SECOND {HOUR}", "never", "late"),
    (TUMBLED.format("probes", HOUR), "later", "window_end"),
    (TUMBLED.format("plain", HOUR), "later", "newest reading"),
    (TUMBLED.format("late", HOUR), "never", 'a reading of "late" may come'),
    (TUMBLED.format("probes", "BEGIN (NOW - 69 SECONDS) END (NOW)"), "never", "leave the window"),
    (TUMBLED.format("probes", "BEGIN (NOW - 70 SECONDS) END (NOW)"), "later", "window_end"),
    (TUMBLED.format("brief", HOUR), "never", "retention"),
    (f"SELECT COUNT(*) AS n FROM probes {HOUR}", "never", "current value"),
    (f"{TUMBLED.format('probes', HOUR)} ORDER BY n LIMIT 3", "never", "LIMIT"),
    (f"{TUMBLED.format('probes', HOUR)} ORDER BY n", "later", "window_end"),
    ("SELECT place, COUNT(*) AS n FROM probes GROUP BY place, LATCH", "never", "LATCH"),
    (f"SELECT COUNT(*) AS n FROM probes GROUP BY LANDMARK (value > 9) {HOUR}", "later", "next window begins"),
    (
        "SELECT COUNT(*) AS n FROM probes GROUP BY LANDMARK (value > 9) BEGIN (NOW - 59 SECONDS) END (NOW)",
        "never",
        "leave the window",
    ),
    ("SELECT LEAD(value) OVER (ORDER BY ts) AS next FROM probes BEGIN (START)", "later", "LEAD looks at"),
    ("SELECT LEAD(value) OVER (ORDER BY ts DESC) AS next FROM probes BEGIN (START)", "never", "ranks"),
    (f"SELECT LEAD(value) OVER (ORDER BY ts) AS next FROM probes {HOUR}", "never", "BEGIN moves on"),
    (
        "SELECT COUNT(*) AS n FROM probes WHERE value > (SELECT AVG(value) FROM probes PER WINDOW)"
        f" GROUP BY TUMBLE(10 SECONDS) {HOUR}",
        "later",
        "window_end",
    ),
    (
        "SELECT COUNT(*) AS n FROM probes WHERE value > (SELECT AVG(value) FROM probes)"
        f" GROUP BY TUMBLE(10 SECONDS) {HOUR}",
        "never",
        "inner aggregate",
    ),
    (f"SELECT a.value, RESAMPLE(b.value, 5 SECONDS) AS v FROM late a, probes b {HOUR}", "later", "probes"),
    (f"SELECT a.value, RESAMPLE(b.value, 5 SECONDS) AS v FROM probes a, late b {HOUR}", "never", "late"),
]


@pytest.fixture
def tables(pipe: Pipe) -> Pipe:
    pipe.probes("WITH (time = 'valid', out_of_order = 'accept', lateness = '1 MINUTE')")
    for name, options in (
        ("late", "time = 'valid'"),
        ("plain", "idle = '1 MINUTE'"),
        ("brief", "time = 'valid', lateness = '1 MINUTE', retention = '1 MINUTE'"),
    ):
        stream = "id INT PRIMARY KEY, reading STREAM (value DOUBLE)"
        pipe.db.execute(f"CREATE TABLE {name} ({stream}) WITH ({options})")
        pipe.db.execute(f"INSERT INTO {name} VALUES (1, NULL)")
    return pipe


@pytest.mark.parametrize(("question", "when", "reason"), CASES, ids=[question for question, *_ in CASES])
def test_a_query_says_when_its_rows_are_final(tables: Pipe, question: str, when: str, reason: str) -> None:
    tables.db.execute(f"CREATE QUERY q AS {question}")
    tables.engine.drain()
    final = tables.db.standing.final_rows("q")
    assert (final.when, reason in final.reason) == (when, True), final
    (line,) = [line for line in tables.db.execute("EXPLAIN q").table.column(0).to_pylist() if "final:" in line]
    assert tables.db.query("q")["final"] == line.removeprefix("  final: ")
    if when != "never":
        return
    for statement in ("SELECT * FROM q FINAL", "SUBSCRIBE q FINAL"):
        with pytest.raises(PenstockError) as refused:
            tables.db.execute(statement)
        assert (refused.value.condition, refused.value.column) == ("not_supported", statement.index("FINAL") + 1)
        assert final.reason in refused.value.message and refused.value.hint == final.hint
    with pytest.raises(PenstockError, match="final"):
        tables.db.subscribe("q", final=True)


def push(pipe: Pipe, *seconds: int) -> None:
    pipe.clock.advance(60 * SECOND)
    pipe.db.push("probes", [{"id": 1, "ts": T0 + at * SECOND, "value": 1.0} for at in seconds])
    pipe.engine.drain()


def test_replies_say_up_to_when_rows_are_final(tables: Pipe) -> None:
    tables.db.execute(f"CREATE QUERY panes AS {TUMBLED.format('probes', HOUR)}")
    tables.db.execute(f"CREATE QUERY rows AS SELECT value FROM probes {HOUR}")
    push(tables, 0, 5)
    first = tables.db.standing.store.cycle
    push(tables, 12, 71)
    found = tables.db.invoke("panes", final=True)
    assert (found.table.column("n").to_pylist(), found.final_to_us) == ([2], T0 + 11 * SECOND)
    assert tables.db.invoke("panes").final_to_us == T0 + 11 * SECOND
    assert tables.db.query("panes")["final_to"] is not None
    rows = tables.db.invoke("rows")
    assert rows.final_to_us == rows.now_us
    assert tables.db.execute(f"SELECT * FROM panes FINAL AS OF CYCLE {first}").table.num_rows == 0
    assert tables.db.execute("SELECT * FROM panes FINAL").table.equals(found.table)
    with pytest.raises(PenstockError) as refused:
        tables.db.execute("SELECT * FROM panes FINAL AS OF NOW - 1 MINUTE")
    assert refused.value.condition == "not_supported" and refused.value.hint


def test_a_subscriber_hears_when_no_row_is_final_any_more(tables: Pipe) -> None:
    tables.db.execute(f"CREATE QUERY panes AS {TUMBLED.format('probes', HOUR)}")
    push(tables, 0)
    follower = tables.db.subscribe("panes", final=True)
    assert follower.next(0) is not None
    tables.db.execute("ALTER TABLE probes SET lateness = '2 HOURS'")
    push(tables, 20)
    with pytest.raises(PenstockError) as told:
        follower.next(0)
    assert told.value.condition == "not_supported" and told.value.hint == "let it begin at NOW - 2h10s"


def test_final_and_changes_do_not_go_together(tables: Pipe) -> None:
    tables.db.execute(f"CREATE QUERY panes AS {TUMBLED.format('probes', HOUR)}")
    with pytest.raises(PenstockError) as refused:
        tables.db.subscribe("panes", changes=True, final=True)
    assert refused.value.hint == "a final row never leaves: leave out WITH CHANGES"


def test_final_is_still_a_name_elsewhere(tables: Pipe) -> None:
    tables.db.execute(f"CREATE QUERY q AS SELECT final.value FROM probes final WHERE final.value > 1 {HOUR}")
    with pytest.raises(PenstockError) as refused:
        tables.db.execute("SELECT value FROM probes FINAL")
    assert refused.value.hint == "FINAL stands in SELECT * FROM a standing query"


def test_a_silent_table_with_transaction_time_keeps_its_last_pane_until_it_speaks_again(pipe: Pipe) -> None:
    """NOW leaves the pane behind meanwhile; with the next reading it arrives whole."""
    pipe.probes()
    pipe.db.execute(f"CREATE QUERY panes AS {TUMBLED.format('probes', 'BEGIN (NOW - 30 SECONDS) END (NOW)')}")
    pipe.engine.drain()
    pipe.set_intervals(trim_cycles=1)
    follower = pipe.db.subscribe("panes", final=True)
    follower.next(0)
    pipe.push(1.0, 2.0)
    for _ in range(20):
        pipe.clock.advance(60 * SECOND)
        pipe.engine.drain()
    assert follower.next(0) is None
    pipe.push(3.0)
    pipe.engine.drain()
    event = follower.next(0)
    assert event is not None and event.table.column("n").to_pylist() == [2]
