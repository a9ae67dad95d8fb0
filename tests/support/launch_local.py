"""`python -m tests.support.launch_local serve --data FOLDER --port PORT ..`: a server without Spark and without pages."""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from pathlib import Path

from tests.browser.serve_local import main

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["serve"])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    given, _ = parser.parse_known_args()
    raise SystemExit(main(given.port, given.data, pages=lambda _: nullcontext()))
