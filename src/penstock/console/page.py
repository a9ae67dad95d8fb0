"""What every page has: its frame, the database behind it, a few threads for what blocks, and errors as people read them."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import Any, Literal, TypeVar
from urllib.parse import quote, urlencode

from nicegui import Client, context, ui
from nicegui import app as pages
from starlette.requests import Request

from penstock import __version__
from penstock.cancellation import Cancellation, cancelled_by
from penstock.console.server_status import StatusCache
from penstock.errors import PenstockError, error
from penstock.security.caller import LOCAL, Caller, acting_as, current_caller
from penstock.server.http.access import session_cookie
from penstock.server.http.context import Context
from penstock.server.http.thread_pools import Pool
from penstock.server.routes.session import CONSOLE
from penstock.views.results import Result

T = TypeVar("T")
# A question may take Spark a while; what the pages look at every second must not wait behind it.
LOOKING_THREADS = 2
# Each statement that runs or waits holds a thread; the database bounds how many of one user do.
ASKING_THREADS = 24

_SESSION = "session"


class Console:
    """One per process, as NiceGUI is."""

    def __init__(self, context: Context) -> None:
        self.database = context.database
        self.context = context
        self.looking = Pool("console-looking", LOOKING_THREADS)
        self.asking = Pool("console-asking", ASKING_THREADS)
        self.status_cache = StatusCache(self.database, self.looking)

    async def look(self, work: Callable[..., T], *args: object) -> T:
        """Something quick about the database."""
        return await self.looking.run(work, *args)

    async def ask(self, work: Callable[[str | None], T]) -> T:
        """Run a function that needs rights, or takes a while, as the caller that has the page open; it gets that caller."""
        caller = self.caller()
        owner = caller.name if caller.credential is not None else None
        with acting_as(caller):
            return await self.asking.run(work, owner)

    async def execute(self, sql: str, params: Any = None, cancellation: Cancellation | None = None) -> Result:
        """Statements, as a person typed or clicked them; `cancellation` ends them."""
        with cancelled_by(cancellation or Cancellation()):
            return await self.ask(lambda owner: self.database.execute(sql, params, owner))

    def remember(self, request: Request) -> None:
        """Which session opened this page: what it may do is looked up at each click, not when it was opened."""
        pages.storage.client[_SESSION] = session_cookie(request.headers, self.context.sessions.cookie)

    def caller(self) -> Caller:
        """The caller that has this page open, with its present role. Raises once it may not sign in any more."""
        users = self.context.users
        if not users.required:
            return current_caller() or LOCAL
        session = pages.storage.client.get(_SESSION)
        found = self.context.sessions.find(session) if session else None
        if found is None:
            raise error("unauthorized", detail="you are not signed in any more", hint="load the page again")
        return found

    def close(self) -> None:
        self.looking.close()
        self.asking.close()


_console: Console | None = None


def set_console(console: Console | None) -> None:
    global _console
    _console = console


def console() -> Console:
    """The console that the open pages belong to."""
    if _console is None:
        raise error("not_ready", detail="the server is stopping", hint="load the page again in a moment")
    return _console


def notify(text: str, kind: Literal["positive", "warning", "negative"]) -> None:
    """Something to read, in the corner of the page."""
    ui.notify(text, type=kind, position="top", multi_line=True, timeout=8000, close_button="Close")


def tell(problem: PenstockError) -> None:
    """A refusal with its hint."""
    hint = f" Hint: {problem.hint}." if problem.hint else ""
    notify(f"{problem.message}.{hint}", "negative")


async def attempt(sql: str, params: Any = None, said: str | None = None) -> Result | None:
    """Run statements; say what went wrong, or `said`. None where it went wrong."""
    try:
        result = await console().execute(sql, params)
    except PenstockError as problem:
        tell(problem)
        return None
    if said is not None:
        ui.notify(said, type="positive", position="top")
    for notice in result.notices:
        ui.notify(notice, type="info", position="top", multi_line=True)
    return result


_log = logging.getLogger("penstock.console")
DOORS = (
    ("Overview", "", "space_dashboard", "o"),
    ("Sensors", "sensors", "sensors", "s"),
    ("Ask", "ask", "terminal", "a"),
    ("Queries", "queries", "rule", "q"),
    ("Load", "load", "speed", "l"),
    ("System", "system", "monitor_heart", "y"),
)
THEME_COOKIE = "penstock-theme"
# g and a letter go to a page, as in other consoles; not while the user types.
_KEYS = """
<script>
(() => {
  let g = 0;
  const doors = %s;
  addEventListener("keydown", (e) => {
    const at = e.target, typing = at.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName);
    if (typing || e.ctrlKey || e.metaKey || e.altKey) return;
    if (e.key === "g") { g = Date.now(); return; }
    if (Date.now() - g < 1500 && e.key in doors) location.href = doors[e.key];
    g = 0;
  });
})();
</script>
"""


def href(path: str = "") -> str:
    return f"{CONSOLE}/{path}"


def path_to(*path: str, **parameters: str) -> str:
    """The address of a page. Names may have anything in them."""
    return CONSOLE + _below(*path, **parameters)


def go_to(*path: str, **parameters: str) -> None:
    """Another page; NiceGUI itself knows below which path it lives."""
    ui.navigate.to(_below(*path, **parameters))


def _below(*path: str, **parameters: str) -> str:
    asked = f"?{urlencode(parameters)}" if parameters else ""
    return "/" + "/".join(quote(part, safe="") for part in path) + asked


def link(text: str, path: str) -> None:
    with ui.element("a").props(f'href="{href(path)}"'):
        ui.label(text)


@contextmanager
def frame(title: str, here: str, request: Request) -> Iterator[ui.element]:
    """The frame around a page. Gives the head of the page, for its own buttons; what it shows is made inside."""
    ui.page_title(f"{title} · Penstock")
    ui.add_head_html(f'<link rel="stylesheet" href="{href("assets/console.css")}?{__version__}">')
    ui.add_head_html(f'<script type="module" src="{href("assets/focus.js")}?{__version__}"></script>')
    ui.add_head_html(_KEYS % {key: href(path) for _, path, _, key in DOORS})
    ui.colors(primary="#0b7285", positive="#2b8a3e", negative="#c92a2a", warning="#b35c00", info="#0b7285")
    console().remember(request)
    caller = console().caller()
    chosen = {"dark": True, "light": False}.get(request.cookies.get(THEME_COOKIE, ""))
    dark = ui.dark_mode(chosen)
    with ui.element("nav").classes("rail").props('aria-label="Pages"'):
        with ui.element("a").classes("brand").props(f'href="{href()}"'):
            ui.element("img").props(f'src="{href("assets/favicon.svg")}" alt=""')
            ui.label("Penstock")
        for name, path, icon, key in DOORS:
            current = " here" if path == here else ""
            mark = ' aria-current="page"' if path == here else ""
            with ui.element("a").classes(f"door{current}").props(f'href="{href(path)}" title="g {key}"{mark}'):
                ui.icon(icon)
                ui.label(name)
        with ui.element("div").classes("foot"):
            _theme_button(dark, "wide")
            if console().context.users.required:
                out = ui.button(f"Sign out {caller.name}", icon="logout", on_click=_sign_out)
                out.props("flat dense no-caps align=left").classes("quiet")
            ui.label(f"version {__version__}").classes("muted small")
    with ui.element("div").classes("frame").props("inert") as main:
        ui.skip_link(target=main)
        with ui.element("header").classes("top") as head:
            ui.html(f"<h1>{escape(title)}</h1>", sanitize=False).classes("grow")
            _theme_button(dark, "phone-only")
            if console().context.users.required:
                out = ui.button(icon="logout", on_click=_sign_out).props(
                    f'flat dense aria-label="Sign out {caller.name}"'
                )
                out.classes("quiet phone-only")
        yield head
    # A click or a key before the page has its socket would be lost: until then it takes none, and says so.
    context.client.on_connect(lambda: main.props(remove="inert"))


def _sign_out() -> None:
    ui.run_javascript('fetch("/v1/session", {method: "DELETE"}).then(() => location.reload())')


def _theme_button(dark: ui.dark_mode, where: str) -> None:
    """Light, dark, or as the system says; the browser remembers it."""
    themes = {None: ("auto", "brightness_auto"), False: ("light", "light_mode"), True: ("dark", "dark_mode")}

    def turn() -> None:
        dark.value = {None: False, False: True, True: None}[dark.value]
        name, _ = themes[dark.value]
        ui.run_javascript(f'document.cookie = "{THEME_COOKIE}={name};path=/;max-age=31536000;samesite=strict"')
        show()

    def show() -> None:
        name, icon = themes[dark.value]
        button.props(f'icon={icon} aria-label="Theme: {name}"')
        button.text = f"Theme: {name}" if where == "wide" else ""

    button = ui.button(on_click=turn).props("flat dense no-caps align=left").classes(f"quiet {where}")
    show()


async def refresh_every(seconds: float, work: Callable[[], Awaitable[None]]) -> None:
    """Fill a page, then again and again while it is open, one call at a time; a hidden page costs nothing."""
    failed = False
    client: Client = context.client

    async def tick() -> None:
        nonlocal failed
        if not client.has_socket_connection:
            return
        try:
            console().caller()
            await work()
            failed = False
        except PenstockError as problem:
            if problem.condition == "unauthorized":
                timer.cancel()
                ui.navigate.reload()
            elif not failed:
                _log.info("a page could not be brought up to date: %s", problem)
            failed = True

    await work()
    timer = ui.timer(seconds, tick, immediate=False)
