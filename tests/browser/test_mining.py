"""What mining functions find in series of a road, drawn in a real Chromium, over a database whose cycles run without Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pandas as pd
import pytest
from playwright.sync_api import expect

import penstock
from tests.browser.browser import Visitor, chromium, serving
from tests.support.real_series import EXCERPTS, TABLE, as_table, read_series

expect.set_options(timeout=120_000)
ROADS = ("occupancy_t4013", "speed_t4013")
FROM = "FROM series GROUP BY name BEGIN (NOW - 8 DAYS) END (NOW)"
HOURS = "value, every => 1 HOUR"
ODD = f"ANOMALIES({HOURS}, season => 1 DAY, seasons => 3, history => 2 DAYS, quiet => 3 HOURS)"
ALIKE = "PERIODIC_PATTERNS(value, every => 2 HOURS, period => 1 DAY, levels => ARRAY[5, 10, 15], confidence => 0.8, top => 4)"
QUERIES = {
    "road": f"SELECT name, SERIES({HOURS}) AS hours, {ODD} AS odd,"
    f" FORECAST({HOURS}, ahead => 24, season => 1 DAY) AS soon, {ALIKE} AS days {FROM}",
    "next_day": f"SELECT name, UNNEST(FORECAST({HOURS}, ahead => 24, season => 1 DAY)) AS f {FROM}",
    "odd_hours": f"SELECT name, UNNEST({ODD}) AS a {FROM}",
    "days_alike": f"SELECT name, UNNEST({ALIKE}) AS p {FROM}",
}
FIRST = ".group .chart"
AXES = "box => { const o = getElement(box).chart.getOption(); return [o.xAxis[0].name, o.yAxis[0].name, o.useUTC]; }"
POINT_AT = """
([box, name]) => {
  const chart = getElement(box).chart, series = chart.getOption().series.findIndex(s => s.name === name);
  const [x, y] = chart.convertToPixel({seriesIndex: series}, chart.getOption().series[series].data[0].slice(0, 2));
  const at = box.getBoundingClientRect();
  return [at.x + x, at.y + y];
}
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    chromium()
    with serving(tmp_path_factory.mktemp("mining") / "data") as found:
        with penstock.connect(found) as db:
            db.sql(TABLE)
            db.sql(f"INSERT INTO series VALUES {', '.join(f'({road!r}, NULL, NULL)' for road in ROADS)}")
            for road in ROADS:
                db.push("series", as_table(road, read_series(EXCERPTS / f"{road}.csv")))
            db.register([{"name": name, "sql": sql} for name, sql in QUERIES.items()])
        yield found


def test_a_forecast_is_a_line_with_its_band_for_each_group_and_moves_on(visitor: Visitor) -> None:
    visitor.go("queries/next_day")
    expect(visitor.page.locator(".group")).to_have_text([re.compile(f"name = {road}") for road in ROADS])
    assert list(visitor.drawn(FIRST)) == ["f · band", "f · forecast"]
    assert visitor.page.eval_on_selector(FIRST, AXES) == ["time, UTC", "value", True]
    before = visitor.drawn(FIRST)["f · forecast"]
    assert len(before) == 24 and all(lower < value < upper for _, value, lower, upper in before)
    visitor.screenshots("mining-forecast")
    last = read_series(EXCERPTS / f"{ROADS[0]}.csv")["ts"].iloc[-1]
    hours = pd.DataFrame({"ts": last + pd.to_timedelta([1, 2], "h"), "value": [8.0, 7.0]})
    with penstock.connect(visitor.url) as db:
        db.push("series", as_table(ROADS[0], hours))
    visitor.until(lambda: visitor.drawn(FIRST)["f · forecast"][0][0] > before[0][0])


def test_anomalies_are_marks_that_say_what_was_expected(visitor: Visitor) -> None:
    visitor.go("queries/odd_hours")
    expect(visitor.page.locator(".group")).to_have_count(2)
    assert list(visitor.drawn(FIRST)) == ["a · expected", "a · anomaly"]
    for _, value, _, lower, upper, score in visitor.drawn(FIRST)["a · anomaly"]:
        assert score >= 4 and not lower < value < upper
    box = visitor.page.locator(FIRST).first.element_handle()
    visitor.page.mouse.move(*visitor.page.evaluate(POINT_AT, [box, "a · anomaly"]))
    expect(visitor.page.locator(".group").first).to_contain_text(re.compile("expected.*lower.*upper.*score", re.DOTALL))
    visitor.screenshots("mining-anomalies")


def test_patterns_are_strips_and_everything_can_be_seen_as_a_table(visitor: Visitor) -> None:
    visitor.go("queries/days_alike")
    expect(visitor.page.locator(".group")).to_have_count(2)
    (cells,) = visitor.drawn(FIRST).values()
    with penstock.connect(visitor.url) as db:
        found = [row["p"]["items"] for row in db.invoke("days_alike").rows() if row["name"] == ROADS[0]]
    letters = [(item["place"], row, item["value"]) for row, items in enumerate(found) for item in items]
    assert [(*cell["value"][:2], cell["symbol"]) for cell in cells] == letters != []
    assert visitor.page.eval_on_selector(FIRST, AXES)[0] == "place of the period, in slots from its start"
    visitor.screenshots("mining-patterns")
    visitor.button("Table")
    expect(visitor.page.get_by_role("cell", name=ROADS[0]).first).to_be_visible()
    expect(visitor.page.locator(".groups")).to_be_hidden()
    visitor.button("Chart")
    expect(visitor.page.locator(".group").first).to_be_visible()


def test_several_functions_of_a_group_share_a_chart_if_they_share_its_axes(visitor: Visitor) -> None:
    visitor.go("queries/road")
    expect(visitor.page.locator(".group")).to_have_count(4)  # of each road, over time and by place of the day
    assert list(visitor.drawn(FIRST)) == [
        "hours",
        "odd · expected",
        "odd · anomaly",
        "soon · band",
        "soon · forecast",
    ]
    visitor.screenshots("mining-road")
    visitor.picture("console-mining", 900)


def test_an_answer_in_ask_has_the_same_charts(visitor: Visitor) -> None:
    visitor.go("ask")
    visitor.write(f"SELECT name, BASELINE({HOURS}, season => 1 DAY) AS hour {FROM}")
    visitor.button("Run")
    expect(visitor.page.locator(".list tbody tr")).to_have_count(2)
    visitor.button("Chart")
    expect(visitor.page.locator(".group")).to_have_count(2)
    assert list(visitor.drawn(FIRST)) == ["hour · band", "hour · expected"]
    visitor.screenshots("mining-ask")
