"""A TCP line client: connects to a sensor that sends one reading a line, as CSV or as JSON.

The address is `host:port`. The socket never blocks a poll. A connection that breaks is an error like any
other: the stream manager shows it and opens the sensor anew, sooner at first, then more slowly.
"""

from __future__ import annotations

import csv
import errno
import json
import os
import select
import socket
from collections.abc import Mapping
from typing import Any

from penstock.clock import SECOND, Clock, parse_timestamp
from penstock.errors import error
from penstock.sensors.base import END, NO_VALUE, Connector, Option, Reading, ReadResult, Row, Sensor
from penstock.sensors.options import duration, one_of
from penstock.types import Field

_CHUNK_BYTES = 1 << 16
_MOST_CHUNKS = 16  # per read, so that a sensor with much to say does not keep the thread

OPTIONS = (
    Option(
        "format",
        "auto",
        "How a line is written: csv, json, or auto (json where it starts with a brace).",
        one_of("auto", "csv", "json"),
    ),
    Option("time", "none", "Time in a line: none, first or last (csv), or the name of a json member."),
    Option(
        "at_close", "reconnect", "What the end of a connection means: reconnect or end.", one_of("reconnect", "end")
    ),
    Option("timeout", "10s", "How long connecting may take.", duration),
)


class TcpLines(Sensor):
    """One connection. CSV values come in the order of the fields; JSON objects name them."""

    OPTIONS = OPTIONS

    def __init__(self, address: str, fields: tuple[Field, ...], options: Mapping[str, Any], clock: Clock) -> None:
        super().__init__(address, fields, options, clock)
        self._socket: socket.socket | None = None
        self._connected = False
        self._deadline_us = 0
        self._rest = b""
        self._ended = False
        self._format: str = options["format"]
        self._names = [f.name for f in fields]

    def init(self) -> None:
        host, port = parse_address(self.address)
        target = self.rules.targets.resolve(host, port)[0]
        self._socket = socket.socket(target.family, target.kind, target.protocol)
        self._socket.setblocking(False)
        self._deadline_us = self.clock.now_us() + self.options["timeout"]
        code = self._socket.connect_ex(target.where)
        if code not in (0, errno.EINPROGRESS, errno.EWOULDBLOCK):
            raise OSError(code, os.strerror(code))
        self._connected = code == 0

    def read(self) -> Reading:
        if self._socket is None or not self._is_connected(self._socket):
            return NO_VALUE
        if self._ended:
            if self.options["at_close"] == "end":
                return END
            raise ConnectionResetError(f"{self.address} closed the connection")
        data, self._ended = self._receive(self._socket)
        if not data and not self._ended:
            return NO_VALUE
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        if self._ended and self._rest:
            lines.append(self._rest)
            self._rest = b""
        if len(self._rest) > self.rules.line_max_bytes:
            raise ValueError(f"a line of more than {self.rules.line_max_bytes} bytes (line_max_bytes)")
        return self._understand([line.strip() for line in lines])

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _is_connected(self, connection: socket.socket) -> bool:
        if self._connected:
            return True
        poll = select.poll()
        poll.register(connection, select.POLLOUT)
        if poll.poll(0):
            code = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                raise OSError(code, f"{os.strerror(code)}: {self.address}")
            self._connected = True
        elif self.clock.now_us() > self._deadline_us:
            raise TimeoutError(f"{self.address} did not answer within {self.options['timeout'] / SECOND:g} s")
        return self._connected

    def _receive(self, connection: socket.socket) -> tuple[bytes, bool]:
        """What has come, and whether the other side has closed."""
        parts: list[bytes] = []
        for _ in range(_MOST_CHUNKS):
            try:
                part = connection.recv(_CHUNK_BYTES)
            except BlockingIOError:
                break
            if not part:
                return b"".join(parts), True
            parts.append(part)
        return b"".join(parts), False

    def _understand(self, lines: list[bytes]) -> Reading:
        rows: list[Row] = []
        times_us: list[int | None] = []
        bad, problem = 0, None
        for line in filter(None, lines):
            if self._format == "auto":
                self._format = "json" if line.startswith(b"{") else "csv"
            try:
                if len(line) > self.rules.line_max_bytes:
                    raise ValueError(f"more than {self.rules.line_max_bytes} bytes (line_max_bytes)")
                row, time_us = self._from_json(line) if self._format == "json" else self._from_csv(line)
            except ValueError as cause:
                bad, problem = bad + 1, f"{cause}: {line[:80].decode(errors='replace')}"
                continue
            rows.append(row)
            times_us.append(time_us)
        if not rows:
            return Reading(ReadResult.NO_VALUE, bad=bad, problem=problem)
        now_us = self.clock.now_us()
        return Reading(
            ReadResult.NEW_VALUE,
            rows,
            [now_us if time_us is None else time_us for time_us in times_us],
            texts=self._format == "csv",
            bad=bad,
            problem=problem,
        )

    def _from_csv(self, line: bytes) -> tuple[Row, int | None]:
        try:
            values = next(csv.reader([line.decode()], strict=True))
        except (csv.Error, UnicodeDecodeError) as cause:
            raise ValueError(f"not a line of CSV ({cause})") from None
        time_text: str | None = None
        if self.options["time"] in ("first", "last") and values:
            time_text = values.pop(0 if self.options["time"] == "first" else -1)
        if len(values) != len(self.fields):
            raise ValueError(f"{len(values)} values for {len(self.fields)} fields")
        return tuple(value or None for value in values), _time(time_text)

    def _from_json(self, line: bytes) -> tuple[Row, int | None]:
        try:
            found = json.loads(line)
        except ValueError:
            raise ValueError("not a line of JSON") from None
        if not isinstance(found, dict):
            raise ValueError("not a JSON object")
        time_value = found.pop(self.options["time"], None) if self.options["time"] != "none" else None
        for name in self._names:
            if name not in found:
                raise ValueError(f'no member "{name}"')
        for name in found:
            if name not in self._names:
                raise ValueError(f'unknown member "{name}"')
        return tuple(found[name] for name in self._names), _time(time_value)


def _time(value: Any) -> int | None:
    """Microseconds of an ISO 8601 text or of whole microseconds; None where a line says no time."""
    if value is None or value == "":
        return None
    if isinstance(value, int):
        return value
    try:
        return int(value) if str(value).lstrip("-").isdigit() else parse_timestamp(str(value))
    except ValueError:
        raise ValueError(f'"{value}" is not a time') from None


def parse_address(address: str) -> tuple[str, int]:
    """Host and port of `host:port` or `[::1]:port`."""
    host, sign, port = address.strip().rpartition(":")
    if not sign or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise error("invalid_parameter", detail=f'"{address}" is not an address like localhost:9000')
    return host.strip("[]"), int(port)


CONNECTOR = Connector(
    name="tcp",
    sentence="A sensor, at a host of `connect_allow`, that sends one reading a line over TCP, as CSV or JSON.",
    mode="pull",
    options=OPTIONS,
    factory=TcpLines,
    check_address=lambda address, rules: rules.targets.check(*parse_address(address)),
)
