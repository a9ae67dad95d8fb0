"""What status and the system tables read of the database. `database.database.Database` is the real one."""

from __future__ import annotations

from typing import Protocol

from penstock.catalog.model import Table
from penstock.database.backup import BackupProgress
from penstock.database.observer import Observer
from penstock.database.sampler import Sampler
from penstock.pipeline.engine import Engine
from penstock.services import Service
from penstock.sinks.runner import SinkRunner
from penstock.statements.session import Session
from penstock.streams.ingest.ingest import Ingest
from penstock.streams.ingest.input_counts import InputCounts
from penstock.streams.sources.table_sources import Sources
from penstock.views.follower import Follower
from penstock.views.results import Health


class Parts(Session, Protocol):
    """What statements use, and what brings readings in, runs cycles and delivers answers."""

    ingest: Ingest
    sources: Sources
    ways_in: dict[str, InputCounts]
    observer: Observer
    sampler: Sampler
    engine: Engine
    follower: Follower
    sinks: SinkRunner
    backups: dict[str, BackupProgress]

    def sensor_tables(self) -> list[Table]:
        """Those with a stream, by name."""

    def services(self) -> list[Service]:
        """Everything that works in the background."""

    def health(self) -> Health:
        """Whether the database answers, and what is wrong."""

    def uptime_s(self) -> float:
        """The time since its start."""
