"""Answers with arrays and structs over HTTP and in the client: as rows of JSON, as Arrow, once and pushed."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable

import penstock
from tests.server.live import serving
from tests.support.pipe import Pipe

WINDOW = "BEGIN (NOW - 1 MINUTE) END (NOW)"


def test_an_answer_with_series_is_the_same_as_json_as_arrow_and_as_an_event(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes()
    pipe.probes()
    pipe.db.execute(
        "CREATE QUERY q AS SELECT place, SERIES(value, every => 1 SECOND) AS s, COUNT(*) AS c,"
        f" ANOMALY(value, history => 20) AS n FROM probes GROUP BY place {WINDOW}"
    )
    pipe.db.execute(
        f"CREATE QUERY u AS SELECT place, UNNEST(SERIES(value, every => 1 SECOND)) AS e FROM probes GROUP BY place {WINDOW}"
    )
    pipe.push(4.0)
    pipe.clock.advance(2_500_000)
    pipe.push(8.0)
    pipe.engine.drain()
    at = ["2025-11-15T07:00:00.000000Z", "2025-11-15T07:00:01.000000Z"]
    with serving(pipe.db) as live, penstock.connect(live.url) as db:  # type: ignore[arg-type]
        with urllib.request.urlopen(f"{live.url}/v1/queries/q/rows") as answer:
            (row,) = json.load(answer)["rows"]
        series = [{"at": at[0], "value": 4.0}, {"at": at[1], "value": None}]
        assert row == ["north", series, 2, None]
        table = db.invoke("q").to_arrow()
        assert table.schema == pipe.db.standing.invoke("q").table.schema
        assert table.column("s").to_pylist()[0][0]["value"] == 4.0
        events = iter(db.subscribe("u"))
        assert [r["e"]["value"] for r in next(events).rows] == [4.0, None]
