"""`python -m tests.browser.serve_local PORT FOLDER`: a server with the console whose cycles run without Spark.

Everything but Spark is the real thing: log, catalog, sensors, cycles, answers. A question that only Spark SQL can
answer is refused.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.console import open_console
from penstock.database.database import Database
from penstock.server.app import OpenPages, run
from penstock.settings import Settings
from tests.support.local_engine import LocalEngine

# As often as a page looks: cycles between two looks take the processor from the browser and change nothing that is seen.
CYCLE_S = 0.5


class TurningEngine(LocalEngine):
    """Cycles by itself, as Spark does."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._stopping = threading.Event()
        self._turning = threading.Thread(target=self._turn, daemon=True)

    def start(self) -> None:
        super().start()
        self._turning.start()

    def _turn(self) -> None:
        while not self._stopping.wait(CYCLE_S):
            self.cycle()

    def stop(self) -> None:
        self._stopping.set()
        self._turning.join(60)
        super().stop()


def main(
    port: int, folder: Path, progress: Callable[[str], None] | None = None, pages: OpenPages = open_console
) -> int:
    settings = Settings(data=str(folder), port=port)
    return run(settings, progress, database=Database(settings, engine=TurningEngine), pages=pages)


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]), Path(sys.argv[2])))
