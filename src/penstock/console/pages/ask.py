"""Ask: SQL in, with completion and mistakes underlined; an answer out, as a table or a chart; keep the question and it stands."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator

import orjson
from nicegui import ui
from starlette.requests import Request

from penstock import __version__
from penstock.cancellation import Cancellation
from penstock.console.page import console, frame, go_to, href
from penstock.console.pages.overview import CREATE, KEEP
from penstock.console.widgets.answer_view import AnswerView, as_parquet
from penstock.console.widgets.parts import card, code, duration, number
from penstock.errors import PenstockError, error
from penstock.server.http.decode import CSV
from penstock.server.http.encode import ENCODERS
from penstock.sql.completions import KEYWORDS, SYSTEM_TABLES
from penstock.views.results import Result

_EXAMPLES = {"create": CREATE, "keep": KEEP}


async def show(request: Request, sql: str = "", example: str = "") -> None:
    """The page. `sql` fills the editor; it is only run when a person says so."""
    with frame("Ask", "ask", request):
        view = _View(sql or _EXAMPLES.get(example) or _first_question())
    await ui.context.client.connected()
    await view.editor.offer_names()


def _first_question() -> str:
    tables = console().database.sensor_tables()
    queries = sorted(console().database.catalog.state.queries)
    if queries:
        return f"SELECT * FROM {'latest' if 'latest' in queries else queries[0]}"
    return f"SELECT * FROM {tables[0].name}" if tables else "SHOW TABLES"


class _View:
    def __init__(self, text: str) -> None:
        self._result: Result | None = None
        self._running: Cancellation | None = None
        with card():
            self.editor = SqlEditor(text, self._run)
            with ui.element("div").classes("row-line"):
                self._button = ui.button("Run", icon="play_arrow", on_click=self._run).props("unelevated")
                self._button.classes("main-action").tooltip("Ctrl+Enter")
                self._cancel = ui.button("Cancel", icon="stop", on_click=self._end).props("outline")
                self._cancel.set_visibility(False)
                ui.button("Keep as a standing query", icon="push_pin", on_click=self._keep).props("outline")
                ui.button("Explain", on_click=self._explain).props("flat").classes("quiet")
                ui.element("div").classes("grow")
                ui.label("Ctrl+Enter runs, Ctrl+Space completes").classes("muted small wide")
        with card("Answer") as head:
            with head:
                self._said = ui.label("").classes("muted small num")
                self._downloads = [
                    ui.button("CSV", icon="download", on_click=lambda: self._download("csv")),
                    ui.button("Parquet", icon="download", on_click=lambda: self._download("parquet")),
                ]
                for button in self._downloads:
                    button.props("flat dense").classes("quiet").set_visibility(False)
            self._notices = ui.element("div")
            self._answer_box = ui.element("div").style("display: contents")
            self._hint = ui.label("Run a statement to see its answer here.").classes("empty")
        self._answer: AnswerView | None = None
        self._dialog = SaveQueryDialog(self.editor)

    async def _run(self) -> None:
        await self._execute(self.editor.text)

    async def _explain(self) -> None:
        text = self.editor.text.strip().rstrip(";")
        await self._execute(text if text.upper().startswith("EXPLAIN") else f"EXPLAIN {text}", prefix=len("EXPLAIN "))

    async def _execute(self, text: str, prefix: int = 0) -> None:
        self.editor.clear()
        self._button.props("loading")
        self._cancel.set_visibility(True)
        self._running = Cancellation()
        began = time.monotonic()
        try:
            result = await console().execute(text, cancellation=self._running)
        except PenstockError as problem:
            if prefix and problem.line == 1 and problem.column is not None:
                problem.column -= prefix
            self.editor.complain(problem)
            return
        finally:
            self._button.props(remove="loading")
            self._cancel.set_visibility(False)
        self._show(result, time.monotonic() - began)
        if result.done is not None:
            await self.editor.offer_names()

    def _end(self) -> None:
        if self._running is not None:
            self._running.cancel("the statement was cancelled on the page")

    def _show(self, result: Result, seconds: float) -> None:
        self._result = result
        told = result.table.num_columns > 0
        rows = result.table.num_rows
        facts = [f"{number(rows)} row{'' if rows == 1 else 's'}"] if told else []
        facts += [duration(seconds)] + ([f"cycle {result.cycle:,}"] if result.cycle is not None else [])
        self._said.set_text(" · ".join(facts))
        self._notices.clear()
        with self._notices:
            for notice in result.notices:
                ui.label(notice).classes("note")
        self._hint.set_visibility(not told)
        self._hint.set_text(f"Done: {result.done}" if result.done else "")
        for element in (*self._downloads, self._answer_box):
            element.set_visibility(told)
        if told:
            if self._answer is None:
                with self._answer_box:
                    self._answer = AnswerView()
            self._answer.show(result.table)

    async def _download(self, kind: str) -> None:
        if self._result is None:
            return
        encode = ENCODERS[CSV] if kind == "csv" else as_parquet
        ui.download(await console().asking.run(encode, self._result), f"answer.{kind}")

    async def _keep(self) -> None:
        name = await self._dialog.ask()
        if name is not None:
            go_to("queries", name)


class SaveQueryDialog:
    """Asks for a name; the SELECT itself was typed before, in the editor."""

    def __init__(self, editor: SqlEditor) -> None:
        self._editor = editor
        self._sql = ""
        with ui.dialog() as self._dialog, ui.card():
            ui.html("<h2>Keep as a standing query</h2>", sanitize=False)
            self._text = ui.element("div")
            self._name = ui.input("Name").props('outlined dense autofocus autocomplete="off"')
            self._description = ui.input("What it is for (optional)").props('outlined dense autocomplete="off"')
            self._wrong = ui.label("").classes("complaint").props("role=alert")
            with ui.element("div").classes("row-line").style("justify-content: flex-end"):
                ui.button("Cancel", on_click=self._dialog.close).props("flat").classes("quiet")
                ui.button("Keep", icon="push_pin", on_click=self._save).props("unelevated").classes("main-action")
            self._name.on("keydown.enter", self._save)

    async def ask(self) -> str | None:
        """The name under which the query is saved now; None where the user cancelled. The editor marks mistakes in its text."""
        self._editor.clear()
        self._sql = self._editor.text.strip().rstrip(";")
        self._wrong.set_visibility(False)
        self._text.clear()
        with self._text:
            code(self._sql, wrap=True)
        kept: str | None = await self._dialog
        return kept

    async def _save(self) -> None:
        name = (self._name.value or "").strip()
        query = {"name": name, "sql": self._sql, "description": (self._description.value or "").strip() or None}
        try:
            if not name:
                raise error("invalid_parameter", detail="a standing query needs a name")
            await console().ask(lambda owner: console().database.register([query], owner=owner))
        except PenstockError as problem:
            if problem.line is not None:
                problem.message = problem.message.partition("): ")[2] or problem.message
                self._editor.complain(problem)
                self._dialog.close()
                return
            self._wrong.set_text(problem.message + (f" Hint: {problem.hint}" if problem.hint else ""))
            self._wrong.set_visibility(True)
            return
        self._dialog.submit(name)


# Names beyond this make the list of completions no better and the page heavier.
NAMES_MAX = 3_000


class SqlEditor:
    """An editor with a place below it for what is wrong."""

    def __init__(self, text: str, run: Callable[[], Awaitable[None]]) -> None:
        ui.add_head_html(f'<script type="module" src="{href("assets/completions.js")}?{__version__}"></script>')
        self._editor = ui.codemirror(
            text, language="SQL", theme="basicLight", line_wrapping=True, keymap={"Mod-Enter": run, "F5": run}
        )
        self._editor.classes("editor")
        self._complaint = ui.element("div").classes("complaint").props("role=alert")
        self._complaint.set_visibility(False)

    @property
    def text(self) -> str:
        return str(self._editor.value or "")

    def clear(self) -> None:
        self._editor.decorations = []
        self._complaint.set_visibility(False)

    def complain(self, problem: PenstockError) -> None:
        """Underline the place and say what is wrong with it."""
        place = _place(self.text, problem)
        marks = [] if place is None else [{"kind": "mark", "from": place[0], "to": place[1], "class": "mistake"}]
        self._editor.decorations = marks
        self._complaint.clear()
        with self._complaint:
            ui.label(f"{problem.message} ({problem.condition})").style("font-weight: 600")
            if place is not None:
                code("\n".join(problem.render(self.text).splitlines()[1:3]))
            if problem.hint:
                ui.label(f"Hint: {problem.hint}")
        self._complaint.set_visibility(True)

    async def offer_names(self) -> None:
        """Completions from the catalog as it is now."""
        options = await console().look(lambda: list(_options())[:NAMES_MAX])
        names = orjson.dumps(options).decode().replace("</", "<\\/")
        ui.run_javascript(
            "const offer = () => window.penstockOffer"
            f" ? window.penstockOffer({self._editor.id}, {names}) : setTimeout(offer, 50); offer();"
        )


def _options() -> Iterator[dict[str, str]]:
    database = console().database
    columns: dict[str, str] = {}
    for table in database.tables():
        yield {"label": table["name"], "type": "class", "detail": "table"}
        for column in table["columns"]:
            columns.setdefault(column["name"], f"{column['type']} of {table['name']}")
        if table["stream"]:
            columns.setdefault(table["stream"]["name"], f"stream of {table['name']}")
    for name, detail in columns.items():
        yield {"label": name, "type": "property", "detail": detail}
    for name in sorted(database.catalog.state.queries):
        yield {"label": name, "type": "interface", "detail": "query"}
    for name in SYSTEM_TABLES:
        yield {"label": name, "type": "namespace", "detail": "system table"}
    # Single words come with the editor's own SQL.
    for phrase in KEYWORDS:
        if " " in phrase:
            yield {"label": phrase, "type": "keyword"}


def _place(text: str, problem: PenstockError) -> tuple[int, int] | None:
    """Where the mistake is, as offsets of the text; at its end, the last character."""
    if problem.line is None or problem.column is None or not text:
        return None
    lines = text.splitlines(keepends=True) or [""]
    if not 1 <= problem.line <= len(lines):
        return len(text) - 1, len(text)
    start = sum(len(line) for line in lines[: problem.line - 1]) + problem.column - 1
    start = min(start, len(text) - 1)
    return start, min(len(text), start + max(1, problem.length or 1))
