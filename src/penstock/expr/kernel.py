"""How compiled kernels are declared: Numba, cached on disk so that a fresh worker does not compile them again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile at the first call, cache the machine code on disk, and release the interpreter's lock.

    It is kept beside the source, in the user's cache where the installation is read-only, or not at all.
    """
    compiled = numba.njit(nogil=True)(function)
    try:
        compiled.enable_caching()
    except RuntimeError:
        pass  # Numba found no folder that it can write to: every process compiles for itself
    return cast(F, compiled)


def cache_folder() -> Path | None:
    """Where the machine code of kernels is kept; None where nothing can be written."""
    found = kernel(cache_folder).stats.cache_path  # type: ignore[attr-defined]
    return None if found is None else Path(found)
