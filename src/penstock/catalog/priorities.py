"""Classes of queries: a query is at least as important as every query that reads it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.catalog.model import PRIORITIES, QueryDefinition

_RANK = {name: rank for rank, name in enumerate(PRIORITIES)}


def rank_of(query: QueryDefinition) -> int:
    """0 is the most important class."""
    return _RANK[query.priority]


def needed_by(reader: QueryDefinition) -> str:
    """The least class of what a query reads: nothing that is read may stand behind, so it is never low."""
    return PRIORITIES[min(rank_of(reader), _RANK["normal"])]


def deferrable(queries: Iterable[QueryDefinition]) -> frozenset[int]:
    """The queries that may stand behind by their class: `low`, and beside class `high` those of `normal` that call users' functions.

    A query that is read by others is none of them.
    """
    low: set[int] = set()
    costly: list[QueryDefinition] = []
    read: set[str] = set()
    high = False
    for query in queries:
        read.update(query.reads_queries)
        if query.priority == "low":
            low.add(query.id)
        elif query.priority == "high":
            high = True
        elif query.reads_functions:
            costly.append(query)
    return frozenset(low.union(q.id for q in costly if q.name not in read) if high else low)


def raised_by_readers(queries: Mapping[str, QueryDefinition], readers: Iterable[QueryDefinition]) -> dict[str, str]:
    """The queries that these readers raise, directly or through others, with their new classes."""
    raised: dict[str, str] = {}
    left = [(name, needed_by(reader)) for reader in readers for name in reader.reads_queries]
    while left:
        name, needed = left.pop()
        known = queries.get(name)
        if known is not None and _RANK[raised.get(name, known.priority)] > _RANK[needed]:
            raised[name] = needed
            left += [(read, needed) for read in known.reads_queries]
    return raised


def reader_above(queries: Iterable[QueryDefinition], name: str, priority: str) -> QueryDefinition | None:
    """A query that reads another one, and needs it to be of a higher class than this."""
    readers = (query for query in queries if name in query.reads_queries)
    return next((reader for reader in readers if _RANK[needed_by(reader)] < _RANK[priority]), None)
