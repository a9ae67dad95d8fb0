"""Users and tokens as they are kept: hashed, durable, never without an admin."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from penstock.database.database import Database
from penstock.errors import PenstockError
from penstock.security.users import Cost, Users, as_caller, hash_password, new_token, token_digest, verify_password
from penstock.settings import Settings
from tests.security.conftest import CHEAP
from tests.support.local_engine import LocalEngine
from tests.support.manual_clock import ManualClock


@pytest.fixture
def users(tmp_path: Path) -> Users:
    return Users(tmp_path, clock=ManualClock(1_000_000), cost=CHEAP)


def test_a_password_is_recognised_by_its_hash_and_two_hashes_of_one_differ() -> None:
    first, second = hash_password("correct horse", Cost()), hash_password("correct horse", CHEAP)
    assert verify_password("correct horse", first) and verify_password("correct horse", second)
    assert not verify_password("correct horsf", second)
    assert first.split("$")[1:4] == ["15", "8", "3"]
    assert "correct" not in first


def test_a_token_has_256_bits_and_is_never_the_same() -> None:
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100 and all(len(t) == len("pst_") + 43 for t in tokens)


def test_no_secret_stands_in_the_file_and_only_the_owner_may_read_it(users: Users, tmp_path: Path) -> None:
    users.create_user("ada", "admin", "correct horse")
    token = users.create_token("telegraf", "write", "ada")
    file = tmp_path / "security" / "accounts.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert b"correct horse" not in file.read_bytes() and token.encode() not in file.read_bytes()
    assert token_digest(token).encode() in file.read_bytes()


def test_users_are_there_after_a_restart_and_another_process_is_seen_at_once(users: Users, tmp_path: Path) -> None:
    users.create_user("ada", "admin", "correct horse")
    other = Users(tmp_path, cost=CHEAP)
    assert other.by_password("ada", "correct horse") is not None
    other.create_user("bob", "read", "bob's secret")
    assert users.by_password("bob", "bob's secret") is not None
    assert users.by_password("bob", "ada's secret") is None
    assert users.by_password("nobody", "bob's secret") is None


def test_a_file_that_cannot_be_read_lets_nobody_in(users: Users, tmp_path: Path) -> None:
    users.create_user("ada", "admin", "correct horse")
    (tmp_path / "security" / "accounts.json").write_text('{"format": 1, "users": [')
    with pytest.raises(PenstockError, match="cannot be read"):
        users.by_token("anything")
    with pytest.raises(PenstockError):
        assert users.required


def test_the_first_one_has_to_be_an_admin_and_the_last_admin_stays_while_others_are_there(users: Users) -> None:
    for refused in (
        lambda: users.create_user("ada", "write", "correct horse"),
        lambda: users.create_user("ada", "admin", None),
        lambda: users.create_token("t", "write"),
        lambda: users.create_token("t", "admin", expires_us=2_000_000),
    ):
        with pytest.raises(PenstockError, match="no user could administer"):
            refused()
    users.create_user("ada", "admin", "correct horse")
    users.create_user("bob", "read", "bob's secret")
    for refused in (lambda: users.drop_user("ada"), lambda: users.alter_user("ada", role="write")):
        with pytest.raises(PenstockError, match="no user could administer"):
            refused()
    users.drop_user("bob")
    users.drop_user("ada")
    assert not users.required


def test_a_token_never_has_more_than_its_owner_and_goes_with_it(users: Users) -> None:
    users.create_user("root", "admin", "root's secret")
    users.create_user("ada", "write", "ada's secret")
    token = users.create_token("ci", "admin", "ada")
    found = users.by_token(token)
    assert found is not None and (found.role, found.user) == ("write", "ada")
    users.alter_user("ada", role="read")
    assert users.still(found).role == "read"  # type: ignore[union-attr]
    users.drop_user("ada")
    assert users.by_token(token) is None and users.still(found) is None


def test_a_token_ends_when_it_said(tmp_path: Path) -> None:
    clock = ManualClock(1_000_000)
    users = Users(tmp_path, setting_token="x" * 20, clock=clock, cost=CHEAP)
    token = users.create_token("visitor", "read", expires_us=2_000_000)
    assert users.by_token(token) is not None
    clock.advance(1_000_000)
    assert users.by_token(token) is None
    with pytest.raises(PenstockError, match="has passed"):
        users.create_token("late", "read", expires_us=2_000_000)


def test_a_new_password_signs_out_whoever_came_with_the_old_one(users: Users) -> None:
    users.create_user("ada", "admin", "correct horse")
    user = users.by_password("ada", "correct horse")
    assert user is not None
    caller = as_caller(user)
    assert users.still(caller) is not None
    users.alter_user("ada", password="better horse")
    assert users.still(caller) is None


@pytest.mark.parametrize("name", ["", "x" * 129, "a\nb"])
def test_odd_names_and_short_passwords_are_refused(users: Users, name: str) -> None:
    with pytest.raises(PenstockError, match="printable"):
        users.create_user(name, "admin", "correct horse")
    with pytest.raises(PenstockError, match="8 to 1024") as caught:
        users.create_user("ada", "admin", "horse")
    assert "horse" not in caught.value.render()


def test_every_flipped_byte_of_the_accounts_lets_no_request_in(tmp_path: Path) -> None:
    made = Users(tmp_path, cost=CHEAP)
    made.create_user("ada", "admin", "correct horse battery")
    made.create_token("robot", "read")
    file = tmp_path / "security" / "accounts.json"
    whole = file.read_bytes()
    known = Users(tmp_path).accounts()
    for place in range(len(whole)):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << place % 8)]) + whole[place + 1 :])
        users = Users(tmp_path, cost=CHEAP)
        try:
            assert users.accounts() == known
        except PenstockError as problem:
            assert problem.condition == "corrupt_accounts"
    file.unlink()
    with pytest.raises(PenstockError, match="missing"):
        assert Users(tmp_path).required
    with pytest.raises(PenstockError, match="missing"):
        made.accounts()


def test_a_server_whose_accounts_are_damaged_does_not_start(tmp_path: Path) -> None:
    Users(tmp_path, cost=CHEAP).create_user("ada", "admin", "correct horse battery")
    (tmp_path / "security" / "accounts.json").write_bytes(b"")
    database = Database(Settings(data=str(tmp_path)), engine=LocalEngine)
    with pytest.raises(PenstockError) as refused:
        database.start()
    database.stop()
    assert refused.value.condition == "corrupt_accounts" and "backup" in (refused.value.hint or "")
