"""What a sink reads: its query's results from a cycle on, or always the newest answer.

What it has read and not delivered yet is on disk (`Backlog`), so that a target may be away for longer than cycles are kept. A
file holds the batches of several cycles: their rows one after the other, and in its metadata how many belong to each.
"""

from __future__ import annotations

import contextlib
import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Protocol

import orjson
import pyarrow as pa

from penstock.answers.subscription import Subscription
from penstock.damage import damage_of
from penstock.errors import PenstockError
from penstock.sinks.base import SinkBatch
from penstock.streams.log.atomic_file import make_folder, store, sweep
from penstock.streams.log.checksums import read_sealed, sealed_file
from penstock.views.results import Event

_KEY = b"penstock"


class Backlog:
    """Batches in the order of their cycles. One thread uses it; one file of them is in memory at a time."""

    def __init__(self, folder: Path, most_bytes: int) -> None:
        self._folder = folder
        self._most = most_bytes
        self._files: dict[Path, int] = {}  # with their sizes, the oldest first
        self._loaded: deque[SinkBatch] = deque()
        self.count = 0  # batches that wait here; any thread may look
        self._was_lost = False
        if folder.is_dir():
            sweep(folder)
            self._files = {path: path.stat().st_size for path in sorted(folder.glob("*.arrow"))}
            self.count = sum(int(path.stem.split("-")[2]) for path in self._files)

    @property
    def is_full(self) -> bool:
        return sum(self._files.values()) >= self._most

    @property
    def last_cycle(self) -> int | None:
        return int(next(reversed(self._files)).stem.split("-")[1]) if self._files else None

    def append(self, batches: Sequence[SinkBatch]) -> None:
        """Keep batches, durably."""
        for _, same in groupby(batches, key=lambda batch: batch.table.schema):
            self._store(list(same))

    def _store(self, batches: Sequence[SinkBatch]) -> None:
        make_folder(self._folder)
        header = [[b.cycle, b.now_us, b.whole, b.table.num_rows] for b in batches]
        rows = pa.concat_tables([b.table for b in batches]).replace_schema_metadata({_KEY: orjson.dumps(header)})

        write = sealed_file(rows.schema, rows.combine_chunks().to_batches())
        path = self._folder / f"{batches[0].cycle:012d}-{batches[-1].cycle:012d}-{len(batches)}.arrow"
        store(self._folder, path, write)
        self._files[path] = path.stat().st_size
        self.count += len(batches)

    def first(self) -> SinkBatch | None:
        """The oldest batch; it stays until `remove_first`."""
        if not self._loaded and self._files:
            try:
                self._loaded.extend(_read(next(iter(self._files))))
            except (OSError, pa.ArrowException, ValueError, KeyError, TypeError) as problem:
                self._give_up(problem)
        return self._loaded[0] if self._loaded else None

    def _give_up(self, problem: Exception) -> None:
        """A file cannot be read: what waits after it would come after a gap, so the sink begins anew instead."""
        report = damage_of(self._folder.parents[2])
        detail = f"{problem}; the sink goes on with the whole answer"
        for path in self._files:
            if path.exists():
                report.set_aside(path, "sinks", detail, healed=True)
        self._files.clear()
        self.count = 0
        self._was_lost = True

    def take_lost(self) -> bool:
        """Whether batches were lost since this was last asked."""
        lost, self._was_lost = self._was_lost, False
        return lost

    def remove_first(self) -> None:
        self._loaded.popleft()
        self.count -= 1
        if not self._loaded:
            # Until here its file stays: after a crash the sink's position says what of it was delivered.
            path = next(iter(self._files))
            del self._files[path]
            path.unlink(missing_ok=True)


def _read(path: Path) -> list[SinkBatch]:
    with pa.OSFile(str(path), "rb") as source:
        rows = read_sealed(path, source)
    found, begin = [], 0
    for cycle, now_us, whole, count in orjson.loads(rows.schema.metadata[_KEY]):
        found.append(SinkBatch(cycle, now_us, rows.slice(begin, count).replace_schema_metadata(None), whole))
        begin += count
    return found


_log = logging.getLogger("penstock.sinks")
# So many bytes of rows go into one file of a backlog.
CHUNK_BYTES = 8 << 20
# Answers that were superseded while the last one was delivered are passed over, so many at a time.
SKIPPED_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class WantedRows:
    """Rows that enter; or net changes; or rows when they are final."""

    changes: bool = False
    final: bool = False


class Queries(Protocol):
    """What sinks need of the standing queries; `queries` brings it."""

    def subscribe(self, name: str, from_cycle: int | None, changes: bool, final: bool = False) -> Subscription: ...

    def answer(self, name: str) -> Event:
        """The whole answer as of the last cycle."""

    def last_cycle(self) -> int: ...


class _Subscriber:
    """A subscription to a query, which begins when it is first needed."""

    def __init__(self, queries: Queries, query: str) -> None:
        self._queries = queries
        self._query = query
        self._source: Subscription | None = None
        self._at: int | None = None
        self.gaps = 0

    def waiting(self) -> int:
        """Batches that wait on disk."""
        return 0

    def keep_up(self) -> None:
        """Put aside what is about to be forgotten, as far as there is room for it."""

    def close(self) -> None:
        source, self._source = self._source, None
        if source is not None:
            source.close()


