"""The thread behind rates and value distributions: it looks once a second, at what moved only."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from penstock.catalog.model import Table
from penstock.queries.distributions import Distributions
from penstock.queries.rates import MARK_EVERY_S, Rates
from penstock.streams.ingest import Ingest
from penstock.streams.log import StreamLog

_log = logging.getLogger("penstock.queries")
ROUND_S = 1.0


class Sampler:
    """Watches all sensor tables from its start on."""

    def __init__(self, log: StreamLog, ingest: Ingest, tables: Callable[[], list[Table]]) -> None:
        self._log = log
        self._tables = tables
        self.rates = Rates(ingest)
        self.distributions = Distributions(log.folder, log.heads())
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock-sampler", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def look(self) -> None:
        """One round of sampling values."""
        self.distributions.sample(self._tables(), self._log.heads())

    def _run(self) -> None:
        marked_s = time.monotonic()
        while not self._stopping.wait(ROUND_S):
            try:
                self.look()
                if time.monotonic() - marked_s >= MARK_EVERY_S:
                    marked_s = time.monotonic()
                    self.rates.mark(self._tables())
            except Exception:  # figures about the work must not end it
                _log.exception("while sampling")
