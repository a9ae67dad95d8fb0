"""The rooms of a database are closed in this order: nobody hands something to one that is closed already."""

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
    """Close those that were opened; one that fails keeps none of the others from it."""
    for part, end in _ENDS:
        try:
            found = getattr(database, part, None)
            if found is not None and hasattr(found, end):
                getattr(found, end)()
        except Exception:
            _log.exception("while closing %s", part)
