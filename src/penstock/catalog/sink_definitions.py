"""Sinks: ways out for the results of a query, created, paused and resumed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.catalog.definition_json import sink_to_json
from penstock.catalog.model import QueryDefinition, Sink
from penstock.catalog.writer import CatalogWriter
from penstock.errors import error


class SinkDefinitions(CatalogWriter):
    def create_sink(
        self,
        name: str,
        query: QueryDefinition,
        kind: str,
        options: Mapping[str, str],
        owner: str | None = None,
        most: int | None = None,
    ) -> Sink:
        """A sink of a query as it was when the sink was checked against its columns. `most`: how many there may be."""
        with self._lock:
            self._exists("sink", name, self.state.sinks, False)
            known = self._query(query.name)
            if known.id != query.id:
                hint = "another query of that name came meanwhile; try again"
                raise error("query_not_found", query=query.name, hint=hint)
            if most is not None and len(self.state.sinks) >= most:
                hint = "drop one, or raise sinks_max"
                raise error("limit_reached", detail=f"there are {most} sinks already", hint=hint)
            sink = Sink(self.state.next_sink_id, name, query.name, kind, dict(options), owner=owner)
            self._write("create_sink", sink_to_json(sink))
            return sink

    def change_sink(self, name: str, paused: bool) -> Sink:
        """Pause or resume; its position stays."""
        with self._lock:
            known = self.state.sinks.get(name)
            if known is None:
                raise self._missing("sink", name, self.state.sinks)
            changed = replace(known, paused=paused)
            if changed != known:
                self._write("change_sink", sink_to_json(changed))
            return changed
