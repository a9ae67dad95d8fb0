"""A server process over the fake database, for tests that send it signals. Prints what became of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from penstock.errors import error
from penstock.server.run import run
from penstock.settings import Settings
from tests.server.fake import FakeDatabase


class SlowStart(FakeDatabase):
    def start(self, progress: Callable[[str], None]) -> None:
        progress("opening the log")
        time.sleep(float(sys.argv[2]))
        if sys.argv[3:] == ["fail"]:
            raise error("folder_in_use", pid=1, folder="data")
        super().start(progress)
        self.commit("gas_alarm", 0)


def prepare(progress: Callable[[str], None]) -> None:
    if sys.argv[3:] == ["prepare"]:
        for _ in range(100):
            progress("compiling kernels")
            time.sleep(float(sys.argv[2]))


if __name__ == "__main__":
    database = SlowStart()
    code = run(Settings(port=int(sys.argv[1])), database=database, prepare=prepare)
    print("stopped" if database.stopped else "left open", flush=True)
    sys.exit(code)
