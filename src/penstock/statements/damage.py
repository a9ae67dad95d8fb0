"""ALTER SYSTEM ACCEPT DAMAGE: an admin confirms the list of damaged files."""

from __future__ import annotations

from penstock.damage import DamageReport
from penstock.statements.replies import done
from penstock.views.results import Result

_NAMED = 20


def accept_damage(report: DamageReport) -> Result:
    """Health names it no more, and rollups that waited for the admin are swept again. The rows stay in `penstock.damage`."""
    accepted = report.accept()
    notices = [f"accepted: {row.file}" for row in accepted[:_NAMED]]
    if len(accepted) > _NAMED:
        notices.append(f"accepted: {len(accepted) - _NAMED} others, see penstock.damage")
    return done("ALTER SYSTEM ACCEPT DAMAGE", tuple(notices or ["no damage is open"]))
