"""The results of all standing window joins, folded from commit records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import orjson
from pyroaring import BitMap

from penstock.cycle.commit_files import ResultRow, from_payload
from penstock.cycle.folder import DataFolder
from penstock.errors import PenstockError
from penstock.operators.base.blocks import Blocks, cut_below
from penstock.operators.base.state import OperatorState
from penstock.operators.join.algorithm_choice import GroupChoice, JoinChoices
from penstock.operators.join.result_list import JoinResults, results_from_json, results_to_json
from penstock.operators.join.steps.results import read_results
from penstock.operators.join.steps.units import LIVE
from penstock.sql.plan import Plan
from penstock.views.query_state import QueryState


@dataclass(slots=True)
class PartneredRows:
    """Rows of the first input of an outer or anti join with a partner, and for the kept cycles which ones were new in each."""

    blocks: Blocks = field(default_factory=dict)
    _news: list[tuple[int, int, BitMap]] = field(default_factory=list)

    def add(self, cycle: int, block: int, found: BitMap) -> None:
        known = self.blocks.get(block, BitMap())
        self._news.append((cycle, block, found - known))
        self.blocks[block] = known | found

    def forget(self, oldest_cycle: int) -> None:
        """Cycles up to this one will not be asked about again."""
        if self._news and self._news[0][0] <= oldest_cycle:
            self._news = [told for told in self._news if told[0] > oldest_cycle]

    def without(self, rows: Blocks, cycle: int) -> Blocks:
        """The given rows that had no partner at a cycle."""
        left = {block: found - self.blocks.get(block, BitMap()) for block, found in rows.items()}
        for when, block, news in self._news:
            if when > cycle and block in left:
                left[block] |= news & rows[block]
        return {block: found for block, found in left.items() if found}


@dataclass(slots=True)
class QueryResults:
    """One join's results. A changed definition fills `coming`, which takes over once its history is read."""

    results: JoinResults = field(default_factory=lambda: JoinResults(0))
    coming: JoinResults | None = None
    earlier: tuple[JoinResults, ...] = ()  # the answer at older cycles that are still kept, one per change
    partners: PartneredRows = field(default_factory=PartneredRows)
    report: tuple[int, dict[int, dict[str, Any]]] | None = None  # the cycle of the last step, and what its parts report

    @property
    def lists(self) -> tuple[JoinResults, ...]:
        """All lists of results that are kept."""
        return (self.results, *((self.coming,) if self.coming is not None else ()), *self.earlier)

    @property
    def generations(self) -> set[int]:
        return {results.generation for results in self.lists}


class JoinState(OperatorState):
    """The results by query, for plans that are window joins or stand on one."""

    kinds: ClassVar[Mapping[str, Literal["query", "table"]]] = {
        "join": "query",
        "join_file": "query",
        "join_info": "query",
        "partnered": "query",
    }

    def __init__(self, folder: DataFolder) -> None:
        self._folder = folder
        self.queries: dict[int, QueryResults] = {}
        self.choices = JoinChoices()

    def group_of(self, query_id: int) -> GroupChoice | None:
        """What is known about the algorithms of a join, or of the group that it last ran with."""
        known = self.queries.get(query_id)
        reports = known.report[1].values() if known is not None and known.report is not None else ()
        return next((self.choices.groups[r["group"]] for r in reports if r.get("group") in self.choices.groups), None)

    def define(self, query_id: int, plan: Plan, position: int) -> None:
        if plan.window_join is None:
            self.queries.pop(query_id, None)
        else:
            self.queries.setdefault(query_id, QueryResults()).coming = JoinResults(position)

    def drop(self, query_id: int) -> None:
        self.queries.pop(query_id, None)

    def fold(self, row: ResultRow, answer: QueryState | None, cycle: int) -> None:
        query_id, kind, _, position, payload = row
        known = self.queries.get(query_id)
        if answer is None or known is None or payload is None:
            return
        if kind == "join_info":
            if known.report is None or known.report[0] != cycle:
                known.report = (cycle, {})
            said = known.report[1][position] = orjson.loads(payload)
            if "costs" in said and said["unit"] == query_id:  # another join that found the same has a copy
                self.choices.add(cycle, position, said)
        elif kind == "partnered":
            known.partners.add(cycle, position, BitMap.deserialize(payload))
        else:
            self._add(known, answer, position, payload, None if kind == "join" else payload.decode())

    def _add(self, known: QueryResults, answer: QueryState, generation: int, payload: bytes, file: str | None) -> None:
        """Add live results to the present and the coming generation, those of history to the coming one only."""
        try:
            table = from_payload(payload) if file is None else read_results(self._folder, file)
        except PenstockError as damage:  # no other answer suffers from a file that cannot be read
            answer.fail(damage.message, damage.condition)
            return
        if generation == LIVE:
            known.results = known.results.with_results(table, file)
        if known.coming is not None and generation in (LIVE, known.coming.generation):
            known.coming = known.coming.with_results(table, file)
        answer.matched = (known.coming or known.results).count

    def finish_fill(self, query_id: int) -> None:
        known = self.queries.get(query_id)
        if known is not None and known.coming is not None:
            known.earlier = (*known.earlier, known.results)
            known.results, known.coming = known.coming, None

    def trim(self, keep_from: Mapping[int, int]) -> None:
        for query_id, position in keep_from.items():
            if query_id in self.queries:
                cut_below(self.queries[query_id].partners.blocks, position)

    def snapshot(self) -> Iterator[ResultRow]:
        for query_id, known in self.queries.items():
            for block, found in known.partners.blocks.items():
                yield query_id, "partnered", 0, block, found.serialize()

    def details(self, query_id: int) -> dict[str, Any]:
        known = self.queries.get(query_id)
        if known is None:
            return {}
        return {"results": results_to_json(known.results), "coming": results_to_json(known.coming)}

    def restore(self, query_id: int, kept: Mapping[str, Any]) -> None:
        known = self.queries.get(query_id)
        if known is not None:
            known.results, known.coming = JoinResults(0), None
            results, coming = (results_from_json(kept[which], self._folder) for which in ("results", "coming"))
            known.results, known.coming = results or known.results, coming


STATE = JoinState
