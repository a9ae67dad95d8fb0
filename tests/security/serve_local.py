"""`python -m tests.security.serve_local PORT FOLDER`: a server without Spark and without pages, to be attacked."""

from __future__ import annotations

import sys

from penstock.database.database import Database
from penstock.server.app import run
from penstock.settings import Settings
from tests.support.local_engine import LocalEngine

if __name__ == "__main__":
    settings = Settings(port=int(sys.argv[1]), data=sys.argv[2])
    raise SystemExit(run(settings, database=Database(settings, engine=LocalEngine)))
