"""The ways in and out as the system page lists them: what came, what was refused and why, what was delivered."""

from __future__ import annotations

from typing import Any

from penstock.console.formats import cycles
from penstock.console.layout import path_to
from penstock.console.widgets.data_table import column, counted, said
from penstock.database.database import Database
from penstock.database.inputs import input_rows

INPUTS = [
    column("name", "way in"),
    column("state"),
    column("messages", right=True, wide=True, by=True),
    column("accepted", "stored", right=True, by=True),
    column("refused", right=True, by=True),
    column("why", wide=True, sortable=False),
]
SINKS = [
    column("name", "sink"),
    column("state"),
    column("query", wide=True),
    column("target", "sends to", wide=True),
    column("promise", "a row arrives", wide=True),
    column("rows", "rows delivered", right=True, by=True),
    column("lag", right=True, by=True),
    column("failed", right=True, wide=True, by=True),
    column("why", "last problem", wide=True, sortable=False),
]


def inputs(database: Database) -> list[dict[str, Any]]:
    """A row for each way in that is open."""
    return [
        {
            "name": facts["name"],
            "state": facts["state"],
            **{n: v for name in ("messages", "accepted", "refused") for n, v in counted(name, facts[name]).items()},
            "why": facts["reasons"] or facts["last_error"] or "",
        }
        for facts in input_rows(database.ways_in, database.sources)
    ]


def sinks(database: Database) -> list[dict[str, Any]]:
    """A row for each sink; it leads to the query that it sends rows of."""
    return [
        {
            "name": facts["name"],
            "href": path_to("queries", facts["query"]),
            "state": facts["state"],
            "query": facts["query"],
            "target": facts.get("target") or facts["kind"],
            "promise": facts.get("promise") or "",
            **counted("rows", facts.get("rows")),
            **said("lag", cycles(facts.get("lag") or 0), facts.get("lag")),
            **counted("failed", facts.get("failed")),
            "why": facts.get("last_error") or "",
        }
        for facts in database.sinks.facts(database.catalog.state.sinks)
    ]
