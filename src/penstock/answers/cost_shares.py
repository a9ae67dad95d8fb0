"""Divide the work time of a cycle among its queries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from penstock.views.answer_store import AnswerStore

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class CostShares:
    """By function, the queries that call it as rows come; by table, those that slice its rows."""

    calling: Mapping[str, list[int]] = field(default_factory=dict)
    slicing: Mapping[int, list[int]] = field(default_factory=dict)


def users_of(store: AnswerStore) -> CostShares:
    calling: dict[str, list[int]] = defaultdict(list)
    slicing: dict[int, list[int]] = defaultdict(list)
    for query_id, answer in store.answers.items():
        if answer.paused:
            continue
        if answer.plan.aggregation is not None:
            slicing[answer.plan.aggregation.table_id].append(query_id)
        elif answer.scalars:
            slicing[answer.scalars[0].plan.table_id].append(query_id)
        elif answer.plan.selection is not None:
            for name in store.state.queries_by_id[query_id].reads_functions:
                calling[name].append(query_id)
    return CostShares(calling, slicing)


def own_ms(results: pa.Table, users: CostShares) -> tuple[Ints, Floats]:
    """Queries and the milliseconds that a cycle spent on each, where that was measured; one may be named several times."""
    told = results.filter(pc.is_in(results.column("kind"), pa.array(["join_info", "spent"])))
    queries: list[int] = []
    spent: list[float] = []
    for number, kind, payload in zip(*(told.column(n).to_pylist() for n in ("query", "kind", "payload")), strict=True):
        said = orjson.loads(payload)
        parts = _of_join(number, said) if kind == "join_info" else _of_unit(number, said, users)
        for sharing, ms in parts:
            queries += sharing
            spent += [ms / max(1, len(sharing))] * len(sharing)
    return np.array(queries, np.int64), np.array(spent, np.float64)


def _of_join(number: int, said: Mapping[str, Any]) -> Iterator[tuple[list[int], float]]:
    yield [number], said["ms"] / (1 + said.get("shared_with", 0))


def _of_unit(table_id: int, said: Mapping[str, Any], users: CostShares) -> Iterator[tuple[list[int], float]]:
    if "queries" in said:
        yield said["queries"], said["ms"]
        return
    yield users.slicing.get(table_id, []), said.get("slices", 0.0)
    for name, ms in said["functions"].items():
        yield users.calling.get(name, []), ms
