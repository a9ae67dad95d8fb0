"""System: cycles over time, the log on disk, the processes, and everything that went wrong."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from nicegui import ui
from starlette.requests import Request

from penstock.console.page import console, frame, go_to, path_to, refresh_every
from penstock.console.server_status import ServerStatus
from penstock.console.widgets.charts import redraw, timeline
from penstock.console.widgets.data_table import column, counted, listing, said, set_rows, show_rows
from penstock.console.widgets.parts import NOTHING, Tile, age, card, cycles, duration, empty, facts_html, number, size
from penstock.database.database import Database
from penstock.database.status import LogSize, Process, Processes, input_rows, log_sizes

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


async def show(request: Request) -> None:
    with frame("System", "system", request):
        view = _View()
    await refresh_every(2.0, view.refresh)


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
            self._sinks = listing(SINKS, "name", opens=lambda query: go_to("queries", query), opened_by="query")
            self._no_sinks = empty("No sink sends anything. CREATE SINK name FOR query TO mqtt(...), for example.")
        with card("Errors"):
            self._errors = listing(_ERRORS, "id").classes("wraps")
            self._no_errors = empty("Nothing went wrong since the server started.")

    async def refresh(self) -> None:
        moment, database = await console().status_cache.current(), console().database
        sizes, processes, phases = await console().look(_gather, database, self._processes)
        self._fill_tiles(moment, sizes)
        self._fill_cycles(moment, phases)
        show_rows(self._log, [_log_row(s, moment.now_us) for s in sizes], self._no_log)
        set_rows(self._list, [_process_row(p) for p in processes])
        set_rows(self._inputs, await console().look(inputs, database))
        show_rows(self._sinks, await console().look(sinks, database), self._no_sinks)
        show_rows(self._errors, await console().look(list_problems, database, moment), self._no_errors)

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
        redraw(self._cycles, timeline(series, "ms"))
        redraw(self._rows, timeline([("rows", [(x, float(c["rows"])) for x, c in zip(at, cycles, strict=True)])]))
        if cycles:
            last = cycles[-1]
            self._last.set_text(f"cycle {last['cycle']:,}: {number(last['ms'])} ms, {last['queries']} queries")
        told = [(_PHASES.get(name, name), f"{ms:.0f} ms") for name, ms in sorted(phases.items(), key=lambda p: -p[1])]
        self._phases.set_content(facts_html(told) if told else "")


# As Spark calls them, and what they are.
_PHASES = {
    "triggerExecution": "the whole trigger",
    "addBatch": "tasks and commit",
    "queryPlanning": "planning by Spark",
    "getBatch": "reading the offset",
    "latestOffset": "waiting for readings, planning the cycle",
    "walCommit": "writing the offset",
    "commitOffsets": "confirming the offset",
}


def _gather(database: Database, processes: Processes) -> tuple[list[LogSize], list[Process], dict[str, float]]:
    return log_sizes(database), processes.look(), database.engine.phases_ms()


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


INPUTS = [
    column("name", "way in"),
    column("state"),
    column("messages", right=True, wide=True, by=True),
    column("accepted", "stored", right=True, by=True),
    column("refused", right=True, by=True),
    column("why", wide=True, sortable=False),
]
SINKS = [
    column("name", "sink"),
    column("state"),
    column("query", wide=True),
    column("target", "sends to", wide=True),
    column("promise", "a row arrives", wide=True),
    column("rows", "rows delivered", right=True, by=True),
    column("lag", right=True, by=True),
    column("failed", right=True, wide=True, by=True),
    column("why", "last problem", wide=True, sortable=False),
]


def inputs(database: Database) -> list[dict[str, Any]]:
    """A row for each way in that is open."""
    return [
        {
            "name": facts["name"],
            "state": facts["state"],
            **{n: v for name in ("messages", "accepted", "refused") for n, v in counted(name, facts[name]).items()},
            "why": facts["reasons"] or facts["last_error"] or "",
        }
        for facts in input_rows(database.ways_in, database.sources)
    ]


def sinks(database: Database) -> list[dict[str, Any]]:
    """A row for each sink; it leads to the query that it sends rows of."""
    return [
        {
            "name": facts["name"],
            "href": path_to("queries", facts["query"]),
            "state": facts["state"],
            "query": facts["query"],
            "target": facts.get("target") or facts["kind"],
            "promise": facts.get("promise") or "",
            **counted("rows", facts.get("rows")),
            **said("lag", cycles(facts.get("lag") or 0), facts.get("lag")),
            **counted("failed", facts.get("failed")),
            "why": facts.get("last_error") or "",
        }
        for facts in database.sinks.facts(database.catalog.state.sinks)
    ]


NAMED = 3  # of sensors with the same trouble; more are counted


def list_problems(database: Database, moment: ServerStatus) -> list[dict[str, Any]]:
    """A row each, the same trouble of several sensors together."""
    found = enumerate(_problems(database, moment))
    return [{"id": i, "where": where, "what": what, **counted("count", n)} for i, (where, what, n) in found]


def _problems(database: Database, moment: ServerStatus) -> Iterator[tuple[str, str, int]]:
    if database.engine.failure:
        yield "pipeline", database.engine.failure, database.engine.restarts
    for name, text in moment.failed.items():
        yield f"query {name}", text, 1
    names = {table.name: {s.sid: s.name for s in table.sensors} for table in moment.tables}
    for table in database.sensor_tables():
        same: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for state in database.observer.manager.states(table.id):
            if state.last_error is not None:
                same[state.last_error].append((state.sid, state.errors))
        for text, sensors in same.items():
            known = [names.get(table.name, {}).get(sid, f"number {sid}") for sid, _ in sensors]
            yield f"{_called(known)} of {table.name}", text, sum(errors for _, errors in sensors)
    for name, counts in moment.status["streams"].items():
        for condition, count in counts["refused"].items():
            yield f"readings of {name}", f"refused: {condition}", count


def _called(sensors: list[str]) -> str:
    if len(sensors) == 1:
        return f"sensor {sensors[0]}"
    shown = sensors if len(sensors) <= NAMED else [*sensors[: NAMED - 1], f"{len(sensors) - NAMED + 1} others"]
    return f"sensors {', '.join(shown[:-1])} and {shown[-1]}"
