"""Results of joins that run as one: each member gets the shared combinations that satisfy its conditions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa

from penstock.cache import Cache
from penstock.catalog.state import CatalogState
from penstock.cycle.folder import DataFolder
from penstock.errors import PenstockError
from penstock.expr.evaluate import Functions
from penstock.operators.join.kernels.combinations import Combinations, concat
from penstock.operators.join.kernels.keys import Ints
from penstock.operators.join.kernels.refinement import Refinement
from penstock.operators.join.kernels.runs import NO_KEY
from penstock.operators.join.kernels.step import BLOCK
from penstock.operators.join.steps.join_sharing import SharedJoin
from penstock.operators.join.steps.prepared_join import PreparedJoin
from penstock.operators.join.steps.results import EARLIEST, LATEST, Results, as_error, position_column, result_table
from penstock.operators.join.steps.tables import join_with_tables

WRITERS = 16
# So many results of all members together stay in memory, some forty bytes each.
HELD_ROWS = 2_000_000


class MemberResults:
    """One step's results of a group, by member. Members with equal conditions share one copy."""

    def __init__(
        self,
        folder: DataFolder,
        shared: SharedJoin,
        joins: Mapping[int, PreparedJoin],
        state: CatalogState,
        functions: Functions,
    ) -> None:
        self._shared = shared
        self._refinement = refinement_of(shared, functions)
        self._joins = joins
        self._state = state
        self._functions = functions
        self._first_of = self._find_twins()
        self._waiting: list[Combinations] = []
        self._held = 0
        self.combinations = 0
        self._results = {number: Results(folder, number) for number in dict.fromkeys(self._first_of.values())}
        self._rows = dict.fromkeys(self._results, 0)
        self.failed: dict[int, PenstockError] = {}

    @property
    def rows(self) -> dict[int, int]:
        """How many results each member has."""
        return {number: self._rows[first] for number, first in self._first_of.items()}

    def add(self, found: Combinations) -> None:
        """Add combinations. They are refined in blocks, since refinement has a cost per member and call."""
        self._waiting.append(found)
        self._held += len(found)
        self.combinations += len(found)
        if self._held >= BLOCK:
            self.settle()

    def settle(self) -> None:
        """Give out what is waiting."""
        if not self._waiting:
            return
        found = concat(self._waiting)
        self._waiting, self._held = [], 0
        streams = range(len(self._shared.join.streams))
        times = [found.ts[s] for s in streams]
        plain = [*(found.pos[s] for s in streams), np.minimum.reduce(times), np.maximum.reduce(times)]
        for members, rows in self._refinement.refine(found):
            chosen = plain if rows is None else [column[rows] for column in plain]
            for number in members:
                if number not in self._results or number in self.failed:
                    continue
                if self._joins[number].is_rich:
                    self._add_rich(number, self._joins[number], found if rows is None else found.take(rows))
                else:
                    self._add_plain(number, chosen)
        if sum(results.waiting_rows for results in self._results.values()) >= HELD_ROWS:
            self._write([results.flush for results in self._results.values() if results.writes_files])

    def packed(self) -> Iterator[tuple[int, list[tuple[str, int, bytes]]]]:
        """By member its rows of the commit record. Several members may share a file: it stays while any answer names it."""
        self._write([results.flush for results in self._results.values() if results.writes_files])
        found = {number: list(results.packed()) for number, results in self._results.items()}
        for number, first in self._first_of.items():
            if number not in self.failed:
                yield number, found[first]

    def _find_twins(self) -> dict[int, int]:
        """By member the first one that has the same results, written in the same order."""
        first_of = {}
        for members in self._refinement.alike:
            seen: dict[tuple[int, ...], int] = {}
            for number in members:
                order = self._shared.uniforms[number].order
                first_of[number] = number if self._joins[number].is_rich else seen.setdefault(order, number)
        return first_of

    def _write(self, writes: Sequence[Callable[[], None]]) -> None:
        """Write files in parallel, since most of the time is spent waiting for the disk."""
        if len(writes) > 1:
            with ThreadPoolExecutor(min(WRITERS, len(writes))) as pool:
                list(pool.map(lambda write: write(), writes))
        else:
            for write in writes:
                write()

    def _add_plain(self, number: int, columns: Sequence[Ints]) -> None:
        order = self._shared.uniforms[number].order
        names = [*(position_column(place) for place in order), EARLIEST, LATEST]
        by_name = dict(zip(names, map(pa.array, columns), strict=True))
        names = [*(position_column(place) for place in range(len(order))), EARLIEST, LATEST]
        self._results[number].add(pa.table([by_name[name] for name in names], names))
        self._rows[number] += len(columns[0])

    def _add_rich(self, number: int, join: PreparedJoin, found: Combinations) -> None:
        own = _as_written(found, self._shared.uniforms[number].order, join)
        try:
            for complete in join_with_tables(join, own, self._state, self._functions):
                self._results[number].add(result_table(join, complete, self._functions))
                self._rows[number] += len(complete)
        except OSError:
            raise
        except Exception as failure:  # from this member's own functions: other members go on
            self.failed[number] = as_error(failure)


def _as_written(found: Combinations, order: Sequence[int], join: PreparedJoin) -> Combinations:
    """Combinations with the streams in the order and under the names of the member's FROM."""
    columns = {}
    for new, old in enumerate(order):
        for name in join.streams[old].columns:
            columns[f"{join.join.aliases[old]}.{name}"] = found.columns[f"s{new}.{name}"]
    return Combinations(
        {old: found.pos[new] for new, old in enumerate(order)},
        {old: found.ts[new] for new, old in enumerate(order)},
        NO_KEY,
        columns,
    )


# A process runs one planner or one task at a time.
_KNOWN: Cache[int, tuple[SharedJoin, Refinement]] = Cache(most=256)


def refinement_of(shared: SharedJoin, functions: Functions) -> Refinement:
    """Made once for as long as a group stays as it is."""
    known = _KNOWN.get(id(shared))
    if known is None or known[0] is not shared:
        known = shared, Refinement(shared.join.join, shared.tested, shared.members, functions)
        _KNOWN.put(id(shared), known)
    return known[1]
