"""Watch calls of a function, without replacing it: the interpreter's own profiling says when this thread makes one.

A test counts calls so, or does what another thread could have done just then.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Literal

OnCall = Callable[[dict[str, Any]], object]


@contextmanager
def watched(
    *functions: Callable[..., Any], tell: OnCall, when: Literal["call", "return"] = "call", by: str | None = None
) -> Iterator[None]:
    """`tell` gets the arguments of each call, before it or when it returns. `by`: only of calls that this module makes."""
    codes = {function.__code__ for function in functions}

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == when and frame.f_code in codes:
            caller = frame.f_back
            if by is None or (caller is not None and caller.f_globals["__name__"] == by):
                tell(frame.f_locals)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(before)
