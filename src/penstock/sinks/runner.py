"""All sinks of a server: one follower each, started, paused and stopped as the catalog says.

A follower is a thread that reads its query, delivers, and tries again until the target takes it. How far it has come is on disk
(`Position`): everything up to a cycle was delivered, or there was nothing to deliver. That is written aside and renamed, at most
every second: after a crash a little may be delivered again, nothing is left out.
"""

from __future__ import annotations

import contextlib
import logging
import math
import shutil
import threading
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from penstock.back_off import BackOff
from penstock.catalog.model import Sink
from penstock.catalog.secrets import PLAIN_KEY, secrets_of, shown_options, without
from penstock.clock import Clock
from penstock.cycle.folder import DataFolder
from penstock.damage import damage_of
from penstock.errors import PenstockError, one_line
from penstock.sensors.address_rules import AddressRules
from penstock.services import Service
from penstock.settings import Settings
from penstock.sinks.base import Outlet, Place, SinkBatch
from penstock.sinks.files import Files
from penstock.sinks.registry import read_kind
from penstock.sinks.result_reader import AnswerReader, Backlog, Queries, Reader, WantedRows
from penstock.streams.log.atomic_file import make_folder, store, sweep

_log = logging.getLogger("penstock.sinks")
_SHOWN_CHARS = 500


@dataclass(frozen=True, slots=True)
class Pace:
    """How long a sink waits: for results, between attempts (doubled each time), and between writes of its position."""

    turn_s: float = 1.0
    least_s: float = 0.5
    most_s: float = 60.0
    asked_s: float = 600.0
    position_s: float = 1.0


PACE = Pace()


@dataclass(slots=True)
class SinkStats:
    """What is told about a sink, since the server started."""

    state: str = "STARTING"
    rows: int = 0
    deliveries: int = 0
    failed: int = 0
    retries: int = 0
    last_error: str | None = None
    last_delivery: int | None = None


