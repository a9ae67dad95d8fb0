"""A standing query at a mark: what every operator is given to answer it there."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.views.feed import Mark
from penstock.views.query_state import QueryState


@dataclass(frozen=True, slots=True)
class QueryAt:
    """A query, its state, and the committed cycle as of which it is answered."""

    id: int
    name: str
    state: QueryState
    mark: Mark
