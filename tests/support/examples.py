"""How much is tried: all seeds in `make soak`, few examples of a property in `make test-fast`."""

from __future__ import annotations

import os

SOAK = bool(os.environ.get("PENSTOCK_SOAK"))
FAST = bool(os.environ.get("PENSTOCK_FAST"))
FAST_EXAMPLES = 25


def examples(count: int) -> int:
    """For `@settings(max_examples=...)`, which a profile does not change."""
    return min(count, FAST_EXAMPLES) if FAST else count


def seeds(count: int, soak: int | None = None) -> range:
    """For a story that is told with random seeds: one of them in `make test-fast`."""
    return range(1 if FAST else soak if SOAK and soak is not None else count)
