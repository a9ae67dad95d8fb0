"""Types of values, and durations: the words shared by SQL, the log, the operators and Spark.

A `Type` is a small tree (ARRAY and STRUCT have parts) with one spelling (`str(type)`, which `parse_type`
reads back), one Arrow type and one Spark type. Timestamps are UTC microseconds everywhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from penstock.errors import error

SCALARS: dict[str, pa.DataType] = {
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "TEXT": pa.string(),
    "TIMESTAMP": pa.timestamp("us", tz="UTC"),
    "BINARY": pa.binary(),
}


@dataclass(frozen=True, slots=True)
class Type:
    """The type of a value. `kind` is a name in SCALARS, DECIMAL, ARRAY or STRUCT; any value may be NULL."""

    kind: str
    precision: int = 0
    scale: int = 0
    fields: tuple[Field, ...] = ()
    element: Type | None = None

    def __deepcopy__(self, memo: object) -> Type:
        # Every bound node carries its type in sqlglot's meta, which copies deeply; a type never changes.
        return self

    def __str__(self) -> str:
        if self.kind == "DECIMAL":
            return f"DECIMAL({self.precision}, {self.scale})"
        if self.kind == "ARRAY":
            return f"ARRAY<{self.element}>"
        if self.kind == "STRUCT":
            return "STRUCT<" + ", ".join(f"{f.name}: {f.type}" for f in self.fields) + ">"
        return self.kind

    def to_arrow(self) -> pa.DataType:
        if self.kind == "DECIMAL":
            return pa.decimal128(self.precision, self.scale)
        if self.kind == "ARRAY":
            assert self.element is not None
            return pa.list_(self.element.to_arrow())
        if self.kind == "STRUCT":
            return pa.struct([pa.field(f.name, f.type.to_arrow()) for f in self.fields])
        return SCALARS[self.kind]

    def to_spark(self) -> str:
        """The DDL text of Spark for this type."""
        if self.kind == "DECIMAL":
            return f"DECIMAL({self.precision},{self.scale})"
        if self.kind == "ARRAY":
            assert self.element is not None
            return f"ARRAY<{self.element.to_spark()}>"
        if self.kind == "STRUCT":
            return "STRUCT<" + ",".join(f"{_spark_name(f.name)}:{f.type.to_spark()}" for f in self.fields) + ">"
        return "STRING" if self.kind == "TEXT" else self.kind

    @property
    def is_numeric(self) -> bool:
        return self.kind in ("INT", "BIGINT", "DOUBLE", "DECIMAL")


@dataclass(frozen=True, slots=True)
class Field:
    """A name and a type: a column of a table, a field of a stream or of a STRUCT. `required` is NOT NULL."""

    name: str
    type: Type
    required: bool = False

    def to_spark(self) -> str:
        """The DDL text of Spark for a column: whatever characters its name has, it is one name."""
        return f"{_spark_name(self.name)} {self.type.to_spark()}"


def _spark_name(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


INT = Type("INT")
BIGINT = Type("BIGINT")
DOUBLE = Type("DOUBLE")
BOOLEAN = Type("BOOLEAN")
TEXT = Type("TEXT")
TIMESTAMP = Type("TIMESTAMP")
BINARY = Type("BINARY")

_SPELLINGS = {
    "INT": ("INTEGER", "INT4", "SMALLINT"),
    "BIGINT": ("INT8", "LONG"),
    "DOUBLE": ("FLOAT", "FLOAT8", "REAL", "DOUBLE PRECISION"),
    "BOOLEAN": ("BOOL",),
    "TEXT": ("STRING", "VARCHAR", "CHAR"),
    "TIMESTAMP": ("TIMESTAMPTZ",),
    "BINARY": ("BYTEA",),
    "DECIMAL": ("NUMERIC",),
}
_SYNONYMS = {other: name for name, others in _SPELLINGS.items() for other in others}


@lru_cache(maxsize=4096)
def parse_type(text: str) -> Type:
    """Read a type as people or `str(type)` write it."""
    found, rest = _parse_type(text.strip())
    if rest.strip():
        raise error("type_mismatch", detail=f'"{text}" is not a type')
    return found


def _parse_type(text: str) -> tuple[Type, str]:
    match = re.match(r"\s*([A-Za-z]\w*(?:\s+PRECISION\b)?)", text, re.IGNORECASE)
    if not match:
        raise error("type_mismatch", detail=f'"{text}" is not a type')
    name = re.sub(r"\s+", " ", match.group(1).upper())
    rest = text[match.end() :].lstrip()
    name = _SYNONYMS.get(name, name)
    if name == "DECIMAL":
        sizes = re.match(r"\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)", rest)
        if sizes:
            precision, scale = int(sizes.group(1)), int(sizes.group(2) or 0)
            if not (1 <= precision <= 38 and scale <= precision):
                raise error("type_mismatch", detail=f"DECIMAL({precision}, {scale}) is out of range")
            return Type("DECIMAL", precision=precision, scale=scale), rest[sizes.end() :]
        return Type("DECIMAL", precision=38, scale=9), rest
    if name == "ARRAY" and rest.startswith("<"):
        element, rest = _parse_type(rest[1:])
        return Type("ARRAY", element=element), _expect(rest, ">")
    if name == "STRUCT" and rest.startswith("<"):
        fields: list[Field] = []
        rest = rest[1:]
        while True:
            head = re.match(r'\s*"?(\w+)"?\s*:?\s*', rest)
            if not head:
                raise error("type_mismatch", detail=f'"{text}" is not a type')
            part, rest = _parse_type(rest[head.end() :])
            fields.append(Field(head.group(1), part))
            rest = rest.lstrip()
            if rest.startswith(","):
                rest = rest[1:]
                continue
            return Type("STRUCT", fields=tuple(fields)), _expect(rest, ">")
    if name not in SCALARS:
        hint = "types are " + ", ".join([*SCALARS, "DECIMAL", "ARRAY<...>", "STRUCT<...>"])
        raise error("type_mismatch", detail=f'"{name}" is not a type', hint=hint)
    sized = re.match(r"\(\s*\d+\s*\)", rest)
    return Type(name), rest[sized.end() :] if sized else rest


def _expect(text: str, mark: str) -> str:
    text = text.lstrip()
    if not text.startswith(mark):
        raise error("type_mismatch", detail=f'expected "{mark}" at "{text}"')
    return text[1:]


_UNITS = {
    ("us", "microsecond"): 1,
    ("ms", "millisecond"): 1_000,
    ("s", "sec", "second"): 1_000_000,
    ("m", "min", "minute"): 60_000_000,
    ("h", "hour"): 3_600_000_000,
    ("d", "day"): 86_400_000_000,
    ("w", "week"): 604_800_000_000,
}
_UNITS_US = {name: size for names, size in _UNITS.items() for name in names}


def parse_duration(text: str) -> int:
    """Microseconds of `10 SECONDS`, `1h30m`, `500 MS` or `1 HOUR 30 MINUTES`."""
    parts = re.findall(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)", text)
    spelled = re.sub(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)", "", text).replace(",", "").strip()
    if not parts or spelled:
        raise error("invalid_duration", text=text, hint="write 10 SECONDS, 500 MS or '1h30m'")
    total = 0.0
    for number, unit in parts:
        unit = unit.lower()
        size = _UNITS_US.get(unit) or _UNITS_US.get(unit.removesuffix("s"))
        if size is None:
            raise error("invalid_duration", text=text, hint="units are us, ms, s, m, h, d, w and their long forms")
        total += float(number) * size
    return round(total)


def format_duration(us: int) -> str:
    """The shortest exact spelling in one or more units: 5400000000 is `1h30m`."""
    if us == 0:
        return "0s"
    sign, rest, out = ("-" if us < 0 else ""), abs(us), []
    for unit in ("d", "h", "m", "s", "ms", "us"):
        count, rest = divmod(rest, _UNITS_US[unit])
        if count:
            out.append(f"{count}{unit}")
    return sign + "".join(out)
