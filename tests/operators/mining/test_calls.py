"""Calls of mining functions from SQL: what they take, what they are refused for, and what EXPLAIN and others say of them."""

from __future__ import annotations

import io
from collections.abc import Callable

import pyarrow as pa
import pytest

from penstock.errors import PenstockError
from penstock.operators.mining.registry import FUNCTIONS
from tests.support.pipe import Pipe

WINDOW = "BEGIN (NOW - 10 MINUTES) END (NOW)"
LONG_WINDOW = "BEGIN (NOW - 10 DAYS) END (NOW)"
REFUSED = [
    ("SERIES()", "syntax_error", "SERIES()", "write SERIES("),
    ("SERIES(value, id)", "syntax_error", "SERIES(value, id)", "write SERIES("),
    ("SERIES(value, evry => 1 MINUTE)", "syntax_error", "evry", 'did you mean "every"'),
    ("SERIES(value, width => 1 MINUTE)", "syntax_error", "width", "it takes every, slot"),
    ("SERIES(value, every => 1 MINUTE, every => 2 MINUTES)", "syntax_error", "every", 'leave out one "every"'),
    ("SERIES(every => 1 MINUTE, value)", "syntax_error", "value", "write SERIES("),
    ("SERIES(place)", "type_mismatch", "place", "write SERIES(ppm, every => 1 MINUTE)"),
    ("SERIES(value, every => 60)", "type_mismatch", "60", "such as every => 1 MINUTE"),
    ("SERIES(value, every => id)", "type_mismatch", "id", "such as every => 1 MINUTE"),
    ("SERIES(value, every => '1500 US')", "type_mismatch", "'1500 US'", "such as every => 1 MINUTE"),
    ("SERIES(value, every => 1 MINUTE, slot => MEDIAN)", "type_mismatch", "MEDIAN", 'did you mean "mean"'),
    ("SERIES(value, every => 1 MINUTE, slot => P95)", "type_mismatch", "P95", "such as slot => MEAN"),
    ("SERIES(value, every => 1 HOUR)", "invalid_window", "SERIES(value, every => 1 HOUR)", "make it 2h long"),
    (
        "SERIES(value, 1 MINUTE, every => 1 MINUTE)",
        "invalid_window",
        "SERIES(value, 1 MINUTE, every => 1 MINUTE)",
        "2m",
    ),
    ("SERIES(DISTINCT value)", "not_supported", "value", "every reading counts"),
    ("SERIES(value) OVER ()", "not_supported", "SERIES(value", "one stream"),
    ("ANOMALIES(value, every => 1 MINUTE, history => 3 MINUTES)", "type_mismatch", "3 MINUTES", "from 20m"),
    ("ANOMALIES(value, every => 1 SECOND, history => 30)", "type_mismatch", "30", "a duration"),
    ("ANOMALIES(value, history => 30 SECONDS)", "type_mismatch", "30 SECONDS", "a whole number"),
    ("ANOMALIES(value, history => 30, score => 0)", "type_mismatch", "0", "from 0.1 to 1000"),
    ("ANOMALIES(value, history => 30, robust => 1)", "type_mismatch", "1", "true or false"),
    ("ANOMALIES(value, history => 30, season => 2, spread => 2)", "type_mismatch", "2", "write spread => 1"),
    ("ANOMALIES(value, every => 1 SECOND, season => 1500 MS)", "invalid_window", "1500 MS", "write season => '2s'"),
    ("ANOMALIES(value)", "invalid_window", "ANOMALIES(value)", "history => 500"),
    ("ANOMALY(value, 5 MINUTES, every => 10 SECONDS, season => 2 MINUTES)", "invalid_window", None, "long, or longer"),
    ("ANOMALY(value, history => 30, quiet => 3)", "syntax_error", "quiet", "it takes score"),
    ("(ANOMALY(value, history => 30)).skore", "column_not_found", "skore", 'did you mean "score"'),
    ("BASELINE(value, every => 1 MINUTE)", "syntax_error", None, "season"),
    ("BASELINE(value, season => 5)", "syntax_error", None, '"every"'),
    ("BASELINE(value, every => 1 SECOND, season => 1 HOUR)", "invalid_window", None, "1h1s long"),
    ("PERIODS(value, top => 0)", "type_mismatch", "0", "from 1 to 1000"),
    ("CHANGE_POINTS(value, shortest => 2.5)", "type_mismatch", "2.5", "a whole number"),
    ("FORECAST(value)", "syntax_error", "FORECAST(value)", '"every"'),
    ("FORECAST(value, every => 1 MINUTE, ahead => 2000)", "type_mismatch", "2000", "from 1 to 1000"),
    ("FORECAST(value, every => 1 MINUTE, season => 5 MINUTES)", "invalid_window", None, "12m long"),
    ("PERIODIC_PATTERNS(value, every => 1 SECOND)", "type_mismatch", "value", '"levels"'),
    ("PERIODIC_PATTERNS(value, every => 1 SECOND, levels => ARRAY[2, 1])", "type_mismatch", None, "ascending"),
    ("PERIODIC_PATTERNS(value, every => 1 SECOND, levels => ARRAY[id])", "type_mismatch", None, "constant"),
    ("PERIODIC_PATTERNS(value, every => 1 SECOND, levels => 3)", "type_mismatch", "3", "an ARRAY of 1 to 100 numbers"),
    ("PERIODIC_PATTERNS(place, every => 1 SECOND, levels => ARRAY[1])", "type_mismatch", "place", "of numbers"),
    ("PERIODIC_PATTERNS(place, every => 1 SECOND, slot => LAST)", "type_mismatch", "LAST", 'leave out "slot"'),
    ("PERIODIC_PATTERNS(ARRAY[place], every => 1 SECOND)", "type_mismatch", None, "or on symbols"),
    ("PERIODS(place, every => 1 SECOND, slot => LAST)", "type_mismatch", "LAST", "the last symbol"),
    ("FREQUENT_SEQUENCES(place)", "syntax_error", "FREQUENT_SEQUENCES(place)", '"by"'),
    ("FREQUENT_SEQUENCES(place, by => plaace)", "column_not_found", "plaace", 'did you mean "place"'),
    ("FREQUENT_SEQUENCES(place, by => 5)", "type_mismatch", "5", "a column of single values"),
    ("FREQUENT_SEQUENCES(place, by => ARRAY[id])", "type_mismatch", None, "a column of single values"),
    ("FREQUENT_SEQUENCES(value, by => id)", "type_mismatch", "value", "levels => ARRAY[5, 10]"),
    ("FREQUENT_SEQUENCES(place, by => id, levels => ARRAY[5])", "type_mismatch", "place", "of numbers"),
    ("FREQUENT_SEQUENCES(place, by => id, longest => 1)", "type_mismatch", "1", "from 2 to 100"),
    ("FREQUENT_SEQUENCES(place, by => id, within => 5 SECONDS)", "type_mismatch", "5 SECONDS", "a whole number"),
    (
        "FREQUENT_SEQUENCES(place, by => id), FREQUENT_SEQUENCES(place, by => place)",
        "not_supported",
        "place",
        "a query for each",
    ),
    ("SERIES(value, by => id)", "syntax_error", "by", "it takes every, slot"),
    ("MATCHES(value, every => 1 SECOND)", "syntax_error", None, '"shape"'),
    ("MATCHES(value, shape => ARRAY[1, 2, 3])", "type_mismatch", "1, 2, 3", "an ARRAY of 4 to 4096 numbers"),
    ("MATCHES(value, shape => 3)", "type_mismatch", "3", "an ARRAY of 4 to 4096 numbers"),
    ("MATCHES(value, shape => ARRAY[1, 2, NULL, 4])", "type_mismatch", None, "numbers, as a constant"),
    ("MATCHES(value, shape => ARRAY['a', 'b', 'c', 'd'])", "type_mismatch", None, "numbers, as a constant"),
    ("MATCHES(value, shape => ARRAY[1, 2, 3, id])", "type_mismatch", None, "numbers, as a constant"),
    ("MATCHES(value, every => 2 MINUTES, shape => ARRAY[1, 2, 3, 2, 1])", "invalid_window", None, "12m long"),
    ("MATCHES(place, shape => ARRAY[1, 2, 3, 4])", "type_mismatch", "place", "write MATCHES(ppm, "),
    ("CLUSTERS()", "syntax_error", "CLUSTERS()", "write CLUSTERS(3, ppm, celsius)"),
    ("CLUSTERS(3)", "syntax_error", "CLUSTERS(3)", "write CLUSTERS(3, ppm, celsius)"),
    ("CLUSTERS(*)", "syntax_error", None, "write CLUSTERS(3, ppm, celsius)"),
    ("CLUSTERS(0, value)", "type_mismatch", "0", "from 1 to 100"),
    ("CLUSTERS(2.5, value)", "type_mismatch", "2.5", "a whole number from 1 to 100"),
    ("CLUSTERS(value, id)", "type_mismatch", "value", '"k" takes a whole number'),
    ("CLUSTERS(3, value, k => 4)", "syntax_error", None, "twice"),
    ("CLUSTERS(3, place)", "type_mismatch", "place", "works on numbers"),
    ("CLUSTERS(3, value, place)", "type_mismatch", "place", "works on numbers"),
    ("CLUSTERS(3, value, ARRAY[value])", "type_mismatch", None, "numbers, or one array of them"),
    ("CLUSTERS(3, ARRAY[place])", "type_mismatch", "place", "arrays of INT"),
    ("CLUSTERS(3, value, sample => 5)", "type_mismatch", "5", "from 10 to 100000"),
    ("CLUSTERS(3, value, scale => 1)", "type_mismatch", "1", "true or false"),
    ("CLUSTERS(3, value, every => 1 MINUTE)", "syntax_error", "every", "it takes k, sample, scale"),
    (f"CLUSTERS(3{', value' * 1024}, id)", "over_budget", "id", "at most 1024"),
    ("CLUSTERS(3, value) OVER ()", "not_supported", "CLUSTERS(3, value", "one stream"),
    ("CLUSTERS(3, DISTINCT value)", "not_supported", "value", "every reading counts"),
    ("UNNEST(place)", "not_supported", "UNNEST(place)", "UNNEST(ANOMALIES("),
    ("UNNEST(ANOMALY(value, history => 30))", "type_mismatch", None, "(call).field"),
    ("UNNEST(SERIES(value)), UNNEST(SERIES(value, every => 1 MINUTE))", "not_supported", None, "a query for each"),
    ("VECTOR_SUM(value)", "type_mismatch", "value", "write VECTOR_SUM(counts)"),
    ("VECTOR_SUM(ARRAY[place])", "type_mismatch", "place", "write VECTOR_SUM(counts)"),
    ("VECTOR_SUM(ARRAY[value], every => 1 MINUTE)", "syntax_error", "every", "no named arguments"),
]


