"""All sinks of a server: one follower each, started, paused and stopped as the catalog says."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from penstock.catalog.model import Sink
from penstock.catalog.secrets import PLAIN_KEY, shown_options
from penstock.errors import PenstockError
from penstock.services import Service
from penstock.sinks.base import Place
from penstock.sinks.follower import DeliveryLimits, SinkFollower
from penstock.sinks.registry import find_kind, parse_options
from penstock.sinks.result_reader import Queries

_END_S = 5.0


class SinkRunner:
    """Keeps followers equal to the catalog's sinks. Never waits for one, except in `close`."""

    def __init__(
        self, queries: Queries, folder: Path, place_of: Callable[[Sink], Place], limits: DeliveryLimits
    ) -> None:
        """`folder` has one folder per sink, for its position and its backlog; `place_of` says where one is opened."""
        self._queries = queries
        self._folder = folder
        self._place_of = place_of
        self._limits = limits
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
                self._ending = [*(f for f in self._ending if f.is_alive()), follower]
            for sink_id, sink in wanted.items():
                known = self._followers.get(sink_id)
                if known is not None:
                    known.pause(sink.paused)
                    continue
                folder = self._folder / str(sink_id)
                follower = SinkFollower(self._place_of(sink), self._queries, folder, self._limits)
                self._followers[sink_id] = follower
                follower.start()

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
        try:
            kind = find_kind(sink.kind)
            described |= {"target": kind.target(parse_options(kind, sink.options)), "promise": kind.promise}
        except PenstockError:
            pass  # made by a version that knew more; its follower says so
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
