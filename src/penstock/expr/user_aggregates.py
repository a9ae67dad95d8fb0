"""User aggregates in Python: a body with `init`, `add`, `merge` and `finish`.

`init()` gives the state of no rows, `add(state, value, ..)` the state with one row more, `merge(a, b)` that of the rows of both,
and `finish(state)` the value. A row with a NULL argument is left out. A STRUCT is a dict with all of its fields. In a worker
of the pipeline rows become states; a code worker merges states and finishes them. The server's process does neither.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import pyarrow as pa

from penstock.catalog.model import Function
from penstock.errors import PenstockError, error
from penstock.expr.user_functions import (
    Overtime,
    check_fields,
    check_names,
    compile_body,
    define,
    failed,
    stopped,
    time_limit,
)

_STEPS = ("init", "add", "merge", "finish")
Row: TypeAlias = tuple[Any, ...]


def check_aggregate(function: Function) -> None:
    """Refuse what could never run: another language, bad names, a syntax error, a step that is missing. Runs none of the body."""
    check_names(function)
    _compile(function)


@lru_cache(maxsize=64)
def compile_aggregate(function: Function) -> UserAggregate:
    """The aggregate, once for all cells. Its body is run."""
    return UserAggregate(function)


class UserAggregate:
    """The steps of one aggregate, with the types of what they give checked."""

    def __init__(self, function: Function) -> None:
        check_aggregate(function)
        assert function.state is not None
        code, self._filename = _compile(function)
        names = define(function, code, self._filename)
        self.function, self._state_type = function, function.state.to_arrow()
        self._init, self._add, self._merge, self._finish = (names[step] for step in _STEPS)

    def states(self, rows: Sequence[Sequence[Row]]) -> list[Any]:
        """The state of the rows of each cell."""
        return self.settled(self._guarded(self._folded, rows))

    def settled(self, states: list[Any]) -> list[Any]:
        """States as they are after they have travelled: of the STATE's type."""
        found: list[Any] = self._guarded(lambda each: pa.array(each, self._state_type).to_pylist(), states)
        return found

    def merged(self, a: Any, b: Any) -> Any:
        """The state of the rows of both."""
        return self._guarded(lambda _: self._checked(self._merge(a, b)), None)

    def values(self, states: Sequence[Sequence[Any]], rows: Sequence[Sequence[Row]]) -> pa.Array:
        """The value of each cell, of its states and of rows that are in none of them."""
        return self._guarded(lambda _: self._values(states, rows), None)

    def _guarded(self, step: Callable[[Any], Any], given: Any) -> Any:
        """What a step gives. Everything that a body raises is an error with the name of its aggregate."""
        try:
            return step(given)
        except PenstockError:
            raise
        except Overtime:
            raise stopped(self.function, "it took too long for a row (function_timeout_ms)") from None
        except MemoryError:
            raise stopped(self.function, "it took too much memory (worker_memory_mb)") from None
        except Exception as problem:
            raise failed(self.function, self._filename, problem) from problem

    def _folded(self, rows: Sequence[Sequence[Row]]) -> list[Any]:
        done, found = 0, []
        with time_limit(lambda: done):
            for own in rows:
                state = self._checked(self._init())
                for row in own:
                    state = self._add(state, *row)
                    done += 1
                found.append(self._checked(state))
        return found

    def _values(self, states: Sequence[Sequence[Any]], rows: Sequence[Sequence[Row]]) -> pa.Array:
        # Cells come in an order that depends on how rows were read, and sums of doubles depend on the order of merges.
        parts = [sorted(own, key=repr) for own in states]
        places = [i for i, (own, more) in enumerate(zip(parts, rows, strict=True)) if len(more) or not own]
        for place, folded in zip(places, self.states([sorted(rows[i], key=repr) for i in places]), strict=True):
            parts[place].append(folded)
        found = []
        for own in parts:
            state = own[0]
            for other in own[1:]:
                state = self._checked(self._merge(state, other))
            found.append(self._finish(state))
        type_ = self.function.returns.to_arrow()
        if pa.types.is_nested(type_):
            for value in found:
                check_fields(value, type_)
        return pa.array(found, type_)

    def _checked(self, state: Any) -> Any:
        if pa.types.is_nested(self._state_type):
            if state is None:
                raise TypeError("a step gave no state; add and merge return the state")
            check_fields(state, self._state_type)
        return state


def _compile(function: Function) -> Any:
    return compile_body(function, lambda module: _checked_module(module, function))


def _checked_module(module: ast.Module, function: Function) -> ast.Module:
    """The module, with each step a function of the right number of arguments."""
    takes = {"init": 0, "add": 1 + len(function.parameters), "merge": 2, "finish": 1}
    defined = {node.name: node for node in module.body if isinstance(node, ast.FunctionDef)}
    for step in _STEPS:
        if step not in defined:
            hint = f"write def {step}({', '.join(_ARGUMENTS[step](function))}): .."
            raise error("invalid_definition", detail=f'aggregate "{function.name}" does not define {step}', hint=hint)
        given = defined[step].args
        count = len(given.posonlyargs) + len(given.args)
        least = count - len(given.defaults)
        if not (least <= takes[step] and (count >= takes[step] or given.vararg is not None)):
            detail = f'{step} of aggregate "{function.name}" takes {takes[step]} arguments, not {count}'
            hint = f"write def {step}({', '.join(_ARGUMENTS[step](function))}): .."
            raise error("invalid_definition", detail=detail, hint=hint)
    return module


_ARGUMENTS: dict[str, Callable[[Function], list[str]]] = {
    "init": lambda _: [],
    "add": lambda function: ["state", *(parameter.name for parameter in function.parameters)],
    "merge": lambda _: ["a", "b"],
    "finish": lambda _: ["state"],
}