def caret(failure: PenstockError) -> str:
    """What of the text the caret is under."""
    lines = failure.render().splitlines()
    place = next(i for i, line in enumerate(lines) if set(line.strip()) == {"|", "^", " "})
    return "".join(t for t, c in zip(lines[place - 1], lines[place], strict=False) if c == "^")


@pytest.fixture
def pipe(pipes: Callable[..., Pipe]) -> Pipe:
    pipe = pipes()
    pipe.probes()
    return pipe


@pytest.mark.parametrize(("call", "condition", "at", "hint"), REFUSED)
def test_a_bad_call_is_refused_with_a_caret_and_harms_nothing(
    pipe: Pipe, call: str, condition: str, at: str | None, hint: str
) -> None:
    for text in (
        f"CREATE QUERY q AS SELECT {call} AS a FROM probes {WINDOW}",
        f"SELECT {call} AS a FROM probes {WINDOW}",
    ):
        with pytest.raises(PenstockError) as failed:
            pipe.db.execute(text)
        assert failed.value.condition == condition, failed.value.render()
        assert at is None or caret(failed.value) == at, failed.value.render()
        assert failed.value.hint and hint in failed.value.render(), failed.value.render()
    assert "q" not in pipe.db.catalog.state.queries


@pytest.mark.parametrize(
    ("clauses", "condition", "hint"),
    [
        ("GROUP BY LATCH", "not_supported", "without LATCH it runs over a window"),
        ("GROUP BY TUMBLE(90 SECONDS)", "invalid_window", "write every => '30s'"),
        ("GROUP BY SLIDE(2 MINUTES, 45 SECONDS)", "invalid_window", "write every => '15s'"),
        ("BEGIN (LAST 100 ROWS)", "invalid_window", "BEGIN (NOW - ..)"),
    ],
)
def test_slots_that_do_not_fit_the_window_are_refused(pipe: Pipe, clauses: str, condition: str, hint: str) -> None:
    with pytest.raises(PenstockError) as failed:
        pipe.db.execute(f"CREATE QUERY q AS SELECT SERIES(value, every => 1 MINUTE) AS a FROM probes {clauses}")
    assert (failed.value.condition, caret(failed.value)) == (condition, "SERIES(value, every => 1 MINUTE)")
    assert failed.value.hint and hint in failed.value.hint
    widths = [failed.value.hint.removeprefix("write ")] if "write every" in failed.value.hint else []
    for every in widths:
        pipe.db.execute(f"CREATE QUERY q AS SELECT SERIES(value, {every}) AS a FROM probes {clauses}")


