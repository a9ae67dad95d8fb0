"""Pause the garbage collector while thousands of definitions are loaded, so that it does not scan them again and again."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loading() -> Iterator[None]:
    """What is made meanwhile is meant to stay: the collector has nothing to find in it, and looks at all there is."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()
