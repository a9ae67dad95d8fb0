"""Damage for health and the table `penstock.damage`: the files, since when, and the queries that fail because of them."""

from __future__ import annotations

from typing import Any

from penstock.damage import CONDITIONS_OF_DAMAGE, DamageReport, file_named
from penstock.views.standing_queries import StandingQueries


def damage_rows(report: DamageReport, standing: StandingQueries) -> list[dict[str, Any]]:
    """One row per damaged file, the oldest first."""
    queries = failing_queries(report, standing)
    rows = []
    for row in report.rows():
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


def failing_queries(report: DamageReport, standing: StandingQueries) -> dict[str, set[str]]:
    """By damaged file: the standing queries that fail because of it. Files that are not known yet are noted."""
    with standing.locked() as store:
        known = store.state.queries_by_id
        failed = [
            (known[query_id].name, answer.error)
            for query_id, answer in store.answers.items()
            if answer.error is not None and answer.error_condition in CONDITIONS_OF_DAMAGE and query_id in known
        ]
    found: dict[str, set[str]] = {}
    noted = {row.file for row in report.rows()}
    for name, message in failed:
        file = file_named(message)
        found.setdefault(file, set()).add(name)
        if file not in noted:
            report.note(file, file.split("/", 1)[0], message)
            noted.add(file)
    return found
