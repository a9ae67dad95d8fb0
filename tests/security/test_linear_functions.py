"""No function that a reader calls takes more than linear time without a bound: Spark cannot interrupt one in the middle."""

from __future__ import annotations

import re

import pytest

from penstock.errors import PenstockError
from penstock.sql.plan import SparkPlan
from tests.sql.world import World
from tests.support.listed_calls import TABLE

# Of Java: they backtrack. LIKE may stand where Spark needs no regular expression for it.
BACKTRACKING = re.compile(
    r"\b(?:RLIKE|REGEXP|regexp_(?!extract_all)\w+\(|split\(|(?:try_)?parse_url\([^()]*,[^()]*,)", re.I
)


@pytest.fixture(scope="module")
def world() -> World:
    found = World()
    found.run(TABLE)
    return found


def spark_text(world: World, expression: str) -> str:
    plan = world.plan(f"SELECT {expression} AS x, MAX(d) OVER () AS m FROM every_type", shared=False)
    assert isinstance(plan, SparkPlan)
    return plan.sql


@pytest.mark.parametrize(
    "expression",
    (
        *("s ~ 'a'", "s ~* 'a'", "s !~ 'a'", "s !~* s", "s SIMILAR TO 'a%b'", "s NOT SIMILAR TO '%(a|b)*'"),
        *("regexp_like(s, 'a')", "regexp_count(s, s)", "regexp_instr(s, 'a')", "regexp_substr(s, 'a')"),
        *("regexp_replace(s, 'a', 'b')", "regexp_replace(s, s, s)", "regexp_replace(s, 'a', 'b', 'gi')"),
        *("regexp_extract(s, '(a)')", "regexp_extract(s, '(a)', 1)", "split(s, 'a')", "split(s, s, 2)"),
        *("parse_url(s, 'QUERY', s)", "parse_url(s, 'QUERY', 'a')"),
    ),
)
def test_no_text_for_spark_has_a_function_that_backtracks(world: World, expression: str) -> None:
    assert not BACKTRACKING.search(spark_text(world, expression))


@pytest.mark.parametrize(
    "condition",
    (
        *(
            "s LIKE '%a%a%b'",
            "s LIKE 'a_'",
            "s LIKE '%'",
            "s LIKE '%a_b%'",
            "s LIKE 'a\\%'",
            "s LIKE s",
            "s ILIKE '%a%b%'",
        ),
        *("s LIKE 'a#%%' ESCAPE '#'", "s LIKE s ESCAPE '#'", "s NOT LIKE '%a%b%'", "s ILIKE s", "s LIKE '%%a'"),
    ),
)
def test_like_runs_in_spark_only_where_spark_needs_no_regular_expression(world: World, condition: str) -> None:
    assert not re.search(r"\bI?LIKE\b", spark_text(world, condition))


@pytest.mark.parametrize("pattern", ("", "abc", "a%", "%a", "%a%", "a%b", "ä b%", "%'%"))
def test_a_simple_like_stays_in_spark(world: World, pattern: str) -> None:
    quoted = pattern.replace("'", "''")
    assert " LIKE '" in spark_text(world, f"s LIKE '{quoted}'")
    assert " ILIKE '" in spark_text(world, f"s ILIKE '{quoted}'")


@pytest.mark.parametrize(
    "call",
    (
        *(
            "levenshtein(s, s)",
            "levenshtein(upper(s), 'a')",
            "jaro_winkler_similarity(s, s)",
            "btrim(s, s)",
            "ltrim(s, s)",
        ),
        *(
            "array_distinct(aa)",
            "array_union(aa, aa)",
            "array_intersect(aa, aa)",
            "array_except(aa, aa)",
            "arrays_overlap(aa, aa)",
        ),
    ),
)
def test_what_compares_everything_with_everything_is_bounded(world: World, call: str) -> None:
    assert "<= 1000" in spark_text(world, call)


@pytest.mark.parametrize(
    "pattern", ("a(?=b)", "a(?!b)", "(?<=a)b", "(?<!a)b", r"(a)\1", "(?>a)", "a++", "a(", "[a", "*a", "\\")
)
def test_a_constant_pattern_that_would_need_backtracking_is_refused(world: World, pattern: str) -> None:
    for expression in (
        f"s ~ '{pattern}'",
        f"s ~* '{pattern}'",
        f"regexp_replace(s, '{pattern}', '')",
        f"split(s, '{pattern}')",
    ):
        with pytest.raises(PenstockError) as caught:
            spark_text(world, expression)
        assert (caught.value.condition, caught.value.sqlstate) == ("invalid_regular_expression", "2201B")
        assert pattern in caught.value.message and caught.value.hint


@pytest.mark.parametrize(
    "call",
    (
        *("strpos(s, s)", "POSITION(upper(s) IN s)", "contains(s, s)", "replace(s, s, 'a')", "replace(s, s)"),
        *("substring_index(s, s, 1)", "split_part(s, s, 1)", "split_part(s, s, i)", f"strpos(s, '{'a' * 1001}')"),
    ),
)
def test_what_is_looked_for_in_a_text_is_bounded(world: World, call: str) -> None:
    assert "<= 1000" in spark_text(world, call)


def test_a_long_part_of_a_text_is_looked_for_with_re2(world: World) -> None:
    part = "a" * 999
    assert "LIKE" not in spark_text(world, f"s LIKE '%{part}%'")
    assert "LIKE" in spark_text(world, f"s LIKE '{part}%'")


def test_a_constant_of_usual_length_is_looked_for_as_before(world: World) -> None:
    for call in ("strpos(s, 'a')", "replace(s, 'a', 'b')", "split_part(s, ',', 1)", f"contains(s, '{'a' * 1000}')"):
        assert "<= 1000" not in spark_text(world, call)
