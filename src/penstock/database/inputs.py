"""The inputs that are open right now, for SHOW INPUTS, /v1/status and /metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.catalog.model import Table
from penstock.streams.ingest.input_counts import InputCounts
from penstock.streams.sources.table_sources import Sources

# Ways in that the server is called by: of these two it counts everything, of lines what is refused as a whole.
WAYS_IN = ("http", "websocket")
LINES = "line protocol"
_NAMES_SHOWN = 20
_NUMBERS = ("messages", "bytes", "accepted", "duplicates", "refused", "ignored", "in_flight", "connects")
# How a sensor looks whose table is read by a source in this state.
_SENSOR_STATES = {"connected": "open", "connecting": "opening", "backing off": "backing off", "stopped": "closed"}


def input_rows(ways_in: Mapping[str, InputCounts], sources: Sources) -> list[dict[str, Any]]:
    """One record per way in; `reasons` and `ignored_names` as texts."""
    return [
        {
            **facts,
            "refused": sum(facts["refused"].values()),
            "reasons": ", ".join(f"{condition} {count}" for condition, count in sorted(facts["refused"].items())),
            "ignored_names": ", ".join(facts["ignored_names"][:_NAMES_SHOWN]),
        }
        for facts in _facts(ways_in, sources)
    ]


def input_facts(ways_in: Mapping[str, InputCounts], sources: Sources) -> dict[str, dict[str, Any]]:
    """Numbers by name; `refused` by condition, `connected` as 0 or 1."""
    return {
        facts["name"]: {
            **{name: facts[name] for name in _NUMBERS if name in facts},
            "connected": int(facts["state"] in ("connected", "open")),
        }
        for facts in _facts(ways_in, sources)
    }


def sensor_state(sources: Sources, table: Table) -> str:
    """The state of a sensor that the stream manager does not open."""
    if table.stream is None or table.stream.connector is None:
        return "pushed"
    state = sources.state_of(table.id)
    return "closed" if state is None else _SENSOR_STATES[state]


def _facts(ways_in: Mapping[str, InputCounts], sources: Sources) -> list[dict[str, Any]]:
    called = [
        {
            "name": way,
            "kind": way,
            "state": "open",
            "last_error": counts.last_problem,
            "ignored_names": counts.ignored_names(),
            **counts.as_dict(),
        }
        for way, counts in ways_in.items()
    ]
    return [*called, *sources.facts()]
