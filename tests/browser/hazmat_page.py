"""`python -m tests.browser.hazmat_page FOLDER`: the page of apps/hazmat with one box of Cs-137, second by second, without a server.

The box turns from measuring to alarm when a file named `go` is in the folder.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from apps.hazmat.__main__ import show_page, simulate_background
from apps.hazmat.actions import recommend
from apps.hazmat.belt import SIDES
from apps.hazmat.boxes import Content, strength_for, thin_bursts
from apps.hazmat.follow import Boxes
from apps.hazmat.functions import BURST, judge, make_bursts
from apps.hazmat.reading import suro
from penstock.types import parse_type


def verdict(box: str, bursts: Any, background: str) -> dict[str, Any]:
    """The row that `verdicts` has for a box with these bursts: seconds x detectors x channels."""
    rows = bursts.reshape(-1, bursts.shape[-1])
    at = pa.array(np.repeat(np.arange(len(bursts)), bursts.shape[1]) * 1_000_000, pa.timestamp("us", tz="UTC"))
    calibration = tuple(pa.array(np.full(len(rows), value)) for value in suro()[1].calibration)
    sides = pa.array([*SIDES] * len(bursts))
    made = make_bursts(sides, pa.array(rows.tolist()), pa.array(np.ones(len(rows))), at, calibration)
    columns = [pa.array(column).to_pylist() for column in made.values()]
    whole = [dict(zip(made, row, strict=True)) for row in zip(*columns, strict=True)]
    found = judge(pa.array([whole], parse_type(f"ARRAY<{BURST}>").to_arrow()), pa.array([4]), background, 8.0, 18.0)
    row = {name: values[0] for name, values in found.items()}
    return {**row, "box": box, "action": recommend(row["finding"])}


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
