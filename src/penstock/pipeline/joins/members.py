"""Results of joins that run as one: the shared combinations go to each member whose conditions they satisfy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa

from penstock.catalog.state import CatalogState
from penstock.operators.evaluate import Functions
from penstock.operators.joins.combinations import Combinations, concat
from penstock.operators.joins.keys import Ints
from penstock.operators.joins.refining import Refinement
from penstock.operators.joins.runs import NO_KEY
from penstock.operators.joins.step import BLOCK
from penstock.pipeline.folder import DataFolder
from penstock.pipeline.joins.prepared import PreparedJoin
from penstock.pipeline.joins.results import EARLIEST, LATEST, Results, position_column, result_table
from penstock.pipeline.joins.sharing import Shared
from penstock.pipeline.joins.tables import join_with_tables

WRITERS = 16


class MemberResults:
    """One step's results of a group, member by member."""

    def __init__(
        self,
        folder: DataFolder,
        shared: Shared,
        joins: Mapping[int, PreparedJoin],
        state: CatalogState,
        functions: Functions,
    ) -> None:
        self._shared = shared
        self._refinement = refinement_of(shared, functions)
        self._joins = joins
        self._state = state
        self._functions = functions
        self._waiting: list[Combinations] = []
        self._held = 0
        self.combinations = 0
        self.results = {number: Results(folder, number) for number in joins}
        self.rows = dict.fromkeys(joins, 0)

    def add(self, found: Combinations) -> None:
        """Many at a time: telling members apart costs something for each of them."""
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
                join = self._joins[number]
                if join.tables or join.computed:
                    self._add_rich(number, join, found if rows is None else found.take(rows))
                else:
                    self._add_plain(number, chosen)

    def packed(self) -> Iterator[tuple[int, list[tuple[str, int, bytes]]]]:
        """By member what the commit record holds. Files wait for the disk side by side: most of that time nobody works."""
        large = [number for number, results in self.results.items() if results.writes_files]
        if len(large) > 1:
            with ThreadPoolExecutor(min(WRITERS, len(large))) as pool:
                written = dict(zip(large, pool.map(lambda n: list(self.results[n].packed()), large), strict=True))
        else:
            written = {}
        for number, results in self.results.items():
            yield number, written[number] if number in written else list(results.packed())

    def _add_plain(self, number: int, columns: Sequence[Ints]) -> None:
        order = self._shared.orders[number]
        names = [*(position_column(place) for place in order), EARLIEST, LATEST]
        by_name = dict(zip(names, map(pa.array, columns), strict=True))
        names = [*(position_column(place) for place in range(len(order))), EARLIEST, LATEST]
        self.results[number].add(pa.table([by_name[name] for name in names], names))
        self.rows[number] += len(columns[0])

    def _add_rich(self, number: int, join: PreparedJoin, found: Combinations) -> None:
        own = _as_written(found, self._shared.orders[number], join)
        for complete in join_with_tables(join, own, self._state, self._functions):
            self.results[number].add(result_table(join, complete, self._functions))
            self.rows[number] += len(complete)


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


_KNOWN: dict[int, tuple[Shared, Refinement]] = {}


def refinement_of(shared: Shared, functions: Functions) -> Refinement:
    """Made once for as long as a group stays as it is."""
    known = _KNOWN.get(id(shared))
    if known is None or known[0] is not shared:
        if len(_KNOWN) >= 256:
            _KNOWN.clear()
        made = Refinement(shared.join.join, shared.tested, shared.members, functions)
        known = _KNOWN[id(shared)] = (shared, made)
    return known[1]
