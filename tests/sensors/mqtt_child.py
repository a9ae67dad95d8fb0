"""A server without Spark in a process of its own, which tests kill: python -m tests.sensors.mqtt_child FOLDER."""

from __future__ import annotations

import sys
import time

from penstock.clock import WallClock
from penstock.queries.database import Database
from penstock.settings import Settings
from tests.support.local_engine import LocalEngine


def main() -> None:
    database = Database(Settings(data=sys.argv[1]), WallClock(), engine=lambda *a: LocalEngine(*a))  # type: ignore[arg-type,return-value]
    database.start()
    print("ready", flush=True)
    while True:
        time.sleep(60)


if __name__ == "__main__":
    main()
