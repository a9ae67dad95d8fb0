"""A worker's copy of the definitions, kept between tasks: soft state, tagged with its journal position."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from penstock.catalog.journal import JournalReader
from penstock.catalog.model import Function
from penstock.catalog.state import CatalogState
from penstock.operators.functions import compile_function

_CACHE: dict[str, Definitions] = {}


class Definitions:
    """The catalog at a journal position, with its functions compiled."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._reader = JournalReader(root)
        self.state = CatalogState()
        self._compiled: dict[Function, Callable[..., pa.Array]] = {}

    def advance(self, position: int) -> None:
        self.state.apply_many(self._reader.read(upto=position))

    def functions(self) -> dict[str, Callable[..., pa.Array]]:
        for function in self.state.functions.values():
            if function not in self._compiled:
                self._compiled[function] = compile_function(function)
        return {f.name: self._compiled[f] for f in self.state.functions.values()}


def definitions_at(root: str, position: int) -> Definitions:
    """The definitions exactly as of `position`; built anew where this worker is ahead already."""
    known = _CACHE.get(root)
    if known is None or known.state.position > position:
        known = Definitions(Path(root))
        _CACHE[root] = known
    if known.state.position < position:
        known.advance(position)
    return known


def definitions_since(root: str, position: int) -> Definitions:
    """The definitions as of `position` or later: enough for static versions, which only ever grow."""
    known = _CACHE.get(root)
    return known if known is not None and known.state.position >= position else definitions_at(root, position)