class Reader(_Subscriber):
    """Batches of a query after a cycle, in order. One thread uses it, except `close`."""

    def __init__(
        self, queries: Queries, query: str, wanted: WantedRows, backlog: Backlog, keep: int, begin: int | None
    ) -> None:
        super().__init__(queries, query)
        self._wanted = wanted
        self._backlog = backlog
        self._delivered = begin
        self._behind_at = max(1, keep // 4)
        self._given: SinkBatch | None = None  # what is being delivered and is not in the backlog
        self._pulled: deque[SinkBatch] = deque()  # what is read and in neither; at most one file of the backlog
        self._at = begin if backlog.last_cycle is None else max(backlog.last_cycle, begin or 0)

    def next(self, timeout_s: float) -> SinkBatch | None:
        """The next batch, from the backlog first; the same again until `finished`."""
        while (kept := self._backlog.first()) is not None:
            if self._delivered is None or kept.cycle > self._delivered:
                return kept
            self._backlog.remove_first()  # delivered just before a crash
        if self._backlog.take_lost():
            self.close()
            self._pulled.clear()
            self._miss("batches that waited on disk are damaged")
        self._given = self._pulled.popleft() if self._pulled else self._pull(timeout_s)
        return self._given

    def finished(self, batch: SinkBatch) -> None:
        """The batch that `next` gave was delivered."""
        self._delivered = batch.cycle
        self._given = None
        kept = self._backlog.first()
        if kept is not None and kept.cycle == batch.cycle:
            self._backlog.remove_first()

    def quiet_upto(self) -> int | None:
        """The cycle up to which nothing is left to deliver, once every batch that was given is."""
        return self._at if self._backlog.first() is None and not self._pulled else None

    def waiting(self) -> int:
        return self._backlog.count

    def keep_up(self) -> None:
        if self._at is None or self._queries.last_cycle() - self._at <= self._behind_at:
            return
        while not self._backlog.is_full:
            with contextlib.suppress(PenstockError):  # a query's trouble is told when its results are wanted
                while sum(b.table.nbytes for b in self._pulled) < CHUNK_BYTES and (batch := self._pull(0)) is not None:
                    self._pulled.append(batch)
            if not self._pulled:
                return
            # What is being delivered comes first: after a crash the backlog must not begin behind it.
            self._backlog.append([*([self._given] if self._given is not None else ()), *self._pulled])
            self._given = None
            self._pulled.clear()

    def _pull(self, timeout_s: float) -> SinkBatch | None:
        """One more batch of the subscription. A cycle that is gone is a gap: it goes on with the current answer."""
        whole = self._at is None
        try:
            source = self._source
            if source is None:
                source = self._source = self._subscribe()
                whole = self._at is None
            event = source.next(timeout_s)
        except PenstockError as failure:
            self.close()
            if failure.condition != "cycle_gone":
                raise
            self._miss(failure.message)
            return None
        if event is None:
            # Before the first answer there is nothing that could have been given.
            self._at = max(self._at, source.cycle) if self._at is not None else None
            return None
        self._at = event.cycle
        return SinkBatch(event.cycle, event.now_us, event.table, whole)

    def _subscribe(self) -> Subscription:
        last = self._queries.last_cycle()
        if self._at is not None and self._at > last:
            self._miss(f"the data folder is at cycle {last}, before what was delivered")
        since = None if self._at is None else self._at + 1
        return self._queries.subscribe(self._query, since, self._wanted.changes, self._wanted.final)

    def _miss(self, why: str) -> None:
        self.gaps += 1
        _log.warning('a sink of query "%s" goes on with the current answer: %s', self._query, why)
        self._at = self._delivered = None


class AnswerReader(_Subscriber):
    """The newest answer, whenever it is another one. What comes while one is delivered is passed over."""

    _owed = False  # whether there is an answer that was not delivered yet

    def next(self, timeout_s: float) -> SinkBatch | None:
        try:
            source = self._source
            if source is None:
                source = self._source = self._queries.subscribe(self._query, None, True)
            if source.next(0 if self._owed else timeout_s) is not None:
                self._owed = True
                for _ in range(SKIPPED_AT_ONCE):
                    if source.next(0) is None:
                        break
        except PenstockError as failure:
            self.close()
            if failure.condition != "cycle_gone":
                raise
            return None
        if not self._owed:
            self._at = source.cycle or self._at
            return None
        found = self._queries.answer(self._query)
        return SinkBatch(found.cycle, found.now_us, found.table, whole=True)

    def owe(self) -> None:
        """The answer is wanted once more, if there ever was one."""
        self._owed = self._owed or self._at is not None

    def finished(self, batch: SinkBatch) -> None:
        self._at = batch.cycle
        self._owed = False

    def quiet_upto(self) -> int | None:
        return self._at if not self._owed else None
