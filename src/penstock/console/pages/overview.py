"""Overview: how fast, how far behind, what alarms, and every sensor where it stands; before there is a table, the first steps."""

from __future__ import annotations

from collections import Counter
from typing import Any

from nicegui import events, ui
from starlette.requests import Request

from penstock.clock import SECOND
from penstock.console.page import attempt, console, frame, go_to, href, link, refresh_every, tell
from penstock.console.server_status import STATES, Alarm, ServerStatus, TableFacts
from penstock.console.widgets.charts import map_options, redraw, timeline
from penstock.console.widgets.data_table import column, listing, show_rows
from penstock.console.widgets.parts import Tile, age, card, cell, code, empty, number
from penstock.errors import PenstockError
from penstock.sensors.demo_plant import DEFINITIONS, QUERIES, insert_statement

HISTORY_S, RECENT_S = 300, 5


async def show(request: Request) -> None:
    moment = await console().status_cache.current()
    with frame("Overview", "", request):
        if not moment.status["tables"]:
            _welcome()
            return
        view = _View()
    await refresh_every(1.0, view.refresh)


class _View:
    def __init__(self) -> None:
        self._table: str | None = None
        with ui.element("div").classes("tiles"):
            self._rate = Tile("Readings/s", href("sensors"))
            self._cycle = Tile("Cycle time", href("system"))
            self._lag = Tile("Behind", href("system"))
            self._queries = Tile("Standing queries", href("queries"))
            self._sensors = Tile("Sensors", href("sensors"))
            self._alarms = Tile("Alarms")
        with ui.element("div").classes("grid-2"):
            with card("Sensors") as head:
                with head:
                    self._choice = ui.select([]).props("dense outlined options-dense borderless")
                    self._choice.classes("fit-content").props('aria-label="Table"')
                self._map = ui.echart({}).classes("chart tall").props('aria-label="Map of sensors"')
                self._map.on_point_click(self._open_sensor)
                self._no_map = empty("")
            with ui.element("div").style("display: grid; gap: 16px; min-width: 0"):
                with card("Alarms") as head:
                    with head:
                        ui.label("queries with “alarm” in their name").classes("muted small wide")
                    columns = [column("what", "", sortable=False), column("when", "", right=True, sortable=False)]
                    self._alarm_list = listing(columns, "id", 8).classes("wraps").props("hide-header")
                    self._no_alarm = empty("Nothing alarms.")
                with card("Readings per second"):
                    self._flow = ui.echart(timeline([("readings/s", [])])).classes("chart low")

    def _open_sensor(self, event: events.EChartPointClickEventArguments) -> None:
        if self._table is not None:
            go_to("sensors", self._table, sensor=str(event.name))

    async def refresh(self) -> None:
        moment = await console().status_cache.current()
        self._fill_tiles(moment)
        self._fill_map(moment)
        alarms = [row for alarm in moment.alarms for row in _alarm_rows(alarm, moment.now_us)]
        show_rows(self._alarm_list, alarms, self._no_alarm)
        redraw(self._flow, timeline([("readings/s", rate_line(moment.cycles, moment.now_us))]))

    def _fill_tiles(self, moment: ServerStatus) -> None:
        facts = moment.status
        ready = facts["ready"]
        total = sum(s["rows_per_s"] for s in facts["streams"].values())
        recent = recent_rate(moment.cycles, moment.now_us)
        self._rate.set(number(recent), more=f"{number(total)}/s over a minute")
        p50, p99 = facts["cycle_ms_p50"], facts["cycle_ms_p99"]
        self._cycle.set(number(p50), "ms", f"p99 {number(p99)} ms")
        behind = facts["rows_behind"]
        waiting = "the pipeline is being restarted" if not ready else "not yet in a cycle"
        self._lag.set(number(behind), "rows", waiting, "" if ready else "bad")
        failed = len(moment.failed)
        more = f"{failed} failing" if failed else "all well"
        self._queries.set(number(facts["queries"]), more=more, mood="bad" if failed else "")
        counts = Counter(sensor.state for table in moment.tables for sensor in table.sensors)
        known = sum(table.count for table in moment.tables)
        trouble = ", ".join(f"{counts[s]} {s}" for s in STATES if counts[s] and s != "live")
        mood: Any = "bad" if counts["failing"] else "warn" if counts["silent"] else ""
        self._sensors.set(number(known), more=trouble or "all live", mood=mood)
        alarming = sum(a.count for a in moment.alarms)
        names = ", ".join(a.query for a in moment.alarms if a.count) or "nothing alarms"
        self._alarms.set(number(alarming), "rows" if alarming else "", names, "bad" if alarming else "")

    def _fill_map(self, moment: ServerStatus) -> None:
        placed = {t.name: t for t in moment.tables if any(s.place for s in t.sensors)}
        if list(placed) != self._choice.options:
            self._choice.set_options(list(placed), value=next(iter(placed), None))
        self._choice.set_visibility(len(placed) > 1)
        self._table = self._choice.value if self._choice.value in placed else next(iter(placed), None)
        table: TableFacts | None = placed.get(self._table or "")
        self._map.set_visibility(table is not None)
        self._no_map.set_visibility(table is None)
        if table is None:
            self._no_map.set_text("Give a table numeric columns x and y, or lat and lon, and its sensors stand here.")
            return
        redraw(self._map, map_options(table, table.shown_field, moment.now_us))


