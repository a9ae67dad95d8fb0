"""What every page needs: the database, a few threads for what blocks, and errors as people read them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from nicegui import app as pages
from nicegui import ui
from starlette.requests import Request

from penstock.cancellation import Cancellation, cancelled_by
from penstock.console.server_status import StatusCache
from penstock.errors import PenstockError, error
from penstock.security.caller import LOCAL, Caller, acting_as, current_caller
from penstock.server.http.access import session_cookie
from penstock.server.http.context import Context
from penstock.server.http.thread_pools import Pool
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
        self.settings = context.settings
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


def tell(problem: PenstockError) -> None:
    """A refusal in the corner of the page, with its hint."""
    hint = f" Hint: {problem.hint}." if problem.hint else ""
    ui.notify(
        f"{problem.message}.{hint}",
        type="negative",
        position="top",
        multi_line=True,
        timeout=8000,
        close_button="Close",
    )


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
