"""CREATE USER and the like, and which role each statement needs."""

from __future__ import annotations

import pytest

from penstock.errors import PenstockError
from penstock.security.caller import Caller, acting_as
from penstock.sql.parse import parse_script
from penstock.statements.permissions import action_of, needed_role
from tests.security.conftest import World

READER, WRITER = Caller("rita", "read"), Caller("wim", "write")
NEEDED = {
    "SELECT * FROM probes": "read",
    "SHOW TABLES": "read",
    "SHOW SETTINGS": "read",
    "DESCRIBE probes": "read",
    "EXPLAIN SELECT * FROM probes": "read",
    "SUBSCRIBE TO hot": "read",
    "BEGIN": "read",
    "SHOW STATEMENTS": "read",
    "CANCEL STATEMENT 'x'": "read",
    "SET on_error = rest": "read",
    "CREATE QUERY q AS SELECT * FROM probes": "write",
    "ALTER QUERY hot PAUSE": "write",
    "ALTER QUERY hot RESUME": "write",
    "ALTER QUERY hot SET BEGIN (NOW - 1 MINUTE)": "write",
    "ALTER QUERY hot OWNER TO ada": "write",
    "COMMENT ON QUERY hot IS 'x'": "write",
    "DROP QUERY hot": "write",
    "DROP QUERY LIKE 'h%'": "write",
    "INSERT INTO probes VALUES (3, 'x', NULL)": "write",
    "UPDATE probes SET place = 'x'": "write",
    "DELETE FROM probes": "write",
    "CREATE TABLE t (id INT PRIMARY KEY)": "admin",
    "ALTER TABLE probes ADD COLUMN x INT": "admin",
    "CREATE STREAM TYPE s (x INT)": "admin",
    "CREATE FUNCTION f(x INT) RETURNS INT LANGUAGE python AS $$ return x $$": "admin",
    "CREATE OR REPLACE FUNCTION f(x INT) RETURNS INT LANGUAGE python AS $$ return x $$": "admin",
    "DROP TABLE probes": "admin",
    "DROP FUNCTION f": "admin",
    "CREATE AGGREGATE a(x INT) RETURNS INT STATE INT LANGUAGE python AS $$ .. $$": "admin",
    "CREATE OR REPLACE AGGREGATE a(x INT) RETURNS INT STATE INT LANGUAGE python AS $$ .. $$": "admin",
    "DROP AGGREGATE a": "admin",
    "CREATE USER u PASSWORD 'long enough' ROLE read": "admin",
    "ALTER USER u ROLE write": "admin",
    "DROP USER u": "admin",
    "CREATE TOKEN t ROLE read": "admin",
    "DROP TOKEN t": "admin",
    "SHOW USERS": "admin",
    "SHOW TOKENS": "admin",
    "ALTER SYSTEM ACCEPT CLOCK": "admin",
    "ALTER SYSTEM ACCEPT DAMAGE": "admin",
}


@pytest.mark.parametrize("sql", NEEDED)
def test_each_statement_needs_its_role(sql: str) -> None:
    (statement,) = parse_script(sql)
    assert needed_role(statement) == NEEDED[sql]


def test_whoever_has_too_low_a_role_is_refused_with_a_caret_and_nothing_happens(world: World) -> None:
    before = world.db.catalog.state.position, world.db.users.accounts()
    low = [(READER, sql) for sql, role in NEEDED.items() if role != "read"]
    low += [(WRITER, sql) for sql, role in NEEDED.items() if role == "admin"]
    for caller, sql in low:
        with acting_as(caller), pytest.raises(PenstockError) as caught:
            world.db.execute(f"SHOW TABLES;\n{sql}")
        assert (caught.value.condition, caught.value.line) == ("forbidden", 2), caught.value.render()
    assert (world.db.catalog.state.position, world.db.users.accounts()) == before


def test_a_refused_statement_stops_the_script_before_its_first_one(world: World) -> None:
    with acting_as(WRITER), pytest.raises(PenstockError, match='DROP TABLE needs the role "admin"; wim has "write"'):
        world.db.execute("CREATE QUERY q AS SELECT id FROM probes; DROP TABLE probes")
    assert "q" not in world.db.catalog.state.queries


