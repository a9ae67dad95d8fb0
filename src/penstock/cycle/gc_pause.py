"""Pause the garbage collector while thousands of definitions are loaded, so that it does not scan them again and again."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loading() -> Iterator[None]:
    """Pause the garbage collector in this block: objects that are made here stay, so a collection would find nothing."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()
