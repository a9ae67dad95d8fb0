"""Tests do not patch internals: `setattr` of a monkeypatch lowers constants and makes the outside world fail, nothing else.

Nor do they assign to what is private in an object of ours, to its methods, or to names of our modules and classes. Whatever else a test needs has a seam: a parameter, a clock, a session of Spark, an operator of its own (`support.trap`), a
file that is damaged, or a look from outside (`support.watched`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[1]
SOURCE = Path(__file__).parents[2] / "src"
METHOD = re.compile(r"^(?<!property\n)    def (\w+)\(\s*self", re.MULTILINE)
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


def imported(nodes: list[ast.AST]) -> dict[str, str]:
    """By name in a file, what it stands for: a dotted name. Classes and functions of the file itself are of the tests."""
    found: dict[str, str] = {}
    for node in nodes:
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


def patches(nodes: list[ast.AST]) -> Iterator[tuple[str | None, str]]:
    """What is patched, and its name, of each `setattr` of a monkeypatch."""
    names = imported(nodes)
    for node in nodes:
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "setattr"):
            continue
        target, name = node.args[0], node.args[1]
        if isinstance(target, ast.Constant):
            whole, _, last = str(target.value).rpartition(".")
            yield whole, last
        else:
            # A name that is only known when the test runs is a question mark.
            yield dotted(target, names), str(name.value) if isinstance(name, ast.Constant) else "?"


# By file, the names that a test assigns to all the same, and why.
ASSIGNED: dict[str, dict[str, str]] = {
    "operators/sparksql/test_evaluator.py": {"step": "a bug in a round itself, in which nothing outside takes part"},
    "security/test_strangers.py": {"step": "a bug in a round itself, in which nothing outside takes part"},
    "sensors/test_mqtt_lean.py": {
        "_in_packet": "another version of paho, which keeps packets otherwise",
        "_sock": "a client of paho on a socket of the test",
    },
    "server/serve_fake.py": {"configured": "a server process whose patience is longer than the test"},
    "streams/ingest/test_ingest.py": {"find": "an entry that comes between two looks of one push"},
    "support/launch.py": dict.fromkeys(
        ("PenstockSource", "_commit_cycle", "crash_point"),
        "`penstock serve` as a process, which dies or fails at a step",
    ),
    "test_services.py": {"step": "a bug in a round itself, in which nothing outside takes part"},
    "views/test_follower.py": {"apply": "a fold fails half-way, in which nothing outside takes part"},
    "views/test_memory.py": {"is_ready": "a query is dropped between two looks of one reader"},
}


def names_of_methods() -> set[str]:
    """The names of all methods of our classes, without properties."""
    return {name for path in SOURCE.rglob("*.py") for name in METHOD.findall(path.read_text())}


@cache
def found_in_files() -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """The names that each file of the tests assigns to, and those that it patches, where they are internals of ours."""
    assigned: dict[str, set[str]] = {}
    patched: dict[str, set[str]] = {}
    methods = names_of_methods()
    for path in TESTS.rglob("*.py"):
        file, nodes = str(path.relative_to(TESTS)), list(ast.walk(ast.parse(path.read_text())))
        for name in assignments(nodes, methods):
            assigned.setdefault(file, set()).add(name)
        for target, name in patches(nodes):
            if not name.strip("_").isupper() and not is_outside(target):
                patched.setdefault(file, set()).add(name)
    return assigned, patched


def assignments(nodes: list[ast.AST], methods: set[str]) -> Iterator[str]:
    """The attributes that a file assigns to, which are private, a method, or of one of our modules or classes."""
    names = imported(nodes)
    functions = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    made_here: dict[str, str] = {}  # by the name of an object, its class or what made it
    for node in nodes:
        if isinstance(node, ast.arg) and isinstance(node.annotation, ast.Name) and node.annotation.id in names:
            made_here[node.arg] = names[node.annotation.id]
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and isinstance(node.targets[0], ast.Name):
            made = dotted(node.value.func, names)
            if made is not None:
                made_here[node.targets[0].id] = made
    for statement in nodes:
        if not isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Delete):
            continue
        value = getattr(statement, "value", None)
        is_code = isinstance(value, ast.Lambda) or (isinstance(value, ast.Name) and value.id in functions)
        for node in ast.walk(statement):
            if not isinstance(node, ast.Attribute) or isinstance(node.ctx, ast.Load):
                continue
            if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
                continue  # an object of the tests
            target = dotted(node.value, names)
            if target is not None:
                is_patch = not is_outside(target) and not node.attr.isupper()
            else:
                hidden = node.attr.startswith("_") or (is_code and node.attr in methods)
                is_patch = hidden and not is_outside(dotted(node.value, made_here))
            if is_patch:
                yield node.attr


def test_tests_assign_to_nothing_that_is_private() -> None:
    found, _ = found_in_files()
    assert found == {file: set(reasons) for file, reasons in ASSIGNED.items()}


def test_tests_patch_constants_and_the_outside_world_only() -> None:
    _, found = found_in_files()
    assert found == {file: set(reasons) for file, reasons in EXCEPTIONS.items()}
