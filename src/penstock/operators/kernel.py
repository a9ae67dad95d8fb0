"""How compiled kernels are declared: Numba, cached on disk so that a fresh worker does not compile them again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile at the first call, keep the machine code beside the file, let go of the interpreter's lock."""
    return cast(F, numba.njit(cache=True, nogil=True)(function))
