"""Which run is for the library and which for tests. No test run is the beginning or the end of a library run."""

from __future__ import annotations

MATERIALS = ("Am-241", "Ba-133", "Co-57", "Co-60", "Cs-137", "Eu-152", "I-131", "Sr-90")
NATURAL = ("K-40", "U series", "Th series")
NONE = "none"

BACKGROUND = 2
LIBRARY = {
    "Am-241": 45,
    "Ba-133": 67,
    "Co-57": 75,
    "Co-60": 33,
    "Cs-137": 29,
    "Eu-152": 81,
    "I-131": 85,
    "Sr-90": 51,
    "Th series": 61,
    # The proposal beside the data keeps uraninite for tests. Natural cargo is part of the null hypothesis, so that it needs one run
    # of the uranium series; radon and the mine, which have it too, stay tests. K-40 has no library run: its shape is a line with a shelf.
    "U series": 5,
}
TESTS = {
    "Am-241": (39, 40, 41, 43, 44, 46),
    "Ba-133": (62, 63, 64, 65, 68),
    "Co-57": (69, 70, 72),
    "Co-60": (30, 31, 32),
    "Cs-137": (24, 25, 26, 27),
    "Eu-152": (77, 78, 79, 80),
    "I-131": (82, 83),
    "Sr-90": (47, 48, 50),
}
TEST_BACKGROUND = 1
TEST_LAWN = 23
TEST_ROOM = 20
"""A tritium light in another room: hardly more than the background there."""
TEST_NATURAL = {
    "fertiliser": (3,),
    "thorium": (54, 55, 56, 57, 59),
    "granite": (52, 53),
    "radon": (6, 9, 10),
    "mine": (12, 16),
}
TEST_MIXTURE = (34, 35, 38)

OVERLAPS = (
    (13, 16),
    (14, 16),
    (22, 23),
    (28, 29),
    (36, 37),
    (42, 45),
    (49, 51),
    (58, 60),
    (66, 67),
    (71, 74),
    (73, 75),
    (76, 81),
    (84, 85),
    (7, 11),
    (8, 11),
)
"""The first run is the beginning of the second one, or may be."""


def library_runs() -> set[int]:
    return {BACKGROUND, *LIBRARY.values()}


def test_runs() -> set[int]:
    groups = (*TESTS.values(), *TEST_NATURAL.values(), TEST_MIXTURE)
    return {TEST_BACKGROUND, TEST_LAWN, TEST_ROOM}.union(*groups)
