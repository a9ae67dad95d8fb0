"""Full collections look at new objects only, and yet no garbage stays for ever."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import garbage
from penstock.garbage import LongLivedObjects

ROOT = Path(__file__).parents[1]


class Link:
    """One of two objects that refer to each other: only the collector can free them."""

    other: Link


def linked() -> Link:
    one, other = Link(), Link()
    one.other, other.other = other, one
    return one


@pytest.fixture
def aside(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What other tests of this process left is set aside, and not looked at: it may be millions of objects."""
    monkeypatch.setattr(garbage, "FEW_OBJECTS", 1 << 40)
    callback = LongLivedObjects()
    gc.freeze()
    gc.callbacks.append(callback)
    yield
    gc.callbacks.remove(callback)
    gc.collect()


def test_what_survives_a_full_collection_is_not_looked_at_again(aside: None) -> None:
    kept = [[] for _ in range(1000)]  # type: ignore[var-annotated]
    gc.collect()
    assert gc.get_freeze_count() > len(kept)
    assert len(gc.get_objects()) < len(kept)


def test_new_garbage_is_freed_at_once(aside: None) -> None:
    gc.collect()
    gone = weakref.ref(linked())
    gc.collect()
    assert gone() is None


def test_garbage_among_long_lived_objects_is_freed_once_their_number_has_doubled() -> None:
    """In a process of its own: this one has too many objects to double them."""
    script = """
import gc, weakref
from penstock import garbage
from tests.test_garbage import linked
garbage.FEW_OBJECTS = 1000
garbage.set_long_lived_objects_aside()
one = linked()
gc.collect()
gc.collect()
gone = weakref.ref(one)
del one
gc.collect()
assert gone() is not None, "it is not looked at"
more = [[] for _ in range(1000 + 2 * gc.get_freeze_count())]
gc.collect()
gc.collect()
assert gone() is None
"""
    subprocess.run(
        [sys.executable, "-c", script], check=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT}/src"}
    )
