"""Write the pages of docs/reference that are lists of what the code has: settings, errors, functions, commands.

`make reference` writes them; tests/test_docs.py fails when a page is not what this would write.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import typer.main

from penstock.errors import CONDITIONS
from penstock.sensors.registry import BUILT_IN
from penstock.settings import SETTINGS
from penstock.types import Type

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "reference"
_NOTE = "<!-- Written by scripts/generate_reference.py; change the code and run `make reference`. -->"


def settings_page() -> str:
    """One row per setting, in the order of the code."""
    rows = [
        f"| `{s.name}` | {_code(s.default)} | `PENSTOCK_{s.name.upper()}` | {_cell(s.sentence)} |" for s in SETTINGS
    ]
    return "\n".join(
        [
            "# Settings",
            "",
            _NOTE,
            "",
            "A flag of `penstock serve` wins over a `PENSTOCK_*` variable, and that over the file `penstock.toml` in the",
            "folder where the server starts. The file has one line per setting: `port = 8470`.",
            "",
            "| setting | default | variable | what it does |",
            "| --- | --- | --- | --- |",
            *rows,
            "",
        ]
    )


def errors_page() -> str:
    """One row per condition, in the order of the code."""
    rows = [f"| `{c.name}` | {c.sqlstate} | {c.status} | {_cell(_message(c.template))} |" for c in CONDITIONS.values()]
    return "\n".join(
        [
            "# Errors",
            "",
            _NOTE,
            "",
            "Every error has a condition (a name that never changes), an SQLSTATE, an HTTP status and a message. Often it has",
            "a hint, and, where there is SQL, the place in it. Programs should look at the condition; messages may be reworded.",
            "",
            "| condition | SQLSTATE | HTTP | message |",
            "| --- | --- | --- | --- |",
            *rows,
            "",
        ]
    )


def connectors_page() -> str:
    """A section per built-in connector with its options."""
    lines = [
        "# Connectors",
        "",
        _NOTE,
        "",
        "A connector is a way to reach sensors: the word after `USING` in `CREATE STREAM TYPE`. Pull connectors are asked for",
        "readings, push connectors hand them over. [My own sensor](../howto/own-sensor.md) says how to add one.",
    ]
    for connector in sorted(BUILT_IN, key=lambda c: c.name):
        kind = {
            "pull": "Pull.",
            "push": "Push.",
            "outside": "Nothing is opened.",
            "subscribed": "Read for a whole table.",
        }[connector.mode]
        lines += ["", f"## {connector.name}", "", f"{connector.sentence} {kind}"]
        if connector.options:
            lines += ["", "| option | default | what it does |", "| --- | --- | --- |"]
            lines += [
                f"| `{o.name}` | {'required' if o.default is None else _code(o.default)} | {_cell(o.sentence)} |"
                for o in connector.options
            ]
    return "\n".join([*lines, ""])


def sinks_page() -> str:
    """A section per kind of sink with its promise and its options."""
    from penstock.sinks.registry import KINDS

    lines = [
        "# Sinks",
        "",
        _NOTE,
        "",
        "A kind of sink is the word after `TO` in [CREATE SINK](sql/create-sink.md). [Send results](../howto/send-results.md) shows",
        "them at work.",
    ]
    for kind in KINDS.values():
        lines += ["", f"## {kind.name}", "", f"{kind.sentence} Promise: {kind.promise}."]
        lines += ["", "| option | default | what it does |", "| --- | --- | --- |"]
        lines += [
            f"| `{o.name}` | {'required' if o.default is None else _code(o.default)} | {_cell(o.sentence)} |"
            for o in kind.options
        ]
    return "\n".join([*lines, ""])


def system_tables_page() -> str:
    """The columns of each table penstock.*."""
    from penstock.catalog.system_columns import SYSTEM_COLUMNS

    lines = [
        "# System tables",
        "",
        _NOTE,
        "",
        "The server answers about itself in tables that can be queried like any other. They hold what is so when they are asked;",
        "counts and costs begin at the start of the server unless something else is said.",
        "",
        "`penstock.fields` says how values are distributed. It rests on a sample of what was logged since the server started:",
        "each second at most 1000 readings of each of four tables, from four files. So it costs ingest nothing, and a value that",
        "came once may be missing.",
    ]
    for name, columns in SYSTEM_COLUMNS.items():
        lines += ["", f"## {name}", "", "| column | type | what it holds |", "| --- | --- | --- |"]
        lines += [f"| `{column.name}` | {column.type} | {_cell(column.sentence)} |" for column in columns]
    return "\n".join([*lines, ""])


def functions_page() -> str:
    """One row per function, by kind, in the order of the code."""
    from penstock.sql.functions import FUNCTIONS

    lines = [
        "# Functions",
        "",
        _NOTE,
        "",
        "These are all functions that a statement may call, besides [those of your own](sql/create-function.md),",
        "[RESAMPLE](sql/resample.md) and the [approximate",
        "aggregates](sql/approximate-aggregates.md). Any other name is refused with `function_not_found`, also inside CAST.",
        "",
        "| word | stands for |",
        "| --- | --- |",
        "| `number` | INT, BIGINT, DOUBLE or DECIMAL |",
        "| `real` | a number; DECIMAL is taken as DOUBLE |",
        "| `common` | values that meet in one type |",
        "| `any` | a value of any type |",
        "| `array`, `element` | an array, and a value of its elements' type |",
        "| `unit` | a part of a time, such as `'hour'` |",
        "| `same` | the type of the first argument |",
        "| `sum` | BIGINT for whole numbers, else the argument's type |",
        "| `average` | DOUBLE; the average of durations is a duration |",
        "",
        "`[, x]` may be left out, and `...` repeats what is before it. The text of `repeat`, `lpad` and `rpad` has at most",
        "1 000 000 characters: a longer one is NULL.",
    ]
    for kind, title in (("scalar", "Of values"), ("aggregate", "Aggregates"), ("ranking", "Only with OVER (...)")):
        lines += ["", f"## {title}", "", "| function | takes | gives |", "| --- | --- | --- |"]
        for function in FUNCTIONS:
            if function.kind == kind:
                names = ", ".join(f"`{name}`" for name in function.names)
                takes = f"`{function.arguments}`" if function.arguments else ""
                lines.append(f"| {names} | {takes} | `{function.result}` |")
    return "\n".join([*lines, *_mining(), *_differences(), ""])


def _mining() -> list[str]:
    """The mining functions: each with its own named arguments, and those that all have once."""
    from penstock.operators.mining.registry import EVERY, FUNCTIONS, SLOT

    lines = ["", "## Mining", "", "Aggregates of a series, with [named arguments](sql/mining.md).", ""]
    lines += ["| function | gives | what it is |", "| --- | --- | --- |"]
    for function in FUNCTIONS.values():
        names = ", ".join((*function.signature, *(p.name for p in function.own if p.name not in function.signature)))
        result = str(function.result) if isinstance(function.result, Type) else "ARRAY of BIGINT or DOUBLE"
        lines.append(f"| `{function.name}({names})` | `{result}` | {_cell(function.sentence)} |")
    lines += ["", "| argument of | name | takes | default | what it is |", "| --- | --- | --- | --- | --- |"]
    every_function = [("all of a series", parameter) for parameter in (EVERY, SLOT)]
    own = [(f"`{f.name}`", parameter) for f in FUNCTIONS.values() for parameter in f.own]
    for whose, parameter in (*every_function, *own):
        shown = "required" if parameter.required else parameter.usual
        if parameter.default is not None:
            shown = f"`{str(parameter.default).lower()}`"
        lines.append(f"| {whose} | `{parameter.name}` | {parameter.takes} | {shown} | {_cell(parameter.sentence)} |")
    return lines


def _differences() -> list[str]:
    from scripts.postgres_differences import DIFFERENCES, LACKING, NOTES

    lines = ["", "## Differences from PostgreSQL", ""]
    lines += ["Functions mean what they mean in PostgreSQL 15, except for these. `error` is a SQLSTATE.", ""]
    lines += ["| function | example | PostgreSQL | Penstock | why |", "| --- | --- | --- | --- | --- |"]
    for d in DIFFERENCES:
        ours = "NULL" if d.penstock is None else str(d.penstock)
        lines.append(f"| `{d.function}` | `{_cell(d.call)}` | {d.postgres} | {ours} | {_cell(d.reason)} |")
    lines += ["", *(f"- {note}" for note in NOTES)]
    names = ", ".join(f"`{name}`" for name in sorted(LACKING))
    return [*lines, "", f"PostgreSQL has no functions of these names; most mean what they mean in Spark: {names}."]


def commands_page() -> str:
    """A section per command of the command line with its arguments and options."""
    from penstock.cli.main import app

    lines = [
        "# Command line",
        "",
        _NOTE,
        "",
        "Data goes to standard output, progress and errors to standard error; the exit code is not 0 on failure. Every command",
        "has `--help`.",
    ]
    for path, command in _commands(typer.main.get_command(app), "penstock"):
        lines += ["", f"## {path}", "", " ".join((command.help or "").split("\f")[0].split())]
        lines += ["", "```sh", _usage(path, command), "```"]
        rows = [row for parameter in command.params if (row := _parameter(parameter))]
        if rows:
            lines += ["", "| argument or option | default | what it does |", "| --- | --- | --- |", *rows]
    return "\n".join([*lines, ""])


# Typer vends its own copy of click's classes, so commands and parameters are taken by their attributes.
def _commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    children = getattr(command, "commands", None)
    if children is None:
        yield path, command
        return
    for name in children:
        if not children[name].hidden:
            yield from _commands(children[name], f"{path} {name}")


def _usage(path: str, command: Any) -> str:
    words = [path]
    if any(p.param_type_name == "option" and p.name != "help" for p in command.params):
        words.append("[OPTIONS]")
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            name = str(parameter.metavar or parameter.name).upper()
            words.append(name if parameter.required else f"[{name}]")
    return " ".join(words)


def _parameter(parameter: Any) -> str | None:
    if parameter.name == "help" or getattr(parameter, "hidden", False):
        return None
    if parameter.param_type_name == "argument":
        spelled = f"`{str(parameter.metavar or parameter.name).upper()}`"
    else:
        spelled = ", ".join(f"`{word}`" for word in [*parameter.opts, *parameter.secondary_opts])
    default = parameter.default
    if parameter.required:
        shown = "required"
    elif default in (None, "", False, ()) or callable(default):
        shown = ""
    else:
        shown = _code(default)
    return f"| {spelled} | {shown} | {_cell(getattr(parameter, 'help', None) or '')} |"


def _message(template: str) -> str:
    return "says what is wrong" if template == "{detail}" else template.replace("{", "*").replace("}", "*")


def _code(value: object) -> str:
    return f"`{value}`" if value != "" else "empty"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


PAGES: dict[str, Callable[[], str]] = {
    "settings.md": settings_page,
    "errors.md": errors_page,
    "connectors.md": connectors_page,
    "sinks.md": sinks_page,
    "system-tables.md": system_tables_page,
    "functions.md": functions_page,
    "cli.md": commands_page,
}


def main() -> int:
    sys.path.insert(0, str(ROOT))  # `scripts` is a package only from there
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page())
        print(f"wrote docs/reference/{name}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
