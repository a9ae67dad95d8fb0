"""Words that the shell completes: SQL's, and the names that the server knows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from penstock.client import Connection
from penstock.errors import PenstockError
from penstock.sql.completions import KEYWORDS, SYSTEM_TABLES

_WORD = re.compile(r"[\w.\\]+\Z")


class Names(Completer):
    """Completes keywords, tables, columns and queries. Names are fetched at the start and after definitions."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._names: list[tuple[str, str]] = []

    def refresh(self) -> None:
        """Ask the server what there is; without an answer, what was known stays."""
        try:
            self._names = list(_names(self._connection.tables(), self._connection.queries()))
        except PenstockError:
            return

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        found = _WORD.search(document.text_before_cursor)
        if found is None:
            return
        word = found.group()
        # After a dot only the column is being typed: s.reading.pp -> ppm.
        tail = word.rsplit(".", 1)[-1]
        for name, kind in self._names:
            if name.startswith(word.lower()):
                yield Completion(name, -len(word), display_meta=kind)
            elif tail != word and kind.startswith("column") and name.startswith(tail.lower()):
                yield Completion(name, -len(tail), display_meta=kind)
        if len(word) >= 2:
            lower = word.islower()
            for keyword in KEYWORDS:
                if keyword.startswith(word.upper()):
                    yield Completion(keyword.lower() if lower else keyword, -len(word))


def _names(tables: Iterable[dict[str, object]], queries: Iterable[dict[str, object]]) -> Iterator[tuple[str, str]]:
    for table in tables:
        yield str(table["name"]), "table"
        stream = table.get("stream")
        columns = _list(table.get("columns"))
        for column in [*columns, stream] if stream else columns:
            if isinstance(column, dict):
                yield str(column["name"]), f"column of {table['name']}"
    for query in queries:
        yield str(query["name"]), "query"
    for name in SYSTEM_TABLES:
        yield name, "system table"


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