def test_a_window_of_too_few_rows_is_refused_with_the_least_that_fits(pipe: Pipe) -> None:
    asks = "CREATE QUERY q AS SELECT CHANGE_POINTS(value, shortest => 8) AS a FROM probes"
    with pytest.raises(PenstockError) as failed:
        pipe.db.execute(f"{asks} BEGIN (LAST 15 ROWS)")
    assert (failed.value.condition, caret(failed.value)) == ("invalid_window", "CHANGE_POINTS(value, shortest => 8)")
    assert failed.value.hint == "write BEGIN (LAST 16 ROWS)"
    pipe.db.execute(f"{asks} BEGIN (LAST 16 ROWS)")


@pytest.mark.parametrize("slots", ["every => 1 MINUTE", ""])
@pytest.mark.parametrize("name", [name for name, function in FUNCTIONS.items() if function.takes == "numbers"])
def test_the_example_in_a_hint_is_one_that_the_argument_takes(pipe: Pipe, name: str, slots: str) -> None:
    function, every_us = FUNCTIONS[name], 60_000_000 if slots else None
    pipe.engine.drain()
    for parameter in function.parameters:
        if parameter.kind == "column" or parameter.name == "every" or (function.by_slots and not slots):
            continue
        given = {"every": slots, "history": "history => 50 MINUTES" if slots else "history => 50"}
        given |= {"by": "by => id", "levels": "levels => ARRAY[1, 2]", "season": "season => 4 MINUTES" * bool(slots)}
        given |= {"shape": "shape => ARRAY[1, 2, 3, 2]", parameter.name: parameter.example(every_us)}
        named = [given[p.name] for p in function.parameters if given.get(p.name)]
        pipe.db.execute(f"SELECT {name.upper()}({', '.join(['value', *named])}) AS a FROM probes {LONG_WINDOW}")


