"""The rules of time and order, one reading after the other, compiled.

For each reading in turn, the first that holds decides: too far ahead of the wall clock; older than the table keeps; a
repeat of a remembered key; older than its sensor's newest (refused, moved up to it, or accepted, as the table
says). What passes is accepted and moves its sensor's newest time. Every change of state is noted, so that a
push that could not be written is taken back exactly.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.expr.kernel import kernel

NO_TIME = np.iinfo(np.int64).min

ACCEPTED, AHEAD, BEFORE, DUPLICATE, OUT_OF_ORDER, SKIPPED = 0, 1, 2, 3, 4, 255
REFUSE, CLAMP, ACCEPT = 0, 1, 2
LATE, CLAMPED, UNORDERED = 1, 2, 4  # marks of an accepted reading

COUNT_ACCEPTED, COUNT_REFUSED, COUNT_LATE, COUNT_CLAMPED, COUNT_DUPLICATE, COUNTS = 0, 1, 2, 3, 4, 5


# Plain tuples: Numba looks up the type of a named one again at each call, which takes longer than to judge a reading.
# What decides: now, max_ahead, retention (-1: readings of any age are kept), policy, within.
OrderRules = tuple[int, int, int, int, int]
# What the rules change: newest and counts by sid, latest[0] of the table, the remembered time by key. In this order:
# newest, latest, counts, remembered.
OrderState = tuple[Any, Any, Any, Any]
# One per reading: the code of what was decided, marks of accepted ones, and the newest and remembered time before.
Decisions = tuple[Any, Any, Any, Any]


@kernel
def apply_rules(sids: Any, ts: Any, keys: Any, rules: OrderRules, state: OrderState, out: Decisions) -> None:
    """Decide on every reading in order.

    `sids` of -1 leave a reading out. A `ts` of NO_TIME means the wall clock, or its sensor's newest if that is later;
    times are changed to those that are stored. `keys` are empty without deduplication.
    """
    now, max_ahead, retention, policy, within = rules
    newest, latest, counts, remembered = state
    code, marks, old_newest, old_remembered = out
    dedupe = keys.shape[0] > 0
    for i in range(sids.shape[0]):
        sid = sids[i]
        if sid < 0:
            code[i] = SKIPPED
            continue
        before = newest[sid]
        old_newest[i] = before
        time = ts[i]
        if time == NO_TIME:
            time = max(now, before)
        elif time > now + max_ahead:
            code[i] = AHEAD
            counts[sid, COUNT_REFUSED] += 1
            continue
        elif retention >= 0 and latest[0] != NO_TIME and time < latest[0] - retention:
            code[i] = BEFORE
            counts[sid, COUNT_REFUSED] += 1
            continue
        unordered = before != NO_TIME and time < before
        mark = 0
        if unordered and policy == CLAMP:
            time = before
            unordered = False
            mark = CLAMPED
        if dedupe:
            last = remembered[keys[i]]
            old_remembered[i] = last
            if last != NO_TIME and last >= before - within and abs(time - last) <= within:
                code[i] = DUPLICATE
                ts[i] = time
                counts[sid, COUNT_DUPLICATE] += 1
                continue
        if unordered and policy == REFUSE:
            code[i] = OUT_OF_ORDER
            counts[sid, COUNT_REFUSED] += 1
            continue
        code[i] = ACCEPTED
        ts[i] = time
        counts[sid, COUNT_ACCEPTED] += 1
        if unordered:
            mark |= UNORDERED
        else:
            newest[sid] = time
            if latest[0] != NO_TIME and time < latest[0]:
                mark |= LATE
                counts[sid, COUNT_LATE] += 1
        if mark & CLAMPED:
            counts[sid, COUNT_CLAMPED] += 1
        marks[i] = mark
        if latest[0] == NO_TIME or time > latest[0]:
            latest[0] = time
        if dedupe and time >= newest[sid] - within:
            remembered[keys[i]] = time


@kernel
def take_back(sids: Any, keys: Any, state: OrderState, out: Decisions) -> None:
    """Undo what one push did, last reading first."""
    newest, _, counts, remembered = state
    code, marks, old_newest, old_remembered = out
    dedupe = keys.shape[0] > 0
    for j in range(sids.shape[0]):
        i = sids.shape[0] - 1 - j
        sid = sids[i]
        if code[i] == SKIPPED:
            continue
        if code[i] != ACCEPTED:
            counts[sid, COUNT_DUPLICATE if code[i] == DUPLICATE else COUNT_REFUSED] -= 1
            continue
        newest[sid] = old_newest[i]
        counts[sid, COUNT_ACCEPTED] -= 1
        if marks[i] & LATE:
            counts[sid, COUNT_LATE] -= 1
        if marks[i] & CLAMPED:
            counts[sid, COUNT_CLAMPED] -= 1
        if dedupe:
            remembered[keys[i]] = old_remembered[i]


@kernel
def raise_newest(newest: Any, vids: Any, ts: Any, sid_of: Any) -> None:
    """Move the newest time of each sensor up to the logged rows, in any order."""
    for i in range(vids.shape[0]):
        sid = sid_of[vids[i]]
        if ts[i] > newest[sid]:
            newest[sid] = ts[i]


def warm_up() -> None:
    """Compile, or load from the cache on disk, before the first push has to wait for it."""
    sids, ints, codes = np.zeros(1, np.int32), np.zeros(1, np.int64), np.zeros(1, np.uint8)
    counts = np.zeros((1, COUNTS), np.int64)
    state = (ints.copy(), ints.copy(), counts, ints.copy())
    out = (codes, codes.copy(), ints.copy(), ints.copy())
    apply_rules(sids, ints, ints.copy(), (0, 0, -1, REFUSE, 0), state, out)
    take_back(sids, ints, state, out)
    raise_newest(ints, sids, ints, sids)
    # Columns of the log come read-only, which is another type to the compiler.
    frozen_sids, frozen_ints = sids.copy(), ints.copy()
    frozen_sids.flags.writeable = frozen_ints.flags.writeable = False
    raise_newest(ints, frozen_sids, frozen_ints, sids)
