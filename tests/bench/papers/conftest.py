"""What `make soak` runs in full, `make test` runs on few rows: the server does not use this code."""

from __future__ import annotations

from bench.papers.compilation import interpret_kernels
from tests.bench.papers.sizes import SOAK

if not SOAK:
    interpret_kernels()
