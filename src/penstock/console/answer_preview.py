"""An answer as it is, for a page that only looks: its newest rows, and how many there are."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from penstock.catalog.model import QueryDefinition
from penstock.database.database import Database


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
    if not database.standing.store.knows(definition.id) or not database.standing.is_ready(definition.name, 0.0):
        return None
    held = database.standing.held(definition.name, asked=False)
    ids = held.inside()
    return AnswerPreview(held.rows(ids[max(0, len(ids) - newest) :]), len(ids), held.stands_for, held.now_us)
