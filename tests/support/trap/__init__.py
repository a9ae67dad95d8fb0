"""An operator beside the others that fails when a test says so: `TRAP` holds what it calls.

It plans and answers nothing. In workers and in the server it sees the queries of all operators, as any operator does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from penstock.operators import registry


@dataclass(slots=True)
class Trap:
    """What is called, with numbers of queries or tables; it raises to fail there."""

    follow: Callable[[int], None] = lambda query_id: None  # a worker prepares a query
    run: Callable[[frozenset[int], int], None] = lambda queries, table_id: None  # a worker meets rows of a table
    define: Callable[[int], None] = lambda query_id: None  # the server takes in a definition
    fold: Callable[[int], None] = lambda query_id: None  # the server takes in a result

    def spring(self) -> None:
        """Fail no more."""
        idle = Trap()
        self.follow, self.run, self.define, self.fold = idle.follow, idle.run, idle.define, idle.fold


TRAP = Trap()


@contextmanager
def trapped() -> Iterator[Trap]:
    """With its line in the registry."""
    with pytest.MonkeyPatch.context() as registered:
        registered.setitem(registry.OPERATORS, "trap", __name__)
        try:
            yield TRAP
        finally:
            TRAP.spring()
