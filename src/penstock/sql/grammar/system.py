"""ALTER SYSTEM."""

from __future__ import annotations

from penstock.sql.dialect import PenstockParser
from penstock.sql.statements import AcceptClock


def alter_system(parser: PenstockParser) -> AcceptClock:
    if not parser.take("ACCEPT", "CLOCK"):
        raise parser.expected("ACCEPT CLOCK")
    return AcceptClock()
