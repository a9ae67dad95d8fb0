"""REPEAT, LPAD and RPAD for Spark, NULL where their text would be longer than a million characters.

One call with a large count would otherwise take all memory of the server.
"""

from __future__ import annotations

import sqlglot
from sqlglot import exp

TEXT_MAX_CHARS = 1_000_000

# `s`, `n` and `p` are the arguments. A lambda names them, so that none is written twice: nested calls stay short.
_SPARK = {
    "repeat": "repeat(a.s, a.n)",
    "lpad": "lpad(a.s, a.n, a.p)",
    "rpad": "rpad(a.s, a.n, a.p)",
}
_LENGTH = {"repeat": "CAST(length(a.s) AS BIGINT) * a.n", "lpad": "a.n", "rpad": "a.n"}


def bounded_text(node: exp.Repeat | exp.Pad) -> exp.Expr:
    """The call in Spark's words. Its arguments are translated already."""
    if isinstance(node, exp.Repeat):
        name, count = "repeat", node.args["times"]
    else:
        name, count = "lpad" if node.args.get("is_left") else "rpad", node.expression
    fill = node.args.get("fill_pattern") or exp.Literal.string(" ")
    condition = f"{_LENGTH[name]} <= {TEXT_MAX_CHARS}"
    fields = "named_struct('s', s, 'n', n, 'p', p)"
    text = f"transform(array({fields}), a -> CASE WHEN {condition} THEN {_SPARK[name]} END)[0]"
    found = sqlglot.parse_one(text, dialect="spark")
    arguments = {"s": node.this, "n": count, "p": fill}
    for column in list(found.find_all(exp.Column)):
        if column.name in arguments and not column.table:
            column.replace(arguments[column.name].copy())
    return found
