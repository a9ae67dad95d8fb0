"""Every operation that a bound expression may call, one file per subject.

In: Arrow arrays or constants and the call. Out: an Arrow array. Nothing raises: what has no answer is NULL.
Called by `operators.evaluate`.
"""

from __future__ import annotations

from penstock.operators.operations.arithmetic import ARITHMETIC
from penstock.operators.operations.calendar_parts import CALENDAR_PARTS
from penstock.operators.operations.casts import CASTS
from penstock.operators.operations.choices import CHOICES
from penstock.operators.operations.comparisons import COMPARISONS
from penstock.operators.operations.logic import LOGIC
from penstock.operators.operations.mathematics import MATHEMATICS
from penstock.operators.operations.sampling import SAMPLING
from penstock.operators.operations.text import TEXTS
from penstock.operators.operations.times import TIMES
from penstock.operators.operations.values import OperationInfo

OPERATIONS: dict[str, OperationInfo] = {
    **COMPARISONS,
    **LOGIC,
    **ARITHMETIC,
    **CASTS,
    **CHOICES,
    **MATHEMATICS,
    **TEXTS,
    **TIMES,
    **CALENDAR_PARTS,
    **SAMPLING,
}
