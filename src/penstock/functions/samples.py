"""Which rows a sample keeps: a random choice that is the same in every process and at every time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.expr.expression import Call
from penstock.functions.values import OperationInfo, Value, constant, nulls, numbers, with_nulls

PARTS = 1_000_000_000
"""A fraction is so many of these: a whole number, so that Spark compares the same."""
_SEED = np.uint64(42)
_PRIMES = tuple(
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)
_Words = npt.NDArray[np.uint64]


def xxhash64(*columns: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """What Spark's function of that name gives for BIGINTs: the hash of each is the seed of the next."""
    found: _Words = np.full(len(columns[0]), _SEED)
    with np.errstate(over="ignore"):
        for column in columns:
            found = _hashed(column.view(np.uint64), found)
    return found.view(np.int64)


def _hashed(words: _Words, seeds: _Words) -> _Words:
    one, two, three, four, five = _PRIMES
    found = seeds + five + np.uint64(8)
    found = found ^ (_turned(words * two, 31) * one)
    found = _turned(found, 27) * one + four
    found = (found ^ (found >> np.uint64(33))) * two
    found = (found ^ (found >> np.uint64(29))) * three
    return found ^ (found >> np.uint64(32))


def _turned(words: _Words, bits: int) -> _Words:
    return (words << np.uint64(bits)) | (words >> np.uint64(64 - bits))


def _sampled(arguments: Sequence[Value], call: Call, rows: int) -> Value:
    places = np.ascontiguousarray(np.broadcast_to(numbers(arguments[0]), rows)).astype(np.int64, copy=False)
    seeds = np.full(rows, constant(call, 1), np.int64)
    kept = xxhash64(places, seeds) % PARTS < constant(call, 2)
    return with_nulls(kept, pa.bool_(), nulls(arguments[:1], rows))


SAMPLING = {
    "sampled": OperationInfo("whether a sample with a seed keeps a row, so many of 1 000 000 000", _sampled),
}
