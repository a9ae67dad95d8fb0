"""What mining functions find becomes charts: by the types of columns, per group, with what is left out said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from penstock.clock import SECOND
from penstock.console.widgets.mining_charts import ELEMENTS_MAX, GROUPS_MAX, MiningChart, draw_mining, has_mining
from penstock.operators.mining.registry import FUNCTIONS
from penstock.types import DOUBLE

AT = pa.timestamp("us", tz="UTC")
SERIES = pa.struct([("at", AT), ("value", pa.float64())])
BAND = pa.struct([*SERIES, ("lower", pa.float64()), ("upper", pa.float64())])
SCORED = pa.struct([*SERIES, *((n, pa.float64()) for n in ("expected", "lower", "upper", "score"))])
CHANGE = pa.struct([("at", AT), ("before", pa.float64()), ("after", pa.float64()), ("gain", pa.float64())])
PLACE = pa.struct(
    [("place", pa.int32()), *((n, pa.float64()) for n in ("expected", "lower", "upper")), ("n", pa.int64())]
)
LETTERS = pa.list_(pa.struct([("place", pa.int32()), ("value", pa.string())]))
PATTERN = pa.struct([("items", LETTERS), ("count", pa.int64()), ("segments", pa.int64()), ("confidence", pa.float64())])
MATCH = pa.struct([("at", AT), ("distance", pa.float64())])
CLUSTER = pa.struct(
    [("size", pa.int64()), ("share", pa.float64()), ("center", pa.list_(pa.float64())), ("radius", pa.float64())]
)


def series(*values: float | None) -> list[dict[str, Any]]:
    return [{"at": i * SECOND, "value": v} for i, v in enumerate(values)]


def forecast(*values: float, begin: int = 0) -> list[dict[str, Any]]:
    return [{"at": i * SECOND, "value": v, "lower": v - 2, "upper": v + 3} for i, v in enumerate(values, start=begin)]


def column(kind: pa.DataType, *values: Any) -> pa.Array:
    return pa.array(list(values), kind)


def drawn(chart: MiningChart) -> dict[str, Any]:
    """The data by the names of the series; of two with one name, as a band has, both."""
    found: dict[str, Any] = {}
    for one in chart.options["series"]:
        data = [point["value"] if isinstance(point, dict) else point for point in one["data"]]
        found[one["name"]] = (found[one["name"]], data) if one["name"] in found else data
    return found


def titles(charts: Sequence[MiningChart]) -> list[str]:
    return [chart.title for chart in charts]


def test_rows_of_a_struct_and_an_array_of_it_are_the_same_chart_per_group() -> None:
    north, south = forecast(1.0, -1.0), forecast(5.0)
    rows = pa.table({"place": ["south", "north", "north"], "f": column(BAND, *south, *north)})
    arrays = pa.table({"place": ["south", "north"], "f": column(pa.list_(BAND), south, north)})
    found = draw_mining(rows)
    assert found == draw_mining(arrays)
    assert (titles(found.charts), found.note) == (["place = north", "place = south"], "")
    assert drawn(found.charts[0]) == {
        "f · band": ([[0, -1.0], [1000, -3.0]], [[0, 5.0], [1000, 5.0]]),  # its lower edge, and its width
        "f · forecast": [[0, 1.0, -1.0, 4.0], [1000, -1.0, -3.0, 2.0]],
    }
    options = found.charts[0].options
    assert (options["useUTC"], options["xAxis"]["name"], options["yAxis"]["name"]) == (True, "time, UTC", "value")


def test_the_band_of_a_single_element_is_a_bar() -> None:
    (chart,) = draw_mining(pa.table({"f": column(pa.list_(BAND), forecast(1.0))})).charts
    assert drawn(chart) == {"f · band": [[0, -1.0], [0, 4.0], [0, None]], "f · forecast": [[0, 1.0, -1.0, 4.0]]}


def test_fields_apart_are_the_same_chart_and_other_numbers_make_no_groups() -> None:
    elements = forecast(1.0, 2.0)
    apart = {name: column(BAND.field(name).type, *(e[name] for e in elements)) for name in BAND.names}
    found = draw_mining(pa.table({"place": ["north"] * 2, **apart, "twice": [2.0, 4.0]}))
    assert titles(found.charts) == ["place = north"]
    assert drawn(found.charts[0])["forecast"] == [[0, 1.0, -1.0, 4.0], [1000, 2.0, 0.0, 5.0]]


def test_a_time_and_a_number_apart_are_left_to_the_chart_of_any_answer() -> None:
    assert not has_mining(pa.schema([("at", AT), ("value", pa.float64())]))
    assert not has_mining(pa.schema([("place", pa.string()), ("at", pa.string()), ("s", pa.list_(pa.float64()))]))
    assert has_mining(pa.schema([("s", SERIES)]))


def test_anomalies_are_marks_on_the_series_with_a_bar_where_a_value_was_expected() -> None:
    odd = {"at": SECOND, "value": 9.0, "expected": 2.0, "lower": 1.0, "upper": 3.0, "score": 7.0}
    table = pa.table({"s": column(pa.list_(SERIES), series(1.0, 9.0, 2.0)), "odd": column(pa.list_(SCORED), [odd])})
    (chart,) = draw_mining(table).charts
    assert (chart.title, drawn(chart)) == (
        "",
        {
            "s": [[0, 1.0], [1000, 9.0], [2000, 2.0]],
            "odd · expected": [[1000, 1.0], [1000, 3.0], [1000, None]],
            "odd · anomaly": [[1000, 9.0, 2.0, 1.0, 3.0, 7.0]],
        },
    )
    assert [entry["name"] for entry in chart.options["legend"]["data"]] == list(drawn(chart))
    assert [s["type"] for s in chart.options["series"]] == ["line", "line", "scatter"]


def test_a_newest_value_that_is_as_expected_is_not_marked_as_an_anomaly() -> None:
    limits = {"expected": 2.0, "lower": 1.0, "upper": 3.0}
    newest = [{"at": SECOND, "value": v, "score": 9.0, **limits} for v in (2.5, 3.0)]
    calm, odd = draw_mining(pa.table({"place": ["a", "b"], "n": column(SCORED, *newest)})).charts
    assert list(drawn(calm)) == ["n · expected", "n · as expected"]
    assert list(drawn(odd)) == ["n · expected", "n · anomaly"]


def test_a_series_beside_rows_of_anomalies_is_drawn_once() -> None:
    odd = [{"at": i * SECOND, "value": 9.0, "expected": 2.0, "lower": 1.0, "upper": 3.0, "score": 7.0} for i in (0, 2)]
    whole = series(9.0, 1.0, 9.0)
    (chart,) = draw_mining(pa.table({"s": column(pa.list_(SERIES), whole, whole), "a": column(SCORED, *odd)})).charts
    assert len(drawn(chart)["s"]) == 3 and len(drawn(chart)["a · anomaly"]) == 2


def test_a_slot_without_a_reading_is_a_gap_and_a_lonely_one_a_dot() -> None:
    (chart,) = draw_mining(pa.table({"s": column(pa.list_(SERIES), series(1.0, 2.0, None, 3.0, None))})).charts
    assert chart.options["series"][0]["data"] == [
        [0, 1.0],
        [1000, 2.0],
        [2000, None],
        {"value": [3000, 3.0], "symbolSize": 5},
        [4000, None],
    ]


def test_values_that_json_cannot_hold_are_gaps() -> None:
    (chart,) = draw_mining(pa.table({"s": column(pa.list_(SERIES), series(float("nan"), float("-inf"), 1.0))})).charts
    assert [point[1] for point in drawn(chart)["s"]] == [None, None, 1.0]


def test_changes_are_steps_as_far_as_the_series_goes() -> None:
    changes = [{"at": 2 * SECOND, "before": 1.0, "after": 5.0, "gain": 9.0}]
    whole = series(1.0, 1.0, 5.0, 5.0)
    (beside,) = draw_mining(
        pa.table({"s": column(pa.list_(SERIES), whole), "c": column(pa.list_(CHANGE), changes)})
    ).charts
    (steps,) = [data for name, data in drawn(beside).items() if name.startswith("c · mean")]
    assert steps == [[0, 1.0], [2000, 5.0], [3000, 5.0]]
    (alone,) = draw_mining(pa.table({"c": column(CHANGE, *changes)})).charts
    (steps,) = drawn(alone).values()
    assert steps[0][0] < 2000 < steps[-1][0] and [level for _, level in steps] == [1.0, 5.0, 5.0]


def test_a_baseline_is_a_band_by_place_in_a_chart_beside_that_of_time() -> None:
    usual = [{"place": p, "expected": p + 0.5, "lower": 0.0, "upper": 3.0, "n": 7} for p in (0, 1, 3)]
    table = pa.table({"s": column(pa.list_(SERIES), series(1.0)), "b": column(pa.list_(PLACE), usual)})
    over_time, by_place = draw_mining(table).charts
    assert over_time.options["xAxis"]["name"] == "time, UTC"
    assert "place of the season" in by_place.options["xAxis"]["name"]
    assert drawn(by_place)["b · expected"] == [[0, 0.5, 0.0, 3.0], [1, 1.5, 0.0, 3.0], [3, 3.5, 0.0, 3.0]]


def test_patterns_are_strips_whose_cells_have_the_colour_of_their_symbol() -> None:
    def pattern(count: int, **letters: str) -> dict[str, Any]:
        items = [{"place": int(place[1:]), "value": symbol} for place, symbol in letters.items()]
        return {"items": items, "count": count, "segments": 13, "confidence": count / 13}

    patterns = [pattern(12, p6="1", p9="10", p11="2"), pattern(13, p9="10")]
    (chart,) = draw_mining(pa.table({"p": column(PATTERN, *patterns)})).charts
    assert drawn(chart) == {"p · patterns": [[6, 0, 0], [9, 0, 2], [11, 0, 1], [9, 1, 2]]}
    pieces = chart.options["visualMap"]["pieces"]
    assert [(piece["value"], piece["label"]) for piece in pieces] == [
        (0, "symbol 1"),
        (1, "symbol 2"),
        (2, "symbol 10"),
    ]
    assert (chart.options["yAxis"]["data"], chart.options["yAxis"]["inverse"]) == (
        ["in 12 of 13 periods", "in 13 of 13 periods"],
        True,
    )
    assert chart.options["xAxis"]["data"] == list(range(12))
    (other,) = draw_mining(pa.table({"p": column(PATTERN, pattern(9, p0="2"))})).charts
    assert other.options["visualMap"]["pieces"][0]["color"] == pieces[1]["color"]  # of "2" in both


def test_what_a_tooltip_says_of_a_symbol_cannot_be_markup() -> None:
    evil = {"items": [{"place": 0, "value": "<b>"}], "count": 3, "segments": 3, "confidence": 1.0}
    (chart,) = draw_mining(pa.table({"p": column(PATTERN, evil)})).charts
    assert chart.options["series"][0]["data"][0]["text"] == "place 0: symbol &lt;b&gt;"


def test_matches_are_marks_at_their_distance_and_clusters_lines_through_their_centres() -> None:
    matches = column(pa.list_(MATCH), [{"at": SECOND, "distance": 0.25}])
    clusters = column(pa.list_(CLUSTER), [{"size": 30, "share": 0.75, "center": [1.0, 4.0], "radius": 1.0}])
    by_distance, by_number = draw_mining(pa.table({"m": matches, "c": clusters})).charts
    assert drawn(by_distance) == {"m · match": [[1000, 0.25]]}
    assert drawn(by_number) == {"c · 75%, 30 rows": [[1, 1.0], [2, 4.0]]}


def test_of_many_groups_the_first_are_drawn_and_the_others_counted() -> None:
    names = [f"{i:02}" for i in reversed(range(GROUPS_MAX + 5))]
    found = draw_mining(pa.table({"room": names, "s": column(pa.list_(SERIES), *[series(1.0)] * len(names))}))
    assert titles(found.charts) == [f"room = {i:02}" for i in range(GROUPS_MAX)]
    assert found.note == f"{GROUPS_MAX} groups are drawn, 5 more are not."


def test_groups_are_in_the_order_of_their_names_and_newer_windows_come_first() -> None:
    rooms, days = ["10", "9", "10", None], [1, 2, 2, 2]
    table = {"room": rooms, "window_start": column(AT, *(d * 86_400 * SECOND for d in days))}
    found = draw_mining(pa.table({**table, "s": column(pa.list_(SERIES), *[series(1.0)] * 4)}))
    assert titles(found.charts) == [
        "room = 10 · window_start = 1970-01-03 00:00:00.000",
        "room = 9 · window_start = 1970-01-03 00:00:00.000",
        "room = NULL · window_start = 1970-01-03 00:00:00.000",
        "room = 10 · window_start = 1970-01-02 00:00:00.000",
    ]


def test_groups_without_elements_take_no_place_and_an_answer_of_such_groups_says_so() -> None:
    arrays = column(pa.list_(SERIES), *[[]] * 20, series(1.0), None)
    found = draw_mining(pa.table({"id": list(range(22)), "s": arrays}))
    assert (titles(found.charts), found.note) == (["id = 20"], "")
    nothing = draw_mining(pa.table({"s": column(SERIES, None)}))
    assert (nothing.charts, nothing.note) == ([], "No elements to draw.")


def test_of_a_long_series_the_last_elements_are_drawn_and_the_page_says_so() -> None:
    found = draw_mining(pa.table({"s": column(pa.list_(SERIES), series(*map(float, range(ELEMENTS_MAX + 1))))}))
    points = drawn(found.charts[0])["s"]
    assert (len(points), points[0]) == (ELEMENTS_MAX, [1000, 1.0])
    assert found.note == f"Only the last {ELEMENTS_MAX:,} elements of longer series are drawn."


@pytest.mark.parametrize(
    "name", ["series", "anomalies", "anomaly", "baseline", "periodic_patterns", "change_points", "forecast"]
)
def test_what_the_functions_of_the_registry_give_can_be_drawn(name: str) -> None:
    assert has_mining(pa.schema([("found", FUNCTIONS[name].result_of(DOUBLE).to_arrow())]))
