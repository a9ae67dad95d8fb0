"""What a subscriber counts, however its stream is cut into pieces."""

from __future__ import annotations

import pytest

from bench.followers import Heard

STREAM = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\nd\r\nretry: 1000\n\n\r\n"
    b'30\r\nid: 4\nevent: rows\ndata: {"rows":[]}\n\n\r\nevent: ping\ndata: {}\n\nid: 5\nevent: rows\ndata: {}\n\n'
)


@pytest.mark.parametrize("size", [1, 7, len(STREAM)])
def test_events_are_counted_in_pieces_of_any_size(size: int) -> None:
    heard = Heard()
    for first in range(0, len(STREAM), size):
        heard.take(STREAM[first : first + size])
    assert (heard.events, heard.errors, heard.connected.is_set()) == (2, 0, True)


@pytest.mark.parametrize("text", [b"HTTP/1.1 404 Not Found\r\n\r\n", b"event: error\ndata: {}\n\n"])
def test_a_refusal_and_an_error_that_ends_the_stream_are_counted(text: bytes) -> None:
    heard = Heard()
    heard.take(text)
    assert (heard.events, heard.errors) == (0, 1)
