"""Damage for health and the table `penstock.damage`: the files, since when, and the queries that fail because of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock.database.database import Database

_CONDITIONS = ("corrupt_segment", "corrupt_journal")
_SEGMENT = re.compile(r'segment "([^"]+)"')
_LOG_FILE = re.compile(r"\d+/")


def damage_rows(database: Database) -> list[dict[str, Any]]:
    """One row per damaged file, the oldest first."""
    queries = failing_queries(database)
    rows = []
    for row in database.damage.rows():
        names = sorted(queries.get(row.file, ()))
        rows.append(
            {
                "file": row.file,
                "kind": row.kind,
                "detail": row.detail,
                "since": row.since_us,
                "healed": row.healed and not names,
                "accepted": row.accepted,
                "queries": ", ".join(names) or None,
            }
        )
    return rows


def failing_queries(database: Database) -> dict[str, set[str]]:
    """By damaged file: the standing queries that fail because of it. Files that are not known yet are noted."""
    with database.standing.locked() as store:
        known = store.state.queries_by_id
        failed = [
            (known[query_id].name, answer.error)
            for query_id, answer in store.answers.items()
            if answer.error is not None and answer.error_condition in _CONDITIONS and query_id in known
        ]
    found: dict[str, set[str]] = {}
    noted = {row.file for row in database.damage.rows()}
    for name, message in failed:
        file = file_named(message)
        found.setdefault(file, set()).add(name)
        if file not in noted:
            database.damage.note(file, file.split("/", 1)[0], message)
            noted.add(file)
    return found


def note_failure(database: Database, failure: PenstockError) -> None:
    """An answer could not be given: if a file is damaged, health names it from now on."""
    if failure.condition in _CONDITIONS:
        file = file_named(failure.message)
        if all(row.file != file or row.healed for row in database.damage.rows()):
            database.damage.note(file, file.split("/", 1)[0], failure.message)


def file_named(message: str) -> str:
    """The file that an error's message names, relative to the data folder."""
    match = _SEGMENT.search(message)
    if match is None:
        return "journal" if "journal" in message else message
    return f"log/{match[1]}" if _LOG_FILE.match(match[1]) else match[1]
