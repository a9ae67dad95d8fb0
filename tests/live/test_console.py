"""The console on a real server with Spark and the demo: every page as a person walks through it.

The tests tell one story on one server, in order, by one visitor; what the browser complains about fails the test in which
it did. Screenshots at both widths and in both themes are kept (tests/console/browser.py), and `make screenshots` takes the
documentation's pictures on the same walk.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from penstock.cli.demo_server import free_port, running_server
from tests.console.browser import Visitor, browsing, chromium, until_open, visiting
from tests.support.spark_lock import one_spark

expect.set_options(timeout=120_000)
COUNT = re.compile(r"[1-9][\d,]*")
PEAKS = "SELECT location, MAX(ppm) AS peak FROM probes GROUP BY location ORDER BY peak DESC"
MEANS = "SELECT location, AVG(ppm) AS mean FROM probes GROUP BY location BEGIN (NOW - 1 MINUTE) END (NOW)"
ENDLESS = "SELECT COUNT(*) AS n FROM probes a, probes b, probes c, probes d WHERE a.ppm + b.ppm > c.ppm * d.ppm"
GAS = "SELECT probe_id, ppm, ts FROM probes WHERE ppm > 10 BEGIN (NOW - 1 MINUTE) END (NOW)"


@pytest.fixture(scope="module")
def somebody(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visitor]:
    chromium()
    port = free_port(0)
    folder = tmp_path_factory.mktemp("console") / "data"
    with one_spark(), running_server(folder, port, lambda _: None):
        url = f"http://127.0.0.1:{port}"
        until_open(url)
        with browsing() as browser, visiting(browser, url) as visitor:
            yield visitor


@pytest.fixture
def visitor(somebody: Visitor) -> Iterator[Visitor]:
    yield somebody
    assert somebody.problems == []


def test_a_first_visit_starts_the_demo_by_one_click(visitor: Visitor) -> None:
    visitor.page.goto(visitor.url)
    visitor.page.wait_for_url("**/console/")
    visitor.connected()
    visitor.button("Start the demo")
    expect(visitor.tile("Sensors")).to_have_text("60")
    expect(visitor.tile("Readings/s")).to_have_text(COUNT)


def test_the_overview_shows_alarms_and_a_map_that_leads_to_a_sensor(visitor: Visitor) -> None:
    page = visitor.page
    visitor.go()
    expect(visitor.tile("Standing queries")).to_have_text("4")
    expect(visitor.tile("Cycle time")).to_have_text(COUNT)
    expect(visitor.tile("Alarms")).to_have_text(COUNT)
    expect(page.get_by_text("gas_alarm: ").first).to_be_visible()
    visitor.point("60", "live")
    visitor.screenshots("spark-overview")
    visitor.picture("console-overview", height=760)
    x, y = visitor.point("7", "live")
    page.mouse.move(x, y)
    expect(page.get_by_text(re.compile(r"7 · [\w ]+: ppm = [\d.]+, live"))).to_be_visible()
    page.mouse.click(x, y)
    expect(page.get_by_role("heading", name="probes 7")).to_be_visible()
    visitor.screenshots("spark-sensor")


def test_sensors_have_lines_and_rates_and_a_place_that_can_be_corrected(visitor: Visitor) -> None:
    page = visitor.page
    visitor.go("sensors")
    expect(page.get_by_role("cell", name="probes", exact=True)).to_be_visible()
    visitor.screenshots("spark-sensors")
    page.get_by_role("cell", name="probes", exact=True).click()
    rows = page.locator(".list tbody tr")
    line = rows.first.locator(".spark polyline")
    expect(line).to_have_attribute("points", re.compile(r"\d,.* .*\d,"))
    visitor.until_changed(lambda: line.get_attribute("points"))
    expect(visitor.tile("Readings/s")).to_have_text(COUNT)
    expect(rows.first.get_by_role("cell", name=re.compile(r"^[12]\.?\d*$")).last).to_be_visible()
    visitor.screenshots("spark-sensor-table")
    visitor.picture("console-sensors", height=860)
    row = rows.nth(6)
    expect(row.locator("td").first).to_have_text("7")
    row.click()
    page.get_by_label("location (TEXT)").fill("new laboratory")
    visitor.button("Save")
    expect(row).to_contain_text("new laboratory")


def test_a_mistake_is_underlined_and_a_question_that_only_spark_answers_is_charted(visitor: Visitor) -> None:
    page = visitor.page
    visitor.go("ask")
    visitor.write(PEAKS.replace("MAX(ppm)", "MAX(pmp)"))
    visitor.button("Run")
    expect(page.locator(".mistake")).to_have_text("pmp")
    expect(page.get_by_role("alert")).to_contain_text('did you mean "ppm"?')
    visitor.screenshots("spark-ask-mistake")
    visitor.write(PEAKS)
    # Readings keep the place they were logged with, so the corrected one is there from its next reading on.
    visitor.until(lambda: "new laboratory" in places_asked_for(visitor))
    expect(page.locator(".mistake")).to_have_count(0)
    visitor.screenshots("spark-ask-table")
    visitor.button("Chart")
    expect(page.locator(".chart.tall canvas")).to_be_visible()
    expect(page.locator(".cm-tooltip-autocomplete")).to_have_count(0)
    visitor.screenshots("spark-ask")
    visitor.picture("console-ask", height=880)


def test_a_question_that_takes_too_long_is_cancelled_on_the_page(visitor: Visitor) -> None:
    page = visitor.page
    visitor.go("ask")
    cancel = page.get_by_role("button", name="Cancel", exact=True)
    expect(cancel).to_be_hidden()
    visitor.write(ENDLESS)
    visitor.button("Run")
    cancel.click()
    expect(page.get_by_role("alert")).to_contain_text("the statement was cancelled on the page")
    expect(cancel).to_be_hidden()
    visitor.write("SHOW TABLES")
    visitor.button("Run")
    expect(page.get_by_role("cell", name="probes", exact=True)).to_be_visible()


def test_a_question_is_kept_and_watched_live_given_another_window_and_dropped(visitor: Visitor) -> None:
    page = visitor.page
    keep(visitor, GAS, "much_gas")
    expect(visitor.tile("Rows in its window")).to_have_text(COUNT)
    visitor.until_changed(visitor.drawn)
    visitor.button("Table")
    newest = page.locator(".list tbody tr").first
    expect(newest).to_be_visible()
    visitor.until_changed(newest.inner_text)
    visitor.screenshots("spark-query-table")
    visitor.button("Chart")
    expect(page.locator(".plan text.rate").first).to_have_text(re.compile(r"[1-9].*/s"))
    visitor.button("10 s")
    expect(page.get_by_text("BEGIN (NOW - 10s) END (NOW)").first).to_be_visible()
    history = page.locator(".facts", has_text="registered")
    expect(history.get_by_text("window", exact=True)).to_be_visible()
    visitor.until(lambda: seconds_shown(visitor) <= 10)
    page.evaluate("scrollTo(0, 0)")
    visitor.screenshots("spark-query")
    visitor.picture("console-query", height=1560)
    page.locator(".plan").scroll_into_view_if_needed()
    visitor.screenshots("spark-query-plan")
    drop(visitor, "much_gas")


def test_means_per_place_are_kept_and_dropped(visitor: Visitor) -> None:
    keep(visitor, MEANS, "means")
    expect(visitor.tile("Rows in its window")).to_have_text(COUNT)
    visitor.button("10 min")
    expect(visitor.page.get_by_text("BEGIN (NOW - 10m) END (NOW)").first).to_be_visible()
    visitor.screenshots("spark-means")
    drop(visitor, "means")


def test_the_list_of_queries_leads_to_the_plan_of_a_join(visitor: Visitor) -> None:
    page = visitor.page
    visitor.go("queries")
    expect(page.locator(".list tbody tr")).to_have_count(4)
    expect(page.locator(".list .chip", has_text="RUNNING")).to_have_count(4)
    visitor.screenshots("spark-queries")
    page.get_by_role("cell", name="plume_path").click()
    expect(page.locator(".plan rect")).to_have_count(15)
    expect(page.locator(".plan text.rate").first).to_have_text(re.compile(r"[1-9].*/s"))
    page.locator(".plan").scroll_into_view_if_needed()
    visitor.screenshots("spark-plan")


def test_the_system_page_shows_where_the_time_goes_and_sparks_processes(visitor: Visitor) -> None:
    page = visitor.page
    visitor.go("system")
    expect(page.get_by_role("cell", name="Spark (Java)")).to_be_visible()
    expect(page.get_by_text("the whole trigger")).to_be_visible()
    expect(page.get_by_role("cell", name="probes", exact=True)).to_be_visible()
    expect(page.locator(".chart canvas")).to_have_count(2)
    visitor.screenshots("spark-system")
    visitor.picture("console-system", height=1240)


def places_asked_for(visitor: Visitor) -> list[str]:
    visitor.button("Run")
    expect(visitor.page.get_by_role("cell", name="canteen")).to_be_visible()
    return visitor.page.locator(".list tbody td:first-child").all_inner_texts()


def keep(visitor: Visitor, sql: str, name: str) -> None:
    visitor.go("ask")
    visitor.write(sql)
    visitor.button("Keep as a standing query")
    visitor.page.get_by_label("Name", exact=True).fill(name)
    visitor.button("Keep")
    expect(visitor.page.get_by_role("heading", name=name, level=1)).to_be_visible()
    expect(visitor.page.locator(".chip", has_text="RUNNING")).to_be_visible()
    visitor.connected()


def drop(visitor: Visitor, name: str) -> None:
    visitor.button("Drop")
    visitor.button("Drop it")
    expect(visitor.page.get_by_role("heading", name="Queries", level=1)).to_be_visible()
    expect(visitor.page.get_by_role("cell", name="gas_alarm")).to_be_visible()
    expect(visitor.page.get_by_role("cell", name=name)).to_have_count(0)


def seconds_shown(visitor: Visitor) -> float:
    """From the oldest to the newest point of the chart."""
    times = [at for points in visitor.drawn().values() for at, _ in points]
    return (max(times) - min(times)) / 1000 if times else 0.0
