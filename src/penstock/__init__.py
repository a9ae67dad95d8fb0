"""Penstock: a stream database for sensors. SQL in, answers that stay current out.

Comes in: sensor tables and standing queries as SQL, readings as they are measured. Goes out: rows, fetched or
pushed. The folders are the stages of a reading's way: `sensors` -> `streams` -> `pipeline` (with `operators`)
-> `queries` -> `server`; `sql` and `catalog` hold what people defined. `connect` opens the Python client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.client import Connection

__version__ = "0.1.0"
__all__ = ["__version__", "connect"]


def connect(
    url: str = "http://127.0.0.1:8470", token: str | None = None, user: str | None = None, ca: str | None = None
) -> Connection:
    """A connection to the server at `url`; nothing is sent before the first call. Queries it registers are `user`'s.

    `ca` is a file with the certificates (PEM) to trust instead of the usual ones.
    """
    # Spark's workers import this package too: the client and its libraries load only where they are used.
    from penstock.client import Connection

    return Connection(url, token=token, user=user, ca=ca)
