"""Dependents: the names of definitions that use another one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from penstock.catalog.model import QueryDefinition, Sink, Table
from penstock.catalog.rollup_records import RollupDefinition
from penstock.errors import error

_SHOWN = 10

Name = tuple[str, str]  # kind (table, stream_type, function, query, rollup, sink) and name


def users_by_name(
    tables: Iterable[Table],
    queries: Iterable[QueryDefinition],
    rollups: Iterable[RollupDefinition] = (),
    sinks: Iterable[Sink] = (),
) -> Mapping[Name, list[Name]]:
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
    for rollup in rollups:
        users["table", rollup.table].append(("rollup", rollup.name))
    for sink in sinks:
        users["query", sink.query].append(("sink", sink.name))
    return users


def with_all_users(names: Collection[Name], users: Mapping[Name, list[Name]], cascade: bool) -> list[Name]:
    """What goes when these names go, users before what they use; dependents_exist where others use them."""
    gone: dict[Name, None] = {}
    for name in names:
        others = [u for u in users.get(name, ()) if u not in names]
        if others and not cascade:
            shown = [f'{k} "{n}"' for k, n in others[:_SHOWN]]
            if len(others) > len(shown):
                shown.append(f"{len(others) - len(shown)} more")
            raise error(
                "dependents_exist",
                kind=name[0].replace("_", " "),
                name=name[1],
                dependents=", ".join(shown),
                hint="drop them first, or add CASCADE",
            )
        if name not in gone:
            gone |= dict.fromkeys(n for n in with_users(name, users) if n not in gone)
    return list(gone)


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
