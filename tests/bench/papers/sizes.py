"""How many rows and examples a test takes: all of them in `make soak`, few in `make test`."""

from __future__ import annotations

import os

SOAK = bool(os.environ.get("PENSTOCK_SOAK"))


def sized(soak: int, test: int) -> int:
    return soak if SOAK else test
