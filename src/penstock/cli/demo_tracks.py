"""The plume's ways through the plant, as the join finds them: rows of `plume_path` in, the newest ways out."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from penstock.clock import SECOND, parse_timestamp

KEPT = 50


@dataclass(frozen=True, slots=True)
class Track:
    """Three probes that the plume reached one after the other."""

    probes: tuple[int, int, int]
    place: str
    began_us: int
    ended_us: int

    def __str__(self) -> str:
        first, second, third = self.probes
        return f"probe {first} -> {second} -> {third} in {(self.ended_us - self.began_us) / SECOND:.0f} s"


class Tracks:
    """The newest way over each three probes; filled by a subscription while a view reads."""

    def __init__(self) -> None:
        self._newest: dict[tuple[int, int, int], Track] = {}
        self._lock = threading.Lock()

    def add(self, rows: Iterable[dict[str, Any]]) -> None:
        """Take new rows. A probe's reading can tremble around the threshold: such a front is told once."""
        with self._lock:
            for row in rows:
                track = Track(
                    (row["first"], row["second"], row["third"]),
                    row["place"],
                    parse_timestamp(row["began"]),
                    parse_timestamp(row["ts"]),
                )
                known = self._newest.get(track.probes)
                if known is None or track.ended_us > known.ended_us:
                    self._newest[track.probes] = track
            kept = sorted(self._newest.values(), key=lambda track: -track.ended_us)[:KEPT]
            self._newest = {track.probes: track for track in kept}

    def newest(self) -> list[Track]:
        """Newest first."""
        with self._lock:
            return list(self._newest.values())
