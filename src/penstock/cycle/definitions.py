"""A worker's copy of the definitions, kept between tasks: soft state, tagged with its journal position."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from weakref import WeakSet

import pyarrow as pa

from penstock.cache import Cache
from penstock.catalog.definition_json import changed_by_run_plan, quarantined_by
from penstock.catalog.journal import SNAPSHOT, JournalMoved, JournalReader
from penstock.catalog.model import Entry, Function
from penstock.catalog.state import CatalogState
from penstock.cycle.result_rows import UnitCost
from penstock.errors import PenstockError, error
from penstock.expr.user_functions import compile_function
from penstock.sql.plan import Plan, plan_from_json

_CACHE: dict[str, Definitions] = {}
# Copies for questions that are ahead of the cycles, until those catch up.
_AHEAD: dict[str, Definitions] = {}


# Ten thousand plans were most of a worker's memory, and once its queries are in the index none is needed.
_PLANS_KEPT = 256
_JUMPED = -1  # no query's number


class Changes:
    """Queries that were registered, changed or dropped since the holder of this object last cleared it."""

    def __init__(self) -> None:
        self.queries: set[int] = set()


class Definitions:
    """The catalog at a journal position, with its functions compiled."""

    def __init__(self, root: Path) -> None:
        self._reader = JournalReader(root)
        self.state = CatalogState(texts=False)
        self._compiled: dict[Function, Callable[..., pa.Array]] = {}
        self._functions: dict[str, Callable[..., pa.Array]] = {}
        self._functions_of: dict[str, Function] | None = None
        self._calls: dict[str, UnitCost] = {}
        self._plans: Cache[int, Plan] = Cache(most=_PLANS_KEPT)
        self._changes: WeakSet[Changes] = WeakSet()
        self.skipped: frozenset[int] = frozenset()

    def skip(self, queries: frozenset[int]) -> None:
        """Leave these queries, and no others, out of evaluation from now on."""
        for gathered in self._changes:
            gathered.queries |= queries ^ self.skipped
        self.skipped = queries

    def advance(self, position: int) -> None:
        changed: set[int] = set()
        before, deferrable = self.state.queries_by_id, self.state.deferrable()
        with loading():
            self.state.apply_many(self._noting(self._reader.entries(upto=position), changed))
        if _JUMPED in changed:  # over lines that are gone: any query may be another one
            changed |= before.keys() | self.state.queries_by_id.keys()
            changed.discard(_JUMPED)
        for known in (before, self.state.queries_by_id):
            changed |= {branch for q in changed if q in known for branch in known[q].branches}
        for query_id in changed:
            self._plans.remove(query_id)
        changed |= (
            deferrable ^ self.state.deferrable()
        )  # a query of class high, or a reader, changes what others may do
        for gathered in self._changes:
            gathered.queries |= changed

    def _noting(self, entries: Iterable[Entry], changed: set[int]) -> Iterator[Entry]:
        """Note the queries that entries register, change or drop; one that they both register and drop is known by its id."""
        known = self.state.queries  # as they were before the first of these entries
        for entry in entries:
            if entry.kind in ("create_query", "change_query"):
                changed.add(entry.body["id"])
            elif entry.kind == "run_plan":
                changed.update(changed_by_run_plan(entry))
            elif entry.kind == "quarantine":
                changed.update(quarantined_by(entry))
            elif entry.kind == "describe_query" and entry.body["name"] in known:
                changed.add(known[entry.body["name"]].id)  # its strategy decides whether cycles evaluate it
            elif entry.kind == SNAPSHOT:
                changed.add(_JUMPED)
            elif entry.kind == "drop":
                changed |= {known[name].id for kind, name in entry.body["names"] if kind == "query" and name in known}
            yield entry

    def gather_changes(self) -> Changes:
        """A new `Changes` that collects changes from now on, for as long as a caller holds a reference to it."""
        changes = Changes()
        self._changes.add(changes)
        return changes

    def plan(self, query_id: int) -> Plan:
        """A query's plan, read from its definition; a fill that follows at once finds it read."""
        plan = self._plans.get(query_id)
        if plan is None:
            plan = plan_from_json(self.state.queries_by_id[query_id].plan)
            self._plans.put(query_id, plan)
        return plan

    def functions(self) -> dict[str, Callable[..., pa.Array]]:
        """Compiled functions by name, without aggregates, which plans have: always the same dict, so that its holders see later functions too."""
        functions = self.state.functions
        if functions is not self._functions_of:
            scalar = [function for function in functions.values() if function.state is None]
            for function in scalar:
                if function not in self._compiled:
                    self._compiled[function] = self._timed(function.name, _compiled(function))
            self._compiled = {f: self._compiled[f] for f in scalar}
            self._functions.clear()
            self._functions.update({f.name: self._compiled[f] for f in scalar})
            self._functions_of = functions
        return self._functions

    def _timed(self, name: str, call: Callable[..., pa.Array]) -> Callable[..., pa.Array]:
        def timed(*arrays: Any, **named: Any) -> pa.Array:
            began, out, rows = time.perf_counter_ns(), 0, named.get("rows") or 0
            try:
                found = call(*arrays, **named)
                out = _true_count(found) if pa.types.is_boolean(found.type) else rows
                return found
            finally:
                cost = self._calls.setdefault(name, UnitCost("call", name))
                cost.add(rows, out, time.perf_counter_ns() - began)

        return timed

    def take_calls(self) -> Mapping[str, UnitCost]:
        """What each function was called for since this was last asked."""
        calls, self._calls = self._calls, {}
        return calls