def _alarm_rows(alarm: Alarm, now_us: int) -> list[dict[str, Any]]:
    """The newest row of each thing that alarms: rows that differ in numbers and time only are the same thing."""
    newest: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in alarm.rows:
        what = tuple(v for v in row.values() if isinstance(v, str)) or (alarm.query,)
        newest.setdefault(what, row)
    return [
        {
            "id": f"{alarm.query} {place}",
            "what": f"{alarm.query}: " + ", ".join(_said(n, v) for n, v in row.items() if n != "ts"),
            "when": age(int(row["ts"].timestamp() * SECOND) if row.get("ts") is not None else None, now_us),
        }
        for place, row in enumerate(newest.values())
    ]


def _said(name: str, value: Any) -> str:
    return value if isinstance(value, str) else f"{name} {number(value) if isinstance(value, float) else cell(value)}"


def rate_line(cycles: list[dict[str, Any]], now_us: int) -> list[tuple[float, float | None]]:
    """Readings per second over the last minutes, a point for every second that had a cycle."""
    by_second: Counter[int] = Counter()
    for each in cycles:
        by_second[each["now"] // SECOND] += each["rows"]
    now = now_us // SECOND
    return [(s * 1000.0, float(by_second[s])) for s in sorted(by_second) if now - HISTORY_S <= s < now]


def recent_rate(cycles: list[dict[str, Any]], now_us: int) -> float:
    """Over the last few whole seconds."""
    since = now_us // SECOND - RECENT_S
    return sum(v or 0 for at, v in rate_line(cycles, now_us) if at / 1000 >= since) / RECENT_S


CREATE = """CREATE TABLE probes (
  probe_id INT PRIMARY KEY,
  room TEXT,
  reading STREAM (ppm DOUBLE)
);
INSERT INTO probes (probe_id, room) VALUES
  (1, 'cellar'), (2, 'attic');"""
PUSH = """curl http://127.0.0.1:%d/v1/tables/probes/readings \\
  -H 'Content-Type: application/json' \\
  -d '[{"probe_id": 1, "ppm": 38.0}]'"""
KEEP = """SELECT room, ppm, ts FROM probes
WHERE ppm > 35
BEGIN (NOW - 10 MINUTES) END (NOW)"""


def _welcome() -> None:
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
            code(PUSH % console().context.settings.port, wrap=True)
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
