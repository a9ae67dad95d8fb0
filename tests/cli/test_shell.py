"""The interactive shell, driven through a pipe instead of a terminal."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from penstock.cli.command import Format
from penstock.cli.shell import Names, Shell, history_file
from penstock.client import Connection
from tests.server.fake import FakeDatabase
from tests.server.live import Live

Type = Callable[..., tuple[str, str]]


@pytest.fixture
def type_in(server: tuple[Live, FakeDatabase], database: FakeDatabase, capsys: pytest.CaptureFixture[str]) -> Type:
    def run(*lines: str) -> tuple[str, str]:
        with create_pipe_input() as pipe, Connection(server[0].url) as connection:
            session: PromptSession[str] = PromptSession(input=pipe, output=DummyOutput())
            for line in lines:
                pipe.send_text(line + "\n")
            pipe.send_text("\x04")
            Shell(connection, Format.csv, session).run()
        return capsys.readouterr()

    return run


def test_a_statement_may_span_lines_and_ends_with_a_semicolon(type_in: Type, database: FakeDatabase) -> None:
    out, _ = type_in("SELECT", "1;")
    assert database.statements == [("SELECT\n1", None)]
    assert out == "location,ppm\nnorth gate,37.5\npier,41.0\n"


def test_two_statements_on_a_line_both_run(type_in: Type, database: FakeDatabase) -> None:
    type_in("SELECT 1; SELECT 2;")
    assert [sql for sql, _ in database.statements] == ["SELECT 1", "SELECT 2"]


def test_an_error_does_not_end_the_shell(type_in: Type, database: FakeDatabase) -> None:
    _, err = type_in("SELECT pmp;", "SELECT 2;")
    assert "    |        ^^^" in err
    assert len(database.statements) == 2


def test_the_helpers_describe_what_there_is(type_in: Type) -> None:
    out, _ = type_in("\\d")
    assert "sensors,sensor table" in out and "gas_alarm,query" in out
    out, _ = type_in("\\d sensors")
    assert "sensor_id,INT,key" in out and "ppm,DOUBLE,of reading" in out and "ts,TIMESTAMP,time" in out
    out, _ = type_in("\\d gas_alarm")
    assert "state,running" in out
    out, _ = type_in("\\ds sensors")
    assert "1,north gate,2020-01-01T00:00:00.000000Z,1.10,plant/1,open" in out


def test_an_unknown_helper_lists_the_known(type_in: Type) -> None:
    _, err = type_in("\\nonsense", "\\d nothing")
    assert "there is no \\nonsense" in err and "\\q" in err
    assert "query_not_found" in err


def test_the_format_can_be_changed(type_in: Type) -> None:
    out, _ = type_in("\\f json", "SELECT 1;")
    assert out.startswith('[{"location":"north gate"')


def test_a_file_can_be_run(type_in: Type, database: FakeDatabase, tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("SELECT 1;")
    type_in(f"\\i {tmp_path / 'a.sql'}")
    assert database.statements == [("SELECT 1", None)]
    _, err = type_in("\\i none.sql")
    assert "cannot read none.sql" in err


def test_leaving_needs_no_semicolon(type_in: Type, database: FakeDatabase) -> None:
    for word in ("\\q", "quit", "exit;"):
        type_in(word, "SELECT 1;")
    assert database.statements == []


def test_ctrl_c_cancels_the_statement_at_the_server_and_the_shell_goes_on(
    type_in: Type, database: FakeDatabase
) -> None:
    def interrupt() -> None:
        until(lambda: database.endless == 1)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # which a runner of tests may have taken away
    typing = threading.Thread(target=interrupt)
    typing.start()
    try:
        out, err = type_in("SELECT forever;", "SELECT 2;")
    finally:
        signal.signal(signal.SIGINT, before)
        typing.join(60)
    assert "cancelled" in err and "north gate" in out
    assert [sql for sql, _ in database.statements] == ["SELECT forever", "SELECT 2"]
    until(lambda: database.endless == 0)


def until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it never came to hold"
        time.sleep(0.005)


def complete(names: Names, text: str) -> list[str]:
    return [c.text for c in names.get_completions(Document(text), CompleteEvent(completion_requested=True))]


def test_names_and_keywords_are_completed(server: tuple[Live, FakeDatabase], database: FakeDatabase) -> None:
    with Connection(server[0].url) as connection:
        names = Names(connection)
        names.refresh()
    assert "sensors" in complete(names, "SELECT * FROM sen")
    assert "gas_alarm" in complete(names, "SUBSCRIBE ga")
    assert complete(names, "SELECT s.reading.pp") == ["ppm"]
    assert "SELECT" in complete(names, "SEL")
    assert "select" in complete(names, "sel")
    assert complete(names, "") == []


def test_history_lives_in_the_users_state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert history_file() == tmp_path / "penstock" / "history"
