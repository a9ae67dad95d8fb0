"""The first visit, when there is no table yet: the demo with one click, or one's own sensors in three steps."""

from __future__ import annotations

from nicegui import ui

from penstock.console.layout import link
from penstock.console.page_context import attempt, console, tell
from penstock.console.widgets.parts import card, code
from penstock.errors import PenstockError
from penstock.sensors.demo_plant import DEFINITIONS, QUERIES, insert_statement

CREATE = """CREATE TABLE probes (
  probe_id INT PRIMARY KEY,
  room TEXT,
  reading STREAM (ppm DOUBLE)
);
INSERT INTO probes (probe_id, room) VALUES
  (1, 'cellar'), (2, 'attic');"""
KEEP = """SELECT room, ppm, ts FROM probes
WHERE ppm > 35
BEGIN (NOW - 10 MINUTES) END (NOW)"""


def push_command(port: int) -> str:
    return (
        f"curl http://127.0.0.1:{port}/v1/tables/probes/readings \\\n"
        "  -H 'Content-Type: application/json' \\\n"
        '  -d \'[{"probe_id": 1, "ppm": 38.0}]\''
    )


def welcome() -> None:
    """Fills the page."""
    with card("Welcome to Penstock"):
        ui.label(
            "There are no sensors here yet. See it at work with a plant of 60 simulated gas probes,"
            " or connect your own in three steps."
        ).classes("muted")
        with ui.element("div").classes("row-line"):
            button = ui.button("Start the demo", icon="play_arrow").props("unelevated").classes("main-action")
            ui.label("60 probes, four standing queries; drop the table `probes` to be rid of it").classes("muted small")
        button.on_click(lambda: _start_demo(button))
    with ui.element("div").classes("steps"):
        with card("Describe your sensors"), _step(1):
            code(CREATE)
            link("Open it in Ask", "ask?example=create")
        with card("Send a reading"), _step(2):
            code(push_command(console().settings.port), wrap=True)
            ui.label("Or let Penstock read them: files, TCP, your own Python.").classes("muted small")
        with card("Keep a question"), _step(3):
            code(KEEP)
            link("Open it in Ask", "ask?example=keep")
            ui.label("Kept as a standing query its answer stays current.").classes("muted small")


def _step(number: int) -> ui.element:
    box = ui.element("div").classes("step")
    with box:
        ui.label(str(number)).classes("n")
    return box


async def _start_demo(button: ui.button) -> None:
    button.props("loading")
    try:
        if await attempt(DEFINITIONS) is None:
            return
        if not await console().look(console().database.sensors, "probes") and await attempt(insert_statement()) is None:
            return
        await attempt(QUERIES)
    except PenstockError as problem:
        tell(problem)
    finally:
        button.props(remove="loading")
    ui.navigate.reload()
