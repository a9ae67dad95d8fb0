"""Real road and temperature series through a database, and what pandas says of the same rows.

Excerpts stand in `tests/data/nab`, with their licence. The whole series are read where there is a folder `shared/data/nab`
beside the project, or where PENSTOCK_SERIES names one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.database.database import Database
from penstock.sql.plan import AggregatePlan, plan_from_json

ROOT = Path(__file__).parents[2]
EXCERPTS = ROOT / "tests" / "data" / "nab"
SPECTRA = ROOT / "apps" / "hazmat" / "library" / "k40_bursts.parquet"
WHOLE = Path(os.environ.get("PENSTOCK_SERIES", ROOT.parent / "shared" / "data" / "nab"))
TABLE = (
    "CREATE TABLE series (name TEXT PRIMARY KEY, kind TEXT, reading STREAM (value DOUBLE))"
    " WITH (time = 'valid', out_of_order = 'accept')"
)
CALLS = "COUNT(*) AS n, AVG(value) AS mean, MIN(value) AS least, MAX(value) AS most, STDDEV(value) AS deviation"
HOUR = pd.Timedelta("1h")
PIECES = 4


def of(name: str) -> str:
    """A query of one series: NOW is its own newest time."""
    return f"FROM series WHERE name = '{name}'"


@dataclass(frozen=True)
class Story:
    """The series of a folder, pushed in pieces; after each every answer is held against pandas."""

    frames: dict[str, pd.DataFrame]
    """By name: `ts` and `value`, in the order of the file."""

    @classmethod
    def of_folder(cls, folder: Path) -> Story:
        return cls({path.stem: read_series(path) for path in sorted(folder.glob("*.csv"))})

    def tell(self, database: Callable[[], Database], settle: Callable[[], None]) -> None:
        """`settle` lets everything be committed; the database may be another one afterwards."""
        self._set_up(database())
        for piece in range(PIECES):
            for name, frame in self.frames.items():
                cut = np.linspace(0, len(frame), PIECES + 1).astype(int)
                some = frame.iloc[cut[piece] : cut[piece + 1]]
                accepted = database().push("series", as_table(name, some)).accepted
                assert accepted == len(some), name
            settle()
            for name, frame in self.frames.items():
                cut = np.linspace(0, len(frame), PIECES + 1).astype(int)
                self._check(database(), name, frame.iloc[: cut[piece + 1]])

    def _set_up(self, db: Database) -> None:
        db.execute(TABLE)
        rows = ", ".join(f"('{name}', '{name.split('_')[0]}', NULL)" for name in self.frames)
        db.execute(f"INSERT INTO series VALUES {rows}")
        for name in self.frames:
            everything = "BEGIN ('2000-01-01') END (NOW)"
            for query, sql in {
                "whole": f"SELECT {CALLS}, FIRST(value) AS oldest, LAST(value) AS newest {of(name)} {everything}",
                "day": f"SELECT {CALLS} {of(name)} BEGIN (NOW - 1 DAY) END (NOW)",
                "hourly": f"SELECT window_start, {CALLS} {of(name)} GROUP BY TUMBLE(1 HOUR) {everything}",
                "rolling": f"SELECT window_start, {CALLS} {of(name)} GROUP BY SLIDE(3 HOURS, 1 HOUR) {everything}",
            }.items():
                db.execute(f"CREATE QUERY {query}_{name.lower()} AS {sql}")
                plan = plan_from_json(db.definition(f"{query}_{name.lower()}").plan)
                assert isinstance(plan, AggregatePlan), query

    def _check(self, db: Database, name: str, rows: pd.DataFrame) -> None:
        def answer(query: str) -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = db.invoke(f"{query}_{name.lower()}").table.to_pylist()
            return found

        ordered = rows.sort_values("ts", kind="stable")
        ends = {"oldest": ordered.value.iloc[0], "newest": ordered.value.iloc[-1]}
        assert answer("whole") == [about({**statistics(rows.value), **ends})], name
        newest = rows.ts.max()
        assert answer("day") == [about(statistics(rows.value[rows.ts >= newest - 24 * HOUR]))], name
        for query, width in (("hourly", HOUR), ("rolling", 3 * HOUR)):
            found = db.invoke(f"{query}_{name.lower()}").table.sort_by("window_start")
            compare(found, panes(rows, width), f"{name} {query}")


def read_series(path: Path) -> pd.DataFrame:
    frame = pd.read_csv(path, parse_dates=["timestamp"])
    return pd.DataFrame({"ts": frame["timestamp"].dt.tz_localize("UTC"), "value": frame["value"].astype(float)})


def as_table(name: str, rows: pd.DataFrame) -> pa.Table:
    times = pa.array(rows.ts.dt.tz_localize(None)).cast(pa.timestamp("us")).cast(pa.timestamp("us", tz="UTC"))
    return pa.table({"name": [name] * len(rows), "ts": times, "value": pa.array(rows.value)})


def push_howto(database: Database, bands: int = 16) -> None:
    """The readings of docs/howto/mining.md: the excerpts, speed with occupancy of one loop, and spectra in so many bands."""
    frames = Story.of_folder(EXCERPTS).frames
    for name, frame in frames.items():
        assert database.push("series", as_table(name, frame)).accepted == len(frame)
    speed, occupancy = (
        as_table("t4013", frames[f"{name}_t4013"].drop_duplicates("ts")) for name in ("speed", "occupancy")
    )
    both = speed.rename_columns(["loop", "ts", "speed"]).join(
        occupancy.rename_columns(["loop", "ts", "occupancy"]), ["loop", "ts"], join_type="inner"
    )
    assert database.push("loops", both).accepted == len(both)
    bursts = pq.read_table(SPECTRA)
    counts = np.array(bursts["counts"].to_pylist()).reshape(len(bursts), bands, -1).sum(axis=2)
    columns = {
        "detector": ["potassium"] * len(bursts),
        "ts": bursts["time"],
        "counts": pa.array(counts.tolist(), pa.list_(pa.int32())),
    }
    assert database.push("detectors", pa.table(columns)).accepted == len(bursts)


def statistics(values: pd.Series[float]) -> dict[str, Any]:
    deviation = values.std()
    return {
        "n": len(values),
        "mean": values.mean(),
        "least": values.min(),
        "most": values.max(),
        "deviation": None if np.isnan(deviation) else deviation,
    }


def panes(rows: pd.DataFrame, width: pd.Timedelta) -> pd.DataFrame:
    """Windows that begin at whole hours and have rows, oldest first, with what the rows of each say."""
    ordered = rows.sort_values("ts", kind="stable")
    hours, values = ordered.ts.dt.floor("h"), ordered.value.to_numpy()
    starts = pd.DatetimeIndex(sorted({hour - back * HOUR for hour in set(hours) for back in range(width // HOUR)}))
    firsts, ends = hours.searchsorted(starts), hours.searchsorted(starts + width)
    inside = [values[first:end] for first, end in zip(firsts, ends, strict=True)]
    return pd.DataFrame(
        {
            "window_start": starts,
            "n": [len(some) for some in inside],
            "mean": [some.mean() for some in inside],
            "least": [some.min() for some in inside],
            "most": [some.max() for some in inside],
            "deviation": [some.std(ddof=1) if len(some) > 1 else np.nan for some in inside],
        }
    )


def compare(found: pa.Table, right: pd.DataFrame, what: str) -> None:
    """Column by column: there may be thousands of windows."""
    assert found.column("window_start").to_pylist() == list(right.window_start), what
    assert found.column("n").to_pylist() == list(right.n), what
    assert found.column("deviation").is_null().to_pylist() == list(right.deviation.isna()), what
    for column in ("mean", "least", "most", "deviation"):
        values = found.column(column).cast(pa.float64()).to_numpy()
        np.testing.assert_allclose(values, right[column].to_numpy(), rtol=1e-9, atol=1e-9, err_msg=f"{what} {column}")


def about(row: dict[str, Any]) -> dict[str, Any]:
    return {n: pytest.approx(v, rel=1e-9, abs=1e-9) if isinstance(v, float) else v for n, v in row.items()}
