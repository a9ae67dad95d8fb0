"""The three matchers against plain loops, and on real spectra."""

from __future__ import annotations

import json

import numpy as np
import pytest

from apps.hazmat.background import background_rate
from apps.hazmat.boxes import Content, strength_for, thin
from apps.hazmat.matching import (
    CLASSES,
    TREE_FILE,
    directions,
    library_background,
    library_examples,
    match_clusters,
    match_nearest,
    match_tree,
    windows,
)
from apps.hazmat.reading import suro
from apps.hazmat.spectrum import Array
from apps.hazmat.split import TESTS

OFFICE = suro()[1]
SITE = background_rate([suro()[2]])


def boxes() -> tuple[Array, Array]:
    dice = np.random.default_rng(11)
    found = [
        thin(Content(OFFICE, run, min(strength_for(12.0, run, OFFICE), 1.0)), 6, 20, dice).sum(axis=1)
        for run in (suro()[runs[0]] for runs in TESTS.values())
    ]
    bins = np.concatenate([*found, thin(Content(OFFICE), 6, 20, dice).sum(axis=1)])
    return bins, np.full(len(bins), 80.0)


def test_nearest_is_that_of_plain_loops() -> None:
    bins, live = boxes()
    examples = library_examples()
    known = directions(examples.bins, examples.live_s, library_background())
    for row, name in zip(directions(bins, live, SITE), match_nearest(bins, live, SITE), strict=True):
        order = sorted(range(len(known)), key=lambda k: (-float(row @ known[k]), k))[:5]
        labels = [int(examples.label[k]) for k in order]
        most = max(labels.count(label) for label in labels)
        assert name == CLASSES[next(label for label in labels if labels.count(label) == most)]


def test_clusters_are_those_of_plain_loops() -> None:
    bins, live = boxes()
    examples = library_examples()
    known = directions(examples.bins, examples.live_s, library_background())
    for row, name in zip(directions(bins, live, SITE), match_clusters(bins, live, SITE), strict=True):
        cosines = []
        for number in range(len(CLASSES)):
            centre = sum(known[k] for k in range(len(known)) if examples.label[k] == number)
            cosines.append(float(row @ centre) / float(np.linalg.norm(centre)))
        assert name == CLASSES[int(np.argmax(cosines))]


def test_the_tree_is_walked_as_its_file_says() -> None:
    bins, live = boxes()
    tree = json.loads(TREE_FILE.read_text())
    for features, name in zip(windows(bins, live, SITE), match_tree(bins, live, SITE), strict=True):
        node = 0
        while tree["feature"][node] >= 0:
            side = "left" if features[tree["feature"][node]] <= tree["threshold"][node] else "right"
            node = tree[side][node]
        assert name == CLASSES[tree["label"][node]]


@pytest.mark.parametrize("match", [match_nearest, match_clusters, match_tree])
def test_most_boxes_of_strong_sources_are_matched(match: object) -> None:
    assert callable(match)
    bins, live = boxes()
    truth = np.repeat([*TESTS, "none"], 6)
    assert np.mean(match(bins, live, SITE) == truth) > 0.6


def test_examples_are_the_same_in_every_process() -> None:
    examples = library_examples()
    assert examples.bins.shape == (2000, 128) and np.bincount(examples.label).tolist() == [200] * 10
