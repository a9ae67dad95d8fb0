"""`python -m tests.browser.open_beside FOLDER`: open the console while a thread is in the middle of making a tuple.

NiceGUI is one per process, so it is opened in one of its own. Prints the status of its first page and what became of
the tuple.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from penstock.console import open_console
from penstock.database.database import Database
from penstock.server.app import create_app
from penstock.settings import Settings
from tests.support.local_engine import LocalEngine


class Maker(threading.Thread):
    """Makes a tuple, as one that plans a query does all the time, and has one half of it when the console opens."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.begun, self.opened = threading.Event(), threading.Event()
        self.made: object = None

    def run(self) -> None:
        try:
            self.made = tuple(self._values())
        except SystemError as failure:
            self.made = failure

    def _values(self) -> Iterator[int]:
        yield 1
        self.begun.set()
        self.opened.wait()
        yield 2


def hold_what_is_looked_at() -> None:
    """Whoever lists all objects there are holds them for longer than the other thread needs."""
    held: list[list[Any]] = []
    everything = gc.get_objects

    def get_objects(generation: int | None = None) -> list[Any]:
        held.append(everything(generation))
        return held[-1]

    gc.get_objects = get_objects


async def open_beside(database: Database, maker: Maker) -> int:
    app = create_app(database, database.settings)
    async with open_console(app):
        maker.opened.set()
        maker.join()
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1") as client:
            return (await client.get("/console/")).status_code


def main(folder: Path) -> None:
    database = Database(Settings(data=str(folder)), engine=LocalEngine)
    database.start()
    maker = Maker()
    maker.start()
    maker.begun.wait()
    hold_what_is_looked_at()
    print(asyncio.run(open_beside(database, maker)))
    print(repr(maker.made))
    database.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
