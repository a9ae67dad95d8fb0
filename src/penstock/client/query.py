"""A handle on a standing query, or on a SELECT that runs when asked."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.client.answer import Answer
from penstock.client.subscribe import Change
from penstock.errors import error

if TYPE_CHECKING:
    import pandas as pd

    from penstock.client.connection import Connection


class Query:
    """`db.query("gas_alarm")`: every call asks the server anew. Leaving and coming back loses nothing.

    `db.query("SELECT ...")` works the same way for reading, but there is nothing to drop or to subscribe to.
    """

    def __init__(self, connection: Connection, text: str, params: tuple[Any, ...] = ()) -> None:
        self._connection = connection
        self._params = params
        words = text.split(None, 1)
        self._select = text if words and words[0].lower() in ("select", "with") and len(words) > 1 else None
        self._name = text if self._select is None else None

    def __repr__(self) -> str:
        return f"Query({self._name or self._select!r})"

    @property
    def name(self) -> str:
        """The standing query's name; an error for a SELECT."""
        if self._name is None:
            raise error(
                "invalid_parameter",
                detail="a SELECT is not a standing query",
                hint="CREATE QUERY name AS SELECT ... makes one",
            )
        return self._name

    def answer(self, as_of: int | str | datetime | None = None, limit: int | None = None) -> Answer:
        """The answer for the window as of now, of a committed cycle, or of a past time."""
        if self._select is not None and as_of is None and limit is None:
            return self._connection.sql(self._select, *self._params)
        return self._connection.invoke(self.name, as_of=as_of, limit=limit)

    def rows(self, as_of: int | str | datetime | None = None, limit: int | None = None) -> list[dict[str, Any]]:
        return self.answer(as_of, limit).rows()

    def to_arrow(self) -> pa.Table:
        return self.answer().to_arrow()

    def to_pandas(self) -> pd.DataFrame:
        return self.answer().to_pandas()

    def describe(self) -> dict[str, Any]:
        """Definition, state and cost."""
        return self._connection.describe_query(self.name)

    def subscribe(self, changes: bool = False, from_cycle: int | None = None) -> Iterator[Change]:
        return self._connection.subscribe(self.name, changes=changes, from_cycle=from_cycle)

    def alter(self, begin: str | None = None, end: str | None = None) -> None:
        """Change the window while the query runs: `alter(begin="NOW - 1 HOUR")`."""
        self._connection.change_query(self.name, begin=begin, end=end)

    def describe_as(self, description: str) -> None:
        """Say what it is for; an empty text takes that back."""
        self._connection.change_query(self.name, description=description)

    def pause(self) -> None:
        self._connection.change_query(self.name, paused=True)

    def resume(self) -> None:
        self._connection.change_query(self.name, paused=False)

    def drop(self, cascade: bool = False) -> None:
        self._connection.drop_query(self.name, cascade=cascade)
