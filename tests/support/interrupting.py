"""Somebody else's statement in the middle of an operation, at a moment that a test chooses.

An operation meets what others change in two places: it looks at the catalog, and it takes the lock of the answers. Before each
of them another thread may have come first. Here the same thread does what the other one would have done, so that a
test can go through all of these moments one by one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any

import pytest

from penstock.catalog.catalog import Catalog
from penstock.errors import PenstockError
from tests.support.pipe import Pipe


class Interrupting:
    """`at(n, sql)`: at the n-th moment from now on `sql` is run; a cycle follows at once unless the answers are locked."""

    def __init__(self, pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
        self._pipe = pipe
        self._thread = threading.get_ident()
        self._left = 0
        self._what: Callable[[], None] | None = None
        self.depth = 0
        standing: Any = pipe.db.standing
        monkeypatch.setattr(standing, "_lock", _Lock(standing._lock, self))
        own = Catalog.__dict__.get("state")
        assert own is None

        def state(catalog: Catalog) -> Any:
            if not catalog._lock._is_owned():  # type: ignore[attr-defined] # whoever defines something is alone
                self.moment()
            return catalog.__dict__["state"]

        def put(catalog: Catalog, value: Any) -> None:
            catalog.__dict__["state"] = value

        monkeypatch.setattr(Catalog, "state", property(state, put), raising=False)

    def at(self, moment: int, statement: str, cycle: bool = True) -> None:
        def run() -> None:
            with suppress(PenstockError):  # the operation was faster, or such a query cannot be changed so
                self._pipe.db.execute(statement)
            if cycle and self.depth == 0:
                self._pipe.engine.drain()

        self._left, self._what = moment, run

    def moment(self) -> None:
        if self._what is None or threading.get_ident() != self._thread:
            return
        self._left -= 1
        if self._left == 0:
            what, self._what = self._what, None
            what()

    def missed(self) -> bool:
        """Whether the operation was over before that moment. Nothing is left to come afterwards."""
        missed, self._what = self._what is not None, None
        return missed


class _Lock:
    def __init__(self, own: Any, interrupting: Interrupting) -> None:
        self._own, self._interrupting = own, interrupting

    def __enter__(self) -> None:
        ours = threading.get_ident() == self._interrupting._thread
        if ours and self._interrupting.depth == 0:
            self._interrupting.moment()
        self._own.acquire()
        self._interrupting.depth += ours

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._interrupting.depth -= threading.get_ident() == self._interrupting._thread
        self._own.release()
