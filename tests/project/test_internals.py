"""The pages about the code name only what is there: each name in ARCHITECTURE.md and docs/internals is looked up in the source."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from penstock.errors import CONDITIONS
from penstock.settings import SETTINGS

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "penstock"
INTERNALS = ROOT / "docs" / "internals"
PAGES = [ROOT / "ARCHITECTURE.md", *sorted(INTERNALS.glob("*.md"))]
WALKS = "reading cycle subscriber statement select window-join aggregate restart".split()
NAMES_MAX = 10
SUBSCRIBER_MODULES_MAX = 8
# Words in code marks that are no names of ours: columns, options and facts that the page explains itself.
WORDS = {
    "ts",
    "_at",
    "at",
    "runs",
    "kernel",
    "operator",
    "plan.py",
    "rule.py",
    "state.py",
    "step.py",
    "view.py",
    "explain.py",
    "once.py",
    "RULE",
    "VIEW",
    "lines",
    "to_json",
    "from_json",
    "_vid",
    "ppm",
    "head",
    "end",
    "penstock.connect",
    "penstock.services",
}


def quoted(text: str) -> list[str]:
    """What stands in code marks and could be a Python name, outside of fenced blocks."""
    plain = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return [name for name in re.findall(r"`([^`\n]+)`", plain) if re.fullmatch(r"[A-Za-z_]\w*(\.\w+)*", name)]


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def module_of(name: str) -> tuple[Path, list[str]] | None:
    """The module or package that a dotted name begins with, and the names inside of it."""
    parts = name.removesuffix(".py").split(".")
    for count in range(len(parts), 0, -1):
        place = SOURCE.joinpath(*parts[:count])
        if place.with_suffix(".py").is_file():
            return place.with_suffix(".py"), parts[count:]
        if (place / "__init__.py").is_file():
            return place / "__init__.py", parts[count:]
    return None


def defined(body: list[ast.stmt], name: str) -> list[ast.stmt] | None:
    """The body of a class or function, or nothing where another kind of statement gives the name."""
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            return node.body
        if isinstance(node, ast.ImportFrom) and any((a.asname or a.name) == name for a in node.names):
            return []
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return []
    return None


@cache
def exists(name: str) -> bool:
    found = module_of(name)
    if found is None:
        return False
    path, rest = found
    body: list[ast.stmt] | None = tree_of(path).body
    for part in rest:
        body = defined(body or [], part)
        if body is None:
            return False
    return True


def listed(page: Path) -> list[str]:
    """The names in the table of a page."""
    table = page.read_text().split("## Names", 1)[-1].split("\n## ", 1)[0]
    return [name for line in table.splitlines() if line.startswith("| ") for name in quoted(line)[:1]]


def known(name: str, page: Path) -> bool:
    if name in WORDS or name in CONDITIONS or name in {setting.name for setting in SETTINGS}:
        return True
    if any(full == name or full.endswith(f".{name}") for full in names_of(page)):
        return True
    if (SOURCE / "operators" / name / "__init__.py").is_file():
        return True
    owners = [full for full in names_of(page) if full.rsplit(".", 1)[-1] == name.split(".")[0]]
    return exists(name) or any(exists(f"{full}.{name.split('.', 1)[1]}") for full in owners if "." in name)


@cache
def names_of(page: Path) -> set[str]:
    return {name for name in quoted(page.read_text()) if "." in name and exists(name)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_name_on_a_page_about_the_code_is_in_the_source(page: Path) -> None:
    names = [name for name in quoted(page.read_text()) if "." in name or "_" in name or not name.islower()]
    words = {name for name in names if name.isupper()}  # SQL
    missing = sorted({name for name in names if name not in words and not known(name, page)})
    assert missing == [], f"{page.name} names what is not in the source"


@pytest.mark.parametrize("walk", WALKS)
def test_a_walk_through_lists_at_most_ten_names_and_all_of_them_are_in_the_source(walk: str) -> None:
    page = INTERNALS / f"{walk}.md"
    names = listed(page)
    assert len(names) >= 5
    assert [name for name in names if not exists(name)] == []
    assert len({*names, *names_of(page)}) <= NAMES_MAX


def test_a_commit_record_reaches_its_subscribers_through_at_most_eight_modules() -> None:
    modules = {module_of(name)[0] for name in listed(INTERNALS / "subscriber.md")}  # type: ignore[index]
    assert len(modules) <= SUBSCRIBER_MODULES_MAX


def test_the_map_lists_every_package_and_every_page_about_the_code() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert sorted(packages - set(quoted(text))) == []
    (row,) = (line for line in text.splitlines() if line.startswith("| `operators` |"))
    operators = {path.parent.name for path in (SOURCE / "operators").glob("*/__init__.py")} - {"base"}
    assert sorted(operators ^ (set(quoted(row)) - {"operators"})) == []
    assert [page.name for page in PAGES[1:] if f"docs/internals/{page.name}" not in text] == []
    assert len(text.splitlines()) <= 100, "the map fits on a page"
