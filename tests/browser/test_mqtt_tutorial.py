"""docs/tutorial-mqtt.md as its reader follows it: a real broker, its commands and its script, and the console in Chromium.

The server's cycles run without Spark. What only Spark answers is asked where pages run on one (tests/live/test_examples.py).
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.browser import ROOT, Visitor, browsing, chromium, serving, visiting
from tests.support.mosquitto import PROGRAM, free_port, needs_mosquitto
from tests.test_docs import blocks_of

TUTORIAL = ROOT / "docs" / "tutorial-mqtt.md"
CALM = 'mosquitto_pub -q 1 -t plant/press/vitals -m \'{"load": 0.7'
ALARM = 'mosquitto_pub -q 1 -t plant/press/vitals -m \'{"load": 0.9'
SOON_S = 120

expect.set_options(timeout=120_000)


class Reader:
    """Types what the page says, in a folder of their own. Only the broker's port differs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = str(free_port())

    def block(self, language: str, begins: str) -> str:
        (found,) = (block.text for block in blocks_of(TUTORIAL, language) if block.text.startswith(begins))
        return found.replace("1883", self._port)

    def run(self, command: str) -> None:
        subprocess.run(["sh", "-ec", self._here(command)], cwd=self._folder, check=True, timeout=SOON_S)

    @contextmanager
    def running(self, command: str) -> Iterator[subprocess.Popen[str]]:
        """A command in a terminal of its own, until Ctrl-C."""
        process = subprocess.Popen(
            ["sh", "-ec", f"exec {self._here(command)}"], cwd=self._folder, stdout=subprocess.PIPE, text=True
        )
        try:
            yield process
        finally:
            process.terminate()
            process.communicate(timeout=SOON_S)

    def save(self, name: str, text: str) -> None:
        (self._folder / name).write_text(text)

    def _here(self, command: str) -> str:
        said = re.sub(r"\bmosquitto_(pub|sub)\b", rf"mosquitto_\1 -p {self._port}", command)
        said = re.sub(r"\bmosquitto(?= -p)", str(PROGRAM), said)
        return said.replace(".venv/bin/python", sys.executable)


@needs_mosquitto
@pytest.mark.skipif(shutil.which("mosquitto_pub") is None, reason="needs the Debian package mosquitto-clients")
def test_the_tutorial_ends_with_the_readers_own_sensor_on_the_map(tmp_path: Path) -> None:
    chromium()
    reader = Reader(tmp_path)
    with reader.running(reader.block("sh", "mosquitto -p")), serving(tmp_path / "my-sensor-data") as url:
        with browsing() as browser, visiting(browser, url) as visitor:
            describe_the_sensors(reader, visitor)
            send_messages(reader, visitor)
            reader.save("my_sensor.py", reader.block("python", "import json"))
            with reader.running(reader.block("sh", ".venv/bin/python my_sensor.py")):
                give_the_sensor_its_place(visitor)
                see_it_on_the_map(visitor)
                keep_an_alarm(reader, visitor)
                tell_the_others(reader, visitor)
            run_in_ask(visitor, reader.block("sql", "DROP TABLE"))


def run_in_ask(visitor: Visitor, sql: str) -> None:
    visitor.go("ask")
    visitor.write(sql)
    visitor.button("Run")
    expect(visitor.page.get_by_text(re.compile("^Done: "))).to_be_visible()


def describe_the_sensors(reader: Reader, visitor: Visitor) -> None:
    visitor.go()
    visitor.page.get_by_role("link", name="Ask", exact=True).click()
    run_in_ask(visitor, reader.block("sql", "CREATE STREAM TYPE"))


def send_messages(reader: Reader, visitor: Visitor) -> None:
    until_the_broker_is_found(visitor)
    reader.run(reader.block("sh", CALM))
    visitor.go()
    for machine in ("press", "lathe"):
        visitor.point(machine)


def until_the_broker_is_found(visitor: Visitor) -> None:
    """A message for a subscription that does not exist yet is nobody's, and the reader has hardly typed it by then."""
    visitor.go("ask")
    visitor.write("SHOW INPUTS")
    state = visitor.page.locator(".list tbody tr", has_text="machines")
    while True:
        visitor.button("Run")
        expect(state).to_be_visible()
        if "connected" in state.inner_text():
            return
        visitor.page.wait_for_timeout(200)


def give_the_sensor_its_place(visitor: Visitor) -> None:
    visitor.go("sensors")
    visitor.page.get_by_role("cell", name="machines", exact=True).click()
    mine = visitor.page.locator(".list tbody tr", has=visitor.page.get_by_role("cell", name="mine", exact=True))
    expect(mine).to_contain_text("live")
    expect(mine.locator(".spark polyline[points]")).to_be_attached()
    mine.click()
    for label, value in {"hall (TEXT)": "my desk", "x (DOUBLE)": "20", "y (DOUBLE)": "18"}.items():
        visitor.page.get_by_label(label).fill(value)
    visitor.button("Save")
    expect(mine).to_contain_text("my desk")


def keep_an_alarm(reader: Reader, visitor: Visitor) -> None:
    visitor.go("ask")
    visitor.write(reader.block("sql", "SELECT machine, free_gb, ts"))
    visitor.button("Keep as a standing query")
    visitor.page.get_by_label("Name", exact=True).fill("disk_alarm")
    visitor.button("Keep")
    expect(visitor.page.get_by_role("heading", name="disk_alarm", level=1)).to_be_visible()
    expect(visitor.page.locator(".chip", has_text="RUNNING")).to_be_visible()
    reader.run(reader.block("sh", ALARM))
    found = visitor.page.locator(".tile", has_text="Rows found").locator(".value")
    expect(found).to_have_text("1")
    visitor.go()
    expect(visitor.page.get_by_text("disk_alarm: press, free_gb 0.4")).to_be_visible()


def see_it_on_the_map(visitor: Visitor) -> None:
    visitor.go()
    visitor.point("mine", "live")
    visitor.screenshots("tutorial-map")
    x, y = visitor.point("mine", "live")
    visitor.page.mouse.move(x, y)
    expect(visitor.page.get_by_text(re.compile(r"mine · my desk: load = [\d.]+, live"))).to_be_visible()
    visitor.picture("tutorial-map", height=660)
    visitor.page.mouse.click(x, y)
    expect(visitor.page.get_by_role("heading", name="machines mine")).to_be_visible()


def tell_the_others(reader: Reader, visitor: Visitor) -> None:
    run_in_ask(visitor, reader.block("sql", "CREATE SINK"))
    with reader.running(reader.block("sh", "mosquitto_sub")) as listening:
        assert listening.stdout is not None
        told = json.loads(listening.stdout.readline())
        assert [(row["machine"], row["free_gb"]) for row in told["rows"]] == [("press", 0.4)]
        reader.run(reader.block("sh", ALARM))
        while len(told["rows"]) == 1:
            told = json.loads(listening.stdout.readline())
        assert [(row["machine"], row["free_gb"]) for row in told["rows"]] == [("press", 0.4)] * 2
