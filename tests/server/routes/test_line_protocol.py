"""POST /api/v2/write and /write over a real database: what Telegraf sends, stored, and what it is told."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.database.status import LINES
from penstock.settings import Settings
from penstock.streams.ingest.input_counts import InputCounts
from penstock.streams.log import stream_log
from penstock.streams.log.segment_rows import read_slice
from penstock.streams.log.segments import list_segments, slices
from tests.server.asgi import Http
from tests.support.pipe import BEGAN_US, Pipe

NOW_NS = BEGAN_US * 1000
CPU = """
CREATE TABLE cpu (host TEXT, cpu TEXT, rack INT, reading STREAM (usage_idle DOUBLE, cores BIGINT, up BOOLEAN, note TEXT),
                  PRIMARY KEY (host, cpu))
WITH (time = 'valid', discover = true) DEDUPLICATE BY (ts) WITHIN 1 HOUR"""


class Influx:
    """The API over a database in this process."""

    def __init__(self, folder: Path) -> None:
        self.pipe = Pipe(folder)
        self.db = self.pipe.db
        self.http = Http(self.db, Settings(body_max_bytes=1 << 20))  # type: ignore[arg-type]

    def write(self, body: str | bytes, path: str = "/api/v2/write?org=o&bucket=b", **headers: str) -> Any:
        return self.http.post(path, content=body, headers={"Content-Type": "text/plain; charset=utf-8", **headers})

    def rows(self, columns: str, table: str = "cpu") -> list[tuple[Any, ...]]:
        """What the log holds, in its order; a reading with the static row of its sensor beside it."""
        names = columns.split(", ")
        found = self.db.catalog_table(table)
        static = self.db.catalog.state.rows(found.id).versions().to_pylist()
        rows: list[tuple[Any, ...]] = []
        for piece in slices(list_segments(self.db.log.folder, found.id), 0, 2**60):
            logged = [name for name in names if name not in found.key and name != "rack"]
            for row in read_slice(piece, ["_vid", *logged]).to_pylist():
                whole = {**static[row["_vid"]], **row}
                rows.append(tuple(whole[name] for name in names))
        return rows

    def close(self) -> None:
        self.http.close()
        self.db.stop()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Influx]:
    made = Influx(tmp_path_factory.mktemp("influx"))
    yield made
    made.close()


@pytest.fixture
def influx(server: Influx) -> Influx:
    """An empty table, and counts that begin anew."""
    for table in server.db.tables():
        server.db.catalog.drop("table", [table["name"]])
    server.db.lines.counts = server.db.ways_in[LINES] = InputCounts()
    server.db.execute(CPU)
    return server


def test_what_telegraf_sends_is_stored_with_sensors_tags_types_and_times(influx: Influx) -> None:
    body = (
        f'cpu,cpu=cpu0,host=a,rack=7 usage_idle=97.5,cores=4i,up=true,note="fine, \\"really\\"" {NOW_NS - 2_000_000_500}\n'
        f"cpu,cpu=cpu1,host=a usage_idle=3 {NOW_NS - 1_000_000_000}\n"
        f"# a comment\n\n"
        f"cpu,cpu=cpu0,host=a,rack=9 usage_idle=96,cores=4u,up=F {NOW_NS}\n"
    )
    response = influx.write(body)
    assert (response.status_code, response.content) == (204, b"")
    assert "x-influxdb-version" in response.headers
    assert influx.rows("host, cpu, rack, usage_idle, cores, up, note") == [
        ("a", "cpu0", 7, 97.5, 4, True, 'fine, "really"'),
        ("a", "cpu1", None, 3.0, None, None, None),
        ("a", "cpu0", 7, 96.0, 4, False, None),
    ]
    times = [int(row[0].timestamp() * 1_000_000) for row in influx.rows("ts")]
    assert times == [BEGAN_US - 2_000_001, BEGAN_US - 1_000_000, BEGAN_US]


@pytest.mark.parametrize(
    ("path", "scale"),
    [
        ("/api/v2/write?precision=ns", 10**9),
        ("/api/v2/write?precision=us", 10**6),
        ("/api/v2/write?precision=ms", 10**3),
        ("/api/v2/write?precision=s", 1),
        ("/write?db=telegraf&precision=n", 10**9),
        ("/write?db=telegraf&precision=u", 10**6),
        ("/write?db=telegraf&precision=ms&rp=autogen&consistency=any", 10**3),
        ("/write?db=telegraf&precision=s", 1),
    ],
)
def test_a_precision_says_what_the_timestamps_count(influx: Influx, path: str, scale: int) -> None:
    second = BEGAN_US // 1_000_000 - 10
    assert influx.write(f"cpu,host=a,cpu=x usage_idle=1 {second * scale}", path).status_code == 204
    assert [row[0].timestamp() for row in influx.rows("ts")] == [second]


def test_minutes_and_hours_count_too_and_others_are_refused(influx: Influx) -> None:
    hour = BEGAN_US // 3_600_000_000
    assert influx.write(f"cpu,host=a,cpu=x usage_idle=1 {hour}", "/write?precision=h").status_code == 204
    assert influx.write(f"cpu,host=a,cpu=x usage_idle=1 {hour * 60 + 1}", "/write?precision=m").status_code in (
        204,
        400,
    )
    response = influx.write("cpu,host=a,cpu=x usage_idle=1 5", "/api/v2/write?precision=weeks")
    assert (response.status_code, response.json()["code"]) == (400, "invalid")


def test_good_lines_are_stored_and_each_bad_one_is_told(influx: Influx) -> None:
    body = "\n".join(
        [
            f"cpu,host=a,cpu=x usage_idle=1 {NOW_NS}",
            "cpu,host=a,cpu=x usage_idle=",
            'memory,host=a free=5i,name="x"',
            f"cpu,host=a usage_idle=1 {NOW_NS}",
            f'cpu,host=a,cpu=y usage_idle="many" {NOW_NS}',
            f"cpu,host=a,cpu=y,rack=seven usage_idle=1 {NOW_NS}",
            f"cpu,host=a,cpu=y other=1 {NOW_NS}",
            f"cpu,host=a,cpu=y cores=18446744073709551615u {NOW_NS}",
            f"cpu,host=a,cpu=y usage_idle=1 {NOW_NS + 3600 * 10**9}",
            f"cpu,host=a,cpu=y usage_idle=2 {NOW_NS}",
        ]
    )
    response = influx.write(body)
    found = response.json()
    assert (response.status_code, found["code"], found["accepted"], found["dropped"]) == (400, "invalid", 2, 8)
    assert [(e["line"], e["condition"]) for e in found["errors"]] == [
        (2, "invalid_body"),
        (3, "table_not_found"),
        (4, "missing_field"),
        (5, "invalid_value"),
        (6, "invalid_value"),
        (7, "unknown_field"),
        (8, "invalid_value"),
        (9, "too_far_ahead"),
    ]
    assert found["message"].startswith("partial write: line 2: unable to write 'cpu,host=a,cpu=x usage_idle='")
    assert found["errors"][0]["original_line"] == "cpu,host=a,cpu=x usage_idle="
    assert found["error"] == found["message"]
    assert len(influx.rows("host")) == 2
    counts = influx.db.lines.counts.as_dict()
    assert (counts["messages"], counts["accepted"]) == (10, 2)
    assert counts["refused"] == {
        "invalid_body": 1,
        "table_not_found": 1,
        "missing_field": 1,
        "invalid_value": 3,
        "unknown_field": 1,
        "too_far_ahead": 1,
    }


def test_the_statement_that_an_unknown_measurement_suggests_works(influx: Influx) -> None:
    lines = f'Disk\\ io,Host=a,path=/x-y reads=5i,rate=1i,ok=t,name="n" {NOW_NS}\nDisk\\ io,Host=b rate=1.5 {NOW_NS}'
    message = influx.write(lines).json()["errors"][0]["message"]
    statement = message[message.index("CREATE TABLE") :]
    influx.db.execute(statement)
    first = lines.split("\n")[0]
    assert influx.write(first).status_code == 204, statement
    assert influx.rows("Host, path, reads, rate, ok, name", "Disk io") == [("a", "/x-y", 5, 1.0, True, "n")]


def test_a_repeated_point_is_the_same_point(influx: Influx) -> None:
    line = f"cpu,host=a,cpu=x usage_idle=1 {NOW_NS}"
    assert [influx.write(line).status_code for _ in range(3)] == [204, 204, 204]
    assert len(influx.rows("host")) == 1
    assert influx.db.lines.counts.as_dict()["duplicates"] == 2


def test_what_the_table_has_no_column_for_is_left_out_and_counted(influx: Influx) -> None:
    assert influx.write(f"cpu,host=a,cpu=x,dc=west usage_idle=1,usage_user=2 {NOW_NS}").status_code == 204
    counts = influx.db.lines.counts
    assert counts.as_dict()["ignored"] == 2
    assert sorted(counts.ignored_names()) == ["cpu.dc", "cpu.usage_user"]


def test_a_table_that_gives_times_itself_takes_points_with_timestamps(influx: Influx) -> None:
    influx.db.execute("CREATE TABLE rooms (room TEXT PRIMARY KEY, climate STREAM (t DOUBLE)) WITH (discover = true)")
    assert influx.write("rooms,room=a t=21 5\nRooms,ROOM=b T=22").status_code == 204
    assert influx.rows("room, t", "rooms") == [("a", 21.0), ("b", 22.0)]


def test_gzip_is_unpacked_within_the_limits(influx: Influx) -> None:
    line = f"cpu,host=a,cpu=x usage_idle=1 {NOW_NS}\n".encode()
    assert influx.write(gzip.compress(line), **{"Content-Encoding": "gzip"}).status_code == 204
    assert len(influx.rows("host")) == 1
    bomb = gzip.compress(b"#" * (8 << 20))
    response = influx.write(bomb, **{"Content-Encoding": "gzip"})
    assert (response.status_code, response.json()["code"]) == (413, "request too large")
    lying = bomb[:-4] + (1000).to_bytes(4, "little")
    assert influx.write(gzip.compress(line)[:-6], **{"Content-Encoding": "gzip"}).status_code in (400, 413)
    for broken in (b"", b"no gzip", lying, gzip.compress(line) * 2):
        response = influx.write(broken, **{"Content-Encoding": "gzip"})
        assert (response.status_code, response.json()["code"]) == (400, "invalid"), broken[:20]
    assert influx.write(line, **{"Content-Encoding": "br"}).status_code == 415
    assert influx.write(b"x" * ((1 << 20) + 1)).status_code == 413
    shown = {row["name"]: row for row in influx.db.execute("SHOW INPUTS").table.to_pylist()}
    assert {"http", "websocket", "line protocol"} == shown.keys()
    assert "body_too_large 3" in shown["line protocol"]["reasons"]
    assert "unsupported_media_type 1" in shown["line protocol"]["reasons"]


def test_an_empty_body_is_no_mistake(influx: Influx) -> None:
    assert influx.write(b"").status_code == 204
    assert influx.write(b"\n# nothing\n").status_code == 204


def test_clients_of_version_1_find_what_they_ask_for_first(influx: Influx) -> None:
    assert influx.http.get("/ping").status_code == 204
    assert influx.http.request("HEAD", "/ping").status_code == 204
    for arguments in ({"params": {"q": 'CREATE DATABASE "telegraf"'}}, {"data": {"q": "create database x"}}):
        response = influx.http.post("/query", **arguments)
        assert (response.status_code, response.json()) == (200, {"results": [{"statement_id": 0}]})
    assert influx.http.post("/query", data={"q": "SELECT * FROM cpu"}).status_code == 400


def test_a_full_log_says_try_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_log, "WAIT_FOR_ROOM_S", 0.05)
    influx = Influx(tmp_path)
    influx.db.execute(CPU)
    influx.write(f"cpu,host=a,cpu=x usage_idle=1 {NOW_NS - 1000}")  # the sensor is known
    with influx.db.log.still():
        response = influx.write(f"cpu,host=a,cpu=x usage_idle=1 {NOW_NS}")
    influx.close()
    assert (response.status_code, response.json()["code"]) == (503, "unavailable")
    assert response.headers["retry-after"] == "2"
    assert influx.db.lines.counts.as_dict()["refused"] == {"too_busy": 1}
