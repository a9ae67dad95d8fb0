"""Addresses in rows are written with the role write: they reach files below `sensor_files` and hosts of `connect_allow` only."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from penstock.security.users import Cost, Users
from penstock.settings import Settings
from tests.server.asgi import Http
from tests.support.pipe import Pipe

PATIENCE_S = 60.0
CANARY = "canary-of-another-folder"


class Plant:
    """A server with a table of recordings and one of TCP sensors, and a writer who may only write rows."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.data = folder / "data"
        self.files = Path(settings.get("sensor_files") or self.data / "in")
        self.pipe = Pipe(self.data, **settings)
        self.db = self.pipe.db
        self.db.users = Users(self.data, clock=self.pipe.clock, cost=Cost(1, 1, 1))
        for statement in (
            "CREATE STREAM TYPE recorded AS (value TEXT) USING replay OPTIONS (speed 'max', time 'none')",
            "CREATE STREAM TYPE line AS (value TEXT) USING tcp",
            "CREATE TABLE recordings (id INT PRIMARY KEY, reading STREAM recorded) WITH (always_on = true)",
            "CREATE TABLE lines (id INT PRIMARY KEY, reading STREAM line) WITH (always_on = true)",
            "CREATE TABLE found (id INT PRIMARY KEY, reading STREAM recorded) WITH (always_on = true, discover = true)",
        ):
            self.db.execute(statement)
        self.http = Http(self.db, Settings(data=str(self.data)))  # type: ignore[arg-type]
        self.db.users.create_user("root", "admin", "admin's secret")
        self.headers = {"Authorization": f"Bearer {self.db.users.create_token('writer', 'write')}"}
        self.admin_headers = {"Authorization": f"Bearer {self.db.users.create_token('chief', 'admin')}"}

    def admin(self, text: str) -> None:
        answer = self.http.post("/v1/sql", json={"sql": text}, headers=self.admin_headers)
        assert answer.status_code == 200, answer.text

    def ways_out(self) -> dict[str, str]:
        """What sinks and sources were last told, by name."""
        told = {sink["name"]: sink["last_error"] for sink in self.db.sinks.facts(self.db.catalog.state.sinks)}
        return told | {source["table_name"]: source["last_error"] for source in self.db.sources.facts()}

    def push_one(self) -> None:
        """A recording that is read to its end, in an answer."""
        self.files.mkdir(exist_ok=True)
        (self.files / "good.csv").write_text("value\n1\n2\n")
        self.sql("INSERT INTO recordings VALUES (1, 'good.csv')")
        self.until(self.sensor, lambda sensor: sensor["readings"])
        self.pipe.engine.drain()

    def sql(self, text: str, *params: Any) -> Any:
        """A statement of the writer; the body of the answer."""
        return self.http.post("/v1/sql", json={"sql": text, "params": list(params)}, headers=self.headers).json()

    def sensor(self, table: str = "recordings", sid: int = 1) -> dict[str, Any]:
        return next(s for s in self.db.sensors(table) if s["key"] == {"id": sid})

    def opened(self, table: str = "recordings", sid: int = 1) -> dict[str, Any]:
        """The sensor, once it was tried: with readings, or with an error."""
        return self.until(lambda: self.sensor(table, sid), lambda found: found["last_error"] or found["readings"])

    def until(self, look: Callable[[], Any], holds: Callable[[Any], Any]) -> Any:
        deadline = time.monotonic() + PATIENCE_S
        while not holds(found := look()):
            assert time.monotonic() < deadline, found
            time.sleep(0.005)
        return found

    def refusal(self, address: str, table: str = "recordings", sid: int = 1) -> str:
        """What a writer's address is refused with: when the row is written, or when the sensor is opened."""
        answer = self.sql(f"INSERT INTO {table} VALUES ({sid}, $1)", address)
        if "error" in answer:
            return f"{answer['error']['condition']}: {answer['error']['message']}; {answer['error']['hint']}"
        found = self.opened(table, sid)
        assert not found["readings"], f"{address} was read"
        return str(found["last_error"])

    def close(self) -> None:
        self.http.close()
        self.db.stop()


