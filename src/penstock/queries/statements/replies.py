"""Replies of statements that ask nothing of the readings."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from penstock.queries.results import Result


def done(tag: str, notices: tuple[str, ...] = ()) -> Result:
    return Result(pa.table({}), done=tag, notices=notices)


def rows_of(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> Result:
    return Result(pa.table({c: pa.array([r.get(c) for r in rows], pa.string()) for c in columns}))
