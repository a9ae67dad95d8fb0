"""The ports that Spark opens on this machine: loopback only, and none obeys a peer without the secret."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import time

import psutil
from pyspark import SparkContext

from penstock.database.database import Database

RPC_REQUEST = 3


def answer_of(port: int, message: bytes) -> bytes:
    """All that a port says to a message before it closes the connection, or falls silent."""
    said = b""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as peer:
        peer.settimeout(60)
        peer.sendall(message)
        try:
            while not said.endswith(b"\n") and (more := peer.recv(65536)):
                said += more
                peer.settimeout(1)  # the rest of an answer comes at once
        except (TimeoutError, ConnectionResetError):
            pass
    return said


def rpc_request(body: bytes) -> bytes:
    """A request in a frame of Spark's transport."""
    return struct.pack(">QBQI", 21 + len(body), RPC_REQUEST, 1, len(body)) + body


def test_every_port_is_on_loopback(database: Database) -> None:
    server = psutil.Process()
    ports = []
    for process in [server, *server.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):  # a worker that has ended meanwhile listens no more
            ports += [c.laddr for c in process.net_connections("tcp") if c.status == "LISTEN"]
    assert len(ports) >= 3
    assert [at for at in ports if at.ip.removeprefix("::ffff:") not in ("127.0.0.1", "::1")] == []


def test_a_callback_without_the_secret_is_not_run(database: Database) -> None:
    gateway = SparkContext._gateway
    assert gateway is not None
    port = gateway._callback_server.server_socket.getsockname()[1]
    assert b"no_such_method" not in answer_of(port, b"c\np0\nno_such_method\ne\n")
    assert b"yro" not in answer_of(port, b"A\nnot the secret\nc\np0\nno_such_method\ne\n")


def test_the_driver_and_its_blocks_want_the_secret_first(database: Database) -> None:
    gateway = SparkContext._gateway
    assert gateway is not None
    java = next(child for child in psutil.Process().children() if child.name() == "java")
    ports = {c.laddr.port for c in java.net_connections("tcp") if c.status == "LISTEN"} - {gateway.java_parameters.port}
    answers = dict.fromkeys(ports, b"")
    deadline = time.monotonic() + 60
    with contextlib.ExitStack() as stack:
        peers = {stack.enter_context(socket.create_connection(("127.0.0.1", port), 60)): port for port in ports}
        for peer in peers:
            peer.sendall(rpc_request(b"\0" * 16))
        while sum(b"Sasl" in answer for answer in answers.values()) < 2:  # other ports may wait for more
            ready, _, _ = select.select(list(peers), [], [], deadline - time.monotonic())
            assert ready, answers
            for peer in ready:
                more = peer.recv(65536)
                answers[peers[peer]] += more
                if not more:
                    del peers[peer]
