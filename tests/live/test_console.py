"""`penstock demo` as a user runs it, on a machine without Java on PATH, and the console of its server in a browser.

The tests tell one story on one demo, in order, by one visitor; what the browser complains about fails the test in which it
did. `make test` walks through what Spark has a part in: tests/browser walks through every page without Spark. `make soak`
and `make screenshots` walk through every page here, too; the latter takes the documentation's pictures on the way.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import expect

import penstock
from tests.browser.browser import PICTURES, Visitor, browsing, chromium, visiting
from tests.support.spark_lock import one_spark

expect.set_options(timeout=120_000)
COUNT = re.compile(r"[1-9][\d,]*")
PEAKS = "SELECT location, MAX(ppm) AS peak FROM probes GROUP BY location ORDER BY peak DESC"
MEANS = "SELECT location, AVG(ppm) AS mean FROM probes GROUP BY location BEGIN (NOW - 1 MINUTE) END (NOW)"
ENDLESS = "SELECT COUNT(*) AS n FROM probes a, probes b, probes c, probes d WHERE a.ppm + b.ppm > c.ppm * d.ppm"
GAS = "SELECT probe_id, ppm, ts FROM probes WHERE ppm > 10 BEGIN (NOW - 1 MINUTE) END (NOW)"


WITHIN_S = 240.0


class Demo:
    """A running `penstock demo`, and the lines that it has printed."""

    def __init__(self, folder: Path) -> None:
        environ = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
        environ["PATH"] = path_without_java(folder)
        self.errors = folder / "errors.txt"
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "penstock", "demo", "--plain", "--port", "0"],
                env=environ,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                preexec_fn=_listen_to_ctrl_c,
            )
        self.lines: list[str] = []
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines.extend(iter(self.process.stdout.readline, ""))

    def wait_for(self, pattern: str) -> re.Match[str]:
        """The first line that it prints with this in it."""
        deadline = time.monotonic() + WITHIN_S
        while True:
            for found in filter(None, (re.search(pattern, line) for line in list(self.lines))):
                return found
            assert self.process.poll() is None and time.monotonic() < deadline, self.printed()
            time.sleep(0.05)

    def printed(self) -> str:
        return "".join(self.lines) + self.errors.read_text(errors="replace")

    def close(self) -> None:
        """End it, whatever a failed test left of it."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        self.process.wait(120)
        self._reading.join(60)


def path_without_java(folder: Path) -> str:
    """PATH as it is here, but for java: Spark's launcher and Hadoop's file system call a dozen other programs."""
    programs = folder / "programs"
    programs.mkdir()
    for place in map(Path, os.environ["PATH"].split(os.pathsep)):
        for program in place.iterdir() if place.is_dir() else ():
            if program.name != "java" and not (programs / program.name).is_symlink():
                (programs / program.name).symlink_to(program)
    return str(programs)


def _listen_to_ctrl_c() -> None:
    """Tests that run in the background ignore it, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    with one_spark():
        running = Demo(tmp_path_factory.mktemp("demo"))
        try:
            yield running
        finally:
            running.close()


@pytest.fixture(scope="module")
def somebody(demo: Demo) -> Iterator[Visitor]:
    chromium()
    url = demo.wait_for(r"The demo's server is at (\S+)\. ").group(1)
    with browsing() as browser, visiting(browser, url) as visitor:
        visitor.page.goto(url)
        visitor.page.wait_for_url("**/console/")
        visitor.connected()
        yield visitor


@pytest.fixture
def visitor(somebody: Visitor) -> Iterator[Visitor]:
    yield somebody
    assert somebody.problems == []


def test_the_demo_shows_sixty_probes_and_the_way_of_the_plume(demo: Demo) -> None:
    demo.wait_for(r"cycle \d+  60 probes .* \d+ in alarm.* passed probe \d+ -> \d+ -> \d+ in")


def overview(visitor: Visitor) -> None:
    """The overview shows alarms and a map that leads to a sensor."""
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


def sensors(visitor: Visitor) -> None:
    """Sensors have lines and rates and a place that can be corrected."""
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


def question_for_spark(visitor: Visitor) -> None:
    """A mistake is underlined and a question that only Spark answers is charted."""
    page = visitor.page
    with penstock.connect(visitor.url) as db:
        db.sql("UPDATE probes SET location = 'new laboratory' WHERE probe_id = 7")
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


def long_question(visitor: Visitor) -> None:
    """A question that takes too long is cancelled on the page."""
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


def standing_query(visitor: Visitor) -> None:
    """A question is kept and watched live given another window and dropped."""
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


def means(visitor: Visitor) -> None:
    """Means per place are kept and dropped."""
    keep(visitor, MEANS, "means")
    expect(visitor.tile("Rows in its window")).to_have_text(COUNT)
    visitor.button("10 min")
    expect(visitor.page.get_by_text("BEGIN (NOW - 10m) END (NOW)").first).to_be_visible()
    visitor.screenshots("spark-means")
    drop(visitor, "means")


def plan_of_a_join(visitor: Visitor) -> None:
    """The list of queries leads to the plan of a join."""
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


def system(visitor: Visitor) -> None:
    """The system page shows where the time goes and Spark's processes."""
    page = visitor.page
    visitor.go("system")
    expect(page.get_by_role("cell", name="Spark (Java)")).to_be_visible()
    expect(page.get_by_text("the whole trigger")).to_be_visible()
    expect(page.get_by_role("cell", name="probes", exact=True)).to_be_visible()
    expect(page.locator(".chart canvas")).to_have_count(2)
    visitor.screenshots("spark-system")
    visitor.picture("console-system", height=1240)


WALK: tuple[Callable[[Visitor], None], ...] = (
    *(overview, sensors, question_for_spark, long_question, standing_query, means, plan_of_a_join, system),
)
OF_SPARK = (question_for_spark, long_question, system)
PAGES = WALK if PICTURES or os.environ.get("PENSTOCK_SOAK") else OF_SPARK


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.__name__)
def test_a_page_of_the_console_on_spark(visitor: Visitor, page: Callable[[Visitor], None]) -> None:
    page(visitor)


def test_ctrl_c_ends_the_demo_and_leaves_nothing_running(demo: Demo) -> None:
    family = psutil.Process(demo.process.pid).children(recursive=True)
    demo.process.send_signal(signal.SIGINT)
    assert demo.process.wait(120) == 0, demo.printed()
    assert family and "Traceback" not in demo.errors.read_text()
    _, alive = psutil.wait_procs(family, timeout=60)
    assert alive == []


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
