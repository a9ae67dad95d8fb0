"""Close the parts of a database in an order in which no part calls one that is closed already."""

from __future__ import annotations

import logging

_log = logging.getLogger("penstock")
_ENDS = (
    ("statements", "close"),
    ("scrubber", "close"),
    ("sinks", "close"),
    ("sources", "close"),
    ("housekeeper", "close"),
    ("sampler", "close"),
    ("observer", "close"),
    ("evaluator", "stop"),
    ("ingest", "close"),
    ("engine", "stop"),
    ("follower", "stop"),
    ("log", "close"),
    ("catalog", "close"),
    ("audit", "close"),
    ("clock", "close"),
)


def close_rooms(database: object) -> None:
    """Close the parts that were opened; if one fails to close, the others are still closed."""
    for part, end in _ENDS:
        try:
            found = getattr(database, part, None)
            if found is not None and hasattr(found, end):
                getattr(found, end)()
        except Exception:
            _log.exception("while closing %s", part)
