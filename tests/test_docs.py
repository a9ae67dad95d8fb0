"""Documentation runs: examples are read by the product, lists are held against the code, links lead somewhere."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import shlex
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import ModuleType

import pytest

from penstock.catalog.model import TableOptions
from penstock.settings import SETTINGS, Settings

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "ARCHITECTURE.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "apps").rglob("*.md")),
]
SQL = ROOT / "docs" / "reference" / "sql"
# Pages whose links lead to all others.
INDEXES = [ROOT / "docs" / "index.md", SQL / "index.md", ROOT / "ARCHITECTURE.md"]
SPOKEN = [page for page in PAGES if "decisions" not in page.parts and page.name != "ARCHITECTURE.md"]


@dataclass(frozen=True)
class Block:
    """A fenced example. `bound` is False where the page says that it needs something that is not here."""

    page: Path
    line: int
    language: str
    text: str
    bound: bool

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks_of(page: Path, language: str) -> list[Block]:
    found, inside, previous = [], None, ""
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if inside is None and (opened := re.match(r"```(\w+)", line)):
            inside = (number + 1, opened.group(1), [], not previous.startswith("<!-- not bound"))
        elif inside is not None and line.startswith("```"):
            begin, spoken, lines, bound = inside
            if spoken == language:
                found.append(Block(page, begin, spoken, "\n".join(lines), bound))
            inside = None
        elif inside is not None:
            inside[2].append(line)
        previous = line
    return found


def all_blocks(language: str) -> list[Block]:
    return [block for page in PAGES for block in blocks_of(page, language)]


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_reference", ROOT / "scripts" / "generate_reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("block", all_blocks("sql"), ids=str)
def test_every_sql_example_is_read_by_the_parser(block: Block) -> None:
    from penstock.sql.parse import parse_script

    assert parse_script(block.text)


@pytest.mark.parametrize("block", all_blocks("python"), ids=str)
def test_every_python_example_is_python(block: Block) -> None:
    ast.parse(block.text)


@pytest.mark.parametrize("block", all_blocks("json"), ids=str)
def test_every_json_example_is_json(block: Block) -> None:
    json.loads(block.text)


@pytest.mark.parametrize(
    "name", ["settings.md", "errors.md", "connectors.md", "sinks.md", "system-tables.md", "functions.md", "cli.md"]
)
def test_a_generated_page_is_what_the_code_says_now(name: str) -> None:
    page = (ROOT / "docs" / "reference" / name).read_text()
    assert page == generator().PAGES[name](), "run `make reference`"


def test_every_setting_has_a_default_of_its_type_and_a_sentence() -> None:
    """The type of the default is what a text from a file, a variable or a flag is made into."""
    assert {s.name: type(s.default).__name__ for s in SETTINGS} == {f.name: f.type for f in fields(Settings)}
    assert all(s.sentence.endswith(".") for s in SETTINGS)
    assert {s.name: s.default for s in SETTINGS} == asdict(Settings())


def test_the_page_of_create_table_lists_every_option_of_a_table() -> None:
    text = (SQL / "create-table.md").read_text()
    for option in fields(TableOptions):
        name = option.name.removesuffix("_us")
        own = name in ("deduplicate", "watermark")  # a clause of its own, and what ALTER TABLE notes
        assert own or f"| `{name}` |" in text, f"create-table.md does not list the option {name}"


def test_every_statement_has_a_page_whose_synopsis_begins_with_it() -> None:
    from penstock.sql.parse import STATEMENT_WORDS

    # The index lists the words of transactions, which do nothing. VALUES alone is refused.
    other = {"BEGIN", "COMMIT", "END", "ROLLBACK", "START TRANSACTION", "VALUES"}
    whole = [block.text for page in sorted(SQL.glob("*.md")) for block in blocks_of(page, "text")]
    synopses = [*whole, *(re.sub(r"\[ [^\[\]]* \] ", "", text) for text in whole)]
    for words in STATEMENT_WORDS:
        statement = " ".join(words)
        if not words[0].isalpha():
            continue
        written = re.compile(r"^\W*(?:\w+ \| )*" + r"\W+(?:\w+ \| )*".join(words) + r"\b", re.MULTILINE)
        known = statement in other or any(written.search(synopsis) for synopsis in synopses)
        assert known, f"no page of the SQL reference has the synopsis of {statement}"


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "reference" / "sql").glob("*.md")), ids=lambda page: page.name)
def test_a_page_of_the_sql_reference_has_its_sections_in_one_order(page: Path) -> None:
    order = ["Synopsis", "Description", "Parameters", "Examples", "Notes", "See also"]
    sections = [title for title in re.findall(r"^## (.+)$", page.read_text(), re.MULTILINE) if title in order]
    assert sections == sorted(sections, key=order.index)
    assert page.name in ("index.md", "expressions.md") or sections[0] == "Synopsis"


def test_the_api_page_lists_every_call_and_no_other() -> None:
    from unittest.mock import Mock

    from penstock.server.app import create_app

    described = create_app(Mock(), Settings()).openapi()["paths"]
    calls = {f"{method.upper()} {path}" for path, methods in described.items() for method in methods}
    text = (ROOT / "docs" / "reference" / "api.md").read_text()
    listed = set(re.findall(r"^\| `((?:GET|POST|PATCH|DELETE|PUT) [^`]+)`", text, re.MULTILINE))
    assert listed == calls


def test_every_command_in_an_example_exists() -> None:
    known = set(
        re.findall(r"^## penstock ([\w-]+)", (ROOT / "docs" / "reference" / "cli.md").read_text(), re.MULTILINE)
    )
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)) | {".venv/.ready"}
    for block in all_blocks("sh"):
        for line in block.text.replace("\\\n", " ").splitlines():
            words = [word for word in shlex.split(line, comments=True) if "=" not in word or word.startswith("-")]
            if words and Path(words[0]).name == "penstock" and len(words) > 1:
                assert words[1] in known, f"{block}: there is no command penstock {words[1]}"
            if words and words[0] == "make":
                assert words[1] in targets, f"{block}: there is no target {words[1]}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_into_a_page_leads_to_a_heading(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", page.read_text()):
        aim = (page.parent / target) if target else page
        if "://" not in target and aim.suffix == ".md":
            assert anchor in anchors_of(aim), f"{page.relative_to(ROOT)} links to {target}#{anchor}"


def anchors_of(page: Path) -> set[str]:
    """The names by which links reach the headings of a page, made as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower() for title in titles]
    return {re.sub(r"[^\w\- ]", "", title).strip().replace(" ", "-") for title in plain}


