"""What mining functions find, drawn on the page of a query: forecasts, anomalies, patterns, changes, of real series."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

import penstock
from tests.browser.browser import Visitor, chromium, serving
from tests.support.real_series import EXCERPTS, TABLE, as_table, read_series

expect.set_options(timeout=120_000)
ROAD = "occupancy_t4013"
WINDOW = "BEGIN (NOW - 14 DAYS) END (NOW)"
EVERY = "value, every => 1 HOUR"
QUERIES = {
    "next_day": f"SELECT name, SERIES({EVERY}) AS occupancy, FORECAST({EVERY}, ahead => 24, season => 1 DAY) AS tomorrow",
    "odd_hours": f"SELECT name, SERIES({EVERY}) AS hours, ANOMALIES({EVERY}, season => 1 DAY, history => 3 DAYS, quiet => 3 HOURS) AS odd",
    "odd_rows": f"SELECT name, UNNEST(ANOMALIES({EVERY}, season => 1 DAY, history => 3 DAYS)) AS a",
    "days_alike": "SELECT name, UNNEST(PERIODIC_PATTERNS(value, every => 1 HOUR, period => 1 DAY, levels => ARRAY[4, 8, 12], top => 5)) AS p",
    "usual_day": f"SELECT name, UNNEST(BASELINE({EVERY}, season => 1 DAY)) AS hour",
    "changed": f"SELECT name, SERIES({EVERY}) AS hours, CHANGE_POINTS({EVERY}) AS level",
}
ALL = {n: f"{sql} FROM series GROUP BY name {WINDOW}" for n, sql in QUERIES.items()}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    chromium()
    with serving(tmp_path_factory.mktemp("mining") / "data") as found:
        with penstock.connect(found) as db:
            db.sql(TABLE)
            db.sql(f"INSERT INTO series VALUES ('{ROAD}', 'road', NULL), ('speed_t4013', 'road', NULL)")
            for name in (ROAD, "speed_t4013"):
                db.push("series", as_table(name, read_series(EXCERPTS / f"{name}.csv")))
            for name, sql in ALL.items():
                db.sql(f"CREATE QUERY {name} AS {sql}")
        yield found


@pytest.mark.parametrize("name", list(ALL))
def test_shots(visitor: Visitor, name: str) -> None:
    visitor.go(f"queries/{name}")
    expect(visitor.page.locator(".group canvas")).to_have_count(2)
    visitor.screenshots(name)
