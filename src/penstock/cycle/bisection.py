"""Find which members of a group make it fail, by trying halves of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Fails = Callable[[Sequence[int]], str | None]
"""Why a group fails when it is tried; None where it does not."""


def find_culprits(group: Sequence[int], fails: Fails, thorough: bool) -> dict[int, str]:
    """The members of a failing group that fail alone, each with the reason; none where only several together fail.

    `thorough` looks for all of them at once, which pays where a try is cheap. Otherwise one is found, by at most one
    try per halving and one more; the half that is not tried is taken to fail where the other half does not.
    """
    if len(group) == 1:
        why = fails(group)
        return {group[0]: why} if why is not None else {}
    left, right = group[: len(group) // 2], group[len(group) // 2 :]
    if not thorough:
        return find_culprits(left if fails(left) is not None else right, fails, thorough)
    found: dict[int, str] = {}
    for half in (left, right):
        if len(half) == 1 or fails(half) is not None:
            found |= find_culprits(half, fails, thorough)
    return found
