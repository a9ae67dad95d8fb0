"""What happens in a random world: a command has what to execute, if anything, and does the same to the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.oracle.model import Pushed, World
from tests.oracle.questions import Query, Table, WindowSpec


@dataclass(frozen=True)
class CreateTable:
    table: Table

    @property
    def sql(self) -> str:
        return self.table.create_sql()

    def apply(self, world: World, now_us: int, pos: int | None = None) -> None:
        world.create_table(self.table, pos)


@dataclass(frozen=True)
class Insert:
    table: Table
    rows: list[tuple[Any, ...]]

    @property
    def sql(self) -> str:
        return self.table.insert_sql(self.rows)

    def apply(self, world: World, now_us: int, pos: int | None = None) -> None:
        world.insert(self.table.name, self.rows, pos)


@dataclass(frozen=True)
class Update:
    table: Table
    key: Any
    changes: dict[str, Any]

    @property
    def sql(self) -> str:
        return self.table.update_sql(self.key, self.changes)

    def apply(self, world: World, now_us: int, pos: int | None = None) -> None:
        world.update(self.table.name, self.key, self.changes, pos)


@dataclass(frozen=True)
class Delete:
    table: Table
    key: Any

    @property
    def sql(self) -> str:
        return self.table.delete_sql(self.key)

    def apply(self, world: World, now_us: int, pos: int | None = None) -> None:
        world.delete(self.table.name, self.key, pos)


@dataclass(frozen=True)
class Push:
    """Readings as JSON would carry them; `ts` in microseconds."""

    table: Table
    readings: list[dict[str, Any]]

    def apply(self, world: World, now_us: int, pos: int | None = None) -> Pushed:
        return world.push(self.table.name, self.readings, now_us)


@dataclass(frozen=True)
class CreateQuery:
    name: str
    query: Query

    @property
    def sql(self) -> str:
        return f"CREATE QUERY {self.name} AS {self.query.select_sql()}"

    def apply(self, world: World, now_us: int, pos: int | None = None) -> None:
        world.create_query(self.name, self.query, now_us, pos)


@dataclass(frozen=True)
class AlterWindow:
    name: str
    window: WindowSpec

    @property
    def sql(self) -> str:
        return f"ALTER QUERY {self.name} SET {self.window.sql()}"

    def apply(self, world: World, now_us: int, pos: int | None = None) -> None:
        world.alter_window(self.name, self.window, pos)


@dataclass(frozen=True)
class DropQuery:
    name: str

    @property
    def sql(self) -> str:
        return f"DROP QUERY {self.name}"

    def apply(self, world: World, now_us: int, pos: int | None = None) -> None:
        world.drop_query(self.name, pos)


@dataclass(frozen=True)
class Advance:
    """The wall clock moves, perhaps back."""

    us: int


@dataclass(frozen=True)
class Cycle:
    """A cycle may end here, and answers are compared if it does."""


Command = CreateTable | Insert | Update | Delete | Push | CreateQuery | AlterWindow | DropQuery | Advance | Cycle