class SinkFollower:
    """Reads, delivers, remembers. `stop` ends it after the attempt that is under way."""

    def __init__(self, place: Place, queries: Queries, folder: Path, settings: Settings) -> None:
        self.sink: Sink = place.sink
        self.told = SinkStats()
        self._place = place
        self._queries = queries
        self._folder = folder
        self._settings = settings
        self._pace = PACE
        self.paused = place.sink.paused
        self._stop = threading.Event()
        self._dropped = False
        self._left_behind = False
        self._secrets = secrets_of(place.sink.options, PLAIN_KEY)
        self._position: Position | None = None
        self._reader: Reader | AnswerReader | None = None
        self._outlet: Outlet | None = None
        self._batch: SinkBatch | None = None
        self._attempts = 0  # that failed, of this batch
        self.service = Service(f"sink {place.sink.name}", self._step)

    def stop(self, dropped: bool = False) -> None:
        """Ask it to end; `dropped`: nothing of it is needed any more."""
        self._dropped = dropped
        self._stop.set()
        reader = self._reader
        if reader is not None:
            reader.close()

    def join(self, timeout_s: float) -> None:
        """Wait for its end; if that does not come in time, it writes nothing more."""
        self.service.join(timeout_s)
        self._left_behind = self._left_behind or self.service.is_alive()

    def facts(self) -> dict[str, Any]:
        """The numbers of the system table."""
        position, reader = self._position, self._reader
        cycle = position.cycle if position is not None else None
        return {
            **asdict(self.told),
            "cycle": cycle,
            "lag": max(0, self._queries.last_cycle() - cycle) if cycle is not None else None,
            "waiting": reader.waiting() if reader is not None else 0,
            "gaps": reader.gaps if reader is not None else 0,
        }

    def _step(self) -> float | None:
        """One turn. A target that refuses is the sink's own matter, with its own pauses; None at the end."""
        if self._stop.is_set():
            self._end()
            return None
        try:
            self._turn()
        except Exception as failure:
            self._note_failure(failure)
            self._rest(failure)
        return 0.0

    def _turn(self) -> None:
        """Wait a little for a batch and deliver it, or look after what is due by time."""
        if self._position is None:
            make_folder(self._folder)
            sweep(self._folder)
            self._position = Position(self._folder, self._pace.position_s)
        if self.paused:
            self.told.state = "PAUSED"
            if self._position.cycle is not None:  # before its first delivery there is nothing that it could miss
                (self._reader or self._open_reader(self._position)).keep_up()
            self._stop.wait(self._pace.turn_s)
            return
        reader = self._reader or self._open_reader(self._position)
        if self._batch is None:
            self._batch = reader.next(self._pace.turn_s)
        if self._batch is None:
            self._look_after(reader, self._position)
        elif not self._stop.is_set():
            self._deliver(reader, self._position, self._batch)

    def _open_reader(self, position: Position) -> Reader | AnswerReader:
        kind, options = read_kind(self.sink.kind, self.sink.options)
        if kind.answers(options):
            self._reader = AnswerReader(self._queries, self.sink.query)
            return self._reader
        begin = position.cycle
        if begin is None:
            # Killed between the first delivery and the first note of it, the target may know more than we do.
            begin = self._open_outlet().position()
        elif kind.open is Files:
            outlet = self._open_outlet()
            if isinstance(outlet, Files) and outlet.is_damaged:
                begin = outlet.position()  # rows that it had and lost are delivered again
        backlog = Backlog(self._folder / "backlog", self._settings.sink_backlog_mb << 20)
        wanted = WantedRows(bool(options.get("changes", False)), options.get("rows") == "final")
        keep = max(2, self._settings.cycles_keep)
        self._reader = Reader(self._queries, self.sink.query, wanted, backlog, keep, begin)
        self._reader.gaps += begin is None and position.is_damaged
        return self._reader

    def _open_outlet(self) -> Outlet:
        if self._outlet is None:
            kind, options = read_kind(self.sink.kind, self.sink.options)
            self._outlet = kind.open(self._place, options)
        return self._outlet

    def _deliver(self, reader: Reader | AnswerReader, position: Position, batch: SinkBatch) -> None:
        if self._attempts:
            self.told.retries += 1
        self._open_outlet().deliver(batch)
        self._attempts = 0
        self.told.state = "RUNNING"
        self.told.rows += batch.table.num_rows
        self.told.deliveries += 1
        self.told.last_delivery = self._place.clock.now_us()
        if self._left_behind:
            return  # the folder may be another server's by now
        reader.finished(batch)
        self._batch = None
        position.move(batch.cycle)
        reader.keep_up()

    def _look_after(self, reader: Reader | AnswerReader, position: Position) -> None:
        if self._outlet is not None:
            self._outlet.tick()
        quiet = reader.quiet_upto()
        if quiet is not None and not self._stop.is_set() and not self._left_behind:
            position.move(quiet)
        self._attempts = 0
        self.told.state = "RUNNING"

    def _note_failure(self, failure: Exception) -> None:
        refused = isinstance(failure, PenstockError) and failure.condition == "delivery_failed"
        text = str(failure) if refused else one_line(failure)
        self._attempts += 1
        self.told.state = "RETRYING"
        self.told.failed += 1
        self.told.last_error = without(text, self._secrets)[:_SHOWN_CHARS]
        if self._attempts == 1:
            _log.warning('sink "%s" tries again: %s', self.sink.name, self.told.last_error)
        self._close_outlet()
        if isinstance(self._reader, AnswerReader):
            self._batch = None  # by the next attempt there may be a newer one
            self._reader.owe()  # a target that was away may have lost the last one

    def _rest(self, failure: Exception) -> None:
        """Wait before the next attempt, putting aside what would be forgotten meanwhile."""
        # Sinks of one target do not all come back at once.
        pause_s = BackOff(self._pace.least_s, self._pace.most_s).spread_s(self._attempts)
        asked_s = failure.retry_after_s if isinstance(failure, PenstockError) else None
        until = time.monotonic() + max(pause_s, min(asked_s or 0.0, self._pace.asked_s))
        while not self._stop.is_set() and (left := until - time.monotonic()) > 0:
            self._quietly(lambda: self._reader.keep_up() if self._reader is not None else None)
            self._stop.wait(min(left, self._pace.turn_s))

    def _close_outlet(self) -> None:
        outlet, self._outlet = self._outlet, None
        if outlet is not None:
            self._quietly(outlet.close)

    def _end(self) -> None:
        self._close_outlet()
        if self._reader is not None:
            self._quietly(self._reader.close)
        if self._dropped:
            shutil.rmtree(self._folder, ignore_errors=True)
        elif self._position is not None and not self._left_behind:
            self._quietly(self._position.write)

    def _quietly(self, work: Callable[[], object]) -> None:
        """For what may fail without harm: the log has it, and the sink goes on."""
        try:
            work()
        except Exception as failure:
            _log.warning('sink "%s": %s', self.sink.name, without(str(failure), self._secrets))


