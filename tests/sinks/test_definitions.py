"""CREATE, ALTER, DROP and SHOW SINKS; what depends on what; and secrets that nobody gets to see."""

from __future__ import annotations

import logging
import stat
from collections.abc import Callable

import pytest

from penstock.catalog.secrets import secrets_of, shown_options, without
from penstock.errors import PenstockError
from penstock.sinks.registry import KINDS
from tests.sinks.world import Receiver, eventually, hot_probes, push, sink
from tests.support.pipe import Pipe

NOWHERE = "http://127.0.0.1:9/hook"  # the discard port: nobody listens


def refused(pipe: Pipe, sql: str) -> PenstockError:
    with pytest.raises(PenstockError) as caught:
        pipe.db.execute(sql)
    return caught.value


def test_what_is_wrong_with_a_sink_is_said_where_it_stands(pipe: Pipe) -> None:
    hot_probes(pipe)
    failure = refused(pipe, f"CREATE SINK out FOR hto TO webhook (url = '{NOWHERE}')")
    assert (failure.condition, failure.column, failure.hint) == ("query_not_found", 21, 'did you mean "hot"?')
    failure = refused(pipe, f"CREATE SINK out FOR hot TO webhok (url = '{NOWHERE}')")
    assert (failure.condition, failure.column, failure.hint) == ("sink_kind_not_found", 28, 'did you mean "webhook"?')
    failure = refused(pipe, f"CREATE SINK out FOR hot TO webhook (url = '{NOWHERE}', timout = 5)")
    assert (failure.condition, failure.hint) == ("invalid_option", 'did you mean "timeout"?')
    assert failure.column == 70
    failure = refused(pipe, "CREATE SINK out FOR hot TO webhook")
    assert (failure.condition, failure.message) == ("invalid_option", 'option "url": "webhook" needs it')
    failure = refused(pipe, "CREATE SINK out FOR hot TO webhook (url = 'ftp://me:hidden@there')")
    assert "hidden" not in failure.message + str(failure.hint)
    failure = refused(pipe, f"CREATE SINK out FOR hot TO webhook (url = '{NOWHERE}', URL = '{NOWHERE}')")
    assert failure.message == 'option "url": it is given twice'
    failure = refused(pipe, "CREATE SINK out TO webhook")
    assert failure.message == 'expected FOR, found "TO"'
    failure = refused(pipe, "ALTER SINK out STOP")
    assert failure.message == 'expected PAUSE or RESUME, found "STOP"'
    assert refused(pipe, "ALTER SINK out PAUSE").condition == "sink_not_found"
    assert refused(pipe, "DROP SINK out").condition == "sink_not_found"
    pipe.db.execute("DROP SINK IF EXISTS out")


def test_a_name_is_taken_once(pipe: Pipe) -> None:
    hot_probes(pipe)
    create = f"FOR hot TO webhook (url = '{NOWHERE}')"
    pipe.db.execute(f"CREATE SINK out {create}")
    assert refused(pipe, f"CREATE SINK out {create}").condition == "already_exists"
    pipe.db.execute(f"CREATE SINK IF NOT EXISTS out {create}")
    assert list(pipe.db.catalog.state.sinks) == ["out"]


def test_there_are_only_so_many(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes(sinks_max=1)
    hot_probes(pipe)
    pipe.db.execute(f"CREATE SINK a FOR hot TO webhook (url = '{NOWHERE}')")
    assert refused(pipe, f"CREATE SINK b FOR hot TO webhook (url = '{NOWHERE}')").condition == "limit_reached"


def test_a_query_with_sinks_goes_only_with_them(pipe: Pipe) -> None:
    hot_probes(pipe)
    pipe.db.execute(f"CREATE SINK out FOR hot TO webhook (url = '{NOWHERE}')")
    failure = refused(pipe, "DROP QUERY hot")
    assert (failure.condition, failure.message) == ("dependents_exist", 'query "hot" is used by sink "out"')
    dropped = pipe.db.execute("DROP TABLE probes CASCADE")
    assert dropped.notices == ('also dropped: sink "out", query "hot"',)
    assert not pipe.db.catalog.state.sinks
    pipe.restart()
    assert not pipe.db.catalog.state.sinks


def test_sinks_are_shown_and_counted(pipe: Pipe, receiver: Receiver) -> None:
    hot_probes(pipe)
    pipe.db.execute(f"CREATE SINK out FOR hot TO webhook (url = '{receiver.url}')", owner="ada")
    push(pipe, 11.0)
    eventually(lambda: sink(pipe)["rows"] == 1 and sink(pipe)["lag"] == 0)
    (row,) = pipe.db.execute("SHOW SINKS").table.to_pylist()
    cycle = pipe.db.standing.store.cycle
    assert row == {
        "name": "out",
        "query": "hot",
        "kind": "webhook",
        "target": receiver.url,
        "state": "RUNNING",
        "cycle": cycle,
        "lag": 0,
        "rows": 1,
        "failed": 0,
        "last_error": None,
    }
    told = sink(pipe)
    assert (told["owner"], told["promise"]) == ("ada", "at least once; a repeat has the same Idempotency-Key")
    assert pipe.db.status()["sinks"]["out"] | {"deliveries": 0} == {
        "state": "RUNNING",
        "cycle": cycle,
        "lag": 0,
        "waiting": 0,
        "rows": 1,
        "deliveries": 0,
        "failed": 0,
        "retries": 0,
        "gaps": 0,
    }


def test_secrets_are_nowhere_to_be_read(pipe: Pipe, caplog: pytest.LogCaptureFixture) -> None:
    hot_probes(pipe)
    options = "url = 'http://me:hidden1@127.0.0.1:9/hook?token=hidden2', secret = 'hidden3', token = 'hidden4'"
    with caplog.at_level(logging.DEBUG):
        pipe.db.execute(f"CREATE SINK out FOR hot TO webhook ({options})")
        push(pipe, 11.0)
        eventually(lambda: sink(pipe)["failed"] > 0)
        shown = str(pipe.db.execute("SHOW SINKS").table.to_pylist()) + str(sink(pipe)) + str(pipe.db.status()["sinks"])
        pipe.restart()
    assert "hidden" not in shown and "***" in shown
    assert "hidden" not in "\n".join(record.getMessage() for record in caplog.records if "penstock" in record.name)
    journal = pipe.folder / "journal" / "journal.jsonl"
    assert stat.S_IMODE(journal.stat().st_mode) == 0o600


def test_an_error_that_repeats_a_secret_is_told_without_it() -> None:
    options = {"url": "postgresql://u:p4ss@h/d?sslpassword=more", "password": "pa", "secret": "paper", "table": "t"}
    assert shown_options(options) == {
        "url": "postgresql://u:***@h/d?sslpassword=***",
        "password": "***",
        "secret": "***",
        "table": "t",
    }
    assert without("no: p4ss, more and paper", secrets_of(options)) == "no: ***, *** and ***"


def test_every_option_that_sounds_like_a_secret_is_one() -> None:
    for kind in KINDS.values():
        assert kind.promise and kind.sentence.endswith(".")
        assert len({option.name for option in kind.options}) == len(kind.options)
