"""The newest time per static version, from which NOW of a valid-time stream is computed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.expr.bits import Words, lowest_bit
from penstock.expr.kernel import kernel

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]


def newest_by_version(vids: Int32s, ts: Int64s) -> tuple[Int32s, Int64s]:
    """The distinct vids in ascending order, and the newest ts (microseconds) of each."""
    if len(vids) == 0:
        return np.empty(0, np.int32), np.empty(0, np.int64)
    least, most = int(vids.min()), int(vids.max())
    if most - least > 16 * len(vids) + 1024:
        # Few rows of a table with many versions: sorting them is cheaper than an array per version.
        order = np.argsort(vids, kind="stable")
        found, starts = np.unique(vids[order], return_index=True)
        return found, np.maximum.reduceat(ts[order], starts)
    seen, newest = _scatter(vids, ts, least, most - least + 1)
    present = np.flatnonzero(seen)
    return (present + least).astype(np.int32), newest[present]


@kernel
def _scatter(vids: Int32s, ts: Int64s, least: int, count: int) -> tuple[npt.NDArray[np.bool_], Int64s]:
    seen = np.zeros(count, np.bool_)
    newest = np.empty(count, np.int64)
    for i in range(len(vids)):
        vid = vids[i] - least
        if not seen[vid] or ts[i] > newest[vid]:
            seen[vid] = True
            newest[vid] = ts[i]
    return seen, newest


def newest_passing(masks: Words, chosen: Int64s, heard: Words, newest: Int64s, nows: Int64s) -> None:
    """Raise `nows` of each chosen mask to the newest time of a version that it lets through and that has readings.

    `masks` has a row of bits by vid for each mask; `heard` is one.
    """
    at = np.flatnonzero(heard)
    if len(chosen) and len(at):
        _newest_passing(masks, chosen, at, heard, newest, nows)


@kernel
def _newest_passing(masks: Words, chosen: Int64s, at: Int64s, heard: Words, newest: Int64s, nows: Int64s) -> None:
    for number in chosen:
        latest = nows[number]
        for i in at:
            both = masks[number, i] & heard[i]
            while both != 0:
                latest = max(latest, newest[i * 64 + lowest_bit(both)])
                both &= both - np.uint64(1)
        nows[number] = latest
