"""Tests do not patch internals: `setattr` of a monkeypatch lowers constants and makes the outside world fail, nothing else.

Whatever else a test needs has a seam: a parameter, a clock, a session of Spark, an operator of its own (`support.trap`), a
file that is damaged, or a look from outside (`support.watched`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
OURS = ("penstock", "apps", "bench")
SYSTEM = ("os", "sys", "time", "socket", "shutil", "fcntl")  # also as a module of ours has imported them: `journal.os`

# By file, the names that a test patches all the same, and why.
EXCEPTIONS: dict[str, dict[str, str]] = {
    "database/test_quarantine.py": {
        "fold": "a bug in the slices of one family: only they know the queries that use them"
    },
    "operators/aggregate/test_cell_files.py": {
        "read_snapshot": "one read fails for a passing reason, after the file was looked at for damage",
        "remove_orphans": "one read fails for a passing reason, after the file was looked at for damage",
    },
    "operators/join/steps/test_shared_failures.py": {
        "MemberResults": "a bug in the common step of joins that run as one"
    },
    "operators/join/steps/test_shared_parts.py": {
        "Benefit": "workers decide by measured times; here by a random number"
    },
    "oracle/joins/groups.py": {"together": "workers decide by measured times; here by a random number"},
    "spark/test_statement_limits.py": {
        "_settings": "one database with Spark serves all tests, with its own time limit"
    },
    "support/interrupting.py": {
        "_lock": "goes through all moments before the lock of the answers is taken",
        "state": "goes through all moments before the catalog is looked at",
    },
    "views/test_answer_store.py": {"?": "a fold fails in each of its stages, in which nothing outside takes part"},
}


def imported(tree: ast.Module) -> dict[str, str]:
    """By name in a file, what it stands for: a dotted name. Classes and functions of the file itself are of the tests."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ClassDef):
            found[node.name] = f"tests.{node.name}"
    return found


def dotted(node: ast.expr, names: dict[str, str]) -> str | None:
    """The dotted name of an expression; None where the file does not say what it begins with."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        if node.attr in SYSTEM:
            return node.attr
        inner = dotted(node.value, names)
        return inner and f"{inner}.{node.attr}"
    if isinstance(node, ast.Call):
        return dotted(node.func, names)
    return None


def is_outside(target: str | None) -> bool:
    """Whether a patch concerns the system, another library, or what the tests have made themselves."""
    return target is not None and target.split(".")[0] not in OURS


def patches(tree: ast.Module) -> Iterator[tuple[str | None, str]]:
    """What is patched, and its name, of each `setattr` of a monkeypatch."""
    names = imported(tree)
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "setattr"):
            continue
        target, name = node.args[0], node.args[1]
        if isinstance(target, ast.Constant):
            whole, _, last = str(target.value).rpartition(".")
            yield whole, last
        else:
            # A name that is only known when the test runs is a question mark.
            yield dotted(target, names), str(name.value) if isinstance(name, ast.Constant) else "?"


def test_tests_patch_constants_and_the_outside_world_only() -> None:
    found: dict[str, set[str]] = {}
    for path in sorted(TESTS.rglob("*.py")):
        for target, name in patches(ast.parse(path.read_text())):
            if not name.strip("_").isupper() and not is_outside(target):
                found.setdefault(str(path.relative_to(TESTS)), set()).add(name)
    assert found == {file: set(reasons) for file, reasons in EXCEPTIONS.items()}
