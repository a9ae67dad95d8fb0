"""`penstock user` on a data folder that no server has seen yet, and on one that has."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.cli.shell import DiscreetHistory
from penstock.errors import PenstockError
from penstock.security import users
from penstock.security.users import Cost, Users
from penstock.server.http.listener import check_exposure
from penstock.settings import Settings

runner = CliRunner()


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(users, "PASSWORD_COST", Cost(1, 1, 1))
    monkeypatch.chdir(tmp_path)


def test_a_first_admin_opens_the_way_to_other_machines(tmp_path: Path) -> None:
    settings = Settings(host="0.0.0.0", data=str(tmp_path / "d"))
    with pytest.raises(PenstockError, match="neither a token nor a user"):
        check_exposure(settings)
    refused = runner.invoke(app, ["user", "add", "ada", "--data", "d"], input="correct horse\n")
    assert refused.exit_code == 1 and "no user could administer" in refused.output
    made = runner.invoke(app, ["user", "add", "ada", "--role", "admin", "--data", "d"], input="correct horse\n")
    assert made.exit_code == 0, made.output
    check_exposure(settings)
    assert Users(tmp_path / "d").by_password("ada", "correct horse") is not None


def test_users_and_tokens_are_changed_listed_and_dropped(tmp_path: Path) -> None:
    def run(*words: str, text: str = "") -> str:
        result = runner.invoke(app, ["user", *words, "--data", "d"], input=text)
        assert result.exit_code == 0, result.output
        return result.stdout

    run("add", "ada", "--role", "admin", text="correct horse\n")
    run("add", "bob", text="bob's secret\n")
    run("change", "bob", "--role", "write", "--password", text="bob's new one\n")
    token = run("token", "ci", "--role", "write", "--for", "bob", "--days", "1").strip()
    users = Users(tmp_path / "d")
    found = users.by_token(token)
    assert found is not None and found.user == "bob"
    assert users.by_password("bob", "bob's new one") is not None
    listed = orjson.loads(run("list", "--format", "json"))
    assert [(row["kind"], row["name"], row["role"]) for row in listed] == [
        ("user", "ada", "admin"),
        ("user", "bob", "write"),
        ("token", "ci", "write"),
    ]
    run("drop-token", "ci")
    run("drop", "bob")
    assert list(users.accounts().users) == ["ada"]
    lines = [orjson.loads(line) for line in (tmp_path / "d" / "audit" / "audit.jsonl").read_bytes().splitlines()]
    assert [line["action"] for line in lines] == [
        "CREATE USER",
        "CREATE USER",
        "ALTER USER",
        "CREATE TOKEN",
        "DROP TOKEN",
        "DROP USER",
    ]
    assert all(line["via"] == "command line" and line["outcome"] == "done" for line in lines)


def test_mistakes_are_told(tmp_path: Path) -> None:
    for words in (["add", "ada", "--role", "boss"], ["drop", "nobody"], ["drop-token", "nobody"], ["change", "ada"]):
        assert runner.invoke(app, ["user", *words, "--data", "d"], input="correct horse\n").exit_code != 0


def test_the_shell_remembers_no_line_with_a_password(tmp_path: Path) -> None:
    history = DiscreetHistory(str(tmp_path / "history"))
    for line in ("SHOW TABLES;", "CREATE USER ada password 'correct horse';", "SHOW USERS;"):
        history.append_string(line)
    text = (tmp_path / "history").read_text()
    assert "SHOW TABLES" in text and "SHOW USERS" in text and "horse" not in text
