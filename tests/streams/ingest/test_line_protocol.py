"""The line protocol, held against what its reference says and shows."""

from __future__ import annotations

import random
from typing import Any

import pytest

from penstock.streams.ingest import line_protocol
from penstock.streams.ingest.line_protocol import BadLine, Point, line_pieces, parse_lines


def one(line: str) -> tuple[str, dict[str, str], dict[str, Any], int | None]:
    points, bad = parse_lines(line.encode())
    assert not bad, bad
    (point,) = points
    return point.measurement, point.tags, point.fields, point.time


# Lines of the kinds that the reference shows, and what they mean.
GOOD = [
    (
        'myMeasurement,tag1=value1,tag2=value2 fieldKey="fieldValue" 1556813561098000000',
        ("myMeasurement", {"tag1": "value1", "tag2": "value2"}, {"fieldKey": "fieldValue"}, 1556813561098000000),
    ),
    ("m fieldKey=1.0", ("m", {}, {"fieldKey": 1.0}, None)),
    ("m fieldKey=1", ("m", {}, {"fieldKey": 1.0}, None)),
    ("m fieldKey=-1.234456e+78", ("m", {}, {"fieldKey": -1.234456e78}, None)),
    ("m a=1.,b=.5,c=-0,d=1E3,e=1e-3", ("m", {}, {"a": 1.0, "b": 0.5, "c": -0.0, "d": 1000.0, "e": 0.001}, None)),
    ("m a=1i,b=12485903i,c=-12485903i", ("m", {}, {"a": 1, "b": 12485903, "c": -12485903}, None)),
    ("m a=9223372036854775807i,b=-9223372036854775808i", ("m", {}, {"a": 2**63 - 1, "b": -(2**63)}, None)),
    ("m a=1u,b=18446744073709551615u", ("m", {}, {"a": 1, "b": 2**64 - 1}, None)),
    ('m s="this is a string"', ("m", {}, {"s": "this is a string"}, None)),
    ('m s=""', ("m", {}, {"s": ""}, None)),
    (
        "m a=t,b=T,c=true,d=True,e=TRUE,f=f,g=F,h=false,i=False,j=FALSE",
        ("m", {}, {**dict.fromkeys("abcde", True), **dict.fromkeys("fghij", False)}, None),
    ),
    # escapes
    (r"my\ Measurement fieldKey=1", ("my Measurement", {}, {"fieldKey": 1.0}, None)),
    (r"wea\,ther temperature=82", ("wea,ther", {}, {"temperature": 82.0}, None)),
    (r"wea=ther temperature=82", ("wea=ther", {}, {"temperature": 82.0}, None)),
    (
        r"m,tag\ Key1=tag\ Value1,tag\,Key2=tag\=Value2 field\=Key=100",
        ("m", {"tag Key1": "tag Value1", "tag,Key2": "tag=Value2"}, {"field=Key": 100.0}, None),
    ),
    (r'm fieldKey="\"string\" within a string"', ("m", {}, {"fieldKey": '"string" within a string'}, None)),
    (r'm fieldKey="a \\ b \n c"', ("m", {}, {"fieldKey": r"a \ b \n c"}, None)),
    (r'm fieldKey="\\\""', ("m", {}, {"fieldKey": '\\"'}, None)),
    (r"m,tag=C:\dir\new x=1", ("m", {"tag": r"C:\dir\new"}, {"x": 1.0}, None)),
    (r"m,tag=a\\ b x=1", ("m", {"tag": "a\\ b"}, {"x": 1.0}, None)),
    # quotes mean nothing outside field values
    ('"m" f=1', ('"m"', {}, {"f": 1.0}, None)),
    ('m,tag="v" "f"=1', ("m", {"tag": '"v"'}, {'"f"': 1.0}, None)),
    # other characters
    (
        'm,tagKey=🍭 fieldKey="Launch 🚀" 1556813561098000000',
        ("m", {"tagKey": "🍭"}, {"fieldKey": "Launch 🚀"}, 1556813561098000000),
    ),
    ('m s="a, b = c # d" 5', ("m", {}, {"s": "a, b = c # d"}, 5)),
    ('m s="two\nlines",t=2i 7', ("m", {}, {"s": "two\nlines", "t": 2}, 7)),
    # times and spaces
    ("m f=1 -1556813561098000000", ("m", {}, {"f": 1.0}, -1556813561098000000)),
    ("  m  f=1   12  ", ("m", {}, {"f": 1.0}, 12)),
    ("m f=1 12\r", ("m", {}, {"f": 1.0}, 12)),
    ('m f="x" 12\r', ("m", {}, {"f": "x"}, 12)),
]