def test_every_picture_is_shown_by_a_page_and_small() -> None:
    shown = {
        (page.parent / target).resolve()
        for page in PAGES
        for target in re.findall(r"!\[[^\]]+\]\(([^)\s]+)", page.read_text())
    }
    for picture in (ROOT / "docs" / "img").iterdir():
        assert picture in shown, f"no page shows {picture.name}"
        assert picture.stat().st_size <= 250_000, f"{picture.name} takes long to load"


def test_every_page_is_reached_from_the_index() -> None:
    reached = {
        (index.parent / target).resolve()
        for index in INDEXES
        for target in re.findall(r"\]\(([^)#\s]+)", index.read_text())
    }
    first = (INDEXES[0], ROOT / "README.md")
    missing = [str(page.relative_to(ROOT)) for page in SPOKEN if page not in (*reached, *first)]
    assert missing == []


@pytest.mark.parametrize("page", [*SPOKEN, ROOT / "CHANGELOG.md"], ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_its_actors(page: Path) -> None:
    """The reader, the planner, a client; generated pages have the sentences of the code."""
    text = page.read_text()
    if "Written by scripts/generate_reference.py" not in text:
        found = re.findall(r"(?i)\b(?:whoever|whom|nobody|somebody|anybody|everybody|someone)\b", text)
        assert found == []
