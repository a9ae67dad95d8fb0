"""The libraries that mining functions are compared with: each in an environment of its own, asked with a file, answering JSON."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.joins_peers import HERE, run_peer
from bench.peer_environments import PEERS, install
from bench.report import Report


@dataclass(frozen=True)
class Peer:
    """`module` is what it is imported as. Its script is `bench/peers/mining_KEY.py`."""

    name: str
    requirement: str
    module: str


PEERS_BY_KEY = {
    "river": Peer("River", "river==0.26.1", "river"),
    "stumpy": Peer("stumpy", "stumpy==1.14.1", "stumpy"),
    "ruptures": Peer("ruptures", "ruptures==1.1.10", "ruptures"),
    "sklearn": Peer("scikit-learn", "scikit-learn==1.9.1", "sklearn"),
    "statsforecast": Peer("statsforecast", "statsforecast==2.1.1", "statsforecast"),
    "pami": Peer("PAMI", "PAMI==2026.10.13.1", "PAMI"),
    "prefixspan": Peer("prefixspan", "prefixspan==0.5.2", "prefixspan"),
}


def ask_peer(
    report: Report, key: str, task: Mapping[str, Any], arrays: Mapping[str, np.ndarray] | None = None
) -> dict[str, Any] | None:
    """What the peer's script says at its end; None, and said, where it cannot be installed or fails."""
    peer = PEERS_BY_KEY[key]
    home = PEERS / f"mining-{key}"
    python = install(report, peer.name, home, [peer.requirement], peer.module, "up to two minutes")
    if python is None:
        return None
    with tempfile.TemporaryDirectory(prefix="penstock-peers-") as temporary:
        folder = Path(temporary)
        np.savez(folder / "arrays.npz", **(arrays or {}))
        path = folder / "task.json"
        path.write_text(json.dumps({**task, "arrays": str(folder / "arrays.npz")}))
        return run_peer(report, peer.name, [str(python), str(HERE / "peers" / f"mining_{key}.py"), str(path)])
