"""A synopsis as bytes: a short header that says what it is, then its arrays as they lie in memory."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from penstock.errors import error

_FORMAT = 1
_LENGTHS = 9  # one byte of format, four of the checksum, four of the header's length


@dataclass(frozen=True, slots=True)
class Saved:
    """What a synopsis is made of: enough to build it again in any process."""

    kind: str
    parameters: Mapping[str, Any]
    now: int
    arrays: Mapping[str, npt.NDArray[Any]]


def pack(saved: Saved) -> bytes:
    header = orjson.dumps(
        {
            "kind": saved.kind,
            "parameters": saved.parameters,
            "now": saved.now,
            "arrays": [[name, a.dtype.str, a.shape] for name, a in saved.arrays.items()],
        }
    )
    body = b"".join([header, *(np.ascontiguousarray(a).tobytes() for a in saved.arrays.values())])
    return bytes([_FORMAT]) + zlib.crc32(body).to_bytes(4, "little") + len(header).to_bytes(4, "little") + body


def unpack(data: bytes) -> Saved:
    """The other way; arrays are views of `data` and cannot be written to."""
    body = memoryview(data)[_LENGTHS:]
    if len(data) <= _LENGTHS or data[0] != _FORMAT or zlib.crc32(body) != int.from_bytes(data[1:5], "little"):
        raise error("internal_error", detail="the saved state of an approximate aggregate is damaged")
    at = int.from_bytes(data[5:9], "little")
    header = orjson.loads(body[:at])
    arrays = {}
    for name, kind, shape in header["arrays"]:
        dtype = np.dtype(kind)
        count = int(np.prod(shape))
        arrays[name] = np.frombuffer(body, dtype, count, at).reshape(shape)
        at += count * dtype.itemsize
    return Saved(header["kind"], header["parameters"], header["now"], arrays)
