"""SESSION windows: late readings merge sessions, and whatever cannot be one is refused."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.clock import SECOND, format_timestamp
from penstock.errors import PenstockError
from penstock.sql.plan import AggregatePlan, plan_from_json, plan_to_json
from tests.support.pipe import BEGAN_US, Pipe

SESSIONS = (
    "SELECT place, window_start, window_end, COUNT(*) AS n, SUM(value) AS total FROM probes"
    " GROUP BY place, SESSION(10 SECONDS) BEGIN (NOW - 1 HOUR) END (NOW)"
)
Session = tuple[float, float, int]  # begin, end, readings


@pytest.fixture
def probes(pipe: Pipe) -> Pipe:
    pipe.probes("WITH (time = 'valid', out_of_order = 'accept')")
    return pipe


def push(pipe: Pipe, *seconds: float, sensor: int = 1) -> None:
    """Readings at these seconds, in one cycle."""
    times = (format_timestamp(BEGAN_US + round(each * SECOND)) for each in seconds)
    pipe.db.push("probes", [{"id": sensor, "ts": ts, "value": 1.0} for ts in times])
    pipe.engine.drain()


def told(row: dict[str, Any]) -> Session:
    begin, end = (
        (int(row[edge].timestamp() * 1_000_000) - BEGAN_US) / SECOND for edge in ("window_start", "window_end")
    )
    return begin, end, row["n"]


def sessions(pipe: Pipe, cycle: int | None = None) -> list[Session]:
    return [told(row) for row in pipe.db.invoke("q", cycle).table.to_pylist()]


def test_readings_exactly_the_gap_apart_are_one_session(probes: Pipe) -> None:
    probes.db.execute(f"CREATE QUERY q AS {SESSIONS}")
    # 0 ------- 10 --------- 20.001
    push(probes, 0, 10, 20.001)
    assert sessions(probes) == [(0, 20, 2), (20.001, 30.001, 1)]


def test_a_late_reading_joins_two_sessions_and_subscribers_see_the_merge(probes: Pipe) -> None:
    probes.db.execute(f"CREATE QUERY q AS {SESSIONS}")
    # 0 --- 4 ......... 18 --- 21       then 11 between them
    push(probes, 0, 4, 18, 21)
    before = probes.db.standing.store.cycle
    subscription = probes.db.subscribe("q", changes=True)
    assert [told(row) for row in subscription.next(5).table.to_pylist()] == [(0, 14, 2), (18, 31, 2)]  # type: ignore[union-attr]
    push(probes, 11)
    event = subscription.next(5)
    assert event is not None
    found = [(row["op"], *told(row)) for row in event.table.to_pylist()]
    assert sorted(found) == [("+", 0, 31, 5), ("-", 0, 14, 2), ("-", 18, 31, 2)]
    assert sessions(probes, before) == [(0, 14, 2), (18, 31, 2)]
    probes.restart()
    assert sessions(probes) == [(0, 31, 5)]
    past = probes.db.execute(f"SELECT * FROM q AS OF CYCLE {before}").table.to_pylist()
    assert [told(row) for row in past] == [(0, 14, 2), (18, 31, 2)]


def test_a_session_loses_what_begin_leaves_out(probes: Pipe) -> None:
    probes.db.execute(f"CREATE QUERY q AS {SESSIONS.replace('1 HOUR', '20 SECONDS')}")
    push(probes, 0, 8, 16, 24, 28)
    assert sessions(probes) == [(8, 38, 4)]


def test_sessions_of_all_readings_need_no_key_and_having_sees_whole_sessions(probes: Pipe) -> None:
    probes.db.execute("CREATE QUERY q AS SELECT window_start, window_end, COUNT(*) AS n FROM probes"
                      " GROUP BY SESSION(1 MINUTE) HAVING COUNT(*) > 1 ORDER BY window_start DESC LIMIT 1")  # fmt: skip
    push(probes, 0)
    push(probes, 60, sensor=2)
    push(probes, 300)
    assert sessions(probes) == [(0, 120, 2)]


def test_the_plan_is_of_slices_and_survives_the_journal(probes: Pipe) -> None:
    probes.db.execute(f"CREATE QUERY q AS {SESSIONS}")
    plan = plan_from_json(probes.db.definition("q").plan)
    assert isinstance(plan, AggregatePlan) and plan.session_us == 10 * SECOND
    assert plan_from_json(plan_to_json(plan)) == plan
    lines = probes.db.execute("EXPLAIN q").table.column("plan").to_pylist()
    assert "  sessions: readings of a group at most 10s apart" in lines, lines


@pytest.mark.parametrize(
    ("question", "condition", "words", "at"),
    [
        (
            "SELECT COUNT(*) FROM probes GROUP BY SESSION(0.1 MILLISECONDS)",
            "invalid_window",
            "at least a millisecond",
            "SESSION",
        ),
        ("SELECT COUNT(*) FROM probes GROUP BY SESSION(11 DAYS)", "invalid_window", "at most 10 days", "SESSION"),
        ("SELECT COUNT(*) FROM probes GROUP BY SESSION()", "syntax_error", "SESSION(30 SECONDS)", "SESSION"),
        ("SELECT COUNT(*) FROM probes GROUP BY SESSION(value)", "syntax_error", "SESSION(30 SECONDS)", "SESSION"),
        (
            "SELECT COUNT(*) FROM probes GROUP BY SESSION(1 SECOND), TUMBLE(1 SECOND)",
            "invalid_window",
            "leave one",
            "TUMBLE",
        ),
        (
            "SELECT COUNT(*) FROM probes GROUP BY TUMBLE(1 SECOND), SESSION(1 SECOND)",
            "invalid_window",
            "leave one",
            "SESSION",
        ),
        ("SELECT COUNT(*) FROM probes GROUP BY SESSION(1 SECOND), LATCH", "invalid_window", "leave one", "LATCH"),
        ("SELECT SESSION(1 SECOND) FROM probes", "not_supported", "can stand in GROUP BY", "SESSION"),
        (
            "SELECT CHANGE_POINTS(value) FROM probes GROUP BY SESSION(1 SECOND)",
            "not_supported",
            "TUMBLE",
            "CHANGE_POINTS",
        ),
    ],
)
def test_what_is_no_session_is_refused_where_it_stands(
    question: str, condition: str, words: str, at: str, probes: Pipe
) -> None:
    with pytest.raises(PenstockError) as refused:
        probes.db.execute(f"CREATE QUERY q AS {question}")
    found = refused.value
    assert found.condition == condition, found
    assert words in f"{found.message} {found.hint}"
    assert found.column is not None and f"CREATE QUERY q AS {question}"[found.column - 1 :].startswith(at)
