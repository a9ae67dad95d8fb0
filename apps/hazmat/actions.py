"""What to do about a finding: the rows that the table `actions` begins with. Operators edit the table while it runs."""

from __future__ import annotations

from dataclasses import dataclass

from apps.hazmat.decision import NATURAL_CARGO, NOT_YET, NOTHING
from apps.hazmat.hypotheses import UNKNOWN


@dataclass(frozen=True, slots=True)
class Action:
    """What a finding means and what to do."""

    finding: str
    threat: bool
    action: str


_STOP = "stop the belt, keep 10 m away, call radiation protection"
ACTIONS = (
    Action(NOTHING, False, "let it pass"),
    Action(NATURAL_CARGO, False, "let it pass; compare with the cargo papers"),
    Action(NOT_YET, True, f"{_STOP}; keep measuring"),
    Action(UNKNOWN, True, f"{_STOP}; inspect by hand"),
    Action("Am-241", True, f"{_STOP}; do not open: alpha emitter"),
    Action("Ba-133", True, _STOP),
    Action("Co-57", True, _STOP),
    Action("Co-60", True, f"{_STOP}; strong gamma emitter, keep 50 m away"),
    Action("Cs-137", True, f"{_STOP}; do not open: soluble"),
    Action("Eu-152", True, _STOP),
    Action("I-131", True, f"{_STOP}; ask for medical papers, volatile"),
    Action("Sr-90", True, f"{_STOP}; do not open: beta emitter"),
)


def recommend(finding: str) -> str:
    """The action for a finding; for a mixture those of its parts, once each."""
    known = {action.finding: action.action for action in ACTIONS}
    found = [known.get(part, known[UNKNOWN]) for part in finding.split(" + ")]
    return "; ".join(dict.fromkeys(sentence for text in found for sentence in text.split("; ")))
