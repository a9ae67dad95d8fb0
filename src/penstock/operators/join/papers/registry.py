"""The window join algorithms by name: what a hint may ask for, and what EXPLAIN says about each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.operators.join.kernels.bounds import Bounds, form
from penstock.operators.join.papers import (
    backward,
    extended_backward,
    forward,
    forward_hash,
    gca,
    hash,
    lca,
    nested_loop,
)
from penstock.operators.join.papers.family import Run


def _any_form(bounds: Bounds) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One algorithm for window joins. `forms` describes in words the bounds that `covers` accepts."""

    name: str
    description: str
    run: Run
    needs_key: bool = False
    forms: str = "any form"
    covers: Callable[[Bounds], bool] = _any_form

    def refusal(self, bounds: Bounds, keyed: bool) -> str | None:
        """Why it cannot evaluate a join with these windows, with or without an equality; None where it can."""
        if self.needs_key and not keyed:
            return f"{self.name} needs an equality between all streams"
        if not self.covers(bounds):
            return f"{self.name} covers {self.forms}; these windows are a {form(bounds)}"
        return None


_ONE_WINDOW = "windows that are the same for all streams, and pairs"

ALGORITHMS: dict[str, Algorithm] = {
    algorithm.name: algorithm
    for algorithm in (
        Algorithm("nested_loop", "NLW-join: a new tuple looks back, nested loops inside the period", nested_loop.run),
        Algorithm("hash", "HW-join: a new tuple looks back along hash chains in time order", hash.run, needs_key=True),
        Algorithm("backward", "BEW-join: a new tuple looks back; hash chains if there is an equality", backward.run),
        Algorithm(
            "forward",
            "MW-join: Mode 1 finds a starting combination, Mode 2 joins whole buffers without window tests",
            forward.run,
            forms=_ONE_WINDOW,
            covers=forward.covers,
        ),
        Algorithm(
            "forward_hash",
            "FEW-join: as forward, with hash chains",
            forward_hash.run,
            needs_key=True,
            forms=_ONE_WINDOW,
            covers=forward.covers,
        ),
        Algorithm("gca", "forward with the largest window of all, then every pair is tested", gca.run),
        Algorithm("lca", "forward with each stream's own largest window, then every pair is tested", lca.run),
        Algorithm("extended", "extended BEW-join: looks back along the stated windows only", extended_backward.run),
    )
}
