"""An end without a word at a chosen step."""

from __future__ import annotations

from collections.abc import Callable


def crash_at(step: str, count: int, die: Callable[[], None]) -> Callable[[str], None]:
    """A crash point that dies when the step is reached for the COUNTth time."""
    left = [count]

    def crash_point(reached: str) -> None:
        if reached == step:
            left[0] -= 1
            if left[0] == 0:
                die()

    return crash_point
