"""What an answer is worth, and what it costs to get: `python -m bench.quality` runs the parts, a module of this folder each.

A part has a function `run(settings)` that gives its figures. `settings.say` prints a line; `settings.seconds` is how long a part holds a rate, or None.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

Figures = dict[str, float | None]
"""What a run of a part found, by the names in the results; None where it could not measure one."""


def parts() -> dict[str, Callable[[Any], Figures]]:
    """The parts by name: every module of this folder that has a function `run`."""
    modules = {info.name: import_module(f"{__name__}.{info.name}") for info in iter_modules(__path__)}
    return {name: module.run for name, module in sorted(modules.items()) if hasattr(module, "run")}
