"""`python -m tests.browser.hazmat_page FOLDER`: the page of apps/hazmat with one box of Cs-137, second by second, without a server.

The box turns from measuring to alarm when a file named `go` is in the folder.
"""

from __future__ import annotations

import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from apps.hazmat import box_state
from apps.hazmat.__main__ import show_page, simulate_background
from apps.hazmat.belt import SIDES
from apps.hazmat.boxes import Content, strength_for, thin_bursts
from apps.hazmat.decision import Rules
from apps.hazmat.follow import Boxes
from apps.hazmat.reading import suro

BEGAN = datetime(2026, 5, 3, tzinfo=UTC)


def verdict(box: str, bursts: Any, background: str) -> dict[str, Any]:
    """The row that `verdicts` has for a box with these bursts: seconds x detectors x channels."""
    state, calibration = box_state.init(), suro()[1].calibration
    for second, detectors in enumerate(bursts):
        for side, counts in zip(SIDES, detectors, strict=True):
            at = BEGAN + timedelta(seconds=second)
            state = box_state.add(state, side, counts.tolist(), 1.0, at, calibration)
    return {**box_state.finish(state, background, Rules(a_min=8.0, max_s=18.0)), "box": box}


def play(boxes: Boxes, folder: Path, background: str) -> None:
    office, caesium = suro()[1], suro()[24]
    dice = np.random.default_rng(5)
    empty = thin_bursts(Content(office), 12, dice)
    boxes.take(verdict("box 1", empty, background))
    threat = thin_bursts(Content(office, caesium, strength_for(12.0, caesium, office)), 18, dice)
    boxes.take(verdict("box 2", empty[:1], background))
    while not (folder / "go").exists():
        time.sleep(0.05)
    for seconds in range(1, 19):
        boxes.take(verdict("box 2", threat[:seconds], background))


def main(folder: Path) -> None:
    boxes = Boxes()
    run = simulate_background(folder / "background.json", 1)
    threading.Thread(target=play, args=(boxes, folder, str(run)), daemon=True).start()
    show_page(boxes, run, 300.0, 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
