"""Compile the kernels before they are needed: once per installation, and again when their sources change.

Numba keeps the machine code on disk. A stamp beside it says what it was made from, so that a start knows in
milliseconds that nothing is to be done.
"""

from __future__ import annotations

import hashlib
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numba
from numba.core.registry import cpu_target

import penstock.expr
import penstock.operators
import penstock.streams
from penstock.expr.kernel import cache_folder

_log = logging.getLogger("penstock.pipeline")
_STAMP = "kernels.compiled"


def compile_kernels(progress: Callable[[str], None], folder: Path | None = None) -> None:
    """Fill the cache if it does not fit these sources. Soft: what is missing is compiled at its first use.

    The stamp is in `folder`; by default beside the machine code.
    """
    folder = folder or cache_folder()
    if folder is None:
        return  # nothing that is compiled here would be there for others
    stamp, wanted = folder / _STAMP, _fingerprint()
    try:
        if stamp.is_file() and stamp.read_text() == wanted:
            return
        if _compile_all(progress):
            stamp.write_text(wanted)
    except OSError as failure:
        _log.warning("kernels could not be compiled ahead: %s", failure)


def _compile_all(progress: Callable[[str], None]) -> bool:
    # Here, because it loads every operator: only a start that has to compile waits for that.
    from penstock.pipeline.kernel_warmup import PARTS

    progress("compiling kernels, once per installation")
    good = True
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        for done, failure in enumerate(pool.map(_compile, PARTS), 1):
            if failure:
                _log.warning("kernels could not be compiled ahead: %s", failure)
                good = False
            progress(f"compiling kernels, {done} of {len(PARTS)}")
    return good


def _compile(part: str) -> str:
    """In a process of its own: compiling holds the interpreter's lock. What went wrong, or nothing."""
    command = [sys.executable, "-m", "penstock.pipeline.kernel_warmup", part]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else "\n".join(done.stderr.splitlines()[-1:]) or f"code {done.returncode}"


def _fingerprint() -> str:
    """Another one where Numba would compile again: other sources, another compiler or another processor."""
    processor = cpu_target.target_context.codegen().magic_tuple()
    made_of = hashlib.sha256(f"{sys.version} {numba.__version__} {processor}".encode())
    for package in (penstock.expr, penstock.operators, penstock.streams):
        for source in sorted(Path(package.__path__[0]).rglob("*.py")):
            text = source.read_bytes()
            if b"@kernel" in text:
                made_of.update(str(source).encode() + text)
    made_of.update(Path(__file__).with_name("kernel_warmup.py").read_bytes())
    return made_of.hexdigest()