@pytest.mark.parametrize(("line", "meaning"), GOOD, ids=[line for line, _ in GOOD])
def test_a_good_line_means_what_the_reference_says(line: str, meaning: tuple[Any, ...]) -> None:
    measurement, tags, fields, time = meaning
    found = one(line)
    assert found == (measurement, tags, fields, time)
    assert [type(v) for v in found[2].values()] == [type(v) for v in fields.values()]


BAD = [
    ("m", "missing fields"),
    ("m,tag=v", "missing fields"),
    ("m,tag=v ", "missing fields"),
    ("m ,tag=v f=1", "missing field key"),
    (",tag=v f=1", "missing measurement"),
    ("m, f=1", "missing tag key"),
    ("m,tag= f=1", "missing tag value"),
    ("m,tag f=1", "missing tag value"),
    ("m,=v f=1", "missing tag key"),
    ("m,t=a,t=b f=1", "twice"),
    ("m,t=a=b f=1", "not escaped"),
    ("m f", "missing field value"),
    ("m f=", "missing field value"),
    ("m =1", "missing field key"),
    ("m f=1,", "missing field key"),
    ("m f=word", "in quotes"),
    ("m f=tRUE", "in quotes"),
    ("m f=1.5i", "invalid value"),
    ("m f=-1u", "outside"),
    ("m f=9223372036854775808i", "outside"),
    ("m f=18446744073709551616u", "outside"),
    ("m f=1e400", "outside"),
    ("m f=NaN", "invalid value"),
    ("m f=Inf", "invalid value"),
    ("m f=0x10", "invalid value"),
    ("m f=1_000", "invalid value"),
    ("m f=١", "invalid value"),
    ("m f=1 2 3", "behind the timestamp"),
    ("m f=1 12s", "bad timestamp"),
    ("m f=1 1.5", "bad timestamp"),
    ("m f=1 9223372036854775808", "bad timestamp"),
    ('m f="open', "no closing quote"),
    ('m f="a"b', "does not end"),
    ('m f="a" 1 2', "behind the timestamp"),
    (r"m\ f=1", "missing fields"),
    (r"m,t=a\=b=c f=1", "not escaped"),
]


@pytest.mark.parametrize(("line", "says"), BAD, ids=[line for line, _ in BAD])
def test_a_bad_line_says_why_and_the_others_stay_good(line: str, says: str) -> None:
    points, bad = parse_lines(f"a f=1\n{line}\nb f=2 7\n".encode())
    assert [(b.line, says in b.reason) for b in bad] == [(2, True)], bad
    assert [(p.line, p.measurement) for p in points] == [(1, "a"), (3, "b")]


def test_comments_and_empty_lines_are_no_lines() -> None:
    body = b"# a comment, with=signs\n\n  \n  # another\na f=1\n\r\n#\nb f=2"
    points, bad = parse_lines(body)
    assert ([p.line for p in points], bad) == ([5, 8], [])


def test_lines_are_counted_through_strings_that_hold_line_breaks() -> None:
    points, bad = parse_lines(b'a s="1\n2\n3"\nb f=x\nc f=1')
    assert [(p.measurement, p.line) for p in points] == [("a", 1), ("c", 5)]
    assert [b.line for b in bad] == [4]


