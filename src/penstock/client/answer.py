"""An answer: rows with the cycle they stand for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Answer:
    """What one statement or query answered. `complete_from` is set where the answer does not reach back far enough.

    `done` is the tag of a statement without rows, e.g. `CREATE TABLE`. Times are ISO 8601 texts as the server says.
    """

    table: pa.Table
    cycle: int | None = None
    now: str | None = None
    complete_from: str | None = None
    done: str | None = None
    notices: tuple[str, ...] = ()

    @property
    def columns(self) -> list[str]:
        return list(self.table.schema.names)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def to_arrow(self) -> pa.Table:
        return self.table

    def to_pandas(self) -> pd.DataFrame:
        frame: pd.DataFrame = self.table.to_pandas()
        return frame

    def rows(self) -> list[dict[str, Any]]:
        """Rows as dictionaries of Python values."""
        rows: list[dict[str, Any]] = self.table.to_pylist()
        return rows


def read_answer(body: bytes) -> Answer:
    """An Arrow stream as the server sends it; the facts about it stand in the schema's metadata."""
    with pa.ipc.open_stream(pa.BufferReader(body)) as reader:
        table = reader.read_all()
    facts = orjson.loads((table.schema.metadata or {}).get(b"penstock", b"{}"))
    return Answer(
        table=table.replace_schema_metadata(None),
        cycle=facts.get("cycle"),
        now=facts.get("now"),
        complete_from=facts.get("complete_from"),
        done=facts.get("done"),
        notices=tuple(facts.get("notices", ())),
    )
