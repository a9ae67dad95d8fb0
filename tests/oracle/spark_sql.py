"""The same questions as Spark SQL, so that one Spark job checks many queries at one offset.

    for name in tables:  spark.createDataFrame(world.log_table(name)).createOrReplaceTempView(view_name(name))
    rows = spark.sql(check_sql(world, names, heads, journal_pos, now_us)).collect()
    answers(names, [(r["query"], r["row"]) for r in rows])   ->  {name: Counter of row tuples}

The session must have spark.sql.ansi.enabled=false and spark.sql.session.timeZone=UTC.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from tests.oracle.compare import NAN, Answer, canonical
from tests.oracle.expressions import Col, Ex, write
from tests.oracle.model import Heads, World
from tests.oracle.questions import Edge, LastRows, Query, TimeSpan


def view_name(table: str) -> str:
    return f"oracle_{table}"


def check_sql(world: World, names: Sequence[str], heads: Heads, journal_pos: int, now_us: int) -> str:
    """One statement with the columns (query, row) for all rows of all queries."""
    parts = []
    for name in names:
        query, start_us = world.definition(name, journal_pos)
        parts.append(query_sql(name, query, heads[query.table.name], now_us, start_us))
    return "\nUNION ALL\n".join(parts)


def query_sql(label: str, query: Query, head: int, now_us: int, start_us: int | None) -> str:
    """The rows of one query over the first `head` rows of its log's view, each as a JSON object."""
    texts = [_text(o) for o in query.outputs]
    types = [o.type for o in query.outputs]
    for aggregate in query.aggregates:
        texts.append(f"{aggregate.function}({'*' if aggregate.of is None else _text(aggregate.of)})")
        types.append("" if aggregate.of is None else aggregate.of.type)
    named = ", ".join(f"{text} AS c{i}" for i, text in enumerate(texts))
    inner = f"SELECT {named} FROM ({_window_sql(query, head, now_us, start_us)}) AS w{_where(query.stream_factors)}"
    if query.aggregates and query.outputs:
        inner += f" GROUP BY {', '.join(texts[: len(query.outputs)])}"
    return _labelled(label, types, f"({inner}) AS a")


def answer_sql(label: str, query: Query, view: str) -> str:
    """An answer in a view with the columns c0, c1, ..., in the same shape; not for aggregates."""
    return _labelled(label, [o.type for o in query.outputs], view)


def _labelled(label: str, types: Sequence[str], source: str) -> str:
    fields = ", ".join(f"'c{i}', {_portable(f'c{i}', type_)}" for i, type_ in enumerate(types))
    return f"SELECT '{label}' AS query, to_json(named_struct({fields}), map('ignoreNullFields', 'false')) AS row FROM {source}"


def answers(names: Iterable[str], rows: Iterable[tuple[str, str]]) -> dict[str, Answer]:
    """The collected rows by query; a query without rows has an empty answer."""
    out: dict[str, Answer] = {name: Counter() for name in names}
    for name, text in rows:
        held = json.loads(text)
        out[name][canonical(tuple(_read(held[f"c{i}"]) for i in range(len(held))))] += 1
    return out


def _read(item: Any) -> Any:
    # Spark writes what JSON has no number for as text; texts of users carry a mark (see _portable).
    if isinstance(item, str):
        if item.startswith("$"):
            return item[1:]
        return {"NaN": NAN, "Infinity": float("inf"), "-Infinity": float("-inf")}[item]
    return item


def _portable(name: str, type_: str) -> str:
    if type_ == "TEXT":
        return f"concat('$', {name})"
    if type_ == "DOUBLE":
        return f"({name} + 0.0D)"  # -0.0 becomes 0.0
    return f"unix_micros({name})" if type_ == "TIMESTAMP" else name


def _text(ex: Ex) -> str:
    return write(ex, _name, "spark")


def _name(column: Col) -> str:
    return f"`{column.name}`"


def _where(factors: Sequence[Ex]) -> str:
    return f" WHERE {' AND '.join(_text(f) for f in factors)}" if factors else ""


def _window_sql(query: Query, head: int, now_us: int, start_us: int | None) -> str:
    view = view_name(query.table.name)
    passing = f"SELECT * FROM {view} WHERE _pos < {head}" + "".join(f" AND {_text(f)}" for f in query.static_factors)
    window = query.window
    if isinstance(window, LastRows):
        part = "PARTITION BY _sid " if window.per_sensor else ""
        ranked = f"SELECT *, row_number() OVER ({part}ORDER BY ts DESC, _pos DESC) AS _rank FROM ({passing}) AS p"
        return f"SELECT * FROM ({ranked}) AS r WHERE _rank <= {window.count}"
    if not isinstance(window, TimeSpan):
        return passing
    if query.table.time == "valid":
        now = f"(SELECT max(unix_micros(ts)) FROM ({passing}) AS n)"
    else:
        now = str(now_us)
    conditions = [
        f"unix_micros(ts) {sign} {bound}"
        for sign, edge in ((">=", window.begin), ("<=", window.end))
        if (bound := _edge_sql(edge, now, start_us)) is not None
    ]
    return f"SELECT * FROM ({passing}) AS p" + (f" WHERE {' AND '.join(conditions)}" if conditions else "")


def _edge_sql(edge: Edge, now: str, start_us: int | None) -> str | None:
    """None where START is not known: everything came after it."""
    if edge.anchor == "constant":
        return str(edge.us)
    if edge.anchor == "start":
        return None if start_us is None else str(start_us + edge.us)
    return f"{now} + ({edge.us})"