def test_bytes_that_are_no_text_do_not_spoil_the_other_lines() -> None:
    points, bad = parse_lines(b"a,t=\xff f=1\nb f=2\nc f=\xfe")
    assert [p.measurement for p in points] == ["a", "b"]
    assert [b.line for b in bad] == [3]
    assert bad[0].text.encode()


def written(point: Point) -> str:
    """A point as a careful sender writes it."""

    def escaped(text: str, signs: str) -> str:
        return "".join(f"\\{c}" if c in signs else c for c in text)

    def value(v: Any) -> str:
        if isinstance(v, bool):
            return str(v)
        if isinstance(v, str):
            return '"' + v.replace("\\", "\\\\").replace('"', '\\"') + '"'
        return f"{v}i" if isinstance(v, int) else repr(v)

    tags = "".join(f",{escaped(k, ',= ')}={escaped(v, ',= ')}" for k, v in point.tags.items())
    fields = ",".join(f"{escaped(k, ',= ')}={value(v)}" for k, v in point.fields.items())
    return escaped(point.measurement, ", ") + tags + " " + fields + (f" {point.time}" if point.time is not None else "")


@pytest.mark.parametrize("seed", range(1, 6))
def test_what_was_written_is_read_back(seed: int) -> None:
    print(f"seed {seed}")
    world = random.Random(seed)

    def name(most: int = 6) -> str:
        # Not at the end: a backslash there would escape what follows.
        return "".join(world.choice('ab,= "\\é#i1') for _ in range(world.randrange(most))) + world.choice("xyz")

    def value() -> Any:
        text = "".join(world.choice('a, =\\"\n#') for _ in range(world.randrange(6)))
        return world.choice([text, world.randrange(-(2**63), 2**63), world.uniform(-1e9, 1e9), True, False])

    points = [
        Point(
            0,
            "m" + name(),
            {name(): name() for _ in range(world.randrange(4))},
            {name(): value() for _ in range(world.randrange(1, 4))},
            world.choice([None, world.randrange(-(2**63), 2**63)]),
            "",
        )
        for _ in range(300)
    ]
    found, bad = parse_lines("\n".join(written(p) for p in points).encode())
    assert not bad, bad[:3]
    for expected, point in zip(points, found, strict=True):
        shown = (point.measurement, point.tags, point.fields, point.time)
        assert shown == (expected.measurement, expected.tags, expected.fields, expected.time)


def test_a_body_in_pieces_is_the_same_as_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f'm,t={n} f={n},s="one\n{"two" * (n % 7)}\\"" {n}\n# a comment\nbad {n}\n' for n in range(60)]
    body = "".join(lines).encode() + b"last f=1"
    whole = parse_lines(body)
    for size in (1, 10, 100, 1000, 10_000):
        monkeypatch.setattr(line_protocol, "PIECE_BYTES", size)
        points: list[Point] = []
        bad: list[BadLine] = []
        pieces = list(line_pieces(body))
        for number, piece in pieces:
            more_points, more_bad = parse_lines(piece, number)
            points += more_points
            bad += more_bad
        assert (points, bad) == whole
        assert b"".join(piece for _, piece in pieces) == body
        assert len(pieces) > 1 or size == 10_000


def test_a_line_without_an_end_is_bad_and_its_neighbours_are_good(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_protocol, "PIECE_BYTES", 10)
    monkeypatch.setattr(line_protocol, "LINE_MAX_BYTES", 100)
    body = b"a f=1\n" + b"x" * 1000 + b"\nb f=2\n" + b'c s="' + b"y\n" * 100 + b'"\nd f=3'
    found = [parse_lines(piece, number) for number, piece in line_pieces(body)]
    points = [(p.line, p.measurement) for points, _ in found for p in points]
    assert points[:2] == [(1, "a"), (3, "b")] and points[-1] == (105, "d")
    first = next(line for _, bad in found for line in bad)
    assert (first.line, first.reason) == (2, "the line has more than 100 bytes")
