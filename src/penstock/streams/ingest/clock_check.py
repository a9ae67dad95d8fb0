"""Pushes while the clock is in doubt: refused as a whole where only the right time could say what to do with them."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.catalog.model import Table
from penstock.clock_guard import FOLLOWED_US, ClockStatus
from penstock.errors import error
from penstock.streams.ingest.rules import NO_TIME

Times = np.ndarray[Any, np.dtype[np.int64]]


def check_clock(table: Table, times: Times | None, clock: ClockStatus) -> None:
    """Raise clock_untrusted for readings that may well be right once the clock is; their senders try again.

    At a start that trusts no clock these are readings that the server would stamp, and readings past NOW. While a
    step that will be followed is held, they are readings between NOW and the wall clock: the sensors may know better.
    """
    if clock.state == "followed":
        return
    ahead = table.options.max_ahead_us
    given = np.empty(0, np.int64) if times is None else times
    past_now = given > clock.now_us + ahead
    if clock.state == "untrusted":
        doubtful = times is None or bool((past_now | (given == NO_TIME)).any())
    else:
        followed_soon = 0 < clock.step_us <= FOLLOWED_US
        doubtful = followed_soon and bool((past_now & (given <= clock.wall_us + ahead)).any())
    if doubtful:
        raise error("clock_untrusted", detail=clock.sentence, hint="send the readings again later")