@pytest.fixture
def plant(tmp_path: Path) -> Iterator[Plant]:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.csv").write_text(f"value\n{CANARY}\n")
    found = Plant(tmp_path)
    found.files.mkdir(exist_ok=True)
    (found.files / "good.csv").write_text("value\n1\n2\n")
    yield found
    found.close()


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(PATIENCE_S)
        yield listening


# -- files


def test_a_recording_below_the_folder_is_read_by_its_relative_and_its_absolute_name(plant: Plant) -> None:
    (plant.files / "deep").mkdir()
    (plant.files / "deep" / "er.csv").write_text("value\n3\n")
    for sid, address in enumerate(["good.csv", str(plant.files / "good.csv"), "deep/er.csv", "./deep/er.csv"]):
        plant.sql(f"INSERT INTO recordings VALUES ({sid}, $1)", address)
        assert plant.opened(sid=sid)["readings"] > 0, address


def test_an_address_that_leads_out_of_the_folder_is_refused_and_names_the_setting(plant: Plant, tmp_path: Path) -> None:
    addresses = [
        "../../outside/secret.csv",
        "deep/../../../outside/secret.csv",
        f"{tmp_path}/outside/secret.csv",
        f"{plant.files}/../../outside/secret.csv",
        "/etc/passwd",
        "/proc/self/environ",
        "/dev/zero",
        "",
        ".",
        "..",
        "good.csv\0",
        str(plant.files),
        "x" * 5000,
    ]
    for sid, address in enumerate(addresses):
        said = plant.refusal(address, sid=sid)
        assert said.startswith("address_not_allowed"), (address, said)
        assert "sensor_files" in said and CANARY not in said and "root:" not in said
    # A home folder is not looked up: this is a file like any other, and there is none of that name.
    assert "no file" in plant.refusal("~/.bashrc", sid=99)


@pytest.mark.parametrize("kind", ["fifo", "socket", "folder", "link to a file", "link to a folder", "link to a device"])
def test_only_regular_files_below_the_folder_are_opened(plant: Plant, tmp_path: Path, kind: str) -> None:
    place = plant.files / "odd.csv"
    if kind == "fifo":
        os.mkfifo(place)
    elif kind == "socket":
        # A socket's path is short; the folder of a test is not.
        with socket.socket(socket.AF_UNIX) as made:
            here = os.getcwd()
            try:
                os.chdir(plant.files)
                made.bind("odd.csv")
            finally:
                os.chdir(here)
    elif kind == "folder":
        place.mkdir()
    elif kind == "link to a file":
        place.symlink_to(tmp_path / "outside" / "secret.csv")
    elif kind == "link to a folder":
        (plant.files / "odd").symlink_to(tmp_path / "outside")
        place = plant.files / "odd" / "secret.csv"
    else:
        place.symlink_to("/dev/zero")
    said = plant.refusal(str(place.relative_to(plant.files)))
    assert said.startswith("address_not_allowed") and "sensor_files" in said and CANARY not in said


def test_a_row_that_is_updated_or_discovered_is_bound_to_the_folder_too(plant: Plant, tmp_path: Path) -> None:
    secret = str(tmp_path / "outside" / "secret.csv")
    plant.sql("INSERT INTO recordings VALUES (1, 'good.csv')")
    assert plant.opened()["readings"] == 2
    answer = plant.sql("UPDATE recordings SET reading = $1", secret)
    assert answer["error"]["condition"] == "address_not_allowed"
    # A link that comes after the row was written: the sensor is opened anew, and finds out.
    (plant.files / "later.csv").symlink_to(secret)
    plant.sql("UPDATE recordings SET reading = 'later.csv'")
    plant.until(plant.sensor, lambda found: "address_not_allowed" in (found["last_error"] or ""))
    assert plant.sensor()["readings"] == 2
    body = [{"id": 7, "value": "x", "reading": secret}]
    plant.http.post("/v1/tables/found/readings", json=body, headers=plant.headers)
    # Discovery takes the address from the push; opening it is refused, and only what was pushed is stored.
    found = plant.until(lambda: plant.sensor("found", 7), lambda sensor: sensor["last_error"])
    assert found["address"] == secret and found["last_error"].startswith("address_not_allowed")
    assert plant.db.log.head(plant.db.catalog_table("found").id) == 1


