"""INSERT, UPDATE and DELETE of static rows: checked against the rows that are there, then journalled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from penstock.catalog.checks import check_keys, check_required, duplicate, plain_rows
from penstock.catalog.writer import CatalogWriter
from penstock.errors import error


class RowChanges(CatalogWriter):
    def insert_rows(self, table: str, rows: Sequence[Sequence[Any]]) -> int:
        """Rows of static values in order of the columns; for a sensor table the address stands last."""
        with self._lock:
            found = self._table(table)
            if found.stream is not None and not found.key:
                raise error(
                    "invalid_definition",
                    detail=f'table "{table}" is one sensor, which is there already',
                    hint=f"UPDATE {table} SET {found.stream.name} = '...' gives it an address",
                )
            static = self.state.rows(found.id)
            body = plain_rows(found, rows)
            check_keys(found, body)
            check_required(found, body)
            for row in body:
                if static.has_key(row):
                    raise duplicate(found, row)
            if body:
                self._write("insert_rows", {"table": found.id, "rows": body})
            return len(body)

    def update_rows(self, table: str, changes: Mapping[int, Sequence[Any]]) -> int:
        """New static values (and address) for sids. How many: a row that was deleted meanwhile does not count."""
        with self._lock:
            found = self._table(table)
            static = self.state.rows(found.id)
            live = {int(sid): values for sid, values in changes.items() if static.is_live(int(sid))}
            body = plain_rows(found, list(live.values()))
            check_keys(found, body)
            check_required(found, body)
            for row in body:
                taken = static.vid_of(static.key_of(row)) if found.key else None
                if taken is not None and int(static.sids[taken]) not in live:
                    raise duplicate(found, row)
            if body:
                changed = [[sid, row] for sid, row in zip(live, body, strict=True)]
                self._write("update_rows", {"table": found.id, "rows": changed})
            return len(body)

    def delete_rows(self, table: str, sids: Iterable[int]) -> int:
        """How many rows went: one that was deleted meanwhile does not count."""
        with self._lock:
            found = self._table(table)
            if found.stream is not None and not found.key:
                raise error("invalid_definition", detail=f'table "{table}" is one sensor', hint="drop the table")
            static = self.state.rows(found.id)
            gone = [sid for sid in dict.fromkeys(int(s) for s in sids) if static.is_live(sid)]
            if gone:
                self._write("delete_rows", {"table": found.id, "sids": gone})
            return len(gone)
