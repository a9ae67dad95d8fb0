"""Values that are no machine numbers: TEXT, DECIMAL and BINARY as Python objects, which can be compared."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.operators.slices.base import Numbers

KINDS = frozenset({"TEXT", "DECIMAL", "BINARY"})


def objects_of(values: pa.Array) -> Numbers:
    """Values as they are in Python, None for NULL."""
    found: Numbers = np.empty(len(values), object)
    found[:] = values.to_pylist()
    return found