def test_a_join_a_rollup_and_arithmetic_of_spark_are_refused_with_the_reason(pipe: Pipe) -> None:
    pipe.db.execute("CREATE TABLE names (place TEXT PRIMARY KEY, label TEXT)")
    pipe.db.execute(
        "CREATE TABLE short (id INT PRIMARY KEY, r STREAM (x DOUBLE, counts ARRAY<INT>)) WITH (retention = '1 DAY')"
    )
    for text in (
        f"CREATE QUERY q AS SELECT SERIES(p.value) AS a FROM probes p, names n WHERE p.place = n.place {WINDOW}",
        f"CREATE QUERY q AS SELECT (SERIES(value))[1] AS a FROM probes {WINDOW}",
        "CREATE ROLLUP r ON short AS SELECT SERIES(x, every => 1 MINUTE) EVERY 1 MINUTE KEEP 10 DAYS",
        f"CREATE QUERY q AS SELECT CLUSTERS(3, p.value) AS a FROM probes p, names n WHERE p.place = n.place {WINDOW}",
        "CREATE QUERY q AS SELECT CLUSTERS(3, value) AS a FROM probes GROUP BY LATCH",
        "CREATE ROLLUP r ON short AS SELECT CLUSTERS(2, x) EVERY 1 MINUTE KEEP 10 DAYS",
        "CREATE ROLLUP r ON short AS SELECT FREQUENT_SEQUENCES(x > 1, by => id) EVERY 1 MINUTE KEEP 10 DAYS",
        "CREATE QUERY q AS SELECT FREQUENT_SEQUENCES(place, by => id) AS a, COUNT(*) AS n FROM probes"
        f" WHERE value > (SELECT AVG(value) FROM probes {WINDOW}) {WINDOW}",
        "CREATE ROLLUP r ON short AS SELECT VECTOR_SUM(counts) EVERY 1 MINUTE KEEP 10 DAYS",
    ):
        with pytest.raises(PenstockError) as failed:
            pipe.db.execute(text)
        assert failed.value.condition == "not_supported", failed.value.render()
        assert failed.value.line == 1 and failed.value.hint


