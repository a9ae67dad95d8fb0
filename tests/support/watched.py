"""Watch calls of a function, without replacing it: the interpreter's own profiling says when this thread makes one.

A test counts calls so, or does what another thread could have done just then.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Literal

OnCall = Callable[[dict[str, Any]], object]


@contextmanager
def watched(
    *functions: Callable[..., Any],
    tell: OnCall,
    when: Literal["call", "return"] = "call",
    by: str | None = None,
    threads: bool = False,
) -> Iterator[None]:
    """`tell` gets the arguments of each call, before it or when it returns. `by`: only of calls that this module makes.

    With `threads`, calls of threads that start from now on are watched, too.
    """
    codes = {function.__code__ for function in functions}

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == when and frame.f_code in codes:
            caller = frame.f_back
            if by is None or (caller is not None and caller.f_globals["__name__"] == by):
                tell(frame.f_locals)

    before, of_threads = sys.getprofile(), threading.getprofile()
    sys.setprofile(profile)
    if threads:
        threading.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(before)
        threading.setprofile(of_threads)  # type: ignore[arg-type] # None ends it
