"""An answer as it is, for a page that only looks: its newest rows, and how many there are."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from penstock.catalog.model import QueryDefinition
from penstock.queries.database import Database
from penstock.sql.plan import evaluated_by_spark, plan_from_json


@dataclass(frozen=True, slots=True)
class AnswerPreview:
    """The newest `rows` of `count`, as of a cycle."""

    rows: pa.Table
    count: int
    cycle: int
    now_us: int | None


def look_at(database: Database, definition: QueryDefinition, newest: int) -> AnswerPreview | None:
    """The newest rows of a query's answer; None where there is no answer yet, or not now.

    A preview is not a use of the query: how the answer is stored stays as it is, and a large one costs no more than
    the rows that are shown.
    """
    if definition.paused:
        return None
    if evaluated_by_spark(plan_from_json(definition.plan)):
        found = database.spark_queries.answer_within(definition.id, definition.name, 0.0)
        if found is None:
            return None
        count = found.table.num_rows
        return AnswerPreview(found.table.slice(max(0, count - newest)), count, found.cycle, found.now_us)
    if not database.standing.store.knows(definition.id) or not database.standing.is_ready(definition.name, 0.0):
        return None
    held = database.standing.held(definition.name, asked=False)
    ids = held.inside()
    return AnswerPreview(held.rows(ids[max(0, len(ids) - newest) :]), len(ids), held.cycle, held.now_us)
