"""System: cycles over time, the log on disk, the processes, and everything that went wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nicegui import ui
from starlette.requests import Request

from penstock.console.formats import NOTHING, age, duration, number, size
from penstock.console.inputs_outputs import INPUTS, SINKS, inputs, sinks
from penstock.console.layout import RESPONSE_S, frame, go_to, refresh_every
from penstock.console.page_context import console
from penstock.console.problems import list_problems
from penstock.console.status_cache import ServerStatus
from penstock.console.widgets.charts import timeline
from penstock.console.widgets.data_table import column, counted, listing, said, set_rows
from penstock.console.widgets.parts import Tile, card, empty, facts_html
from penstock.database.database import Database
from penstock.database.footprint import LogSize, Process, Processes, log_sizes

CYCLES_SHOWN = 300
_LOG = [
    column("table"),
    column("bytes", "on disk", right=True, by=True),
    column("rows", right=True, by=True),
    column("reach", "back to", right=True, wide=True, by=True),
    column("retention", "kept for", right=True, by=True),
]
_PROCESSES = [
    column("role", "process"),
    column("pid", right=True, wide=True),
    column("cpu", "processors", right=True, by=True),
    column("memory", right=True, by=True),
    column("threads", right=True, wide=True),
]
_ERRORS = [column("where"), column("what", sortable=False), column("count", right=True, by=True)]


def register() -> None:
    ui.page("/system", response_timeout=RESPONSE_S)(show)


async def show(request: Request) -> None:
    """The page."""
    with frame("System", "system", request):
        view = _View()
        await view.refresh()
    refresh_every(2.0, view.refresh)


class _View:
    def __init__(self) -> None:
        self._processes = Processes()
        with ui.element("div").classes("tiles"):
            self._state = Tile("State")
            self._cycle = Tile("Cycle time")
            self._behind = Tile("Behind")
            self._memory = Tile("Memory")
            self._disk = Tile("Log on disk")
        with card("Where the milliseconds of a cycle go") as head:
            with head:
                self._last = ui.label("").classes("muted small num")
            self._cycles = ui.echart({}).classes("chart")
            self._phases = ui.html("", sanitize=False)
        with card("Rows per cycle"):
            self._rows = ui.echart({}).classes("chart low")
        with ui.element("div").classes("grid-even"):
            with card("Log and retention"):
                self._log = listing(_LOG, "table")
                self._no_log = empty("No sensor table yet.")
            with card("Processes"):
                self._list = listing(_PROCESSES, "pid")
        with card("Ways in"):
            self._inputs = listing(INPUTS, "name")
        with card("Ways out"):
            self._sinks = listing(SINKS, "name", clickable=True)
            self._sinks.on("rowClick", lambda e: go_to("queries", e.args[1]["query"]), [[], ["query"], None])
            self._no_sinks = empty("No sink sends anything. CREATE SINK name FOR query TO mqtt(...), for example.")
        with card("Errors"):
            self._errors = listing(_ERRORS, "id").classes("wraps")
            self._no_errors = empty("Nothing went wrong since the server started.")

    async def refresh(self) -> None:
        moment = await console().status_cache.current()
        seen = await console().look(_gather, console().database, self._processes, moment)
        self._fill_tiles(moment, seen.sizes)
        self._fill_cycles(moment, seen.phases)
        _show(self._log, [_log_row(s, moment.now_us) for s in seen.sizes], self._no_log)
        set_rows(self._list, [_process_row(p) for p in seen.processes])
        set_rows(self._inputs, seen.inputs)
        _show(self._sinks, seen.sinks, self._no_sinks)
        _show(self._errors, seen.problems, self._no_errors)

    def _fill_tiles(self, moment: ServerStatus, sizes: list[LogSize]) -> None:
        facts = moment.status
        up = duration(facts["uptime_s"])
        restarts = facts["restarts"]
        told = f"up {up}" + (f", {restarts} restarts of the pipeline" if restarts else "")
        self._state.set("ready" if facts["ready"] else "not ready", more=told, mood="" if facts["ready"] else "bad")
        self._cycle.set(number(facts["cycle_ms_p50"]), "ms", f"p99 {number(facts['cycle_ms_p99'])} ms")
        self._behind.set(number(facts["rows_behind"]), "rows", f"cycle {facts['cycle']:,}")
        self._memory.set(size(facts["memory_bytes"]), more="all processes")
        self._disk.set(size(sum(s.bytes for s in sizes)), more=f"{number(sum(s.files for s in sizes))} files")

    def _fill_cycles(self, moment: ServerStatus, phases: dict[str, float]) -> None:
        cycles = moment.cycles[-CYCLES_SHOWN:]
        at = [c["now"] / 1000 for c in cycles]
        named = (("tasks", "ms"), ("answers", "fold_ms"), ("planning, waiting", "between_ms"))
        series = [(name, [(x, c.get(key)) for x, c in zip(at, cycles, strict=True)]) for name, key in named]
        self._draw(self._cycles, timeline(series, "ms"))
        self._draw(self._rows, timeline([("rows", [(x, float(c["rows"])) for x, c in zip(at, cycles, strict=True)])]))
        if cycles:
            last = cycles[-1]
            self._last.set_text(f"cycle {last['cycle']:,}: {number(last['ms'])} ms, {last['queries']} queries")
        told = [(_PHASES.get(name, name), f"{ms:.0f} ms") for name, ms in sorted(phases.items(), key=lambda p: -p[1])]
        self._phases.set_content(facts_html(told) if told else "")

    def _draw(self, chart: ui.echart, options: dict[str, Any]) -> None:
        chart.options.clear()
        chart.options.update(options)
        chart.update()


# As Spark calls them, and what they are.
_PHASES = {
    "triggerExecution": "the whole trigger",
    "addBatch": "tasks and commit",
    "queryPlanning": "planning by Spark",
    "getBatch": "reading the offset",
    "latestOffset": "planning the cycle",
    "walCommit": "writing the offset",
    "commitOffsets": "confirming the offset",
}


@dataclass(frozen=True, slots=True)
class _Seen:
    sizes: list[LogSize]
    processes: list[Process]
    phases: dict[str, float]
    inputs: list[dict[str, Any]]
    sinks: list[dict[str, Any]]
    problems: list[dict[str, Any]]


def _gather(database: Database, processes: Processes, moment: ServerStatus) -> _Seen:
    return _Seen(
        log_sizes(database),
        processes.look(),
        database.engine.phases_ms(),
        inputs(database),
        sinks(database),
        list_problems(database, moment),
    )


def _show(table: ui.table, rows: list[dict[str, Any]], nothing: ui.label) -> None:
    set_rows(table, rows)
    table.set_visibility(bool(rows))
    nothing.set_visibility(not rows)


def _process_row(process: Process) -> dict[str, Any]:
    return {
        "role": process.role,
        "pid": process.pid,
        **said("cpu", f"{process.cpu:.2f}", process.cpu),
        **said("memory", size(process.bytes), process.bytes),
        "threads": process.threads,
    }


def _log_row(found: LogSize, now_us: int) -> dict[str, Any]:
    reach = age(found.oldest_us, now_us) if found.oldest_us is not None else NOTHING
    return {
        "table": found.table,
        **said("bytes", size(found.bytes), found.bytes),
        **counted("rows", found.head - found.first),
        **said("reach", reach, found.oldest_us),
        **said("retention", found.retention or "ever", found.retention_us),
    }
