"""The matches of all standing selections, folded from commit records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from penstock.cycle.commit_files import ResultRow, from_payload, to_payload
from penstock.cycle.folder import DataFolder
from penstock.expr.windows import FOREVER
from penstock.operators.base.blocks import Blocks, add_block, cut_below, size_of
from penstock.operators.base.state import OperatorState
from penstock.operators.select.bit_matrix import BitMatrixRef, name_from_bytes
from penstock.operators.select.hold import HoldCache
from penstock.operators.select.match_positions import EvaluatedMatches
from penstock.operators.select.match_store import MatchStore, QueryCounters
from penstock.operators.select.position_lists import lists_from_bytes
from penstock.sql.plan import Plan
from penstock.views.query_state import QueryState


@dataclass(slots=True)
class OwnMatches:
    """One query's matches, beside those in the match store of its table."""

    matches: Blocks = field(default_factory=dict)
    base: Blocks = field(default_factory=dict)  # the rows that a window of rows counts
    values: list[pa.Table] = field(default_factory=list)  # what user functions gave
    evaluated: EvaluatedMatches = field(default_factory=EvaluatedMatches)

    def forget_below(self, position: int) -> None:
        cut_below(self.matches, position)
        cut_below(self.base, position)
        if self.values:
            self.values = [t for t in self.values if t.num_rows and t.column("_pos")[-1].as_py() >= position]
        self.evaluated.forget_below(position)

    @property
    def nbytes(self) -> int:
        own = size_of(self.matches) + size_of(self.base) + self.evaluated.nbytes
        return own + sum(int(table.nbytes) for table in self.values)


@dataclass(slots=True)
class QueryMatches:
    """What is kept of one query. Most of a hundred thousand queries have no matches of their own."""

    table_id: int | None  # of a selection; the rows of an outer join belong to no match store
    found: OwnMatches | None = None
    lasting: HoldCache | None = None  # of a condition that has to last

    @property
    def own(self) -> OwnMatches:
        """Its own matches, from now on."""
        if self.found is None:
            self.found = OwnMatches()
        return self.found

    @property
    def nbytes(self) -> int:
        own = self.found.nbytes if self.found is not None else 0
        return own + (self.lasting.nbytes if self.lasting is not None else 0)