class Position:
    """The place of one sink. One thread uses it."""

    def __init__(self, folder: Path, every_s: float = 1.0) -> None:
        self._folder = folder
        self._file = folder / "position.json"
        self._every_s = every_s
        self._written_s = -math.inf  # the first one is written at once
        self.is_damaged = False  # whether there was a position that could not be read
        self._stored = self._read()
        self.cycle = self._stored

    def _read(self) -> int | None:
        try:
            found = orjson.loads(self._file.read_bytes())
            cycle = int(found["cycle"])
            if "crc" in found and found["crc"] != zlib.crc32(b"%d" % cycle):  # format 1 has none
                raise ValueError("its checksum is wrong: the file has changed since it was written")
            return cycle
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as problem:
            self.is_damaged = True
            detail = f"{problem}; the sink goes on with the whole answer"
            damage_of(self._folder.parents[1]).set_aside(self._file, "sinks", detail, healed=True)
            return None

    def move(self, cycle: int) -> None:
        """All up to `cycle` is delivered."""
        self.cycle = cycle
        if time.monotonic() - self._written_s >= self._every_s:
            self.write()

    def write(self) -> None:
        """Make what is known last."""
        if self.cycle is None or self.cycle == self._stored:
            return
        body = orjson.dumps({"cycle": self.cycle, "crc": zlib.crc32(b"%d" % self.cycle)})
        store(self._folder, self._file, lambda path: path.write_bytes(body))
        self._stored, self._written_s = self.cycle, time.monotonic()


_END_S = 5.0


class SinkRunner:
    """Keeps followers equal to the catalog's sinks. Never waits for one, except in `close`."""

    def __init__(
        self, queries: Queries, folder: DataFolder, settings: Settings, clock: Clock, rules: AddressRules
    ) -> None:
        self._queries = queries
        self._folder = folder.sinks  # with one folder per sink, for its position and its backlog
        self._settings = settings
        files = folder.root / settings.sink_files if settings.sink_files else folder.outbox
        self._place_of = partial(Place, folder_id=folder.read_id(), files=files, clock=clock, rules=rules)
        self._lock = threading.Lock()
        self._followers: dict[int, SinkFollower] = {}
        self._ending: list[SinkFollower] = []
        self._closed = False

    def start(self, sinks: Mapping[str, Sink]) -> None:
        """Begin where the last server ended. What is left of sinks that were dropped goes."""
        known = {str(sink.id) for sink in sinks.values()}
        for left in self._folder.iterdir() if self._folder.is_dir() else ():
            if left.name not in known:
                shutil.rmtree(left, ignore_errors=True)
        self.follow(sinks)

    def follow(self, sinks: Mapping[str, Sink]) -> None:
        """Definitions changed."""
        with self._lock:
            if self._closed:
                return
            wanted = {sink.id: sink for sink in sinks.values()}
            for sink_id in self._followers.keys() - wanted.keys():
                follower = self._followers.pop(sink_id)
                follower.stop(dropped=True)
                self._ending = [*(f for f in self._ending if f.service.is_alive()), follower]
            for sink_id, sink in wanted.items():
                known = self._followers.get(sink_id)
                if known is not None:
                    known.paused = sink.paused
                    continue
                folder = self._folder / str(sink_id)
                follower = SinkFollower(self._place_of(sink), self._queries, folder, self._settings)
                self._followers[sink_id] = follower
                follower.service.start()

    def services(self) -> list[Service]:
        with self._lock:
            return [follower.service for follower in self._followers.values()]

    def facts(self, sinks: Mapping[str, Sink]) -> list[dict[str, Any]]:
        """What is told about each sink, by name; never a secret."""
        return [self._facts(sinks[name]) for name in sorted(sinks)]

    def _facts(self, sink: Sink) -> dict[str, Any]:
        with self._lock:
            follower = self._followers.get(sink.id)
        described: dict[str, Any] = {"name": sink.name, "query": sink.query, "kind": sink.kind, "owner": sink.owner}
        with contextlib.suppress(PenstockError):  # made by a version that knew more; its follower says so
            kind, options = read_kind(sink.kind, sink.options)
            described |= {"target": kind.target(options), "promise": kind.promise}
        shown = ", ".join(f"{name} = '{value}'" for name, value in shown_options(sink.options, PLAIN_KEY).items())
        told = follower.facts() if follower is not None else {"state": "STARTING"}
        if sink.paused:
            told["state"] = "PAUSED"
        return {**described, "options": shown, **told}

    def close(self) -> None:
        """End all of them, each after the attempt that it is at, and write down how far they came.

        A sink without an answer of its target is left behind: it delivers the batch under way again.
        """
        with self._lock:
            self._closed = True
            followers = list(self._followers.values())
            self._followers.clear()
        for follower in followers:
            follower.stop()
        until = time.monotonic() + _END_S
        for follower in (*followers, *self._ending):
            follower.join(max(0.0, until - time.monotonic()))
