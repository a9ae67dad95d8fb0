"""Sensors: every sensor table with what it takes in, and the dialog for a new one: a form, or the SQL that it writes."""

from __future__ import annotations

from typing import Any

from nicegui import ui
from starlette.requests import Request

from penstock.console.page import console, frame, go_to, path_to, refresh_every
from penstock.console.server_status import ServerStatus
from penstock.console.widgets.data_table import column, counted, listing, said, show_rows
from penstock.console.widgets.parts import age, card, code, empty, number
from penstock.errors import PenstockError, error
from penstock.server.routes.queries import quoted

_COLUMNS = [
    column("name", "table"),
    column("sensors", right=True, by=True),
    column("state", "", sortable=False),
    column("rate", "per second", right=True, by=True),
    column("stored", right=True, wide=True, by=True),
    column("refused", right=True, by=True),
    column("late", right=True, wide=True, by=True),
    column("last", "last reading", right=True, wide=True, by=True),
    column("how", "read by", wide=True),
    column("kept", "kept for", wide=True),
]


async def show(request: Request) -> None:
    with frame("Sensors", "sensors", request) as head:
        dialog = NewTableDialog()
        with head:
            ui.button("Add a table", icon="add", on_click=dialog.open).props("unelevated").classes("main-action")
        with card("Tables"):
            tables = listing(_COLUMNS, "name", opens=lambda name: go_to("sensors", name))
            nothing = empty("No sensor table yet. Add one, or start the demo on the overview.")

    async def refresh() -> None:
        moment = await console().status_cache.current()
        rows = [_row(table, moment) for table in console().database.tables() if table["stream"]]
        show_rows(tables, rows, nothing)

    await refresh_every(1.0, refresh)


def _row(table: dict[str, Any], moment: ServerStatus) -> dict[str, Any]:
    counts = moment.status["streams"].get(table["name"], {})
    facts = next((t for t in moment.tables if t.name == table["name"]), None)
    newest = max((s.last_us or 0 for s in facts.sensors), default=0) if facts is not None else 0
    rate = counts.get("rows_per_s", 0.0)
    states = facts.counted() if facts is not None else {}
    worst = next((s for s in ("failing", "silent", "off") if states.get(s)), "live")
    return {
        "name": table["name"],
        "href": path_to("sensors", table["name"]),
        **counted("sensors", facts.count if facts is not None else 0),
        "state": worst if facts is not None and facts.sensors else "off",
        **said("rate", number(rate), rate),
        **counted("stored", counts.get("accepted", 0)),
        **counted("refused", sum(counts.get("refused", {}).values())),
        **counted("late", counts.get("late", 0)),
        **said("last", age(newest or None, moment.now_us), newest),
        "how": table["stream"]["connector"] or "pushed",
        "kept": table["options"]["retention"] or "ever",
    }


TYPES = ["DOUBLE", "INT", "BIGINT", "TEXT", "BOOLEAN", "TIMESTAMP"]
RETENTIONS = {"": "for ever", "1 HOUR": "1 hour", "1 DAY": "1 day", "7 DAYS": "7 days", "30 DAYS": "30 days"}


class _Field:
    """One line of the form: a column's name and type."""

    def __init__(self, form: NewTableDialog, name: str, kind: str) -> None:
        with ui.element("div").classes("row-line").style("flex-wrap: nowrap") as self.line:
            self.name = ui.input("Name", value=name, on_change=form.write).props("outlined dense")
            self.kind = ui.select(TYPES, value=kind, on_change=form.write).props('outlined dense aria-label="Type"')
            remove = ui.button(icon="close", on_click=lambda: form.remove(self)).props("flat dense round")
            remove.props('aria-label="Remove"').classes("quiet")

    def sql(self) -> str | None:
        name = str(self.name.value or "").strip()
        return f"{_name(name)} {self.kind.value}" if name else None