def test_a_file_without_line_ends_takes_little_memory_and_its_line_is_counted(plant: Plant) -> None:
    with (plant.files / "flat.csv").open("wb") as file:
        file.truncate(4 << 30)
    assert "line_max_bytes" in plant.refusal("flat.csv")
    with (plant.files / "long.csv").open("wb") as file:
        file.write(b"value\n1\n" + b"x" * (3 << 20) + b"\n2\n")
    plant.sql("INSERT INTO recordings VALUES (2, 'long.csv')")
    found = plant.until(lambda: plant.sensor(sid=2), lambda sensor: sensor["readings"] == 2)
    assert found["errors"] == 1 and "line_max_bytes" in found["last_error"]


# -- network targets


def served(listening: socket.socket) -> str:
    """Accept one connection and send it a line; what came of it in a list."""
    with listening.accept()[0] as peer:
        peer.sendall(b"7\n")
        return "served"


NEVER = (
    "169.254.169.254",
    "2852039166",
    "0xA9FEA9FE",
    "0251.0376.0251.0376",
    "169.254.43518",
    "[::ffff:169.254.169.254]",
    "[::ffff:a9fe:a9fe]",
    "[64:ff9b::a9fe:a9fe]",
    "[2002:a9fe:a9fe::1]",
    "[fe80::1]",
    "[fe80::1%lo]",
    "[fd00:ec2::254]",
    "0.0.0.0",
    "0",
    "[::]",
)


@pytest.mark.parametrize("allow", ["", "*"])
def test_link_local_and_nameless_addresses_are_refused_in_every_spelling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allow: str
) -> None:
    connected: list[Any] = []
    monkeypatch.setattr(socket.socket, "connect_ex", lambda _, where: connected.append(where))
    plant = Plant(tmp_path, connect_allow=allow)
    try:
        for sid, host in enumerate(NEVER):
            said = plant.refusal(f"{host}:80", "lines", sid)
            assert said.startswith("address_not_allowed"), (host, said)
        assert not connected
    finally:
        plant.close()


