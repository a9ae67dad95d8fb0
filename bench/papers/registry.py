"""All kinds of synopses by name: how one is made and how one comes back from bytes."""

from __future__ import annotations

from typing import Any

from bench.papers.average import Average
from bench.papers.bars import Bars
from bench.papers.base import Synopsis
from bench.papers.distinct import TimedBitmaps
from bench.papers.exponential import ExponentialCount, ExponentialSum
from bench.papers.extremes import Maximum, Minimum
from bench.papers.landmark import LANDMARKS
from bench.papers.norm import Norm
from bench.papers.real_sum import RealSum, WeightSum
from bench.papers.slices import Sliced
from bench.papers.storage import unpack
from penstock.errors import error, suggest

_ALL: tuple[type[Synopsis], ...] = (
    ExponentialCount,
    ExponentialSum,
    WeightSum,
    RealSum,
    Average,
    Bars,
    Minimum,
    Maximum,
    TimedBitmaps,
    Norm,
    *LANDMARKS.values(),
    Sliced,
)
KINDS: dict[str, type[Synopsis]] = {kind.kind: kind for kind in _ALL}


def make(kind: str, **parameters: Any) -> Synopsis:
    if kind not in KINDS:
        raise error("function_not_found", function=kind, hint=suggest(kind, KINDS))
    return KINDS[kind](**parameters)


def load(data: bytes) -> Synopsis:
    saved = unpack(data)
    return KINDS[saved.kind].restored(saved)
