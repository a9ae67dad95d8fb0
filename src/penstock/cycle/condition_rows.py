"""What became of conditions that cost much in a task, as rows of RESULT_SCHEMA: calls, calls saved, time, what was kept.

The server adds them up for EXPLAIN ANALYZE; they are no part of an answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from penstock.cycle.commit_files import ResultRow
from penstock.expr.expression import Expr
from penstock.expr.lazy_factors import FactorFigures

# Of so many conditions a task reports each time; the others wait.
CONDITIONS_MOST = 100
_KIND = "conditions"

ConditionKey = tuple[int, str]
"""The table that a condition is about, 0 for combinations of rows, and its text."""


def condition_rows(found: Iterable[tuple[int, Mapping[Expr, FactorFigures]]], first: int = 0) -> Iterator[ResultRow]:
    """One row per table and step."""
    for table_id, figures in found:
        if figures:
            told = [{"condition": str(expr), **each.to_json()} for expr, each in figures.items()]
            yield table_id, _KIND, 0, first, orjson.dumps(told)


def conditions_in(results: pa.Table) -> Iterator[tuple[ConditionKey, FactorFigures]]:
    """The same, read from the results of a cycle."""
    rows = results.filter(pc.equal(results.column("kind"), _KIND))
    for table_id, payload in zip(rows.column("query").to_pylist(), rows.column("payload").to_pylist(), strict=True):
        for each in orjson.loads(payload):
            yield (table_id, each.pop("condition")), FactorFigures(**each)
