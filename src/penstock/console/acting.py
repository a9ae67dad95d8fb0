"""What every page needs: the database, a few threads for what blocks, and errors as people read them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from nicegui import ui

from penstock.console.pulse import Pulse
from penstock.errors import PenstockError, error
from penstock.queries.database import Database
from penstock.queries.results import Result
from penstock.server.context import Context
from penstock.server.workers import Pool

T = TypeVar("T")
# A question may take Spark a while; what the pages look at every second must not wait behind it.
LOOKING_THREADS = 2
ASKING_THREADS = 4


class Console:
    """One per process, as NiceGUI is."""

    def __init__(self, context: Context) -> None:
        self.database = cast(Database, context.database)
        self.settings = context.settings
        self.looking = Pool("console-looking", LOOKING_THREADS)
        self.asking = Pool("console-asking", ASKING_THREADS)
        self.pulse = Pulse(self.database, self.looking)

    async def look(self, work: Callable[..., T], *args: object) -> T:
        """Something quick about the database."""
        return await self.looking.run(work, *args)

    async def execute(self, sql: str, params: Any = None) -> Result:
        """Statements, as a person typed or clicked them."""
        return await self.asking.run(lambda: self.database.execute(sql, params))

    def close(self) -> None:
        self.looking.close()
        self.asking.close()


_console: Console | None = None


def set_console(console: Console | None) -> None:
    global _console
    _console = console


def console() -> Console:
    """The console whose pages are open."""
    if _console is None:
        raise error("not_ready", detail="the server is stopping", hint="load the page again in a moment")
    return _console


def tell(problem: PenstockError) -> None:
    """A refusal in the corner of the page, with its hint."""
    hint = f" Hint: {problem.hint}." if problem.hint else ""
    ui.notify(f"{problem.message}.{hint}", type="negative", position="top", multi_line=True, timeout=8000)


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


def quoted(name: str) -> str:
    """A name as SQL reads it, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'
