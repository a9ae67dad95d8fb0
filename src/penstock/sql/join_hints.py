"""`SELECT /*+ JOIN(hash) */`: a hint chooses the algorithm of a window join. It never changes an answer."""

from __future__ import annotations

import re

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from penstock.errors import error, suggest
from penstock.operators.join.kernels.bounds import Bounds
from penstock.sql.positions import Span, point, span_of_token

# A look-up in each run, a scan, and the cheapest of these for each stream, which is the default. The others are
# the papers'.
OURS = ("sorted_runs", "scan", "per_side")

_JOIN = re.compile(r"\s*JOIN\s*\(\s*(\w+)\s*\)\s*", re.IGNORECASE)


def read_hint(text: str, token: Token) -> exp.Hint:
    """The hint that a token `/*+ ... */` holds. An unknown hint is an error, not a comment."""
    found = _JOIN.fullmatch(token.text[3:-2])
    if found is None:
        failure = error("syntax_error", detail="the hint is not understood", hint="write /*+ JOIN(algorithm) */")
        raise point(failure, text, span_of_token(token))
    name = found.group(1).lower()
    start = token.start + 3 + found.start(1)
    if name not in algorithms():
        known = "there are " + ", ".join(algorithms())
        near = suggest(name, algorithms())
        hint = known if near is None else f"{near} {known}"
        failure = error("syntax_error", detail=f'there is no join algorithm "{name}"', hint=hint)
        raise point(failure, text, Span(start, start + len(name)))
    algorithm = exp.Var(this=name)
    algorithm.update_positions(line=token.line, col=token.col, start=start, end=start + len(name) - 1)
    return exp.Hint(expressions=[exp.Anonymous(this="JOIN", expressions=[algorithm])])


def algorithms() -> tuple[str, ...]:
    """What a hint may name."""
    # Loads compiled code, which reading SQL without hints does not need.
    from penstock.operators.join.papers.registry import ALGORITHMS

    return (*OURS, *ALGORITHMS)


def refusal(algorithm: str, bounds: Bounds, keyed: bool) -> str | None:
    """Why an algorithm cannot run a join with these windows, with or without a common key; None where it can."""
    from penstock.operators.join.papers.registry import ALGORITHMS

    return None if algorithm in OURS else ALGORITHMS[algorithm].refusal(bounds, keyed)
