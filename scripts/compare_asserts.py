"""Compare the checks of the tests in two commits: `python scripts/compare_asserts.py BEFORE AFTER`.

A check is an `assert`, a `pytest.raises`, a call of a helper named check, expect or assert, or an expected line of a
golden or behaviour script. Files and tests may move: checks are compared by their normalised text, wherever they stand. What is
missing is paired, within the test of the same name, with a new check of the same shape (only names differ) or of similar
text (reworded). What remains is gone and needs an explanation.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher

HELPER = re.compile(r"^_?(check|expect|assert)(_|$)")
SIMILAR = 0.6


@dataclass(frozen=True)
class Check:
    """One check of a test: where it stands, and its text without layout."""

    file: str
    test: str
    text: str


def files_of(commit: str) -> Iterator[tuple[str, str]]:
    """The test files of a commit, each with its text."""
    listed = subprocess.run(
        ["git", "ls-tree", "-r", "--name-only", commit, "tests"], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    wanted = [name for name in listed if name.endswith((".py", ".sql", ".txt"))]
    asked = "".join(f"{commit}:{name}\n" for name in wanted).encode()
    given = subprocess.run(["git", "cat-file", "--batch"], input=asked, check=True, capture_output=True).stdout
    for name in wanted:
        header, _, given = given.partition(b"\n")
        size = int(header.rsplit(b" ", 1)[1])
        yield name, given[:size].decode()
        given = given[size + 1 :]


def name_of(function: ast.expr) -> str:
    match function:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def text_of(node: ast.AST) -> str | None:
    """The normalised text of a check; None for any other node."""
    match node:
        case ast.Assert(test=test):
            return f"assert {ast.unparse(test)}"
        case ast.withitem(context_expr=ast.Call(func=function) as call) if name_of(function) == "raises":
            return ast.unparse(call)
        case ast.Expr(value=ast.Call(func=function) as call) if HELPER.match(name_of(function)):
            return ast.unparse(call)
    return None


def checks_below(node: ast.AST, file: str, test: str) -> Iterator[Check]:
    for child in ast.iter_child_nodes(node):
        if (text := text_of(child)) is not None:
            yield Check(file, test, text)
        within = test
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and child.name.startswith("test_"):
            within = child.name
        yield from checks_below(child, file, within)


def checks_of(commit: str) -> list[Check]:
    found: list[Check] = []
    for file, text in files_of(commit):
        if file.endswith(".py"):
            found += checks_below(ast.parse(text), file, "")
        else:
            found += (Check(file, "", line.rstrip()) for line in text.splitlines() if line.startswith("--|"))
    return found


def unmatched(these: Iterable[Check], others: Iterable[Check]) -> list[Check]:
    """The checks whose text the others do not have, or have fewer times.

    Of checks with one text, those in a test that the others also have are matched first.
    """
    counted = Counter(c.text for c in others)
    in_test = Counter((c.test, c.text) for c in others)
    left: list[Check] = []
    for check in these:
        if in_test[check.test, check.text]:
            in_test[check.test, check.text] -= 1
            counted[check.text] -= 1
        else:
            left.append(check)
    alone: list[Check] = []
    for check in left:
        if counted[check.text] > 0:
            counted[check.text] -= 1
        else:
            alone.append(check)
    return alone


def shape(text: str) -> str:
    """The text with every name masked."""
    return re.sub(r"[A-Za-z_]\w*", "_", text)


def pair(missing: list[Check], new: list[Check]) -> tuple[list[tuple[Check, Check]], list[Check]]:
    """The missing checks with what replaced them in the test of the same name; and the others."""
    by_test: dict[str, list[Check]] = defaultdict(list)
    for check in new:
        by_test[check.test or check.file].append(check)
    replaced: list[tuple[Check, Check]] = []
    gone: list[Check] = []
    for check in missing:
        found = by_test[check.test or check.file]
        best = max(
            found,
            key=lambda c: (shape(c.text) == shape(check.text), SequenceMatcher(None, c.text, check.text).ratio()),
            default=None,
        )
        alike = best is not None and (
            shape(best.text) == shape(check.text) or SequenceMatcher(None, best.text, check.text).ratio() >= SIMILAR
        )
        if best is None or not alike:
            gone.append(check)
            continue
        found.remove(best)
        replaced.append((check, best))
    return replaced, gone


def main(before: str, after: str) -> int:
    old, now = checks_of(before), checks_of(after)
    missing, new = unmatched(old, now), unmatched(now, old)
    replaced, gone = pair(missing, new)
    same_shape = [(a, b) for a, b in replaced if shape(a.text) == shape(b.text)]
    reworded = [(a, b) for a, b in replaced if shape(a.text) != shape(b.text)]
    tests = {name for _, text in files_of(after) for name in re.findall(r"def (test_\w+)", text)}
    print(f"{before}: {len(old)} checks; {after}: {len(now)} checks")
    print(f"unchanged {len(old) - len(missing)}, renamed {len(same_shape)}, reworded {len(reworded)}, gone {len(gone)}")
    print(f"new {len(new) - len(replaced)}")
    for title, pairs in (("renamed", same_shape), ("reworded", reworded)):
        print(f"\n== {title}: {len(pairs)}")
        for a, b in pairs:
            print(f"{a.file}::{a.test}\n  - {a.text}\n  + {b.text}")
    print(f"\n== gone: {len(gone)}")
    place = ""
    for check in gone:
        if place != (place := f"{check.file}::{check.test}"):
            print(place + ("" if not check.test or check.test in tests else " (no test of this name)"))
        print(f"  - {check.text}")
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    raise SystemExit(main(sys.argv[1], sys.argv[2]))
