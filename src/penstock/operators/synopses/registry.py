"""All kinds of synopses by name: how one is made and how one comes back from bytes."""

from __future__ import annotations

from typing import Any

from penstock.errors import error, suggest
from penstock.operators.synopses.average import Average
from penstock.operators.synopses.bars import Bars
from penstock.operators.synopses.base import Synopsis
from penstock.operators.synopses.distinct import TimedBitmaps
from penstock.operators.synopses.exponential import ExponentialCount, ExponentialSum
from penstock.operators.synopses.extremes import Maximum, Minimum
from penstock.operators.synopses.landmark import LANDMARKS
from penstock.operators.synopses.norm import Norm
from penstock.operators.synopses.real_sum import RealSum, WeightSum
from penstock.operators.synopses.sliced import Sliced
from penstock.operators.synopses.storing import unpack

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
