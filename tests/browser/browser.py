"""A server with the console in a process of its own, and a real Chromium that looks at it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page, Request, expect, sync_playwright
from playwright.sync_api import TimeoutError as PlaywrightTimeout

ROOT = Path(__file__).parents[2]
# Where pictures of every page go, for people who want to look at them; without it only widths are checked.
SCREENS = os.environ.get("PENSTOCK_SCREENS")
# Where the documentation's pictures go; `make screenshots` says so, other runs leave them as they are.
PICTURES = os.environ.get("PENSTOCK_PICTURES")
PICTURE_MAX_BYTES = 250_000
SCREENSHOT_TRIES = 4
WIDTHS = {"desk": (1280, 800), "phone": (390, 844)}
READY_WITHIN_S = 240
CHANGE_WITHIN_S = 120
# Where in the window a chart has a named point, of a named series if need be; and all that a chart draws.
_POINT = """
([box, name, state]) => {
  const chart = getElement(box)?.chart;
  for (const [index, series] of (chart?.getOption()?.series ?? []).entries())
    for (const point of series.data ?? [])
      if (point.name === name && (!state || series.name === state)) {
        const [x, y] = chart.convertToPixel({seriesIndex: index}, point.value.slice(0, 2));
        const at = box.getBoundingClientRect();
        return [at.x + x, at.y + y];
      }
  return null;
}
"""
_DRAWN = "box => (getElement(box)?.chart?.getOption()?.series ?? []).map(s => [s.name, s.data])"


def chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("needs Debian's chromium: apt install chromium")
    return found


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The address of a console; its server ends with the block."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    command = [sys.executable, "-m", "tests.browser.serve_local", str(port), str(folder)]
    with (folder.parent / "server.log").open("w+") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)
        try:
            url = f"http://127.0.0.1:{port}"
            until_open(url, lambda: _check(process, Path(log.name)))
            yield url
        finally:
            process.terminate()
            try:
                process.wait(120)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        said = Path(log.name).read_text()
        assert "Traceback" not in said, said


def _check(process: subprocess.Popen[bytes], log: Path) -> None:
    """A server whose console cannot be opened goes on without it."""
    said = log.read_text()
    assert process.poll() is None and "Traceback" not in said, said


def until_open(url: str, still_there: Callable[[], None] = lambda: None) -> None:
    """The console comes a moment after the server is ready; the page that waits for it is not what tests look at."""
    deadline = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < deadline:
        still_there()
        try:
            with urllib.request.urlopen(f"{url}/console/", timeout=30):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise AssertionError(f"no console at {url} within {READY_WITHIN_S} s")


class Visitor:
    """A person with a browser. `problems` is everything that the browser complained about."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.problems: list[str] = []
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        page.on("request", self._asked)
        page.set_default_timeout(120_000)

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(f"{message.type}: {message.text}")

    def _asked(self, request: Request) -> None:
        if not request.url.startswith((self.url, self.url.replace("http", "ws"), "data:", "blob:")):
            self.problems.append(f"asked the outside for {request.url}")

    def go(self, path: str = "") -> None:
        self.page.goto(f"{self.url}/console/{path}")
        self.page.locator("h1").wait_for()
        self.connected()

    def connected(self) -> None:
        """A click before the page has its socket is nobody's, and until then nothing on it can be focused."""
        self.page.wait_for_function("window.socket?.connected")
        self.page.wait_for_function("!document.querySelector('.frame[inert]')")

    def button(self, name: str) -> None:
        self.page.get_by_role("button", name=name, exact=True).click()

    def write(self, sql: str) -> None:
        """Into the SQL editor, instead of what is there."""
        # Its name comes with its completions: before that, what is typed would have none.
        editor = self.page.get_by_role("textbox", name="SQL")
        editor.click()
        self.page.keyboard.press("Control+a")
        # Typed as a whole: keys one by one would have completions come up between them.
        self.page.keyboard.insert_text(sql)

    def tile(self, name: str) -> Locator:
        """The figure of a tile."""
        return self.page.locator(".tile", has=self.page.get_by_text(name, exact=True)).locator(".value")

    def until(self, condition: Callable[[], bool]) -> None:
        """For what a page shows in a way that has no locator."""
        deadline = time.monotonic() + CHANGE_WITHIN_S
        while not condition():
            assert time.monotonic() < deadline, "nothing of the kind came"
            self.page.wait_for_timeout(50)

    def until_changed(self, look: Callable[[], object]) -> None:
        """It lives: what is seen now is something else soon."""
        before = look()
        self.until(lambda: look() != before)

    def drawn(self, chart: str = ".chart.tall") -> dict[str, Any]:
        """What a chart draws now, by the names of its lines."""
        return dict(self.page.eval_on_selector(chart, _DRAWN))

    def point(self, name: str, state: str = "") -> tuple[float, float]:
        """Where in the window the map has a sensor, once it is there and in that state."""
        arguments = [self.page.locator(".chart.tall").element_handle(), name, state]
        self.page.wait_for_function(_POINT, arg=arguments)
        x, y = self.page.evaluate(_POINT, arguments)
        return x, y

    def picture(self, name: str, height: int = 800) -> None:
        """For the documentation, where it is asked for: at a desk, light, as high as it has to be."""
        if PICTURES is None:
            return
        self.page.set_viewport_size({"width": 1280, "height": height})
        expect(self.page.locator(".q-notification")).to_have_count(0)
        self.page.wait_for_timeout(300)
        file = Path(PICTURES) / f"{name}.png"
        self._screenshot(file)
        assert file.stat().st_size <= PICTURE_MAX_BYTES, f"{file} is too large for the documentation"
        self.page.set_viewport_size({"width": 1280, "height": 800})

    def screenshots(self, name: str) -> None:
        """At both widths nothing may stick out; pictures in both themes where they are asked for."""
        for width, (x, y) in WIDTHS.items():
            if self.page.viewport_size != {"width": x, "height": y}:
                self.page.set_viewport_size({"width": x, "height": y})
                self.page.wait_for_timeout(150)  # charts follow the width
            if SCREENS is not None:
                self._both_themes(Path(SCREENS), f"{name}-{width}")
            beyond = self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
            assert beyond <= 0, f"{name} is {beyond} px too wide at {x} px"
        self.page.set_viewport_size({"width": 1280, "height": 800})
        self.page.emulate_media(color_scheme="light")

    def _both_themes(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for theme in ("light", "dark"):
            self.page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
            self.page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
            self._screenshot(folder / f"{name}-{theme}.png")

    def _screenshot(self, file: Path) -> None:
        """On a busy machine Chromium now and then waits for a frame that does not come after a change of size: asked again, it comes."""
        for _ in range(SCREENSHOT_TRIES - 1):
            try:
                self.page.screenshot(path=file, timeout=20_000)
                return
            except PlaywrightTimeout:
                self.page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        self.page.screenshot(path=file)


@contextmanager
def browsing() -> Iterator[Browser]:
    """A browser; its pages share nothing with each other."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def profile(browser: Browser) -> Iterator[BrowserContext]:
    """A memory for pages that follow each other: what they loaded is kept, as in a browser of a person."""
    # What moves is waited for at each click.
    context = browser.new_context(
        viewport={"width": 1280, "height": 800}, color_scheme="light", reduced_motion="reduce"
    )
    try:
        yield context
    finally:
        context.close()


@contextmanager
def first_visit(context: BrowserContext, url: str) -> Iterator[Visitor]:
    """A visitor with no cookie and nothing stored; no complaint of the browser is part of every visit."""
    page = context.new_page()
    visitor = Visitor(page, url)
    try:
        yield visitor
        assert visitor.problems == []
    finally:
        if page.url.startswith(url):
            page.evaluate("localStorage.clear()")
        page.close()
        context.clear_cookies()


@contextmanager
def visiting(browser: Browser, url: str) -> Iterator[Visitor]:
    """One visitor in a profile of their own."""
    with profile(browser) as context, first_visit(context, url) as visitor:
        yield visitor
