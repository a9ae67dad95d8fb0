"""What the streams ask of the catalog: its state as of now, and the static rows of a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from penstock.catalog.model import Table

Sids = np.ndarray[Any, np.dtype[np.int32]]


class StreamCatalogRows(Protocol):
    """What ingest asks of `StaticRows`."""

    @property
    def sids(self) -> Sids: ...

    def find(self, keys: list[pa.Array], rows: int | None = None) -> Sids: ...

    def current(self) -> pa.Table: ...


class StreamCatalog(Protocol):
    """What ingest asks of `CatalogState`."""

    @property
    def position(self) -> int: ...

    @property
    def tables(self) -> Mapping[str, Table]: ...

    @property
    def tables_by_id(self) -> Mapping[int, Table]: ...

    def rows(self, table_id: int) -> Any: ...
