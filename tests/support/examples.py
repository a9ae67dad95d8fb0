"""How many examples a property is tried with: fewer in `make test-fast`."""

from __future__ import annotations

import os

FAST = bool(os.environ.get("PENSTOCK_FAST"))
FAST_EXAMPLES = 25


def examples(count: int) -> int:
    """For `@settings(max_examples=...)`, which a profile does not change."""
    return min(count, FAST_EXAMPLES) if FAST else count
