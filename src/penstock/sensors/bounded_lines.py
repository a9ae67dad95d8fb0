"""A file of lines without those that are too long, in bounded memory: also of a file that has no line ends at all."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import BinaryIO

_CHUNK_BYTES = 1 << 16


class BoundedLines(io.RawIOBase):
    """Reads as the file would without its long lines; `skipped` is called once for each of them."""

    def __init__(self, file: BinaryIO, most_bytes: int, skipped: Callable[[], None]) -> None:
        self._file = file
        self._most = most_bytes
        self._skipped = skipped
        # At most as long as a line may be: then only the first line of a chunk can be too long.
        self._chunk_bytes = max(1, min(_CHUNK_BYTES, most_bytes))
        self._begun = b""  # a line up to where it has been read
        self._skipping = False
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._ready:
            chunk = self._file.read(self._chunk_bytes)
            if not chunk:
                self._ready, self._begun = memoryview(self._begun), b""
                break
            self._ready = memoryview(self._whole_lines(chunk))
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def _whole_lines(self, chunk: bytes) -> bytes:
        """What is known to belong to lines that are short enough."""
        if self._skipping:
            _, end, chunk = chunk.partition(b"\n")
            self._skipping = not end
        data = self._begun + chunk
        if data.find(b"\n", 0, self._most + 1) < 0 and len(data) > self._most:
            self._skipped()
            _, end, data = data.partition(b"\n")
            self._skipping = not end
        last = data.rfind(b"\n") + 1
        self._begun = data[last:]
        return data[:last]
