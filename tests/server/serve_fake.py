"""A server process over the fake database, for tests that send it signals. Prints what became of it.

Its arguments: the port, a file that its start waits for (or -), and what else it shall do.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from penstock.errors import error
from penstock.server import app as server_run
from penstock.settings import Settings
from tests.server.fake import FakeDatabase


class SlowStart(FakeDatabase):
    def start(self, progress: Callable[[str], None]) -> None:
        progress("opening the log")
        while sys.argv[2] != "-" and not Path(sys.argv[2]).exists():
            time.sleep(0.01)
        if sys.argv[3:] == ["fail"]:
            raise error("folder_in_use", pid=1, folder="data")
        super().start(progress)
        self.commit("gas_alarm", 0)


def prepare(progress: Callable[[str], None]) -> None:
    while sys.argv[3:] == ["prepare"]:
        progress("compiling kernels")
        time.sleep(0.1)


if __name__ == "__main__":
    # Live streams that did not end by themselves would be cut off after this time: then the test has long failed.
    server_run.configured = partial(server_run.configured, grace_s=600)
    database = SlowStart()
    code = server_run.run(Settings(port=int(sys.argv[1])), database=database, prepare=prepare)
    print("stopped" if database.stopped else "left open", flush=True)
    sys.exit(code)