def test_groups_with_series_have_ranks(pipe: Pipe) -> None:
    pipe.db.execute(
        "CREATE QUERY q AS SELECT id, RANK() OVER (ORDER BY COUNT(*) DESC) AS r, SERIES(value) AS a FROM probes"
        f" GROUP BY id {WINDOW}"
    )
    pipe.push(1.0, 2.0)
    pipe.push(3.0, sensor=2)
    pipe.engine.drain()
    columns = pipe.db.standing.invoke("q").table.to_pydict()
    ranked = {i: (r, [each["value"] for each in a]) for i, r, a in zip(*columns.values(), strict=True)}
    assert ranked == {1: (1, [1.0, 2.0]), 2: (2, [3.0])}


def test_explain_names_the_series_and_the_arguments(pipe: Pipe) -> None:
    pipe.db.execute(
        "CREATE QUERY q AS SELECT place, SERIES(value, every => 1 MINUTE, slot => MAX) AS a, SERIES(value) AS b"
        f" FROM probes GROUP BY place {WINDOW}"
    )
    lines = pipe.db.execute("EXPLAIN q").table.column("plan").to_pylist()
    assert "  aggregates: series(value, every 1m, slot max), series(value)" in lines
    assert "  series: MAX(value) every 1m, whole slots, at most 10 a group" in lines
    assert "  series: value, each reading" in lines
    pipe.db.execute(
        "CREATE QUERY w AS SELECT PERIODIC_PATTERNS(place, every => 1 MINUTE, period => 2 MINUTES) AS a, PERIODS(place) AS b,"
        f" PERIODS(place, every => 1 SECOND) AS c FROM probes {WINDOW}"
    )
    lines = pipe.db.execute("EXPLAIN w").table.column("plan").to_pylist()
    assert {
        "  series: SET(place) every 1m, whole slots, at most 10 a group",
        "  series: place, each reading",
        "  series: LAST(place) every 1s, whole slots, at most 600 a group",
    } <= set(lines)
    pipe.db.execute(
        "CREATE QUERY f AS SELECT FREQUENT_SEQUENCES(value, by => id, every => 1 MINUTE, levels => ARRAY[5, 10], within => 5 MINUTES)"
        f" AS a, COUNT(*) AS n FROM probes GROUP BY place {WINDOW}"
    )
    lines = pipe.db.execute("EXPLAIN f").table.column("plan").to_pylist()
    call = "frequent_sequences(value, within 5m, levels [5, 10], every 1m)"
    assert f"  aggregates: {call}, count(*)" in lines and "  groups: place" in lines
    assert (
        "  sequences: one per id of a group" in lines
        and "  series: AVG(value) every 1m, whole slots, at most 10 a group" in lines
    )
    pipe.db.execute(
        "CREATE QUERY s AS SELECT SERIES(value, 5 MINUTES, every => 1 SECOND) AS a, ANOMALIES(value, every => 10 SECONDS,"
        f" history => 5 MINUTES, season => 1 MINUTE, smooth => 30 SECONDS) AS b, ANOMALY(value, history => 30) AS c FROM probes {LONG_WINDOW}"
    )
    pipe.push(*map(float, range(20)))
    pipe.engine.drain()
    lines = pipe.db.execute("EXPLAIN s").table.column("plan").to_pylist()
    assert "  series: AVG(value) every 1s, whole slots, at most 300 a group" in lines
    assert "  series: AVG(value) every 10s, whole slots, at most 86400 a group" in lines
    scored = "causal, each element is scored once, from the {} before it; exact"
    (of_slots,) = [line for line in lines if line.startswith("  anomalies(")]
    (of_rows,) = [line for line in lines if line.startswith("  anomaly(")]
    assert of_slots.endswith(scored.format("9m30s")) and of_rows.endswith(scored.format("30 readings"))
    pipe.db.execute(
        f"CREATE QUERY p AS SELECT SERIES(value, every => 1 SECOND) AS a FROM probes GROUP BY TUMBLE(1 MINUTE) {WINDOW}"
    )
    pipe.db.execute("CREATE QUERY g AS SELECT SERIES(value, every => 1 SECOND) AS a FROM probes")
    for name, most in (("p", ", at most 60 a group"), ("g", "")):
        lines = pipe.db.execute(f"EXPLAIN {name}").table.column("plan").to_pylist()
        assert f"  series: AVG(value) every 1s, whole slots{most}" in lines
    (state,) = [
        line for line in pipe.db.execute("EXPLAIN s").table.column("plan").to_pylist() if "state a group" in line
    ]
    assert 0.1 < float(state.split(":")[1].removesuffix(" KB")) < 10


