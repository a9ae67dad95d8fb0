"""Three ways to match a spectrum with known materials: nearest neighbours, clusters, and a decision tree. "none" is a class.

They look at one spectrum after a fixed time and state no error rates. SQL calls them as `matches`, the page shows them for one box, and the
measures compare them; `decide` is what decides.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from apps.hazmat.background import background_rate
from apps.hazmat.hypotheses import UNKNOWN_KEV, material_shapes
from apps.hazmat.reading import LIBRARY, suro
from apps.hazmat.spectrum import Array, pair_bins, position
from apps.hazmat.split import BACKGROUND, MATERIALS, NATURAL, NONE

NATURAL_CLASS = "natural"
CLASSES = (*MATERIALS, NONE, NATURAL_CLASS)
NEIGHBOURS = 5
PER_CLASS = 200
WINDOW_BINS = 2.0
"""Half the width of a line window."""
_SEED = 7
TREE_FILE = LIBRARY / "tree.json"


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """Spectra drawn from the library: bins, live seconds, and the class of each."""

    bins: Array
    live_s: Array
    label: npt.NDArray[np.intp]


@functools.cache
def library_background() -> Array:
    return background_rate([suro()[BACKGROUND]])


@functools.cache
def library_examples(seed: int = _SEED) -> Examples:
    """200 spectra of each class, 2 to 32 net counts per second and detector, 20 to 120 live seconds."""
    dice = np.random.default_rng(seed)
    shapes, base = material_shapes(), library_background()
    count = len(CLASSES) * PER_CLASS
    label = np.repeat(np.arange(len(CLASSES)), PER_CLASS)
    live_s = np.exp(dice.uniform(np.log(20.0), np.log(120.0), count))
    strength = np.exp(dice.uniform(np.log(2.0), np.log(32.0), count))
    natural = [shapes[name] for name in NATURAL]
    rates = np.empty((count, len(base)))
    for row, number in enumerate(label):
        name = CLASSES[number]
        shape = 0.0 * base if name == NONE else natural[row % 3] if name == NATURAL_CLASS else shapes[name]
        rates[row] = base + strength[row] * shape
    return Examples(dice.poisson(rates * live_s[:, None]).astype(np.float64), live_s, label)


def directions(bins: Array, live_s: Array, background: Array) -> Array:
    """The square root of what is over the background, with length 1: what cosines compare."""
    over = np.sqrt(np.maximum(pair_bins(bins - live_s[:, None] * background), 0.0))
    return np.asarray(over / np.maximum(np.linalg.norm(over, axis=1, keepdims=True), 1e-12), dtype=np.float64)


def match_nearest(bins: Array, live_s: Array, background: Array) -> npt.NDArray[np.str_]:
    """The class of most of the 5 nearest library spectra by cosine; of classes with as many, that of the nearest one."""
    examples = library_examples()
    known = directions(examples.bins, examples.live_s, library_background())
    cosines = directions(bins, live_s, background) @ known.T
    nearest = np.argsort(-cosines, axis=1, kind="stable")[:, :NEIGHBOURS]
    labels = examples.label[nearest]
    votes = (labels[:, :, None] == np.arange(len(CLASSES))).sum(axis=1)
    # A vote less than one for places breaks ties: the nearest one counts most.
    places = NEIGHBOURS - (labels[:, :, None] == np.arange(len(CLASSES))).argmax(axis=1)
    return _names(np.argmax(votes + np.where(votes > 0, places, 0) / 100.0, axis=1))


def match_clusters(bins: Array, live_s: Array, background: Array) -> npt.NDArray[np.str_]:
    """The class with the nearest centre by cosine."""
    examples = library_examples()
    known = directions(examples.bins, examples.live_s, library_background())
    centres = np.array([known[examples.label == number].mean(axis=0) for number in range(len(CLASSES))])
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    return _names(np.argmax(directions(bins, live_s, background) @ centres.T, axis=1))


def windows(bins: Array, live_s: Array, background: Array) -> Array:
    """What a decision tree looks at: net counts over their error in 24 windows around line energies."""
    middles = np.arange(bins.shape[1]) + 0.5
    inside = (np.abs(middles[:, None] - position(UNKNOWN_KEV)[None, :]) <= WINDOW_BINS).astype(np.float64)
    counts = bins @ inside
    return np.asarray(
        (counts - live_s[:, None] * (background @ inside)) / np.sqrt(np.maximum(counts, 1.0)), dtype=np.float64
    )


def match_tree(bins: Array, live_s: Array, background: Array) -> npt.NDArray[np.str_]:
    """The class that the stored decision tree leads to."""
    tree = _tree()
    features, node = windows(bins, live_s, background), np.zeros(len(bins), dtype=np.intp)
    rows = np.arange(len(bins))
    for _ in range(tree["depth"][0]):
        asked = tree["feature"][node]
        left = features[rows, np.maximum(asked, 0)] <= tree["threshold"][node]
        node = np.where(asked < 0, node, np.where(left, tree["left"][node], tree["right"][node]))
    return _names(tree["label"][node])


METHODS: dict[str, Callable[[Array, Array, Array], npt.NDArray[np.str_]]] = {
    "nearest": match_nearest,
    "clusters": match_clusters,
    "tree": match_tree,
}


def _names(numbers: npt.NDArray[np.intp]) -> npt.NDArray[np.str_]:
    return np.array(CLASSES, dtype=np.str_)[numbers]


@functools.cache
def _tree() -> dict[str, npt.NDArray[Any]]:
    return {name: np.array(column) for name, column in json.loads(TREE_FILE.read_text()).items()}
