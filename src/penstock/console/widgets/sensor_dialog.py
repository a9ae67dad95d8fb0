"""One sensor: its live line and last reading, and its static values to change; or a new one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from html import escape
from typing import Any

from nicegui import ui

from penstock.console.formats import NOTHING, age, cell, number
from penstock.console.page_context import attempt, console
from penstock.console.sensor_facts import SensorFacts
from penstock.console.widgets.charts import redraw, timeline
from penstock.console.widgets.parts import facts_html
from penstock.server.routes.queries import quoted


class SensorDialog:
    """Opened for one sensor after the other; while open it follows the sensor."""

    def __init__(self, table: dict[str, Any], changed: Callable[[], Awaitable[None]]) -> None:
        self._table = table
        self._changed = changed
        self._name: str = table["name"]
        self._columns = [(c.name, str(c.type)) for c in console().database.catalog_table(self._name).columns]
        stream = table["stream"]
        # Where a sensor is, for kinds that the server connects to.
        self._address: str | None = stream["name"] if stream and stream["connector"] else None
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

    def edit(self, sensor: SensorFacts) -> None:
        self._sensor = sensor
        self._title.set_content(f"<h2>{escape(self._name)} {escape(sensor.name)}</h2>")
        self._live.set_visibility(True)
        self._remove.set_visibility(True)
        self._fill_form(sensor.static, locked=set(self._table["key"]), address=sensor.address)
        self.follow(sensor, None)
        self._dialog.open()

    def add(self) -> None:
        self._sensor = None
        self._title.set_content(f"<h2>Add a sensor to {escape(self._name)}</h2>")
        self._live.set_visibility(False)
        self._remove.set_visibility(False)
        self._fill_form({}, locked=set(), address=None)
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

    def _fill_form(self, values: dict[str, Any], locked: set[str], address: str | None) -> None:
        self._form.clear()
        self._inputs = {}
        with self._form:
            for name, kind in self._columns:
                value = values.get(name)
                field = ui.input(f"{name} ({kind})", value="" if value is None else str(value)).props("outlined dense")
                if name in locked:
                    field.props("readonly")
                self._inputs[name] = field
            if self._address is not None:
                field = ui.input(f"{self._address} (address)", value=address or "").props("outlined dense")
                self._inputs[self._address] = field

    async def _save(self) -> None:
        kinds = dict(self._columns)
        given = {n: _typed(str(f.value or ""), kinds.get(n, "TEXT")) for n, f in self._inputs.items()}
        if self._sensor is None:
            names = ", ".join(quoted(n) for n in given)
            places = ", ".join(f"${i + 1}" for i in range(len(given)))
            done = await attempt(
                f"INSERT INTO {quoted(self._name)} ({names}) VALUES ({places})", list(given.values()), "Added."
            )
        else:
            known = {**self._sensor.static, **({self._address: self._sensor.address} if self._address else {})}
            changed = {n: v for n, v in given.items() if v != known.get(n) and n not in self._table["key"]}
            if not changed:
                self._dialog.close()
                return
            sets = ", ".join(f"{quoted(n)} = ${i + 1}" for i, n in enumerate(changed))
            where, keys = self._where(len(changed))
            done = await attempt(
                f"UPDATE {quoted(self._name)} SET {sets} WHERE {where}", [*changed.values(), *keys], "Saved."
            )
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


def _typed(text: str, kind: str) -> Any:
    """What was typed, as its column has it; what does not fit stays text, and the database says so."""
    text = text.strip()
    if not text:
        return None
    try:
        if kind in ("INT", "BIGINT"):
            return int(text)
        if kind == "DOUBLE":
            return float(text)
    except ValueError:
        return text
    if kind == "BOOLEAN" and text.lower() in ("true", "false"):
        return text.lower() == "true"
    return text
