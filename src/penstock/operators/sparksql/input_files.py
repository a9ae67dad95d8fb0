"""Write many rows of a join to files for Spark, in pieces; pieces without a change are used again."""

from __future__ import annotations

import errno
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from weakref import finalize

import numpy as np
import pyarrow as pa

from penstock.errors import error
from penstock.operators.base.answer import Ids
from penstock.pipeline.history import write_handed

# Up to so many rows go from the server's memory to Spark's; more are written to files.
IN_MEMORY_ROWS = 200_000
PIECE_ROWS = 1 << 18


class Piece:
    """Some rows in a file, which is deleted with the last reference to the piece."""

    def __init__(self, path: Path, ids: Ids) -> None:
        self.path = path
        self.ids = ids
        finalize(self, path.unlink, missing_ok=True)


def hand_over(
    ids: Ids, before: Sequence[Piece], read: Callable[[Ids], tuple[Ids, pa.Table]], place: Path
) -> tuple[Piece, ...]:
    """The rows of ids in pieces. An earlier piece is used again if all of its rows stay and it is large enough.

    `read` gives rows and their ids in the order of the rows.
    """
    stay = [p for p in before if len(p.ids) >= PIECE_ROWS // 2 and bool(np.isin(p.ids, ids).all())]
    new = ids[~np.isin(ids, np.concatenate([ids[:0], *(p.ids for p in stay)]))]
    return (*stay, *(_write(*read(new[i : i + PIECE_ROWS]), place) for i in range(0, len(new), PIECE_ROWS)))


def _write(ids: Ids, rows: pa.Table, place: Path) -> Piece:
    piece = Piece(place / f"{uuid.uuid4().hex}.arrow", ids)
    try:
        write_handed(piece.path, rows)
    except OSError as failure:
        if failure.errno == errno.ENOSPC:
            raise error("disk_full", hint="free some space there, or ask for fewer rows of the join below") from failure
        raise
    return piece
