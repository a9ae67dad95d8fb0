"""What admins decide: users and tokens, whether the wall clock is right (ALTER SYSTEM ACCEPT CLOCK), which damage is known.

A token is shown once, to the user that creates it; no statement shows a password.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.clock import format_timestamp
from penstock.clock_guard import GuardedClock, clock_status
from penstock.errors import PenstockError
from penstock.sql import statements as st
from penstock.statements.session import Session, done, rows_of
from penstock.views.results import Result


def create_user(session: Session, statement: st.CreateUser) -> Result:
    users = session.users
    notices = () if users.required else ("from now on every client has to sign in or send a token",)
    users.create_user(statement.name, statement.role, statement.password, statement.if_not_exists)
    return done("CREATE USER", notices)


def alter_user(session: Session, statement: st.AlterUser) -> Result:
    session.users.alter_user(statement.name, statement.role, statement.password)
    return done("ALTER USER")


def create_token(session: Session, statement: st.CreateToken) -> Result:
    text = session.users.create_token(statement.name, statement.role, statement.owner, statement.expires_us)
    shown = rows_of(("name", "token"), [(statement.name, text)])
    return replace(shown, notices=("this token is shown once; keep it where only its user can read it",))


def drop_accounts(session: Session, statement: st.DropAccounts) -> Result:
    drop = session.users.drop_user if statement.kind == "user" else session.users.drop_token
    for name, at in zip(statement.names, statement.names_at, strict=True):
        try:
            drop(name, statement.if_exists)
        except PenstockError as failure:
            raise statement.source.point(failure, at) from None
    return done(f"DROP {statement.kind.upper()}")


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
