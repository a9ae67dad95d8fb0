"""How the kernels of the papers are declared: compiled, or left to the interpreter where that is shorter.

Compiling all of them takes half a minute of the processor. A test on few rows takes less than that in plain Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from penstock.expr.kernel import kernel as compiled

F = TypeVar("F", bound=Callable[..., Any])
_interpreted = False


def interpret_kernels() -> None:
    """Leave the kernels of all modules that are imported from now on to the interpreter."""
    global _interpreted
    _interpreted = True


def kernel(function: F) -> F:
    return function if _interpreted else compiled(function)
