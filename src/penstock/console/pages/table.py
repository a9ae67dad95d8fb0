"""One sensor table: each sensor with its trail, rate and counts, and a dialog with its live line and its static values to change."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from html import escape
from typing import Any, Literal
from urllib.parse import quote

import orjson
from nicegui import events, ui
from starlette.requests import Request

from penstock import __version__
from penstock.console.page import attempt, console, frame, go_to, href, notify, path_to, refresh_every
from penstock.console.server_status import SENSORS_MAX, SensorFacts, TableFacts, place_columns
from penstock.console.widgets.charts import redraw, timeline
from penstock.console.widgets.data_table import column, counted, find_box, listing, said, set_rows, spark_points
from penstock.console.widgets.parts import NOTHING, Tile, age, card, cell, empty, facts_html, number, sure_to_drop
from penstock.errors import PenstockError
from penstock.server.http.decode import ARROW, CSV, JSON, NDJSON, PARQUET
from penstock.server.routes.queries import quoted

SHOWN_COLUMNS = 4


async def show(request: Request, name: str, sensor: str = "") -> None:
    """The page; `sensor` opens one of them."""
    with frame(name, "sensors", request) as head:
        try:
            table = console().database.table(name)
        except PenstockError as problem:
            empty(problem.message)
            return
        view = _View(table, head)
    await refresh_every(1.0, view.refresh)
    if sensor:
        view.open(sensor)


class _View:
    def __init__(self, table: dict[str, Any], head: ui.element) -> None:
        self._table = table
        self._name = table["name"]
        self._sensors: dict[str, SensorFacts] = {}
        self._open: str | None = None
        self.dialog = SensorDialog(table, self._changed)
        with head:
            add = ui.button("Add a sensor", icon="add", on_click=lambda: self.dialog.open(None))
            add.props("unelevated").classes("main-action")
            upload_button(self._name, self._changed)
            ui.button("Drop", icon="delete", on_click=self._ask_drop).props("flat").classes("danger")
        with ui.element("div").classes("tiles"):
            self._count = Tile("Sensors")
            self._rate = Tile("Readings/s")
            self._refused = Tile("Refused")
            self._late = Tile("Late")
        with card("Sensors") as bar:
            with bar:
                search = find_box()
            self._list = listing(self._columns(), "name", opens=self.open).classes("dots")
            search.bind_value_to(self._list, "filter")
            self._none = empty("No sensors yet. Add one, or let the table discover them: WITH (discover = true).")
            self._many = empty(
                f"More than {SENSORS_MAX:,} sensors: ask for them, SELECT * FROM penstock.sensors WHERE table_name = ..."
            )
        with card("The highest now, two minutes back") as over:
            self._chart_card = over.parent_slot.parent if over.parent_slot is not None else over
            self._chart = ui.echart({}).classes("chart")
        with card("Definition"):
            ui.html(facts_html(_definition(table)), sanitize=False)

    def _columns(self) -> list[dict[str, Any]]:
        keys = self._table["key"]
        table = console().database.catalog_table(self._name)
        # Where a sensor stands is on the map, and in its dialog.
        apart = {*keys, *(place_columns(table) or ())}
        own = [c.name for c in table.columns if c.name not in apart][:SHOWN_COLUMNS]
        return [
            column("name", ", ".join(keys)),
            column("state"),
            *(column(f"static_{n}", n, wide=place > 0) for place, n in enumerate(own)),
            column("value", "latest", right=True, by=True),
            column("spark", "two minutes", sortable=False),
            column("rate", "per second", right=True, wide=True, by=True),
            column("refused", right=True, wide=True, by=True),
            column("late", right=True, wide=True, by=True),
            column("errors", right=True, wide=True, by=True),
            column("last", "last reading", right=True, wide=True, by=True),
        ]

    def open(self, name: str) -> None:
        if name in self._sensors:
            self._open = name
            self.dialog.open(self._sensors[name])

    async def _changed(self) -> None:
        console().status_cache.expire()
        await self.refresh()

    async def refresh(self) -> None:
        moment = await console().status_cache.current()
        found = next((t for t in moment.tables if t.name == self._name), None)
        if found is None:
            return
        counts = moment.status["streams"].get(self._name, {})
        states = found.counted()
        mood: Any = "bad" if states["failing"] else ""
        self._count.set(number(found.count), more=", ".join(f"{n} {s}" for s, n in states.items() if n), mood=mood)
        self._rate.set(number(counts.get("rows_per_s", 0.0)), more=f"{number(counts.get('accepted', 0))} stored")
        refused = counts.get("refused", {})
        reasons = ", ".join(f"{n} {c}" for c, n in refused.items())
        self._refused.set(number(sum(refused.values())), more=reasons or "none", mood="warn" if refused else "")
        repeats = counts.get("deduplicated", 0)
        told = "stored all the same" if not repeats else f"stored; {number(repeats)} repeats dropped"
        self._late.set(number(counts.get("late", 0)), more=told)
        self._sensors = {s.name: s for s in found.sensors}
        self._many.set_visibility(found.count > SENSORS_MAX)
        self._none.set_visibility(not found.count)
        self._list.set_visibility(0 < found.count <= SENSORS_MAX)
        set_rows(self._list, [_row(s, found, moment.now_us) for s in found.sensors])
        self._fill_chart(found)
        if self._open in self._sensors:
            self.dialog.follow(self._sensors[self._open], found.shown_field)

    def _fill_chart(self, found: TableFacts) -> None:
        """The sensors with the highest values now: those one looks for."""
        lines = sorted((s for s in found.sensors if s.trail), key=lambda s: -s.trail[-1][1])[:8]
        self._chart_card.set_visibility(bool(lines))
        names = [f"{s.name} {s.label}" if s.label else s.name for s in lines]
        series = [(n, [(at * 1000.0, v) for at, v in s.trail]) for n, s in zip(names, lines, strict=True)]
        redraw(self._chart, timeline(series, found.shown_field or ""))

    async def _ask_drop(self) -> None:
        gone = "Its sensors, its readings and the standing queries that read it are gone for good."
        if await sure_to_drop("table", gone) and await attempt(f"DROP TABLE {quoted(self._name)} CASCADE") is not None:
            go_to("sensors")


def _row(sensor: SensorFacts, table: TableFacts, now_us: int) -> dict[str, Any]:
    value = sensor.values.get(table.shown_field) if table.shown_field else next(iter(sensor.values.values()), None)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        value = str(cell(value))
    return {
        "name": sensor.name,
        "href": path_to("sensors", table.name, sensor=sensor.name),
        "state": sensor.state,
        **{f"static_{n}": cell(v) for n, v in sensor.static.items()},
        **said("value", value if isinstance(value, str) else number(value), value),
        "spark": spark_points(sensor.trail),
        **said("rate", number(sensor.rate), sensor.rate),
        **said("last", age(sensor.last_us, now_us), sensor.last_us),
        **counted("refused", sensor.counts["refused"]),
        **counted("late", sensor.counts["late"]),
        **counted("errors", sensor.counts["errors"]),
    }


def _definition(table: dict[str, Any]) -> list[tuple[str, str]]:
    stream, options = table["stream"], table["options"]
    return [
        ("key", ", ".join(table["key"])),
        ("columns", ", ".join(f"{c['name']} {c['type']}" for c in table["columns"])),
        *([("read by", stream["connector"] or "no connector: readings are pushed")] if stream else []),
        ("time", "the sensors' own" if options["time"] == "valid" else "when a reading comes in"),
        ("out of order", options["out_of_order"]),
        ("kept for", options["retention"] or "ever"),
        *([("lateness", options["lateness"])] if options["lateness"] else []),
    ]


_KINDS = {".csv": CSV, ".parquet": PARQUET, ".json": JSON, ".ndjson": NDJSON, ".jsonl": NDJSON, ".arrow": ARROW}
_EVENT = "penstock_uploaded"


def upload_button(table: str, changed: Callable[[], Awaitable[None]]) -> None:
    """A button that asks for a file, and says how many of its readings were stored."""
    ui.add_head_html(f'<script src="{href("assets/uploading.js")}?{__version__}"></script>')
    button = ui.button("Upload", icon="upload_file").props("flat").classes("quiet")
    button.tooltip("Readings from a file: " + ", ".join(_KINDS))
    arguments = orjson.dumps([f"/v1/tables/{quote(table, safe='')}/readings", _KINDS, _EVENT]).decode()
    button.on("click", js_handler=f"() => window.penstockUpload(...{arguments})")

    async def tell(event: events.GenericEventArguments) -> None:
        notify(*_said(event.args))
        await changed()

    ui.on(_EVENT, tell)


def _said(found: dict[str, Any]) -> tuple[str, Literal["positive", "warning", "negative"]]:
    problem = found.get("error")
    if isinstance(problem, dict):
        hint = f" Hint: {problem['hint']}." if problem.get("hint") else ""
        return f"Nothing was stored: {problem.get('message')}.{hint}", "negative"
    count = found["accepted"]
    stored = f"{count:,} reading{'' if count == 1 else 's'} stored"
    first = found.get("first")
    if not isinstance(first, dict):
        return f"{stored}.", "positive"
    why = f"the first of them, number {first['index'] + 1}, because: {first['message']}"
    return f"{stored}, {found.get('refused'):,} refused, {why}.", "warning"


class SensorDialog:
    """Opened for one sensor after the other; while open it follows the sensor."""

    def __init__(self, table: dict[str, Any], changed: Callable[[], Awaitable[None]]) -> None:
        self._table = table
        self._changed = changed
        self._name: str = table["name"]
        self._columns = [(c.name, str(c.type)) for c in console().database.catalog_table(self._name).columns]
        stream = table["stream"]
        self._address: str = stream["name"] if stream else ""
        if stream and stream["connector"]:  # where a sensor is, for kinds that the server connects to
            self._columns.append((self._address, "address"))
        self._sensor: SensorFacts | None = None
        self._inputs: dict[str, ui.input] = {}
        with ui.dialog() as self._dialog, ui.card():
            self._title = ui.html("", sanitize=False)
            self._live = ui.element("div").style("display: grid; gap: 10px")
            with self._live:
                self._chart = ui.echart({}).classes("chart low")
                self._facts = ui.html("", sanitize=False)
            self._form = ui.element("div").style("display: grid; gap: 10px")
            with ui.element("div").classes("row-line"):
                self._remove = ui.button("Remove", icon="delete", on_click=self._delete).props("flat").classes("danger")
                ui.element("div").classes("grow")
                ui.button("Close", on_click=self._dialog.close).props("flat").classes("quiet")
                ui.button("Save", on_click=self._save).props("unelevated").classes("main-action")

    def open(self, sensor: SensorFacts | None) -> None:
        """For a sensor, or for a new one."""
        self._sensor = sensor
        title = f"Add a sensor to {self._name}" if sensor is None else f"{self._name} {sensor.name}"
        self._title.set_content(f"<h2>{escape(title)}</h2>")
        self._live.set_visibility(sensor is not None)
        self._remove.set_visibility(sensor is not None)
        self._fill_form()
        if sensor is not None:
            self.follow(sensor, None)
        self._dialog.open()

    def follow(self, sensor: SensorFacts, field: str | None) -> None:
        """What it says now."""
        if self._sensor is None or sensor.name != self._sensor.name:
            return
        now_us = console().database.clock.now_us()
        self._chart.set_visibility(len(sensor.trail) > 1)
        line = (field or "value", [(s * 1000.0, v) for s, v in sensor.trail])
        redraw(self._chart, timeline([line], field or ""))
        said = ", ".join(f"{n} {cell(v)}" for n, v in sensor.values.items()) or NOTHING
        rows = [
            ("state", f"{sensor.state} ({sensor.says})"),
            ("last reading", f"{said}, {age(sensor.last_us, now_us)}"),
            ("rate", f"{number(sensor.rate)} per second"),
            ("counts", ", ".join(f"{n} {c:,}" for n, c in sensor.counts.items() if c or n == "readings")),
        ]
        if sensor.last_error:
            rows.append(("last error", sensor.last_error))
        self._facts.set_content(facts_html(rows))

    def _known(self) -> dict[str, Any]:
        """The static values and the address of the sensor, as they are now."""
        return {} if self._sensor is None else {**self._sensor.static, self._address: self._sensor.address}

    def _fill_form(self) -> None:
        self._form.clear()
        known = self._known()
        with self._form:
            for name, kind in self._columns:
                value = known.get(name)
                field = ui.input(f"{name} ({kind})", value="" if value is None else str(value)).props("outlined dense")
                if self._sensor is not None and name in self._table["key"]:
                    field.props("readonly")
                self._inputs[name] = field

    async def _save(self) -> None:
        given = {name: _typed(str(self._inputs[name].value or ""), kind) for name, kind in self._columns}
        if self._sensor is None:
            names = ", ".join(quoted(n) for n in given)
            places = ", ".join(f"${i + 1}" for i in range(len(given)))
            insert = f"INSERT INTO {quoted(self._name)} ({names}) VALUES ({places})"
            done = await attempt(insert, list(given.values()), "Added.")
        else:
            known = self._known()
            changed = {n: v for n, v in given.items() if v != known.get(n) and n not in self._table["key"]}
            if not changed:
                self._dialog.close()
                return
            sets = ", ".join(f"{quoted(n)} = ${i + 1}" for i, n in enumerate(changed))
            where, keys = self._where(len(changed))
            update = f"UPDATE {quoted(self._name)} SET {sets} WHERE {where}"
            done = await attempt(update, [*changed.values(), *keys], "Saved.")
        if done is not None:
            await self._finish()

    async def _finish(self) -> None:
        """What is below shows the change before it is seen."""
        await self._changed()
        self._dialog.close()

    def _where(self, before: int) -> tuple[str, list[Any]]:
        assert self._sensor is not None
        key = self._sensor.key
        terms = " AND ".join(f"{quoted(n)} = ${before + i + 1}" for i, n in enumerate(key))
        return terms, list(key.values())

    async def _delete(self) -> None:
        where, keys = self._where(0)
        if await attempt(f"DELETE FROM {quoted(self._name)} WHERE {where}", keys, "Removed.") is not None:
            await self._finish()


_READ: dict[str, Callable[[str], Any]] = {
    "INT": int,
    "BIGINT": int,
    "DOUBLE": float,
    "BOOLEAN": lambda text: {"true": True, "false": False}[text.lower()],
}


def _typed(text: str, kind: str) -> Any:
    """What was typed, as its column has it; what does not fit stays text, and the database says so."""
    text = text.strip()
    try:
        return _READ.get(kind, str)(text) if text else None
    except (ValueError, KeyError):
        return text
