"""One call of each listed function and of each number of arguments that it takes, over columns of every type."""

from __future__ import annotations

import re
from collections.abc import Iterator

from penstock.sql.functions import FUNCTIONS, FunctionSpec

# A column of each type in a table that has them all.
COLUMNS = {
    "INT": "i",
    "BIGINT": "b",
    "DOUBLE": "d",
    "DECIMAL": "e",
    "BOOLEAN": "f",
    "TEXT": "s",
    "TIMESTAMP": "t",
    "BINARY": "y",
    "number": "d",
    "real": "e",
    "common": "d",
    "any": "d",
    "array": "a",
    "element": "d",
    "unit": "'hour'",
}
TABLE = (
    "CREATE TABLE every_type (i INT PRIMARY KEY, b BIGINT, d DOUBLE, e DECIMAL(10, 2), f BOOLEAN, s TEXT, t TIMESTAMP, "
    "y BINARY, a ARRAY<DOUBLE>, aa ARRAY<ARRAY<DOUBLE>>)"
)
# Calls whose arguments the types alone do not tell.
_WRITTEN = {
    "round": ("round(d)", "round(d, 2)", "round(i)"),
    "trunc": ("trunc(d)", "trunc(d, 2)", "trunc(i)", "trunc(i, -1)", "trunc(e)", "trunc(e, 1)"),
    "bround": ("bround(d)", "bround(d, 2)"),
    "div": ("div(i, i)", "div(b, i)", "div(d, d)", "div(e, e)"),
    "greatest": ("greatest(d, d)",),
    "least": ("least(d, d)",),
    "regexp_replace": ("regexp_replace(s, 'a', 'b')",),
    "sort_array": ("sort_array(a)", "sort_array(a, false)"),
    "extract": ("EXTRACT(HOUR FROM t)",),
    "position": ("POSITION('a' IN s)",),
    "overlay": ("OVERLAY(s PLACING 'a' FROM 2 FOR 1)",),
    "flatten": ("flatten(aa)",),
    "array_union": ("array_union(a, a)",),
    "array_intersect": ("array_intersect(a, a)",),
    "array_except": ("array_except(a, a)",),
    "arrays_overlap": ("arrays_overlap(a, a)",),
    "percentile": ("percentile(d, 0.5)",),
    "percentile_approx": ("percentile_approx(d, 0.5)", "percentile_approx(d, 0.5, 100)"),
    "percentile_cont": ("percentile_cont(0.5) WITHIN GROUP (ORDER BY d)",),
    "percentile_disc": ("percentile_disc(0.5) WITHIN GROUP (ORDER BY d)",),
    "mode": ("mode() WITHIN GROUP (ORDER BY s)",),
    "to_char": ("to_char(t, 'YYYY-MM-DD')",),
    "to_timestamp": ("to_timestamp(d)", "to_timestamp(s, 'YYYY-MM-DD')"),
    "next_day": ("next_day(t, 'monday')",),
    "nth_value": ("nth_value(d, 2) OVER (ORDER BY t)",),
    "ntile": ("ntile(4) OVER (ORDER BY t)",),
    "lag": ("lag(d) OVER (ORDER BY t)", "lag(d, 2) OVER (ORDER BY t)"),
    "lead": ("lead(d) OVER (ORDER BY t)", "lead(d, 2) OVER (ORDER BY t)"),
    "to_json": ("to_json(a)",),
    "string_agg": ("string_agg(s, ',')",),
    "group_concat": ("group_concat(s, ',')",),
    "regexp_extract": ("regexp_extract(s, '(a)')", "regexp_extract(s, '(a)', 1)"),
    "regexp_extract_all": ("regexp_extract_all(s, '(a)')", "regexp_extract_all(s, '(a)', 1)"),
    "twa": (),  # never runs in Spark
}


def listed_calls() -> Iterator[str]:
    """SQL of the calls."""
    for function in FUNCTIONS:
        for name in function.names:
            yield from _WRITTEN[name] if name in _WRITTEN else _made(function, name)


def _made(function: FunctionSpec, name: str) -> Iterator[str]:
    required, _, optional = function.arguments.partition("[")
    least, more = ([w for w in re.split(r"[\s,\[\]]+", part) if w and w != "..."] for part in (required, optional))
    for count in range(len(more) + 1):
        arguments = ", ".join(COLUMNS[word] for word in [*least, *more[:count]])
        over = " OVER (ORDER BY t)" if function.kind == "ranking" else ""
        yield f"{name}({arguments}){over}"
