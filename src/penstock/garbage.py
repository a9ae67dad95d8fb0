"""Keep Python's garbage collector from looking at long-lived objects again and again.

A server with a thousand queries and subscribers has half a million objects that stay. Each full collection looked at all of
them, and no other thread ran meanwhile: cycles and answers waited for 200 to 450 ms.
"""

from __future__ import annotations

import gc
from typing import Literal

FEW_OBJECTS = 100_000


class LongLivedObjects:
    """Sets aside what survives a full collection. Cycles of references among those are found once their number has doubled."""

    def __init__(self) -> None:
        self._looked_at = 0  # how many were set aside after the last look at all of them
        self._all = False

    def __call__(self, phase: Literal["start", "stop"], info: dict[str, int]) -> None:
        """The collector calls this before and after each collection."""
        if info["generation"] < 2:
            return
        if phase == "start":
            self._all = gc.get_freeze_count() > 2 * self._looked_at + FEW_OBJECTS
            if self._all:
                gc.unfreeze()
            return
        gc.freeze()
        if self._all:
            self._looked_at = gc.get_freeze_count()


def set_long_lived_objects_aside() -> None:
    """For a process that serves: from now on full collections are short."""
    gc.callbacks.append(LongLivedObjects())
