"""The watermark of a table: the time before which no reading of it can come any more. Ingest enforces it.

It follows from the newest time of a prefix of the log and the options at that moment, so it is the same for every reader
of a committed cycle, also after a restart.
"""

from __future__ import annotations

from penstock.catalog.model import TableOptions


def allowed_lateness(options: TableOptions) -> int | None:
    """How much older than the newest reading of the table a reading may be; None: any age is accepted."""
    return 0 if options.time == "transaction" else options.lateness_us  # the log's own times never step back


def watermark_of(options: TableOptions, newest_us: int | None) -> int | None:
    """The watermark where the newest reading is of a time (None: there is none yet); None where the table has no watermark."""
    lateness_us = allowed_lateness(options)
    known = [] if lateness_us is None or newest_us is None else [newest_us - lateness_us]
    if options.watermark_us is not None:
        known.append(options.watermark_us)
    return max(known, default=None)
