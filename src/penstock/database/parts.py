"""The parts of a database: which there are, what works in the background, and the order in which they are closed."""

from __future__ import annotations

import logging
from typing import Any

from penstock.catalog.model import Table
from penstock.database.backup import BackupProgress
from penstock.database.observer import Observer
from penstock.database.sampler import Sampler
from penstock.operators.aggregate.history_fill import HistoryFiller
from penstock.pipeline.engine import Engine
from penstock.services import Service
from penstock.sinks.runner import SinkRunner
from penstock.statements.session import Session
from penstock.streams.ingest.ingest import Ingest
from penstock.streams.ingest.input_counts import InputCounts
from penstock.streams.sources.table_sources import Sources
from penstock.views.follower import Follower

_log = logging.getLogger("penstock")
# In the order in which they depend on each other.
_WITH_SERVICES = "clock log engine follower observer sources evaluator history_filler idle_queries sinks sampler housekeeper scrubber".split()
# No part calls one that is closed already.
_CLOSED = (
    "statements scrubber sinks sources housekeeper sampler observer idle_queries evaluator history_filler ingest engine follower log catalog audit clock"
).split()


class Parts(Session):
    """What statements use, and what brings readings in, runs cycles and delivers answers. The base of `Database`."""

    ingest: Ingest
    sources: Sources
    ways_in: dict[str, InputCounts]
    observer: Observer
    sampler: Sampler
    engine: Engine
    history_filler: HistoryFiller
    follower: Follower
    sinks: SinkRunner
    backups: dict[str, BackupProgress]  # those that are being written, by their target

    def sensor_tables(self) -> list[Table]:
        """Those with a stream, by name."""
        return sorted((t for t in self.catalog.state.tables.values() if t.stream is not None), key=lambda t: t.name)

    def services(self) -> list[Service]:
        """Everything that works in the background."""
        found: list[Any] = [getattr(self, part, None) for part in _WITH_SERVICES]
        return [service for part in found if hasattr(part, "services") for service in part.services()]

    def close_parts(self) -> None:
        """Close the parts that were opened; if one fails to close, the others are still closed."""
        for name in _CLOSED:
            part: Any = getattr(self, name, None)
            end = getattr(part, "close", None) or getattr(part, "stop", None)
            try:
                if end is not None:
                    end()
            except Exception:
                _log.exception("while closing %s", name)
