"""The page of apps/hazmat: a box with Cs-137 turns from measuring to alarm, with what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import expect

from tests.browser.browser import ROOT, browsing, chromium

PICTURES = os.environ.get("PENSTOCK_PICTURES")


def test_a_box_of_caesium_turns_to_alarm_with_the_right_action(tmp_path: Path) -> None:
    chromium()
    command = [sys.executable, "-m", "tests.browser.hazmat_page", str(tmp_path)]
    # NiceGUI would take the process for a test of its own.
    outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    environment = {**outside, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment)
    try:
        assert server.stdout is not None
        url = next(line for line in server.stdout if "the page is" in line).split()[-1]
        with browsing() as browser:
            page = browser.new_page(viewport={"width": 1280, "height": 1180})
            page.goto(url)
            body = page.locator("body")
            expect(body).to_contain_text("Not a certified instrument", timeout=60_000)
            expect(body).to_contain_text("box 2: measuring", timeout=60_000)
            expect(body).to_contain_text("box 1: safe")
            (tmp_path / "go").touch()
            expect(body).to_contain_text("box 2: ALARM, Cs-137", timeout=60_000)
            expect(body).to_contain_text(
                "What to do: stop the belt, keep 10 m away, call radiation protection; do not open: soluble"
            )
            for method in ("likelihood of all counts", "5 nearest spectra", "nearest centre", "decision tree"):
                row = page.get_by_role("row").filter(has_text=method)
                expect(row).to_contain_text("Cs-137")
            if PICTURES:
                page.screenshot(path=Path(PICTURES) / "hazmat.png")
            page.set_viewport_size({"width": 390, "height": 844})
            # Charts take their new size a moment later.
            page.wait_for_function("document.documentElement.scrollWidth <= 390", timeout=30_000)
    finally:
        server.terminate()
        server.communicate(timeout=30)
