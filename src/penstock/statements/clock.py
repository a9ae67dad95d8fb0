"""ALTER SYSTEM ACCEPT CLOCK: an admin confirms that the wall clock is right."""

from __future__ import annotations

from penstock.clock import Clock, format_timestamp
from penstock.clock_guard import GuardedClock, clock_status
from penstock.statements.replies import done
from penstock.views.results import Result


def accept_clock(clock: Clock) -> Result:
    if isinstance(clock, GuardedClock):
        clock.accept()
    status = clock_status(clock)
    notices = [f"the wall clock is followed: {format_timestamp(status.wall_us)}"]
    if status.now_us > status.wall_us:
        notices.append(
            f"NOW is ahead of it, at {format_timestamp(status.now_us)}, and runs at half pace until they meet"
        )
    return done("ALTER SYSTEM ACCEPT CLOCK", tuple(notices))