class NewTableDialog:
    """`open` shows it; a table that was made is shown on its own page."""

    def __init__(self) -> None:
        with ui.dialog() as self._dialog, ui.card():
            ui.html("<h2>Add a sensor table</h2>", sanitize=False)
            self._name = ui.input("Table", value="", on_change=self.write).props("outlined dense autofocus")
            with ui.element("div").classes("row-line").style("flex-wrap: nowrap"):
                self._key = ui.input("Key of a sensor", value="sensor_id", on_change=self.write).props("outlined dense")
                self._key_type = ui.select(["INT", "BIGINT", "TEXT"], value="TEXT", on_change=self.write)
                self._key_type.props('outlined dense aria-label="Type of the key"')
            ui.label("What is fixed about a sensor; x and y, or lat and lon, put it on the map").classes("muted small")
            self._static_box = ui.element("div").style("display: grid; gap: 8px")
            ui.label("What a reading has").classes("muted small")
            self._reading_box = ui.element("div").style("display: grid; gap: 8px")
            self._kept = ui.select(RETENTIONS, value="", label="Keep readings", on_change=self.write)
            self._kept.props("outlined dense")
            self._sql = ui.element("div")
            self._wrong = ui.label("").classes("complaint").props("role=alert")
            self._wrong.set_visibility(False)
            with ui.element("div").classes("row-line").style("justify-content: flex-end"):
                ui.button("Edit as SQL", on_click=lambda: go_to("ask", sql=self.sql())).props("flat").classes("quiet")
                ui.button("Cancel", on_click=self._dialog.close).props("flat").classes("quiet")
                ui.button("Create", on_click=self._create).props("unelevated").classes("main-action")
        self._static: list[_Field] = []
        self._reading: list[_Field] = []
        self._fill(self._static_box, self._static, "location", "TEXT")
        self._fill(self._reading_box, self._reading, "value", "DOUBLE")
        self.write()

    def _fill(self, box: ui.element, fields: list[_Field], name: str, kind: str) -> None:
        """A first line, and the button for more."""
        with box:
            fields.append(_Field(self, name, kind))
            button = ui.button("Column", icon="add").props("flat dense align=left").classes("quiet")

        def add() -> None:
            with box:
                fields.append(_Field(self, "", "DOUBLE"))
            button.move(box)
            self.write()

        button.on_click(add)

    def open(self) -> None:
        self._dialog.open()

    def remove(self, field: _Field) -> None:
        for fields in (self._static, self._reading):
            if field in fields:
                fields.remove(field)
        field.line.delete()
        self.write()

    def write(self) -> None:
        """The statement below the form follows it."""
        if not hasattr(self, "_reading"):
            return
        self._sql.clear()
        with self._sql:
            code(self.sql(), wrap=True)

    def sql(self) -> str:
        static = [s for f in self._static if (s := f.sql())]
        reading = ", ".join(s for f in self._reading if (s := f.sql()))
        lines = [f"{_name(str(self._key.value or ''))} {self._key_type.value} PRIMARY KEY", *static]
        lines.append(f"reading STREAM ({reading})")
        kept = f" WITH (retention = '{self._kept.value}')" if self._kept.value else ""
        return f"CREATE TABLE {_name(str(self._name.value or ''))} (\n  " + ",\n  ".join(lines) + f"\n){kept}"

    async def _create(self) -> None:
        try:
            if not str(self._name.value or "").strip():
                raise error("invalid_parameter", detail="a table needs a name")
            await console().execute(self.sql())
        except PenstockError as problem:
            self._wrong.set_text(problem.message + (f" Hint: {problem.hint}" if problem.hint else ""))
            self._wrong.set_visibility(True)
            return
        self._dialog.close()
        go_to("sensors", str(self._name.value).strip())


def _name(name: str) -> str:
    """As typed where SQL reads it so, else in quotes."""
    name = name.strip()
    return name if name.isidentifier() and name == name.lower() else quoted(name)