def test_explain_shows_a_shape_by_its_first_numbers(pipe: Pipe) -> None:
    for name, shape in (("short", range(4)), ("long", range(96))):
        call = f"MATCHES(value, shape => ARRAY[{', '.join(map(str, shape))}])"
        pipe.db.execute(f"CREATE QUERY {name} AS SELECT {call} AS a FROM probes {WINDOW}")
    (short,), (long,) = (
        [line for line in pipe.db.execute(f"EXPLAIN {name}").table.column("plan").to_pylist() if "aggregates:" in line]
        for name in ("short", "long")
    )
    assert short == "  aggregates: matches(value, shape [0, 1, 2, 3])"
    assert long == "  aggregates: matches(value, shape [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, .. 96 numbers])"


def test_explain_says_when_clusters_are_approximate(pipe: Pipe) -> None:
    text = f"SELECT place, CLUSTERS(3, value, value + 1, sample => 400) AS a FROM probes GROUP BY place {WINDOW}"
    pipe.db.execute(f"CREATE QUERY q AS {text}")
    lines = pipe.db.execute("EXPLAIN q").table.column("plan").to_pylist()
    call = "clusters(value, value + 1.0, k 3, sample 400)"
    assert f"  aggregates: {call}" in lines
    assert "  sample: (value, value + 1.0) of at most 400 rows a group" in lines
    said = "exact; approximate once a group has more than 400 rows, its shares to 2.5 % (one sigma)"
    assert f"  {call}: {said}" in lines