class SelectState(OperatorState):
    """Matches by query, and a match store per table for the matches of many queries at once."""

    kinds: ClassVar[Mapping[str, Literal["query", "table"]]] = {
        "match": "query",
        "base": "query",
        "values": "query",
        "counts": "table",
        "sheet": "table",
        "lists": "table",
    }

    def __init__(self, folder: DataFolder) -> None:
        self._sheets = folder.sheets
        self.queries: dict[int, QueryMatches] = {}
        self.stores: dict[int, MatchStore] = {}
        self._counted = QueryCounters()
        self.orphans: dict[str, int] = {}  # bit matrices that no record names, and the cycle since when

    def define(self, query_id: int, plan: Plan, position: int) -> None:
        selection = plan.kernel.selection if plan.kernel is not None else None
        is_outer = plan.window_join is not None and plan.window_join.missing != "inner"
        if selection is None and not is_outer:
            self.queries.pop(query_id, None)
            return
        known = self.queries.setdefault(query_id, QueryMatches(None))
        known.table_id = selection.table_id if selection is not None else None
        if selection is not None and selection.lasting is not None and known.lasting is None:
            known.lasting = HoldCache()

    def drop(self, query_id: int) -> None:
        self.queries.pop(query_id, None)
        self._counted.forget(query_id)

    def drop_table(self, table_id: int) -> None:
        if table_id in self.stores:
            self.stores.pop(table_id).close()

    def fold(self, row: ResultRow, answer: QueryState | None, cycle: int) -> None:
        number, kind, rows, position, payload = row
        assert payload is not None
        if kind == "counts":
            self._counted.add(*np.split(np.frombuffer(payload, np.int64), 2))
        elif kind == "sheet":
            self._store(number).put(name_from_bytes(number, position, payload))
        elif kind == "lists":
            self._store(number).put_lists(lists_from_bytes(position, payload))
        elif answer is not None and number in self.queries:
            known = self.queries[number].own
            if kind == "values":
                known.values.append(from_payload(payload))
            else:
                answer.matched += rows if kind == "match" else 0
                add_block(known.matches if kind == "match" else known.base, position, BitMap.deserialize(payload))

    def _store(self, table_id: int) -> MatchStore:
        if table_id not in self.stores:
            self.stores[table_id] = MatchStore(self._sheets)
        return self.stores[table_id]

    def matched(self, query_id: int) -> int:
        return self._counted[query_id]

    def memory_of(self, query_id: int) -> int:
        """Bytes of a query's matches, with its share of what several queries share."""
        known = self.queries.get(query_id)
        store = self.stores.get(known.table_id or 0) if known is not None else None
        return (known.nbytes if known is not None else 0) + (store.share(query_id) if store is not None else 0)

    def trim(self, keep_from: Mapping[int, int]) -> None:
        lowest: dict[int, int] = {}
        for query_id, known in self.queries.items():
            position = keep_from.get(query_id, 0)
            if position > 0 and known.found is not None:
                known.found.forget_below(position)
            if known.table_id is not None:
                lowest[known.table_id] = min(lowest.get(known.table_id, position), position)
        reached = {query_id: keep_from.get(query_id, 0) for query_id in self.queries}
        for table_id, store in self.stores.items():
            store.merge(reached)
            store.forget_below(lowest.get(table_id, FOREVER))

    def snapshot(self) -> Iterator[ResultRow]:
        """Lists in full; of bit matrices only the file, the rows and the queries that they cover."""
        owned = ((query_id, known.found) for query_id, known in self.queries.items())
        for query_id, known in ((query_id, found) for query_id, found in owned if found is not None):
            for kind, blocks in (("match", known.matches), ("base", known.base)):
                for block, found in blocks.items():
                    yield query_id, kind, 0, block, found.serialize()
            for table in known.values:
                yield query_id, "values", 0, 0, to_payload(table)
        for table_id, store in self.stores.items():
            for lists in store.lists:
                yield table_id, "lists", 0, lists.first, lists.to_bytes()
            for kept in store.sheets:
                yield table_id, "sheet", 0, kept.first, kept.name.to_bytes()
            for lost in store.lost:
                name = BitMatrixRef(table_id, lost.first, lost.end, 0, 0, None, lost.members)
                yield table_id, "sheet", 0, lost.first, name.to_bytes()

    # -- the memory of the answers and the folder of bit matrices: what goes here can be evaluated again or was never committed

    def merge_lists(self) -> None:
        """Merge many lists into few: an answer has to search each of them."""
        for store in self.stores.values():
            store.merge(None)

    def give_up_passed(
        self,
        now_of: Callable[[int], int | None],
        spans: Callable[[int], Sequence[tuple[int, BitMap]]],
        most_bytes: int,
    ) -> list[Path]:
        """Drop bit matrices that no sliding window reaches as of now, then the oldest until the rest fits; returns their files."""
        for table_id, store in self.stores.items():
            now_us = now_of(table_id)
            if now_us is not None:
                store.give_up_passed(now_us, spans(table_id))
        while sum(store.nbytes for store in self.stores.values()) > most_bytes:
            largest = max(self.stores.values(), key=lambda store: store.nbytes)
            largest.give_up(largest.sheets[:1])
        return [path for store in self.stores.values() for path in store.take_files()]

    def release(self, query_id: int) -> None:
        known = self.queries.get(query_id)
        if known is not None and known.found is not None:
            known.found.evaluated.clear()
        if known is not None and known.lasting is not None:
            known.lasting.clear()

    def empty(self, query_id: int) -> None:
        known = self.queries.get(query_id)
        if known is not None:
            known.found = None

    def forget_evaluated(self, most_bytes: int) -> None:
        """What was found when asked is found again when asked again: it must not grow with all that was ever asked."""
        lasting = [known.lasting for known in self.queries.values() if known.lasting is not None]
        own = [known.found.evaluated for known in self.queries.values() if known.found is not None]
        kept = sum(evaluated.nbytes for evaluated in own)
        if kept + sum(memory.nbytes for memory in lasting) > most_bytes:
            for evaluated in own:
                evaluated.clear()
            for memory in lasting:
                memory.clear()

    def remove_orphans(self, heads: Mapping[int, int], cycle: int, after_cycles: int) -> None:
        """Remove bit matrices of cycles that were never committed, and files that killed tasks had begun to write.

        Later cycles write theirs while this one is folded, so a bit matrix is removed only if none of them can have written it.
        """
        named = {kept.name.file for store in self.stores.values() for kept in store.sheets}
        seen, self.orphans = self.orphans, {}
        for path in self._sheets.glob("*.sheet"):
            table_id, first = (int(part) for part in path.name.removeprefix(".").split("-")[:2])
            if path.name in named or first >= heads.get(table_id, FOREVER):
                continue
            since = seen.get(path.name, cycle)
            if cycle - since > after_cycles:
                path.unlink(missing_ok=True)
            else:
                self.orphans[path.name] = since


STATE = SelectState
