"""How far a sink has come, on disk: everything up to a cycle was delivered, or there was nothing to deliver.

Written aside and renamed, at most every second: after a crash a little may be delivered again, nothing is left out.
"""

from __future__ import annotations

import math
import time
import zlib
from pathlib import Path

import orjson

from penstock.damage import damage_of
from penstock.streams.log.atomic_file import store

WRITE_EVERY_S = 1.0


class Position:
    """The place of one sink. One thread uses it."""

    def __init__(self, folder: Path, every_s: float = WRITE_EVERY_S) -> None:
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
        cycle = self.cycle
        store(self._folder, self._file, lambda path: _fill(path, cycle))
        self._stored, self._written_s = cycle, time.monotonic()


def _fill(path: Path, cycle: int) -> None:
    path.write_bytes(orjson.dumps({"cycle": cycle, "crc": zlib.crc32(b"%d" % cycle)}))
