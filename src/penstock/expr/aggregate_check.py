"""Whether a user aggregate merges: its merge commutes, is associative, and fits its add. Found out on generated states.

Two states are the same if `finish` gives the same value of them, up to rounding. It runs in a code worker.
"""

from __future__ import annotations

import copy
import math
import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from penstock.catalog.model import Function
from penstock.errors import PenstockError, error
from penstock.expr.user_aggregates import Row, UserAggregate, compile_aggregate
from penstock.types import Type

STATES = 100
_ROWS_MAX = 4
_TRIES = 50
_SHOWN_CHARS = 200
_HINT = "merge(a, b) gives the state of the rows of both: the order of rows and merges must not matter"


def check_merges(function: Function) -> None:
    """Raise invalid_definition where an aggregate does not merge."""
    try:
        _Check(compile_aggregate(function)).run()
    except PenstockError as failure:
        if failure.condition == "invalid_definition":
            raise
        hint = failure.hint or "finish(init()) is the value of no rows; None is NULL"
        raise error("invalid_definition", detail=failure.message, hint=hint) from None
    except _Differs as found:
        detail = f'aggregate "{function.name}" does not merge: {found}'
        raise error("invalid_definition", detail=detail, hint=_HINT) from None


class _Differs(Exception):
    """Two states that should be the same are not."""


class _Check:
    def __init__(self, aggregate: UserAggregate) -> None:
        self._aggregate = aggregate
        self._types = [parameter.type for parameter in aggregate.function.parameters]
        self._random = random.Random(7)

    def run(self) -> None:
        chosen = self._random
        parts = [[self._row() for _ in range(min(place, chosen.randint(0, _ROWS_MAX)))] for place in range(STATES)]
        states = self._aggregate.states(parts)
        pairs = [(place, (place * 7 + 1) % STATES) for place in range(STATES)]
        both = [self._merged(states[i], states[j]) for i, j in pairs]
        for (i, j), ab in zip(pairs, both, strict=True):
            a, b = states[i], states[j]
            self._compare(f"of {_shown(a)} and {_shown(b)}, merge(a, b) and merge(b, a)", ab, self._merged(b, a))
        for (i, j), ab in zip(pairs, both, strict=True):
            a, b, c = states[i], states[j], chosen.choice(states)
            left, right = self._merged(ab, c), self._merged(a, self._merged(b, c))
            what = f"of {_shown(a)}, {_shown(b)} and {_shown(c)}, merge(merge(a, b), c) and merge(a, merge(b, c))"
            self._compare(what, left, right)
        for (i, j), ab in zip(pairs, both, strict=True):
            rows = [*parts[i], *parts[j]]
            (together,) = self._aggregate.states([rows])
            self._compare(f"of the rows {_shown(rows)}, adding all and merging two parts", together, ab)

    def _merged(self, a: Any, b: Any) -> Any:
        # A body may change what it is given.
        (state,) = self._aggregate.settled([self._aggregate.merged(copy.deepcopy(a), copy.deepcopy(b))])
        return state

    def _compare(self, what: str, a: Any, b: Any) -> None:
        states: list[list[Any]] = [[copy.deepcopy(a)], [copy.deepcopy(b)]]
        first, second = self._aggregate.values(states, [[], []]).to_pylist()
        if not _are_alike(first, second):
            raise _Differs(f"{what} finish as {_shown(first)} and {_shown(second)}")

    def _row(self) -> Row:
        """A row that `add` takes: some take no negative numbers, for example."""
        for last in range(_TRIES):
            row = tuple(_value(type_, self._random, last % 2 == 1) for type_ in self._types)
            try:
                self._aggregate.states([[row]])
            except PenstockError as failure:
                if last == _TRIES - 1 or failure.condition != "function_failed":
                    raise
                continue
            return row
        raise AssertionError("the last try raises")


def _are_alike(a: Any, b: Any) -> bool:
    """Whether two values are equal up to rounding."""
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-6)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_are_alike, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_are_alike(a[name], b[name]) for name in a)
    return bool(a == b)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + ".."


def _value(type_: Type, chosen: random.Random, positive: bool) -> Any:
    """A value of a type."""
    least = 1 if positive else -100
    match type_.kind:
        case "INT" | "BIGINT":
            return chosen.randint(least, 100)
        case "DOUBLE":
            return float(chosen.randint(least, 100)) if chosen.random() < 0.5 else chosen.uniform(least, 100)
        case "BOOLEAN":
            return chosen.random() < 0.5
        case "TEXT":
            return chosen.choice(["", "a", "b", "north", "south", "7"])
        case "BINARY":
            return chosen.randbytes(chosen.randint(0, 3))
        case "TIMESTAMP":
            return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=chosen.randint(0, 86_400))
        case "DECIMAL":
            most = min(10**type_.precision - 1, 10_000)
            return Decimal(chosen.randint(1 if positive else -most, most)).scaleb(-type_.scale)
        case "ARRAY":
            assert type_.element is not None
            return [_value(type_.element, chosen, positive) for _ in range(chosen.randint(0, 3))]
        case _:
            return {field.name: _value(field.type, chosen, positive) for field in type_.fields}
