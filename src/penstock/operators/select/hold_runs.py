"""Find the readings that end an unbroken run of true readings of the required duration, per sensor."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def lasting(sids: npt.NDArray[np.int32], times: Ints, positions: Ints, true: Bools, us: int) -> Bools:
    """Which rows end a run of true rows of their sensor, in the order of time and position, that began `us` before."""
    if not len(times):
        return np.empty(0, np.bool_)
    order = np.lexsort((positions, times, sids))
    held, own, when = true[order], sids[order], times[order]
    begins = ~held
    begins[0] = True
    begins[1:] |= ~held[:-1] | (own[1:] != own[:-1])
    since = when[np.maximum.accumulate(np.where(begins, np.arange(len(order)), 0))]
    found = np.empty(len(order), np.bool_)
    found[order] = held & (when - since >= us)
    return found


def newest_of_each(sids: npt.NDArray[np.int32], times: Ints, positions: Ints) -> Ints:
    """The newest row of each sensor by time and position; indices, by sensor."""
    order = np.lexsort((positions, times, sids))
    return order[np.append(sids[order][1:] != sids[order][:-1], True)] if len(order) else order
