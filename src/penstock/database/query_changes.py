"""The history of a standing query's definition: its journal entries since registration, as readable text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.catalog.definition_json import quarantined_by
from penstock.catalog.journal import JournalReader


@dataclass(frozen=True, slots=True)
class QueryHistoryEntry:
    """One entry: when, at which position, and what changed."""

    at_us: int
    position: int
    what: str
    detail: str


def changes_of_query(folder: Path, query_id: int, name: str) -> list[QueryHistoryEntry]:
    """Changes of a query, oldest first. Reads the whole journal: use it for a page, not in a loop."""
    found: list[QueryHistoryEntry] = []
    before: dict[str, Any] = {}
    for entry in JournalReader(folder).read():
        body = entry.body
        if entry.kind == "create_query" and body.get("id") == query_id:
            found.append(QueryHistoryEntry(entry.at_us, entry.pos, "registered", body["sql"]))
            before = body
        elif entry.kind == "change_query" and body.get("id") == query_id:
            what, detail = _changed(before, body)
            found.append(QueryHistoryEntry(entry.at_us, entry.pos, what, detail))
            before = body
        elif entry.kind == "quarantine" and query_id in quarantined_by(entry):
            reason = quarantined_by(entry)[query_id]
            found.append(QueryHistoryEntry(entry.at_us, entry.pos, "quarantined", reason))
            before = {**before, "paused": True, "quarantined": reason}
        elif entry.kind == "describe_query" and before and body.get("name") == name:
            for fact in ("owner", "description", "strategy"):
                if body.get(fact) != before.get(fact):
                    found.append(QueryHistoryEntry(entry.at_us, entry.pos, fact, body.get(fact) or "none"))
            before = {**before, **body}
    return found


def _changed(before: dict[str, Any], after: dict[str, Any]) -> tuple[str, str]:
    if before.get("paused", False) != after.get("paused", False):
        return ("paused", "") if after.get("paused") else ("resumed", "")
    text = str(after["sql"])
    place = text.upper().rfind("BEGIN")
    return "window", text[place:] if place >= 0 else text
