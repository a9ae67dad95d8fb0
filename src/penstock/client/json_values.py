"""Python values as JSON that the server reads back as the same values."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import orjson

from penstock.errors import error


def to_json(value: Any) -> bytes:
    """JSON, with times in ISO 8601 (UTC where they name no zone), DECIMAL as exact text and bytes in base64."""
    try:
        return orjson.dumps(value, default=_encode, option=orjson.OPT_NAIVE_UTC | orjson.OPT_SERIALIZE_NUMPY)
    except TypeError as problem:
        raise error("invalid_parameter", detail=f"cannot be sent: {problem}") from None


def _encode(value: Any) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def refuse_not_finite(values: Iterable[Any]) -> None:
    """JSON has no NaN, and sending NULL in its place would be a silent change."""
    for value in values:
        if isinstance(value, float) and not math.isfinite(value):
            raise error(
                "invalid_parameter",
                detail=f"{value} cannot travel in rows whose fields or types differ from row to row",
                hint="push rows with the same fields and types together, or an Arrow table",
            )
