"""The console on a real server with Spark: the demo by one click, a question that only Spark answers, kept and dropped."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import expect

from penstock.cli.demo_server import free_port, running_server
from tests.console.browser import browsing, chromium, until_open, visiting
from tests.support.spark_lock import one_spark

expect.set_options(timeout=120_000)


def test_a_person_starts_the_demo_asks_spark_keeps_and_drops(tmp_path: Path) -> None:
    chromium()
    port = free_port(0)
    with one_spark(), running_server(tmp_path / "data", port, lambda _: None):
        until_open(f"http://127.0.0.1:{port}")
        with browsing() as browser, visiting(browser, f"http://127.0.0.1:{port}") as visitor:
            page = visitor.page
            page.goto(visitor.url)
            page.wait_for_url("**/console/")
            page.wait_for_load_state("networkidle")  # a click before the page has its socket is nobody's
            visitor.button("Start the demo")
            expect(page.locator(".tile", has_text="Sensors").locator(".value")).to_have_text("60")
            expect(page.locator(".tile", has_text="Readings/s").locator(".value")).to_have_text(re.compile(r"[1-9]"))
            visitor.screenshots("spark-overview")
            visitor.go("ask")
            visitor.write("SELECT location, MAX(ppm) AS peak FROM probes GROUP BY location ORDER BY peak DESC")
            visitor.button("Run")
            expect(page.get_by_role("cell", name="canteen")).to_be_visible()
            visitor.button("Chart")
            expect(page.locator(".chart.tall canvas")).to_be_visible()
            visitor.screenshots("spark-ask")
            visitor.write(
                "SELECT location, AVG(ppm) AS mean FROM probes GROUP BY location BEGIN (NOW - 1 MINUTE) END (NOW)"
            )
            visitor.button("Keep as a standing query")
            page.get_by_label("Name", exact=True).fill("means")
            visitor.button("Keep")
            expect(page.locator(".chip", has_text="RUNNING")).to_be_visible()
            expect(page.locator(".tile", has_text="Rows in its window").locator(".value")).to_have_text(
                re.compile(r"[1-9]")
            )
            visitor.button("10 min")
            expect(page.get_by_text("BEGIN (NOW - 10m) END (NOW)").first).to_be_visible()
            visitor.screenshots("spark-query")
            visitor.button("Drop")
            visitor.button("Drop it")
            expect(page.get_by_role("cell", name="gas_alarm")).to_be_visible()
            visitor.go("system")
            expect(page.get_by_role("cell", name="Spark (Java)")).to_be_visible()
            visitor.screenshots("spark-system")
