"""ALTER SYSTEM: an admin confirms that the wall clock is right, or the list of damaged files."""

from __future__ import annotations

from penstock.clock import format_timestamp
from penstock.clock_guard import GuardedClock, clock_status
from penstock.sql import statements as st
from penstock.statements.replies import done
from penstock.statements.session import Session
from penstock.views.results import Result

_NAMED = 20


def accept_clock(session: Session, statement: st.AcceptClock) -> Result:
    clock = session.clock
    if isinstance(clock, GuardedClock):
        clock.accept()
    status = clock_status(clock)
    notices = [f"the wall clock is followed: {format_timestamp(status.wall_us)}"]
    if status.now_us > status.wall_us:
        notices.append(
            f"NOW is ahead of it, at {format_timestamp(status.now_us)}, and runs at half pace until they meet"
        )
    return done("ALTER SYSTEM ACCEPT CLOCK", tuple(notices))


def accept_damage(session: Session, statement: st.AcceptDamage) -> Result:
    """Health names it no more, and rollups that waited for the admin are swept again. The rows stay in `penstock.damage`."""
    accepted = session.damage.accept()
    notices = [f"accepted: {row.file}" for row in accepted[:_NAMED]]
    if len(accepted) > _NAMED:
        notices.append(f"accepted: {len(accepted) - _NAMED} others, see penstock.damage")
    return done("ALTER SYSTEM ACCEPT DAMAGE", tuple(notices or ["no damage is open"]))
