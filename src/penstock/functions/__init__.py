"""Every operation that a bound expression may call, one file per subject.

In: Arrow arrays or constants and the call. Out: an Arrow array. Nothing raises: what has no answer is NULL.
Called by `expr.evaluate`.
"""

from __future__ import annotations

from penstock.functions.arithmetic import ARITHMETIC
from penstock.functions.casts import CASTS
from penstock.functions.comparisons import COMPARISONS
from penstock.functions.samples import SAMPLING
from penstock.functions.text import TEXTS
from penstock.functions.times import TIMES
from penstock.functions.values import OperationInfo

OPERATIONS: dict[str, OperationInfo] = {**COMPARISONS, **ARITHMETIC, **CASTS, **TEXTS, **TIMES, **SAMPLING}
