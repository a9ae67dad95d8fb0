"""System: cycles over time, the log on disk, the processes, and everything that went wrong."""

from __future__ import annotations

from typing import Any

from nicegui import ui
from starlette.requests import Request

from penstock.clock import SECOND
from penstock.console.acting import console
from penstock.console.charts import timeline
from penstock.console.layout import RESPONSE_S, frame, refresh_every
from penstock.console.parts import Tile, card, column, empty, facts_html, listing, set_rows
from penstock.console.pulse import Moment
from penstock.console.words import age, duration, number, size
from penstock.queries.database import Database
from penstock.queries.footprint import LogSize, Process, Processes, log_sizes

CYCLES_SHOWN = 300
_LOG = [
    column("table"),
    column("bytes", "on disk", right=True),
    column("files", right=True, wide=True),
    column("rows", "rows kept", right=True),
    column("reach", "reaches back", right=True, wide=True),
    column("retention", "kept for", right=True),
]
_PROCESSES = [
    column("role", "process"),
    column("pid", right=True, wide=True),
    column("cpu", "processors", right=True),
    column("memory", right=True),
    column("threads", right=True, wide=True),
]
_ERRORS = [column("where"), column("what", sortable=False), column("count", right=True)]


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
        with card("Errors"):
            self._errors = listing(_ERRORS, "id")
            self._no_errors = empty("Nothing went wrong since the server started.")

    async def refresh(self) -> None:
        moment = await console().pulse.moment()
        sizes, processes, phases, errors = await console().look(_gather, console().database, self._processes)
        self._fill_tiles(moment, sizes)
        self._fill_cycles(moment, phases)
        set_rows(self._log, [_log_row(s, moment.now_us) for s in sizes])
        self._log.set_visibility(bool(sizes))
        self._no_log.set_visibility(not sizes)
        set_rows(
            self._list,
            [
                {
                    "role": p.role,
                    "pid": p.pid,
                    "cpu": f"{p.cpu:.2f}",
                    "memory": size(p.bytes),
                    "threads": p.threads,
                }
                for p in processes
            ],
        )
        shown = [*errors, *_refusals(moment)]
        set_rows(self._errors, [{"id": i, **e} for i, e in enumerate(shown)])
        self._errors.set_visibility(bool(shown))
        self._no_errors.set_visibility(not shown)

    def _fill_tiles(self, moment: Moment, sizes: list[LogSize]) -> None:
        facts = moment.status
        up = duration(facts["uptime_s"])
        restarts = facts["restarts"]
        told = f"up {up}" + (f", {restarts} restarts of the pipeline" if restarts else "")
        self._state.set("ready" if facts["ready"] else "not ready", more=told, mood="" if facts["ready"] else "bad")
        self._cycle.set(number(facts["cycle_ms_p50"]), "ms", f"p99 {number(facts['cycle_ms_p99'])} ms")
        self._behind.set(number(facts["rows_behind"]), "rows", f"cycle {facts['cycle']:,}")
        self._memory.set(size(facts["memory_bytes"]), more="all processes")
        self._disk.set(size(sum(s.bytes for s in sizes)), more=f"{number(sum(s.files for s in sizes))} files")

    def _fill_cycles(self, moment: Moment, phases: dict[str, float]) -> None:
        cycles = moment.cycles[-CYCLES_SHOWN:]
        at = [c["now"] / 1000 for c in cycles]
        named = (("tasks", "ms"), ("answers", "fold_ms"), ("planning, waiting", "between_ms"))
        series = [(name, [(x, c.get(key)) for x, c in zip(at, cycles, strict=True)]) for name, key in named]
        self._draw(self._cycles, timeline(series, stacked=True))
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


def _gather(
    database: Database, processes: Processes
) -> tuple[list[LogSize], list[Process], dict[str, float], list[dict[str, Any]]]:
    return log_sizes(database), processes.look(), database.engine.phases_ms(), _errors(database)


def _errors(database: Database) -> list[dict[str, Any]]:
    """What fails now: the pipeline, queries, sensors."""
    found: list[dict[str, Any]] = []
    if database.engine.failure:
        found.append({"where": "pipeline", "what": database.engine.failure, "count": database.engine.restarts})
    with database.standing.locked() as store:
        known = store.state.queries_by_id
        failed = [(known[q].name, a.error) for q, a in store.answers.items() if a.error is not None and q in known]
    found += [{"where": f"query {name}", "what": text, "count": 1} for name, text in failed]
    for table in database.sensor_tables():
        for state in database.observer.manager.states(table.id):
            if state.last_error is not None:
                found.append({"where": f"sensor of {table.name}", "what": state.last_error, "count": state.errors})
    return found


def _refusals(moment: Moment) -> list[dict[str, Any]]:
    return [
        {"where": f"readings of {name}", "what": f"refused: {condition}", "count": count}
        for name, counts in moment.status["streams"].items()
        for condition, count in counts["refused"].items()
    ]


def _log_row(found: LogSize, now_us: int) -> dict[str, Any]:
    reach = age(found.oldest_us, now_us).removesuffix(" ago") if found.oldest_us is not None else "–"
    return {
        "table": found.table,
        "bytes": size(found.bytes),
        "files": found.files,
        "rows": found.head - found.first,
        "reach": reach if found.oldest_us is None or now_us - found.oldest_us > SECOND else "now",
        "retention": found.retention or "ever",
    }
