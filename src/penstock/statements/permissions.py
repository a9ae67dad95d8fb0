"""Which role each statement needs, and what the audit calls it.

Statements that are not listed need an admin, so a new kind of statement is restricted by default.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from penstock.errors import PenstockError, error
from penstock.security.audit import Audit
from penstock.security.caller import LOCAL, Caller, Role, current_caller, require
from penstock.security.users import Users
from penstock.sql import statements as st

READ = (
    st.Select | st.Subscribe | st.Show | st.Describe | st.Explain | st.CancelStatement | st.Transaction | st.SetOnError
)
_OF_QUERIES = st.CreateQuery | st.BadQuery | st.AlterQuery | st.PauseQuery | st.ResumeQuery | st.DescribeQuery
WRITE = _OF_QUERIES | st.Insert | st.Update | st.Delete
# Shown to admins only: the list of accounts and their rights would help an intruder.
SECRET_SHOWS = frozenset({"users", "tokens"})


def needed_role(statement: st.Statement) -> Role:
    if isinstance(statement, st.Show) and statement.what in SECRET_SHOWS:
        return "admin"
    if isinstance(statement, st.Drop) and statement.kind == "query":
        return "write"
    if isinstance(statement, READ):
        return "read"
    return "write" if isinstance(statement, WRITE) else "admin"


def the_caller(users: Users) -> Caller:
    """The caller with its present role: a page may be open for days, and roles change.

    Where clients must sign in, work without a caller is refused.
    """
    caller = current_caller()
    if caller is None:
        if users.required:
            raise error("unauthorized", detail="the request has no user and no token")
        return LOCAL
    now = users.still(caller)
    if now is None or (caller.via == "open" and users.required):
        raise error("unauthorized", detail="the user or token of this request is no longer valid", hint="sign in again")
    return now


def check_statements(statements: Iterable[st.Statement], users: Users, audit: Audit) -> None:
    """Refuse a script before its first statement runs if one of them needs a higher role."""
    caller = the_caller(users)
    if caller.role == "admin":
        return
    for statement in statements:
        try:
            require(caller, needed_role(statement), action_of(statement))
        except PenstockError as failure:
            audit.note(action_of(statement), names_of(statement), failure.condition)
            raise statement.point(failure) from None


_ACTIONS = {
    "BadQuery": "CREATE QUERY",
    "DescribeQuery": "ALTER QUERY",
    "PauseQuery": "ALTER QUERY PAUSE",
    "ResumeQuery": "ALTER QUERY RESUME",
    "AddColumn": "ALTER TABLE",
    "AlterLateness": "ALTER TABLE",
    "AcceptClock": "ALTER SYSTEM ACCEPT CLOCK",
    "AcceptDamage": "ALTER SYSTEM ACCEPT DAMAGE",
    "Select": "SELECT",
    "Transaction": "a transaction",
    "SetOnError": "SET",
}


def action_of(statement: st.Statement) -> str:
    """The words a statement begins with: `CREATE TABLE`."""
    kind = getattr(statement, "kind", None)
    name = type(statement).__name__
    if name.startswith("Drop") and isinstance(kind, str):
        return "DROP " + kind.replace("_", " ").upper()
    if name == "Show":
        return "SHOW " + str(getattr(statement, "what", "")).upper()
    if name in _ACTIONS:
        return _ACTIONS[name]
    return re.sub(r"(?<=.)(?=[A-Z])", " ", name).upper()


def shown_text(statement: st.Statement) -> str:
    """A statement as others may read it: questions whole, of anything else only what it is about, never a value."""
    if isinstance(statement, st.Select | st.Explain | st.Show | st.Describe | st.CancelStatement):
        return statement.source.sql
    return " ".join([action_of(statement), ", ".join(names_of(statement))]).strip()


def names_of(statement: st.Statement) -> Sequence[str]:
    """What it is about, by name; never a value."""
    if isinstance(statement, st.Drop) and statement.like is not None:
        return (f"LIKE {statement.like}",)
    for attribute in ("names", "name", "table"):
        found = getattr(statement, attribute, None)
        if found:
            return (found,) if isinstance(found, str) else tuple(found)
    return ()
