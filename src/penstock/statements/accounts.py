"""Users and tokens in SQL. A token is shown once, to the user that creates it; no statement shows a password."""

from __future__ import annotations

from penstock.clock import format_timestamp
from penstock.errors import PenstockError
from penstock.security.users import Users
from penstock.sql import user_statements as st
from penstock.statements.replies import done, rows_of
from penstock.statements.session import Session
from penstock.views.results import Result


def create_user(session: Session, statement: st.CreateUser) -> Result:
    users = session.users
    notices: tuple[str, ...] = ()
    if not users.required:
        notices = ("from now on every client has to sign in or send a token",)
    users.create_user(statement.name, statement.role, statement.password, statement.if_not_exists)
    return done("CREATE USER", notices)


def alter_user(session: Session, statement: st.AlterUser) -> Result:
    session.users.alter_user(statement.name, statement.role, statement.password)
    return done("ALTER USER")


def create_token(session: Session, statement: st.CreateToken) -> Result:
    text = session.users.create_token(statement.name, statement.role, statement.owner, statement.expires_us)
    shown = rows_of([{"name": statement.name, "token": text}], ("name", "token"))
    return Result(shown.table, notices=("this token is shown once; keep it where only its user can read it",))


def drop_accounts(session: Session, statement: st.DropAccounts) -> Result:
    drop = session.users.drop_user if statement.kind == "user" else session.users.drop_token
    for name, at in zip(statement.names, statement.names_at, strict=True):
        try:
            drop(name, statement.if_exists)
        except PenstockError as failure:
            raise statement.source.point(failure, at) from None
    return done(f"DROP {statement.kind.upper()}")


def show_users(users: Users) -> Result:
    found = users.accounts()
    rows = [
        {
            "name": user.name,
            "role": user.role,
            "password": "set" if user.password else None,
            "tokens": ", ".join(sorted(t.name for t in found.tokens.values() if t.owner == user.name)) or None,
            "created": format_timestamp(user.created_us),
        }
        for user in sorted(found.users.values(), key=lambda u: u.name)
    ]
    return rows_of(rows, ("name", "role", "password", "tokens", "created"))


def show_tokens(users: Users) -> Result:
    found = users.accounts()
    rows = [
        {
            "name": token.name,
            "role": token.role,
            "owner": token.owner,
            "created": format_timestamp(token.created_us),
            "expires": format_timestamp(token.expires_us) if token.expires_us is not None else None,
        }
        for token in sorted(found.tokens.values(), key=lambda t: t.name)
    ]
    return rows_of(rows, ("name", "role", "owner", "created", "expires"))
