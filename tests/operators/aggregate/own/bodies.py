"""User aggregates in SQL, and beside each the same in plain loops over all rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

SECOND = 1_000_000


def statement(name: str, parameters: str, returns: str, state: str, body: str) -> str:
    return f"CREATE AGGREGATE {name}({parameters}) RETURNS {returns} STATE {state} LANGUAGE python AS $$\n{body.strip()}\n$$"


@dataclass(frozen=True)
class Own:
    """An aggregate: its statement, its call, and its value by brute force of rows (ts, value or None, place)."""

    sql: str
    call: str
    value: Callable[[list[tuple[int, float]]], Any]


ENERGY = statement(
    "energy",
    "p DOUBLE",
    "DOUBLE",
    "STRUCT<j: DOUBLE, n: BIGINT>",
    """
def init(): return {'j': 0.0, 'n': 0}
def add(state, p): return {'j': state['j'] + p, 'n': state['n'] + 1}
def merge(a, b): return {'j': a['j'] + b['j'], 'n': a['n'] + b['n']}
def finish(state): return state['j'] if state['n'] else None
""",
)
WIDEST = statement(
    "spread_of",
    "x DOUBLE, ts TIMESTAMP",
    "STRUCT<low: DOUBLE, high: DOUBLE, newest: TIMESTAMP>",
    "STRUCT<low: DOUBLE, high: DOUBLE, newest: TIMESTAMP>",
    """
def init(): return {'low': None, 'high': None, 'newest': None}
def add(state, x, ts): return merge(state, {'low': x, 'high': x, 'newest': ts})
def merge(a, b):
    def both(pick, name):
        found = [s[name] for s in (a, b) if s[name] is not None]
        return pick(found) if found else None
    return {'low': both(min, 'low'), 'high': both(max, 'high'), 'newest': both(max, 'newest')}
def finish(state): return state
""",
)
SEEN = statement(
    "seen",
    "x DOUBLE",
    "ARRAY<DOUBLE>",
    "ARRAY<DOUBLE>",
    """
def init(): return []
def add(state, x):
    state.append(x)  # it may change what it is given
    return state
def merge(a, b): return a + b
def finish(state): return sorted(state, key=lambda x: (x != x, x))
""",
)


def _energy(rows: list[tuple[int, float]]) -> Any:
    return sum(value for _, value in rows) if rows else None


def _widest(rows: list[tuple[int, float]]) -> Any:
    if not rows:
        return {"low": None, "high": None, "newest": None}
    return {
        "low": min(value for _, value in rows),
        "high": max(value for _, value in rows),
        "newest": max(ts for ts, _ in rows),
    }


def _seen(rows: list[tuple[int, float]]) -> Any:
    return sorted((value for _, value in rows), key=lambda x: (x != x, x))


ALL = {
    "energy": Own(ENERGY, "energy(r.value)", _energy),
    "spread_of": Own(WIDEST, "spread_of(r.value, r.ts)", _widest),
    "seen": Own(SEEN, "seen(r.value)", _seen),
}
