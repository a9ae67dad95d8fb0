"""The thread that samples rates and value distributions once a second, only of tables with new rows."""

from __future__ import annotations

import time
from collections.abc import Callable

from penstock.catalog.model import Table
from penstock.database.distributions import Distributions
from penstock.database.rates import MARK_EVERY_S, Rates
from penstock.services import Service
from penstock.streams.ingest.ingest import Ingest
from penstock.streams.log.stream_log import StreamLog

ROUND_S = 1.0


class Sampler:
    """Watches all sensor tables from its start on."""

    def __init__(self, log: StreamLog, ingest: Ingest, tables: Callable[[], list[Table]]) -> None:
        self._log = log
        self._tables = tables
        self.rates = Rates(ingest)
        self.distributions = Distributions(log.folder, log.heads())
        self._marked_s = time.monotonic()
        self._service = Service("sampler", self._round, first_s=ROUND_S)

    def start(self) -> None:
        self._service.start()

    def close(self) -> None:
        self._service.stop()
        self._service.join(5)

    def services(self) -> list[Service]:
        return [self._service]

    def look(self) -> None:
        """One round of sampling values."""
        self.distributions.sample(self._tables(), self._log.heads())

    def _round(self) -> float:
        self.look()
        if time.monotonic() - self._marked_s >= MARK_EVERY_S:
            self._marked_s = time.monotonic()
            self.rates.mark(self._tables())
        return ROUND_S
