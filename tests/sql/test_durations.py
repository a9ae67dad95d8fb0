from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from penstock.errors import PenstockError
from penstock.expr.windows import TimeWindow
from penstock.sql.values import duration_us
from penstock.types import format_duration
from tests.sql.world import plant

SECOND = 1_000_000


@pytest.mark.parametrize(
    ("spelling", "us"),
    [
        ("10 SECONDS", 10 * SECOND),
        ("1 HOUR", 3600 * SECOND),
        ("500 MS", SECOND // 2),
        ("500ms", SECOND // 2),
        ("INTERVAL '90' SECOND", 90 * SECOND),
        ("INTERVAL '90 seconds'", 90 * SECOND),
        ("INTERVAL '01:30:00'", 5400 * SECOND),
        ("'1h30m'", 5400 * SECOND),
        ("1 HOUR 30 MINUTES", 5400 * SECOND),
        ("1.5 h", 5400 * SECOND),
        ("2 weeks", 14 * 86400 * SECOND),
        ("(3 DAYS)", 3 * 86400 * SECOND),
        ("7 us", 7),
    ],
)
def test_every_spelling_of_a_duration_is_understood_in_a_window(spelling: str, us: int) -> None:
    window = plant().select(f"SELECT ppm FROM sensors BEGIN (NOW - {spelling})").window
    assert isinstance(window, TimeWindow)
    assert window.begin.offset_us == -us


@pytest.mark.parametrize("text", ["", "10", "ten seconds", "10 parsecs", "1h and 3m"])
def test_what_is_no_duration_is_refused_by_name(text: str) -> None:
    with pytest.raises(PenstockError) as failure:
        duration_us(text)
    assert failure.value.condition == "invalid_duration"


@given(some.integers(min_value=1, max_value=10**15))
def test_a_printed_duration_reads_back_as_itself(us: int) -> None:
    assert duration_us(format_duration(us)) == us


def test_a_number_before_a_unit_is_a_duration_in_expressions_too() -> None:
    plan = plant().select("SELECT ppm FROM sensors WHERE ts - '2026-01-01' > 90 SECONDS")
    assert str(plan.stream_predicate) == "gt(diff_us(ts, 1767225600000000), 90000000)"


def test_one_letter_units_do_not_steal_names_in_expressions() -> None:
    plan = plant().select("SELECT 5 s, ppm FROM sensors")
    assert [o.name for o in plan.outputs] == ["s", "ppm"]
