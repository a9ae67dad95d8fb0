"""The thread between opened sensors and the log: sends outboxes, journals which sensors are observed.

An answer is complete from an opening on, so the opening is journalled before the sensor is first read
(`observed` says so); a closing comes after its last reading. Many of them make one entry.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Literal

from penstock.catalog.model import Table
from penstock.services import Service
from penstock.streams.ingest.ingest import Ingest
from penstock.streams.sources.outbox import Outbox, will_pass

_LOGGER = logging.getLogger(__name__)
_BACK_OFF_MAX_S = 2.0  # sensors are not read before their opening is journalled
_GATHER_S = 0.05  # an entry is a sync: thousands of sensors that open one by one share a few
_REST_S = 0.005  # lets the readings of many sensors gather into one push

What = Literal["opened", "closed", "ended"]
Event = tuple[int, int, What]  # table id, sid, what happened
# observe(table id, sids opened, sids closed, those of the closed that ended)
Observe = Callable[[int, list[int], list[int], list[int]], None]


class SensorForwarder:
    """Polling threads add to outboxes and note openings; everything that may wait for a disk happens here."""

    def __init__(
        self,
        sink: Ingest,
        observe: Observe,
        observed: Callable[[int, list[int]], None] = lambda table, sids: None,
        most_rows: int = 262_144,
    ) -> None:
        self._most_rows = most_rows
        self._sink = sink
        self._observe = observe
        self._observed = observed
        self._journal_at_s = 0.0
        self._woken = threading.Event()
        self._lock = threading.Lock()
        self._outboxes: dict[int, Outbox] = {}
        self._noted: list[Event] = []  # in the order of events
        self._busy = False
        self._service = Service("courier", self._step, back_off_max_s=_BACK_OFF_MAX_S)
        self._service.start()

    def outbox(self, table: Table) -> Outbox:
        """The table's outbox, which from now on packs for this version of the table."""
        with self._lock:
            box = self._outboxes.get(table.id)
            if box is None:
                box = self._outboxes[table.id] = Outbox(table, self._sink, self._woken.set, self._most_rows)
            box.table = table
            return box

    def wake(self) -> None:
        self._woken.set()

    def note(self, table_id: int, sid: int, what: What) -> None:
        """A sensor was opened or closed; readings added before a closing are sent before it is journalled."""
        with self._lock:
            self._noted.append((table_id, sid, what))
        self._woken.set()

    def drain(self, timeout_s: float) -> bool:
        """Wait until everything is stored and journalled; False when the time was too short."""
        deadline_s = time.monotonic() + timeout_s
        while time.monotonic() < deadline_s:
            with self._lock:
                if not self._noted and not self._busy and all(b.is_empty for b in self._outboxes.values()):
                    return True
            self._woken.set()
            time.sleep(_REST_S)
        return False

    def close(self, timeout_s: float) -> None:
        self._service.stop()
        self._woken.set()
        self._service.join(timeout_s)

    def services(self) -> list[Service]:
        return [self._service]

    def _step(self) -> float:
        self._woken.wait(_GATHER_S if self._noted else 0.25)
        self._woken.clear()
        self._round()
        return _REST_S

    def _round(self) -> None:
        now_s = time.monotonic()
        with self._lock:
            noted: list[Event] = []
            if now_s >= self._journal_at_s:
                noted, self._noted = self._noted, []
                self._journal_at_s = now_s + (_GATHER_S if noted else 0.0)
            self._busy = bool(noted)
            outboxes = dict(self._outboxes)
        try:
            noted = self._journal_openings(noted)
            for box in outboxes.values():
                box.send(now_s)
            noted = self._journal(noted, {table_id for table_id, box in outboxes.items() if not box.is_sent})
        finally:
            with self._lock:
                self._noted = noted + self._noted
                self._busy = False

    def _journal_openings(self, noted: list[Event]) -> list[Event]:
        """Journal openings, and closings that a later opening of the same sensor overtakes; the rest remains."""
        last_opening = {event[:2]: at for at, event in enumerate(noted) if event[2] == "opened"}
        first = [event for at, event in enumerate(noted) if at <= last_opening.get(event[:2], -1)]
        rest = [event for at, event in enumerate(noted) if at > last_opening.get(event[:2], -1)]
        return self._journal(first, set()) + rest

    def _journal(self, noted: list[Event], waiting: set[int]) -> list[Event]:
        """Journal events except those of waiting tables, which are the answer.

        One entry per table, as long as no sensor comes twice. Should the journal fail, the caller keeps all
        events: an entry that says again what is known changes nothing.
        """
        left = [event for event in noted if event[0] in waiting]
        todo = [event for event in noted if event[0] not in waiting]
        while todo:
            seen: set[tuple[int, int]] = set()
            later: list[Event] = []
            opened: dict[int, list[int]] = {}
            closed: dict[int, list[int]] = {}
            ended: dict[int, list[int]] = {}
            for event in todo:
                table_id, sid, what = event
                if (table_id, sid) in seen:
                    later.append(event)
                    continue
                seen.add((table_id, sid))
                (opened if what == "opened" else closed).setdefault(table_id, []).append(sid)
                if what == "ended":
                    ended.setdefault(table_id, []).append(sid)
            for table_id in sorted({*opened, *closed}):
                try:
                    self._observe(table_id, opened.get(table_id, []), closed.get(table_id, []), ended.get(table_id, []))
                except Exception as cause:
                    if will_pass(cause):
                        raise
                    # The table was dropped meanwhile, say: nothing to journal, and the others must go on.
                    _LOGGER.warning("sensors of table %d could not be journalled: %s", table_id, cause)
                self._observed(table_id, opened.get(table_id, []))
            todo = later
        return left