def test_work_that_nobody_asked_for_is_refused_once_people_have_to_sign_in(open_world: World) -> None:
    open_world.db.execute("SHOW TABLES")
    open_world.add_people()
    for work in (
        lambda: open_world.db.execute("SHOW TABLES"),
        lambda: open_world.db.register([("q", "SELECT id FROM probes")]),
    ):
        with pytest.raises(PenstockError, match="no user and no token"):
            work()


def test_whoever_was_let_in_once_is_looked_at_again(open_world: World) -> None:
    """A page that is open for days asks through one connection."""
    users = open_world.db.users
    visitor = Caller("local", "admin", via="open")
    with acting_as(visitor):
        open_world.db.execute("SHOW TABLES")
    open_world.add_people()
    ada = users.by_token(users.create_token("adas", "write", "ada"))
    assert ada is not None
    with acting_as(ada):
        open_world.db.execute("SHOW TABLES")
    users.alter_user("ada", role="read")
    with acting_as(ada), pytest.raises(PenstockError, match='needs the role "write"; ada has "read"'):
        open_world.db.execute("DROP QUERY hot")
    users.drop_user("ada")
    for gone in (ada, visitor):
        with acting_as(gone), pytest.raises(PenstockError, match="is no longer valid"):
            open_world.db.execute("SHOW TABLES")


def test_users_and_tokens_are_made_changed_shown_and_dropped_in_sql(open_world: World) -> None:
    db = open_world.db
    made = db.execute("CREATE USER root WITH PASSWORD $1 ROLE admin", ["root's secret"])
    assert made.done == "CREATE USER" and "sign in" in made.notices[0]
    with acting_as(Caller("root", "admin")):
        db.execute("CREATE USER ada PASSWORD 'ada''s secret'; ALTER USER ada ROLE write")
        db.execute("CREATE USER IF NOT EXISTS ada PASSWORD 'other secret'")
        assert db.users.by_password("ada", "ada's secret") is not None
        token = db.execute("CREATE TOKEN ci FOR ada ROLE write VALID UNTIL '2030-01-01'").table["token"][0].as_py()
        found = db.users.by_token(token)
        assert found is not None and (found.role, found.name) == ("write", "ada")
        shown = db.execute("SHOW USERS").table.to_pylist()
        assert [(u["name"], u["role"], u["password"], u["tokens"]) for u in shown] == [
            ("ada", "write", "set", "ci"),
            ("root", "admin", "set", None),
        ]
        tokens = db.execute("SHOW TOKENS").table.to_pylist()
        assert [(t["name"], t["owner"], t["expires"]) for t in tokens] == [("ci", "ada", "2030-01-01T00:00:00.000000Z")]
        assert token not in str(shown) + str(tokens) and "secret" not in str(shown)
        db.execute("DROP TOKEN ci; DROP USER ada, root")
    assert not db.users.required


MISTAKES = [
    "CREATE USER ada PASSWORD",
    "CREATE USER ada PASSWORD 12345678",
    "CREATE USER ada ROLE boss",
    "ALTER USER ada",
    "ALTER USER nobody ROLE read",
    "DROP USER nobody",
    "DROP TOKEN nobody",
    "CREATE TOKEN t FOR nobody",
    "CREATE TOKEN t VALID UNTIL 'soon'",
    "CREATE TOKEN t ROLE read ROLE write",
]


def test_a_mistake_is_pointed_at(world: World) -> None:
    for sql in MISTAKES:
        with acting_as(Caller("root", "admin")), pytest.raises(PenstockError) as caught:
            world.db.execute(sql)
        assert caught.value.line == 1 and caught.value.status < 500, caught.value.render()


def test_no_password_is_in_the_repr_of_a_statement() -> None:
    for sql in ("CREATE USER a PASSWORD 'long enough'", "ALTER USER a PASSWORD 'long enough'"):
        (statement,) = parse_script(sql)
        assert "long enough" not in repr(statement)
        assert action_of(statement) in sql


def test_show_settings_hides_secrets(world: World) -> None:
    with acting_as(READER):
        rows = {r["name"]: r["value"] for r in world.db.execute("SHOW SETTINGS").table.to_pylist()}
    assert rows["token"] == "***"
