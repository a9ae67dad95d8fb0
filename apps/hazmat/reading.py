"""Files of spectra: RadiaCode XML, `.spe`, `.rcspg` and NDJSON as detectors and their programs write them, and our Parquet."""

from __future__ import annotations

import functools
import json
import re
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from apps.hazmat.spectrum import Array, Counts, Spectrum

LIBRARY = Path(__file__).parent / "library"
_FILETIME_EPOCH_S = 11_644_473_600
"""Seconds from 1601, where the clock of `.rcspg` begins, to 1970."""


@dataclass(frozen=True, slots=True, eq=False)
class Bursts:
    """Real bursts of one detector, in order of time: one row of counts per burst."""

    time_us: Counts
    live_s: Array
    counts: Counts


def read_xml(path: Path) -> list[Spectrum]:
    """The spectrum of a RadiaCode XML file, and its background after it where the file has one."""
    # Some names are in Windows-1250, and XML parsers refuse such files. Names are not used, numbers are ASCII.
    root = ElementTree.fromstring(path.read_bytes().decode("utf-8", "replace"))
    found = []
    for tag in ("EnergySpectrum", "BackgroundEnergySpectrum"):
        for part in root.iter(tag):
            a0, a1, a2 = (float(c.text or "") for c in part.iterfind("EnergyCalibration/Coefficients/Coefficient"))
            counts = np.array([int(point.text or "") for point in part.iterfind("Spectrum/DataPoint")], dtype=np.int64)
            name = path.stem if tag == "EnergySpectrum" else f"{path.stem} background"
            serial = part.findtext("SerialNumber") or ""
            found.append(Spectrum(name, counts, float(part.findtext("MeasurementTime") or ""), (a0, a1, a2), serial))
    if not found:
        raise ValueError(f"{path.name} has no EnergySpectrum")
    return found


def read_spe(path: Path) -> Spectrum:
    """A `.spe` file: sections that begin with `$NAME:`. Without a calibration, channels count as keV."""
    sections: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in path.read_text(encoding="latin-1").splitlines():
        if line.startswith("$"):
            lines = sections.setdefault(line.strip().rstrip(":"), [])
        elif line.strip():
            lines.append(line.strip())
    if not sections.get("$DATA") or not sections.get("$MEAS_TIM"):
        raise ValueError(f"{path.name} is not a .spe file: it needs the sections $MEAS_TIM and $DATA")
    first, last = map(int, sections["$DATA"][0].split())
    counts = np.array([int(text) for text in " ".join(sections["$DATA"][1:]).split()], dtype=np.int64)
    if len(counts) != last - first + 1:
        raise ValueError(f"{path.name} announces channels {first} to {last} and has {len(counts)}")
    fit = sections.get("$MCA_CAL", sections.get("$ENER_FIT", ["0 1"]))
    numbers = [float(text) for text in fit[-1].split() if re.fullmatch(r"[-+.\dEe]+", text)]
    a0, a1, a2 = (*numbers, 0.0, 0.0)[:3]
    return Spectrum(path.stem, counts, float(sections["$MEAS_TIM"][0].split()[0]), (a0, a1, a2))


def read_rcspg(path: Path) -> Bursts:
    """A spectrogram: two lines of head, then time (100 ns since 1601), seconds and counts per channel."""
    lines = path.read_text().splitlines()
    head = re.search(r"Channels: (\d+)", lines[0]) if lines else None
    if head is None:
        raise ValueError(f"{path.name} is not a spectrogram: its first line does not say how many channels it has")
    channels = int(head.group(1))
    rows = [line.split("\t") for line in lines[2:] if line.strip()]
    counts = np.zeros((len(rows), channels), dtype=np.int64)
    for row, fields in enumerate(rows):
        # Channels after the last one with counts are left out of the file.
        values = [int(text) for text in fields[2:] if text]
        counts[row, : len(values)] = values
    time_us = np.array([int(fields[0]) // 10 - _FILETIME_EPOCH_S * 1_000_000 for fields in rows], dtype=np.int64)
    return Bursts(time_us, np.array([float(fields[1]) for fields in rows]), counts)


def read_ndjson(path: Path) -> Bursts:
    """Lines with the counts since the start; a burst is the difference of two neighbours."""
    lines = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    time_us = np.array([round(line["timestamp"] * 1e6) for line in lines], dtype=np.int64)
    sums = np.array([line["counts"] for line in lines], dtype=np.int64)
    live_s = np.diff(np.array([line["duration"] for line in lines]))
    return Bursts(time_us[1:], live_s, np.diff(sums, axis=0))


def write_runs(runs: list[Spectrum], path: Path) -> None:
    """Runs as Parquet: one row per run."""
    table = pa.table(
        {
            "name": [run.name for run in runs],
            "detector": [run.detector for run in runs],
            "live_s": pa.array([run.live_s for run in runs], pa.float64()),
            "calibration": pa.array([list(run.calibration) for run in runs], pa.list_(pa.float64())),
            "counts": pa.array([run.counts.tolist() for run in runs], pa.list_(pa.int32())),
        }
    )
    pq.write_table(table, path, compression="zstd", compression_level=19)


def read_runs(path: Path) -> list[Spectrum]:
    """What `write_runs` wrote."""
    found = []
    for row in pq.read_table(path).to_pylist():
        a0, a1, a2 = row["calibration"]
        counts = np.array(row["counts"], dtype=np.int64)
        found.append(Spectrum(row["name"], counts, row["live_s"], (a0, a1, a2), row["detector"]))
    return found


def write_bursts(bursts: Bursts, path: Path) -> None:
    """Bursts as Parquet with time, live_s and counts, as the connector `replay` plays them."""
    table = pa.table(
        {
            "time": pa.array(bursts.time_us, pa.timestamp("us", tz="UTC")),
            "live_s": pa.array(bursts.live_s, pa.float64()),
            "counts": pa.array(bursts.counts.tolist(), pa.list_(pa.int32())),
        }
    )
    pq.write_table(table, path, compression="zstd", compression_level=19)


def read_bursts(path: Path) -> Bursts:
    """What `write_bursts` wrote."""
    table = pq.read_table(path)
    counts = np.array(table["counts"].to_pylist(), dtype=np.int64)
    return Bursts(table["time"].cast(pa.int64()).to_numpy(), table["live_s"].to_numpy(), counts)


@functools.cache
def suro() -> dict[int, Spectrum]:
    """The 85 runs of SÚRO's detector by the number in their file's name."""
    return {int(run.name.split("_")[0]): run for run in read_runs(LIBRARY / "suro.parquet")}


@functools.cache
def radiacode_tools() -> dict[str, Spectrum]:
    """Runs of three other detectors by name."""
    return {run.name: run for run in read_runs(LIBRARY / "radiacode_tools.parquet")}