def test_arrays_of_different_lengths_have_no_clusters_and_harm_no_other_answer(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes()
    pipe.db.execute("CREATE TABLE boxes (id INT PRIMARY KEY, burst STREAM (counts ARRAY<INT>))")
    pipe.db.execute("INSERT INTO boxes VALUES (1, NULL), (2, NULL)")
    pipe.db.execute(f"CREATE QUERY each AS SELECT id, CLUSTERS(2, counts) AS c FROM boxes GROUP BY id {WINDOW}")
    pipe.db.execute(f"CREATE QUERY all_of_them AS SELECT CLUSTERS(2, counts) AS c FROM boxes {WINDOW}")
    pipe.db.push("boxes", [{"id": 1, "counts": [1, 2]}, {"id": 2, "counts": [1]}, {"id": 1, "counts": [3, 4]}])
    pipe.engine.drain()
    assert [[line["center"] for line in row] for row in pipe.answer("each", "c")] == [[[1, 2], [3, 4]], [[1]]]
    with pytest.raises(PenstockError) as failed:
        pipe.answer("all_of_them", "c")
    assert failed.value.condition == "invalid_value"


def test_samples_beyond_the_limits_are_an_error(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes(exact_values_max=300, series_slots_max=50)
    pipe.probes()
    pipe.db.execute(f"CREATE QUERY small AS SELECT CLUSTERS(2, value, sample => 40) AS a FROM probes {WINDOW}")
    pipe.db.execute(f"CREATE QUERY large AS SELECT CLUSTERS(2, value) AS a FROM probes {WINDOW}")
    pipe.push(*map(float, range(60)))
    pipe.engine.drain()
    assert sum(line["size"] for line in pipe.answer("small", "a")[0]) == 60
    with pytest.raises(PenstockError) as failed:
        pipe.answer("large", "a")
    assert failed.value.condition == "over_budget" and "series_slots_max" in failed.value.render()
    for _ in range(10):
        pipe.clock.advance(2_000_000)
        pipe.push(*map(float, range(60)))
        pipe.engine.drain()
    with pytest.raises(PenstockError) as failed:
        pipe.answer("small", "a")
    assert failed.value.condition == "over_budget" and "exact_values_max" in failed.value.render()


def test_a_query_keeps_its_arguments_across_a_restart(pipe: Pipe) -> None:
    pipe.db.execute(f"CREATE QUERY q AS SELECT SERIES(value, every => 1 SECOND, slot => SUM) AS a FROM probes {WINDOW}")
    pipe.push(1.0, 2.0)
    pipe.clock.advance(1_500_000)
    pipe.push(5.0)
    pipe.engine.drain()
    before = pipe.answer("q", "a")
    pipe.restart()
    pipe.engine.drain()
    assert [each["value"] for each in before[0]] == [3.0] and pipe.answer("q", "a") == before


def test_a_series_has_the_word_of_its_own_call(pipe: Pipe) -> None:
    """MEAN and SUM are kept in one place, and so are MIN and MAX."""
    calls = ", ".join(
        f"SERIES(value, every => 1 SECOND, slot => {word}) AS {word}" for word in ("MEAN", "SUM", "MIN", "MAX")
    )
    pipe.db.execute(f"CREATE QUERY q AS SELECT {calls} FROM probes {WINDOW}")
    pipe.push(1.0, 2.0, 6.0)
    pipe.clock.advance(1_500_000)
    pipe.push(5.0)
    pipe.engine.drain()
    assert [pipe.answer("q", word)[0][0]["value"] for word in ("mean", "sum", "min", "max")] == [3.0, 9.0, 1.0, 6.0]


def test_sequences_of_a_query_that_reads_another_are_those_of_its_rows(pipe: Pipe) -> None:
    pipe.db.execute(
        "CREATE QUERY warm AS SELECT id AS probe, value > 5 AS high, ts AS seen FROM probes WHERE value < 100"
    )
    pipe.db.execute(f"CREATE QUERY q AS SELECT FREQUENT_SEQUENCES(high, by => probe) AS a FROM warm {WINDOW}")
    for value in (1.0, 2.0, 200.0, 6.0, 3.0):
        pipe.clock.advance(1_000_000)
        pipe.push(value)
        pipe.engine.drain()
    pipe.push(200.0)
    pipe.engine.drain()
    (found,) = pipe.answer("q", "a")
    assert found == [{"items": ["false", "true", "false"], "streams": 1, "share": 1.0}]
    pipe.restart()
    pipe.engine.drain()
    assert pipe.answer("q", "a") == [found]


def test_series_beyond_the_limit_are_an_error_of_their_answer_only(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes(series_slots_max=100)
    pipe.probes()
    pipe.db.execute(f"CREATE QUERY fine AS SELECT SERIES(value, every => 10 MS) AS a FROM probes {WINDOW}")
    pipe.db.execute(f"CREATE QUERY single AS SELECT SERIES(value) AS a FROM probes {WINDOW}")
    pipe.db.execute(f"CREATE QUERY coarse AS SELECT SERIES(value, every => 1 MINUTE) AS a FROM probes {WINDOW}")
    pipe.push(1.0)
    pipe.clock.advance(120_000_000)
    pipe.push(*[2.0] * 120)
    pipe.engine.drain()
    for name in ("fine", "single"):
        with pytest.raises(PenstockError) as failed:
            pipe.answer(name, "a")
        assert failed.value.condition == "over_budget" and "series_slots_max" in failed.value.render()
    assert next(each["value"] for each in pipe.answer("coarse", "a")[0]) == 1.0


@pytest.mark.parametrize("window", [WINDOW, "GROUP BY TUMBLE(10 MINUTES) " + WINDOW])
def test_results_beyond_the_limit_are_an_error_of_their_answer_only(pipes: Callable[..., Pipe], window: str) -> None:
    pipe = pipes(series_slots_max=100)
    pipe.probes()
    for name, ahead in (("many", 101), ("few", 40)):
        call = f"FORECAST(value, every => 1 SECOND, ahead => {ahead})"
        pipe.db.execute(f"CREATE QUERY {name} AS SELECT {call} AS a FROM probes {window}")
    pipe.push(1.0)
    pipe.clock.advance(15_000_000)
    pipe.push(2.0)
    pipe.clock.advance(5_000_000)
    pipe.push(3.0)
    pipe.engine.drain()
    with pytest.raises(PenstockError) as failed:
        pipe.answer("many", "a")
    assert failed.value.condition == "over_budget"
    assert "results of FORECAST" in failed.value.render() and "series_slots_max" in failed.value.render()
    assert [len(each) for each in pipe.answer("few", "a") if each] == [40]


def test_numbers_inside_of_results_count_for_the_limit(pipes: Callable[..., Pipe]) -> None:
    """Five rows of 30 numbers are few elements to see, and five centres of 30 numbers many to return."""
    pipe = pipes(series_slots_max=100)
    pipe.db.execute("CREATE TABLE boxes (id INT PRIMARY KEY, burst STREAM (counts ARRAY<INT>))")
    pipe.db.execute("INSERT INTO boxes VALUES (1, NULL)")
    pipe.db.execute(f"CREATE QUERY some AS SELECT CLUSTERS(2, counts) AS c FROM boxes {WINDOW}")
    pipe.db.execute(f"CREATE QUERY each AS SELECT CLUSTERS(5, counts) AS c FROM boxes {WINDOW}")
    pipe.db.push("boxes", [{"id": 1, "counts": [10**i] * 30} for i in range(5)])
    pipe.engine.drain()
    assert len(pipe.answer("some", "c")[0]) == 2
    with pytest.raises(PenstockError, match="results of CLUSTERS"):
        pipe.answer("each", "c")


def test_sequences_beyond_the_limits_are_an_error_of_their_answer_only(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes(series_slots_max=100)
    pipe.probes()
    pipe.db.execute(f"CREATE QUERY q AS SELECT FREQUENT_SEQUENCES(value > 1, by => id) AS a FROM probes {WINDOW}")
    pipe.db.execute(f"CREATE QUERY n AS SELECT COUNT(*) AS n FROM probes {WINDOW}")
    pipe.push(*[2.0, 1.0] * 60)
    pipe.engine.drain()
    with pytest.raises(PenstockError) as failed:
        pipe.answer("q", "a")
    assert failed.value.condition == "over_budget" and "series_slots_max" in failed.value.render()
    assert pipe.answer("n", "n") == [120]


def test_the_mean_of_whole_numbers_in_arrays_does_not_wrap_around_and_their_sum_does(
    pipes: Callable[..., Pipe],
) -> None:
    pipe = pipes()
    pipe.db.execute("CREATE TABLE boxes (id INT PRIMARY KEY, burst STREAM (counts ARRAY<BIGINT>, count BIGINT))")
    pipe.db.execute("INSERT INTO boxes VALUES (1, NULL), (2, NULL), (3, NULL)")
    calls = "VECTOR_AVG(counts) AS means, VECTOR_SUM(counts) AS sums, AVG(count) AS mean, SUM(count) AS sum"
    pipe.db.execute(f"CREATE QUERY q AS SELECT id, {calls} FROM boxes GROUP BY id {WINDOW}")
    pushed = {1: [2**62, 2**62], 2: [-1, -1, -3], 3: [-(2**63), -(2**63), 2**63 - 1]}
    for sensor, values in pushed.items():
        for value in values:
            pipe.db.push("boxes", [{"id": sensor, "counts": [value, 1], "count": value}])
            pipe.engine.drain()
    for row in pipe.db.execute("SELECT * FROM q").table.to_pylist():
        total = sum(pushed[row["id"]])
        assert row["means"] == [total / len(pushed[row["id"]]), 1.0] == [row["mean"], 1.0]
        assert row["sums"][0] == (total + 2**63) % 2**64 - 2**63 == row["sum"]


def test_vectors_of_different_lengths_are_an_error_of_their_answer_only(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes()
    pipe.db.execute("CREATE TABLE boxes (id INT PRIMARY KEY, burst STREAM (counts ARRAY<INT>))")
    pipe.db.execute("INSERT INTO boxes VALUES (1, NULL), (2, NULL)")
    pipe.db.execute(f"CREATE QUERY each AS SELECT id, VECTOR_SUM(counts) AS s FROM boxes GROUP BY id {WINDOW}")
    pipe.db.execute(f"CREATE QUERY all_of_them AS SELECT VECTOR_SUM(counts) AS s FROM boxes {WINDOW}")
    pipe.db.push("boxes", [{"id": 1, "counts": [1, 2]}, {"id": 2, "counts": []}, {"id": 1, "counts": [3, 4]}])
    pipe.engine.drain()
    assert pipe.answer("each", "s") == [[4, 6], []]
    with pytest.raises(PenstockError) as failed:
        pipe.answer("all_of_them", "s")
    assert failed.value.condition == "invalid_value"


def test_an_answer_with_series_travels_as_arrow(pipe: Pipe) -> None:
    pipe.db.execute(f"CREATE QUERY q AS SELECT SERIES(value) AS a FROM probes {WINDOW}")
    pipe.push(1.0, 2.0)
    pipe.engine.drain()
    table = pipe.db.standing.invoke("q").table
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    assert pa.ipc.open_stream(sink.getvalue()).read_all() == table


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_of_the_table_has_a_result_and_is_listed(pipe: Pipe, name: str) -> None:
    function = FUNCTIONS[name]
    assert function.sentence.endswith(".") and function.example.startswith(name.upper() + "(")
    assert len({p.name for p in function.parameters}) == len(function.parameters)
    assert (function.find is None) == (function.takes == "vectors")
    listed = pipe.db.system.table("penstock.functions").column("name").to_pylist()
    assert name in listed
