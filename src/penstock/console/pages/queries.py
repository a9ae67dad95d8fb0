"""Queries: every standing query with its state, what it finds and what it costs; and one of them, live.

The page of one query has its answer as chart and table, its window, its plan with rates, and what became of it.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

from nicegui import ui
from starlette.requests import Request

from penstock.catalog.model import QueryDefinition
from penstock.clock import format_timestamp
from penstock.console.page import attempt, console, frame, go_to, path_to, refresh_every
from penstock.console.server_status import look_at
from penstock.console.widgets.answer_view import POINTS_MAX, AnswerView
from penstock.console.widgets.data_table import column, counted, find_box, listing, said, set_rows
from penstock.console.widgets.parts import Tile, card, code, cycles, empty, facts_html, number, size, sure_to_drop
from penstock.console.widgets.plan_drawing import draw
from penstock.database.database import Database
from penstock.database.plan_graph import Flows, Passing, PlanGraph, plan_graph
from penstock.errors import PenstockError
from penstock.operators.base.view import view_of
from penstock.server.routes.queries import quoted
from penstock.sql.plan import plan_from_json
from penstock.statements.descriptions import changes_of_query, describe_query

# Describing all of ten thousand queries would hold up the cycle; beyond this the costliest are shown, or those found.
QUERIES_MAX = 200

_COLUMNS = [
    column("name"),
    column("state"),
    column("matched", "rows found", right=True, by=True),
    column("window", wide=True, sortable=False),
    column("runs", "runs as", wide=True),
    column("cost", "ms per cycle", right=True, wide=True, by=True),
    column("memory", right=True, wide=True, by=True),
    column("lag", right=True, by=True),
    column("owner", wide=True),
]


async def show_all(request: Request) -> None:
    with frame("Queries", "queries", request) as head:
        with head:
            new = ui.button("New query", icon="add", on_click=lambda: go_to("ask"))
            new.props("unelevated").classes("main-action")
        with card("Standing queries") as bar:
            with bar:
                told = ui.label("").classes("muted small")
                search = find_box()
            found = listing(_COLUMNS, "name", opens=lambda name: go_to("queries", name))
            nothing = empty("No standing query yet. Ask something and keep it.")

    async def refresh() -> None:
        rows, total = await console().look(_rows, console().database, str(search.value or "").lower())
        set_rows(found, rows)
        found.set_visibility(bool(total))
        nothing.set_visibility(not total)
        told.set_text(f"the {len(rows)} costliest of {total:,}" if len(rows) < total and not search.value else "")

    await refresh_every(1.0, refresh)


def _rows(database: Database, wanted: str) -> tuple[list[dict[str, Any]], int]:
    known = database.catalog.state.queries
    if wanted:
        names = [n for n in sorted(known) if wanted in n.lower()][:QUERIES_MAX]
    elif len(known) <= QUERIES_MAX:
        names = sorted(known)
    else:
        by_id = database.catalog.state.queries_by_id
        names = [by_id[q].name for q in database.costs.costliest(QUERIES_MAX) if q in by_id]
    definitions = [known[n] for n in names if n in known]
    return [_row(describe_query(database, d), _lag(database, d.id)) for d in definitions], len(known)


def _row(facts: dict[str, Any], lag: int) -> dict[str, Any]:
    cost = facts["ms"] / facts["evaluations"] if facts["evaluations"] else None
    return {
        "name": facts["name"],
        "state": facts["state"],
        "href": path_to("queries", facts["name"]),
        **counted("matched", _matched(facts)),
        "window": facts["window"],
        "runs": facts["runs"],
        **said("cost", number(cost), cost),
        **said("memory", size(facts["memory"]), facts["memory"]),
        **said("lag", f"{facts['progress']:.0%} read" if facts["state"] == "FILLING" else cycles(lag), lag),
        "owner": facts["owner"],
    }


def _matched(facts: dict[str, Any]) -> int:
    return int(facts["matched"] if facts["matched"] is not None else facts["rows"])


def _lag(database: Database, query_id: int) -> int:
    """How many cycles its answer is behind the newest one: none in the shared pass, some where Spark takes turns."""
    with database.standing.locked() as store:
        found = store.evaluations.stands_for(query_id)
        return max(0, store.cycle - found[0]) if found is not None else 0


LIVE_EVERY_S = 0.5


async def show_one(request: Request, name: str) -> None:
    with frame(name, "queries", request) as head:
        try:
            definition = console().database.definition(name)
        except PenstockError as problem:
            empty(problem.message)
            return
        view = _View(definition, head)
        await view.tell_changes()
    await refresh_every(LIVE_EVERY_S, view.refresh)


class _View:
    def __init__(self, definition: QueryDefinition, head: ui.element) -> None:
        self._name = definition.name
        self._seen: tuple[object, int | None] | None = None
        self._matched: tuple[float, int] | None = None
        self._found_rate = 0.0
        self._sql = definition.sql
        self._flows = Flows(console().database)
        with head:
            self._state = ui.label("STARTING").classes("chip STARTING")
            self._pause = ui.button("Pause", icon="pause", on_click=self._turn).props("flat").classes("quiet")
            ui.button("Drop", icon="delete", on_click=self._ask_drop).props("flat").classes("danger")
        with ui.element("div").classes("tiles"):
            self._rows = Tile("Rows in its window")
            self._found = Tile("Rows found")
            self._cost = Tile("Cost")
            self._memory = Tile("Memory")
            self._lag = Tile("Lag")
        self._failure = ui.label("").classes("complaint")
        with card("Answer") as bar:
            with bar:
                self._as_of = ui.label("").classes("muted small num")
            self._answer = AnswerView(chart_first=True, newest_first=True)
        with ui.element("div").classes("grid-even"):
            with card("Window"):
                self._window = WindowControl(definition, self._changed)
            with card("Question"):
                self._text = ui.element("div")
                self._about = ui.html("", sanitize=False)
                ask = ui.button("Open in Ask", icon="terminal", on_click=lambda: go_to("ask", sql=self._sql))
                ask.props("flat dense align=left").classes("quiet")
        with card("Plan"):
            self._plan = ui.html("", sanitize=False).classes("plan")
        with card("History"):
            self._history = ui.element("div").classes("facts")

    async def refresh(self) -> None:
        database = console().database
        definition = database.catalog.state.queries.get(self._name)
        if definition is None:
            self._failure.set_text("This query was dropped.")
            self._failure.set_visibility(True)
            return
        facts, graph, flows = await console().look(_describe, database, definition, self._flows)
        self._fill_facts(facts, definition)
        self._fill_plan(graph, facts, flows)
        try:
            seen = await console().look(look_at, database, definition, POINTS_MAX)
        except PenstockError as problem:
            self._as_of.set_text(problem.message)
            return
        if seen is not None and self._seen != (definition, seen.cycle):
            self._seen = (definition, seen.cycle)
            shown = "" if seen.rows.num_rows == seen.count else f", newest {seen.rows.num_rows:,} shown"
            self._rows.set(number(seen.count), more=f"of cycle {seen.cycle:,}{shown}")
            now = f", NOW {format_timestamp(seen.now_us)[11:19]} UTC" if seen.now_us is not None else ""
            self._as_of.set_text(f"cycle {seen.cycle:,}{now}")
            self._answer.show(seen.rows)

    def _fill_facts(self, facts: dict[str, Any], definition: QueryDefinition) -> None:
        state = facts["state"]
        self._state.set_text(state)
        self._state.classes(replace=f"chip {state}")
        self._pause.set_text("Resume" if definition.paused else "Pause")
        self._pause.props(f"icon={'play_arrow' if definition.paused else 'pause'}")
        self._failure.set_visibility(facts["error"] is not None)
        self._failure.set_text(facts["error"] or "")
        self._note_matched(_matched(facts))
        self._found.set(number(_matched(facts)), more=f"{number(self._found_rate)}/s")
        cost = facts["ms"] / facts["evaluations"] if facts["evaluations"] else None
        self._cost.set(number(cost), "ms", f"per cycle, {number(facts['evaluations'])} so far")
        self._memory.set(size(facts["memory"]), more=facts["strategy"] or facts["runs"])
        self._lag.set(facts["lag"], more=f"{facts['progress']:.0%} of its history read")
        if definition.sql != self._sql or not self._text.default_slot.children:
            self._sql = definition.sql
            self._text.clear()
            with self._text:
                code(definition.sql, wrap=True)
        told = [("runs as", facts["runs"])]
        told += [(n, facts[n]) for n in ("reason", "owner", "description") if facts[n]]
        passed = f", up to {format_timestamp(facts['final_to'])[:19]}" if facts["final_to"] is not None else ""
        limit = f", at most {size(facts['state_limit'])}" if facts["state_limit"] else ""
        told += [("rows are final", facts["final"] + passed), ("its state", facts["state_bound"] + limit)]
        self._about.set_content(facts_html(told))
        self._window.follow(definition)

    def _note_matched(self, matched: int) -> None:
        now = time.monotonic()
        before = self._matched
        if before is None:
            self._matched = (now, matched)
        elif now - before[0] >= 2.0:
            self._found_rate = max(0, matched - before[1]) / (now - before[0])
            self._matched = (now, matched)

    def _fill_plan(self, graph: PlanGraph, facts: dict[str, Any], flows: dict[Passing, float]) -> None:
        found = f"{number(self._found_rate)}/s"
        if facts["matched"] is None:  # an answer that is worked out anew has rows, and none that are found
            found = f"{number(facts['rows'])} rows"
        said: dict[tuple[int, int], str] = {}
        for source, target in graph.arrows:
            box = graph.boxes[source]
            if box.passes in flows and box.passes is not None:
                said[source, target] = f"{number(flows[box.passes])}/s"
            elif box.table is not None:
                said[source, target] = f"{number(facts['rates'].get(box.table, 0.0))}/s"
            elif box.rows is not None:
                said[source, target] = f"{number(box.rows)} rows"
            elif box.passes is None and box.query is None:
                said[source, target] = found
        drawn = draw(graph, said)
        if drawn != self._plan.content:
            self._plan.set_content(drawn)

    async def tell_changes(self) -> None:
        database = console().database
        definition = database.catalog.state.queries.get(self._name)
        if definition is None:
            return
        changes = await console().look(changes_of_query, database.folder.root, definition.id, definition.name)
        self._history.clear()
        with self._history:
            for change in reversed(changes):
                ui.label(format_timestamp(change.at_us)[:19].replace("T", " ")).classes("num")
                with ui.element("div"):
                    ui.label(change.what)
                    if change.detail:
                        ui.label(change.detail).classes("mono muted past")

    async def _changed(self) -> None:
        self._seen = None
        await self.refresh()
        await self.tell_changes()

    async def _turn(self) -> None:
        paused = console().database.definition(self._name).paused
        word = "RESUME" if paused else "PAUSE"
        if await attempt(f"ALTER QUERY {quoted(self._name)} {word}") is not None:
            await self._changed()

    async def _ask_drop(self) -> None:
        if not await sure_to_drop("query", "Its answer is gone; the readings stay."):
            return
        if await attempt(f"DROP QUERY {quoted(self._name)}") is not None:
            go_to("queries")


def _describe(
    database: Database, definition: QueryDefinition, flows: Flows
) -> tuple[dict[str, Any], PlanGraph, dict[Passing, float]]:
    facts = describe_query(database, definition)
    facts["lag"] = cycles(_lag(database, definition.id))
    facts["rates"] = {t.name: database.sampler.rates.of(t) for t in database.sensor_tables()}
    graph = plan_graph(definition, database.catalog.state)
    return facts, graph, flows.look(graph)


# Most windows end now and begin some time before.
REACHES = {
    "10 SECONDS": "10 s",
    "1 MINUTE": "1 min",
    "10 MINUTES": "10 min",
    "1 HOUR": "1 h",
    "1 DAY": "1 d",
}


class WindowControl:
    """Buttons for the usual reaches, and the two ends to type."""

    def __init__(self, definition: QueryDefinition, changed: Callable[[], Awaitable[None]]) -> None:
        self._name = definition.name
        self._changed = changed
        self._known = ""
        self._now = ui.label("").classes("mono")
        with ui.element("div") as self._controls:
            self._controls.style("display: grid; gap: 12px")
            with ui.element("div").classes("row-line"):
                ui.label("The last").classes("muted small")
                for reach, text in REACHES.items():
                    change = f"SET BEGIN (NOW - {reach}) END (NOW)"
                    button = ui.button(text, on_click=lambda change=change: self._alter(change))
                    button.props("outline dense no-caps padding='2px 10px'")
            with ui.element("div").classes("row-line").style("flex-wrap: nowrap"):
                self._begin = ui.input("BEGIN", placeholder="NOW - 5 MINUTES").props("outlined dense")
                self._end = ui.input("END", placeholder="NOW").props("outlined dense")
                ui.button("Set", on_click=self._set).props("outline")
        self._fixed = ui.label("This query has no window of its own that could be moved.").classes("muted small")
        self.follow(definition)

    def follow(self, definition: QueryDefinition) -> None:
        """Show the window as it is; text that is being typed meanwhile stays."""
        if definition.sql == self._known:
            return
        self._known = definition.sql
        plan = plan_from_json(definition.plan)
        window = view_of(plan.operator).window(plan)
        self._now.set_text(window or "")
        self._controls.set_visibility(window is not None)
        self._fixed.set_visibility(window is None)

    async def _set(self) -> None:
        begin, end = str(self._begin.value or "").strip(), str(self._end.value or "").strip()
        if not begin and not end:
            ui.notify("Say where the window begins, or where it ends.", type="warning", position="top")
            return
        await self._alter("SET" + (f" BEGIN ({begin})" if begin else "") + (f" END ({end})" if end else ""))

    async def _alter(self, change: str) -> None:
        if await attempt(f"ALTER QUERY {quoted(self._name)} {change}", said="The window has moved.") is not None:
            await self._changed()
