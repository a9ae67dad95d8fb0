"""ALTER SYSTEM."""

from __future__ import annotations

from penstock.sql.dialect import PenstockParser
from penstock.sql.statements import AcceptClock, AcceptDamage


def alter_system(parser: PenstockParser) -> AcceptClock | AcceptDamage:
    if parser.take("ACCEPT", "CLOCK"):
        return AcceptClock()
    if parser.take("ACCEPT", "DAMAGE"):
        return AcceptDamage()
    raise parser.expected("ACCEPT CLOCK or ACCEPT DAMAGE")
