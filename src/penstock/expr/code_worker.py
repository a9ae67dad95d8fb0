"""A code worker: a process that runs the steps of user aggregates for the server, one request at a time.

Requests come in through standard input, replies go out through what was standard output when it began: frames of eight bytes that
say a length, and so many bytes. A request is an Arrow stream, with a dictionary in the metadata of its schema that says what to do; a
reply is one, too, or an error as JSON. The first frame says that it is ready. It ends with its input, or soon after the server's process did.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
import threading
import time
from typing import BinaryIO

import orjson
import pyarrow as pa

from penstock.catalog.definition_json import function_from_json
from penstock.errors import PenstockError
from penstock.expr.aggregate_check import check_merges
from penstock.expr.user_aggregates import compile_aggregate

HEAD_BYTES = 8
READY, ANSWERED, REFUSED = b"begun", b"a", b"r"
_LOOKS_S = 1.0


def main() -> None:
    """Serve requests until the input ends. The argument: the most memory in MB, 0 for any amount."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for place in (0, 1):  # what a body prints is no reply
        os.dup2(nothing, place)
    threading.Thread(target=_end_with_server, args=(os.getppid(),), daemon=True).start()
    pa.array([1.0]).to_pylist()  # Arrow loads much at its first use, which shall not count as a body's time
    _limit_memory(int(sys.argv[1]))
    _write_frame(replies, READY)
    while (request := _read_frame(requests)) is not None:
        _write_frame(replies, _answer(request))


def _end_with_server(server: int) -> None:
    while os.getppid() == server:
        time.sleep(_LOOKS_S)
    os._exit(0)


def _limit_memory(megabytes: int) -> None:
    if megabytes:
        pa.allocate_buffer(1)  # Arrow reserves addresses, which are no use of memory
        with open("/proc/self/status") as facts:
            used = int(dict(line.split(":", 1) for line in facts)["VmData"].split()[0]) << 10
        with contextlib.suppress(ValueError, OSError):  # a harder limit was set from outside
            resource.setrlimit(resource.RLIMIT_DATA, (used + (megabytes << 20), used + (megabytes << 20)))


def _read_frame(requests: BinaryIO) -> bytes | None:
    head = requests.read(HEAD_BYTES)
    return requests.read(int.from_bytes(head, "big")) if len(head) == HEAD_BYTES else None


def _write_frame(replies: BinaryIO, reply: bytes) -> None:
    replies.write(len(reply).to_bytes(HEAD_BYTES, "big") + reply)
    replies.flush()


def _answer(request: bytes) -> bytes:
    try:
        return ANSWERED + _run(request)
    except PenstockError as failure:
        problem = failure
    said = {"condition": problem.condition, "message": problem.message, "hint": problem.hint}
    return REFUSED + orjson.dumps(said)


def _run(request: bytes) -> bytes:
    table = pa.ipc.open_stream(request).read_all()
    asked = orjson.loads(table.schema.metadata[b"request"])
    function = function_from_json(asked["function"])
    if asked["step"] == "check":
        check_merges(function)
        return b""
    aggregate = compile_aggregate(function)
    states, rows = (table.column(name).to_pylist() for name in ("states", "rows"))
    value = aggregate.values(states, [[tuple(row.values()) for row in own] for own in rows])
    found = pa.table({"value": value})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, found.schema) as stream:
        stream.write_table(found)
    return bytes(sink.getvalue())


if __name__ == "__main__":
    main()