def _true_count(values: pa.Array | pa.ChunkedArray | pa.Scalar) -> int:
    return int(values.true_count) if isinstance(values, pa.BooleanArray) else 0


def _compiled(function: Function) -> Callable[..., pa.Array]:
    """The function; one that cannot even be defined fails the queries that call it, and no others."""
    try:
        return compile_function(function)
    except PenstockError as failure:
        why = failure

    def fail(*arrays: pa.Array, **named: Any) -> pa.Array:
        raise why.with_traceback(None)  # or it would grow with every call

    return fail


def definitions_at(root: str, position: int) -> Definitions:
    """The definitions exactly as of `position`; loaded again where this worker is ahead already."""
    known = _CACHE.get(root)
    if known is None or known.state.position > position:
        known = _CACHE[root] = Definitions(Path(root))
    if known.state.position < position:
        del _CACHE[root]  # one that stopped half-way must not be taken for one that has come to its end
        known = _CACHE[root] = _advanced(root, known, position)
    return known


def definitions_since(root: str, position: int) -> Definitions:
    """The definitions as of `position` or later: enough for static versions, which only ever grow.

    A question may be ahead of the cycles. If it advanced their copy, the next cycle would have to load it again.
    """
    known = _CACHE.get(root)
    if known is not None and known.state.position >= position:
        _AHEAD.pop(root, None)
        return known
    ahead = _AHEAD.setdefault(root, Definitions(Path(root)))
    if ahead.state.position < position:
        ahead = _AHEAD[root] = _advanced(root, ahead, position)
    return ahead


def _advanced(root: str, known: Definitions, position: int) -> Definitions:
    """The definitions as of `position`; loaded again where the journal entries after `known` are no longer kept."""
    try:
        known.advance(position)
    except JournalMoved:
        known = Definitions(Path(root))
        known.advance(position)
    if known.state.position < position:  # the end of the journal was stored, but cannot be read here
        detail = f"this process can read entries up to {known.state.position} only"
        raise error("corrupt_journal", position=position, detail=detail)
    return known


@contextmanager
def loading() -> Iterator[None]:
    """Pause the garbage collector in this block: objects that are made here stay, so a collection would find nothing."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()
