"""What is taken out of Spark's function registry, with a registry that is not Spark's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.errors import PenstockError
from penstock.pipeline.session import remove_functions


class Names:
    """A list of Scala's, as py4j gives it."""

    def __init__(self, names: list[str]) -> None:
        self._names = names

    def mkString(self, between: str) -> str:
        return between.join(self._names)

    def apply(self, place: int) -> Any:
        return SimpleNamespace(name=self._names[place], toString=lambda: self._names[place])


class Registry:
    def __init__(self, *names: str, keeps: str = "") -> None:
        self.names, self._keeps = list(names), keeps

    def listFunction(self) -> Names:
        return Names(list(self.names))

    def dropFunction(self, function: Any) -> None:
        if function.name != self._keeps:
            self.names.remove(function.name)


def session_of(scalar: Registry, table: Registry) -> Any:
    state = SimpleNamespace(functionRegistry=lambda: scalar, tableFunctionRegistry=lambda: table)
    return SimpleNamespace(_jsparkSession=SimpleNamespace(sessionState=lambda: state))


def test_functions_are_dropped_by_their_name_wherever_they_are_in_the_list() -> None:
    scalar = Registry("system.builtin.abs", "system.builtin.reflect", "version", "system.builtin.XPath", "my.reflected")
    table = Registry("system.builtin.range", "system.builtin.python_worker_logs")
    remove_functions(session_of(scalar, table))
    assert scalar.names == ["system.builtin.abs", "my.reflected"]
    assert table.names == ["system.builtin.range"]


def test_a_session_that_keeps_one_is_refused_with_its_name() -> None:
    scalar = Registry("system.builtin.abs", "system.builtin.reflect", keeps="system.builtin.reflect")
    with pytest.raises(PenstockError, match=r"still has the functions system\.builtin\.reflect") as caught:
        remove_functions(session_of(scalar, Registry()))
    assert caught.value.condition == "engine_failed"