def test_a_host_that_the_setting_does_not_name_is_refused(tmp_path: Path, listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    plant = Plant(tmp_path)
    try:
        said = plant.refusal("192.0.2.7:9000", "lines")
        assert said.startswith("address_not_allowed") and "connect_allow" in said
        plant.sql(f"INSERT INTO lines VALUES (2, 'localhost:{port}')")
        assert served(listener) == "served"
        assert plant.until(lambda: plant.sensor("lines", 2), lambda sensor: sensor["readings"])
    finally:
        plant.close()


def test_a_name_is_resolved_once_and_the_address_that_was_checked_is_connected_to(
    tmp_path: Path, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name server that answers loopback first and another host later, as DNS rebinding does."""
    port = listener.getsockname()[1]
    real, asked = socket.getaddrinfo, threading.Event()
    connected: list[Any] = []

    def rebinding(host: Any, *arguments: Any, **named: Any) -> Any:
        if host != "rebind.example" or named.get("flags"):
            return real(host, *arguments, **named)
        answer = "127.0.0.1" if not asked.is_set() else "192.0.2.7"
        asked.set()
        return real(answer, *arguments, **named)

    connect = socket.socket.connect_ex

    def noted(self: socket.socket, where: Any) -> int:
        connected.append(where)
        return connect(self, where)

    plant = Plant(tmp_path)
    try:
        monkeypatch.setattr(socket, "getaddrinfo", rebinding)
        monkeypatch.setattr(socket.socket, "connect_ex", noted)
        plant.sql(f"INSERT INTO lines VALUES (1, 'rebind.example:{port}')")
        served(listener)
        # Its connection ends, and the name now means a host that is not on the list.
        found = plant.until(
            lambda: plant.sensor("lines"), lambda sensor: "address_not_allowed" in (sensor["last_error"] or "")
        )
        assert found["readings"] == 1 and "connect_allow" in found["last_error"]
        assert {where[0] for where in connected} == {"127.0.0.1"}
    finally:
        plant.close()


# -- options that an admin wrote


def connect_everywhere(plant: Plant, host: str, port: int) -> None:
    """A stream type and a sink of each kind at one host, and readings for them."""
    plant.admin(
        f"CREATE STREAM TYPE broker AS (value DOUBLE) USING mqtt OPTIONS (url 'mqtt://{host}:{port}', topic 'a/{{id}}')"
    )
    plant.admin("CREATE TABLE subscribed (id INT PRIMARY KEY, reading STREAM broker)")
    plant.admin("CREATE QUERY good AS SELECT id, value FROM recordings BEGIN (NOW - 1 HOUR) END (NOW)")
    plant.admin(f"CREATE SINK hook FOR good TO webhook (url = 'http://{host}:{port}/x')")
    plant.admin(f"CREATE SINK topic FOR good TO mqtt (url = 'mqtt://{host}:{port}', topic = 'x')")
    plant.admin(f"CREATE SINK rows FOR good TO postgres (url = 'postgresql://u@{host}:{port}/d', table = 'x')")
    plant.push_one()


@pytest.mark.parametrize(
    ("allow", "host", "address"),
    [
        ("", "metadata.example", "169.254.169.254"),
        ("", "2852039166", "169.254.169.254"),
        ("127.0.0.1:1", "name.example", "127.0.0.1"),
    ],
)
def test_options_of_an_admin_never_reach_link_local_and_obey_the_setting_once_it_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listener: socket.socket, allow: str, host: str, address: str
) -> None:
    port = listener.getsockname()[1]
    real = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda name, *a, **n: real(address if name == host else name, *a, **n))
    plant = Plant(tmp_path, connect_allow=allow)
    try:
        connect_everywhere(plant, host, port)
        told = plant.until(plant.ways_out, lambda told: len(told) == 4 and all(told.values()))
        for name, said in told.items():
            assert "address_not_allowed" in said and "connect_allow" in said, (name, said)
        listener.settimeout(0.0)
        with pytest.raises(BlockingIOError):
            listener.accept()
    finally:
        plant.close()


def test_each_kind_connects_to_the_address_that_was_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listener: socket.socket
) -> None:
    """The name means loopback for the one look-up of the check; every other look-up of it would be noticed."""
    port = listener.getsockname()[1]
    real = socket.getaddrinfo
    places: list[str] = []

    def noted(name: Any, *arguments: Any, **named: Any) -> Any:
        if name != "name.example":
            return real(name, *arguments, **named)
        places.append(sys._getframe(1).f_code.co_filename)
        return real("127.0.0.1", *arguments, **named)

    monkeypatch.setattr(socket, "getaddrinfo", noted)
    plant = Plant(tmp_path, connect_allow=f"127.0.0.1:{port}")
    try:
        connect_everywhere(plant, "name.example", port)
        first: set[bytes] = set()
        while len(first) < 3:
            with listener.accept()[0] as peer:
                peer.settimeout(PATIENCE_S)
                # A webhook posts, a client of MQTT sends CONNECT, one of PostgreSQL asks for TLS or begins.
                first.add(peer.recv(1))
        assert first == {b"P", b"\x10", b"\x00"}
        assert {Path(place).name for place in places} == {"address_rules.py"}
    finally:
        listener.close()  # those that still wait for an answer get an end
        plant.close()


def test_a_webhook_follows_no_redirect(tmp_path: Path) -> None:
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(307)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    plant = Plant(tmp_path)
    try:
        plant.admin("CREATE QUERY good AS SELECT id, value FROM recordings BEGIN (NOW - 1 HOUR) END (NOW)")
        plant.admin(f"CREATE SINK hook FOR good TO webhook (url = 'http://127.0.0.1:{server.server_port}/x')")
        plant.push_one()
        told = plant.until(plant.ways_out, lambda told: told.get("hook"))
        assert "307" in told["hook"] and set(asked) == {"/x"}
    finally:
        plant.close()
        server.shutdown()
        server.server_close()
