"""Who uses what: the names that could not live without another."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from penstock.catalog.model import QueryDefinition, Table

Name = tuple[str, str]  # kind (table, stream_type, function, query) and name


def users_by_name(tables: Iterable[Table], queries: Iterable[QueryDefinition]) -> Mapping[Name, list[Name]]:
    """For everything that is used, its direct users in the order they came."""
    users: defaultdict[Name, list[Name]] = defaultdict(list)
    for table in tables:
        if table.stream is not None and table.stream.stream_type is not None:
            users["stream_type", table.stream.stream_type].append(("table", table.name))
    for query in queries:
        me = ("query", query.name)
        for kind, names in (
            ("table", query.reads_tables),
            ("query", query.reads_queries),
            ("function", query.reads_functions),
        ):
            for name in dict.fromkeys(names):
                users[kind, name].append(me)
    return users


def with_users(name: Name, users: Mapping[Name, list[Name]]) -> list[Name]:
    """A name and all that would not live without it, users before what they use."""
    ordered: list[Name] = []
    seen = {name}
    # Not recursive: queries may stand on queries in chains longer than Python's stack.
    path = [(name, iter(users.get(name, ())))]
    while path:
        at, rest = path[-1]
        user = next(rest, None)
        if user is None:
            ordered.append(at)
            path.pop()
        elif user not in seen:
            seen.add(user)
            path.append((user, iter(users.get(user, ()))))
    return ordered
