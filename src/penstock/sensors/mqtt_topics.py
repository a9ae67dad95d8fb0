"""Topics with names in them: 'plant/{site}/{sensor}/ppm' subscribes to plant/+/+/ppm and reads two columns from each topic.

`{name}` is a level, or a part of one, that gives a static column its value; `+name` is another way to write `{name}`. `+` and `#` mean what MQTT
means by them. `{field}`, where no static column is called so, says which field a plain value is for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

FIELD = "field"
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_NAMED_LEVEL = re.compile(r"\+([A-Za-z_]\w*)")
_SHARED = re.compile(r"(\$share/[^/+#]+/)(.+)", re.S)
_TOPIC_MOST = 65_535
_REMEMBERED = 100_000  # topics with values that are kept; beyond it each is read again


class TopicPattern:
    """What to subscribe to, and what a topic says. ValueError with a sentence where it cannot be a topic."""

    def __init__(self, spelled: str) -> None:
        shared = _SHARED.fullmatch(spelled)
        prefix, levels = (shared.group(1), shared.group(2)) if shared else ("", spelled)
        check_filter(levels.replace("{", "").replace("}", "") or levels)
        self.names: list[str] = []
        filters: list[str] = []
        patterns: list[str] = []
        for level in levels.split("/"):
            named = _NAMED_LEVEL.fullmatch(level)
            if named:
                level = "{" + named.group(1) + "}"
            filters.append(level if level in ("+", "#") else "+" if _PLACEHOLDER.search(level) else level)
            patterns.append(self._pattern(level))
        self.filter = prefix + "/".join(filters)
        check_filter("/".join(filters))
        if len(set(self.names)) < len(self.names):
            raise ValueError(f'"{spelled}" names a column twice')
        # '#' stands for the levels below and for none at all, so the slash before it belongs to it.
        self._regex = re.compile("/".join(patterns).replace("/(?:.*)", "(?:/.*)?"), re.S)
        self._known: dict[str, dict[str, str] | None] = {}

    def _pattern(self, level: str) -> str:
        if level == "+":
            return "[^/]*"
        if level == "#":
            return "(?:.*)"
        pattern, at = "", 0
        for found in _PLACEHOLDER.finditer(level):
            name = found.group(1).strip()
            if not name:
                raise ValueError(f'"{level}" has braces without a name')
            self.names.append(name)
            pattern += re.escape(level[at : found.start()]) + "([^/]+)"
            at = found.end()
        return pattern + re.escape(level[at:])

    def values(self, topic: str) -> Mapping[str, str] | None:
        """Texts by name; None where the topic is not one of these."""
        try:
            return self._known[topic]
        except KeyError:
            found = self._regex.fullmatch(topic)
            values = dict(zip(self.names, found.groups(), strict=True)) if found else None
            if len(self._known) < _REMEMBERED:
                self._known[topic] = values
            return values


def check_filter(text: str) -> None:
    """That a broker can be asked for this."""
    if not text or "\0" in text or len(text.encode("utf-8", "replace")) > _TOPIC_MOST:
        raise ValueError(f'"{text[:60]}" is not a topic')
    levels = text.split("/")
    for place, level in enumerate(levels):
        if "#" in level and (level != "#" or place < len(levels) - 1):
            raise ValueError("# stands alone, at the end of a topic")
        if "+" in level and level != "+" and not _NAMED_LEVEL.fullmatch(level):
            raise ValueError("+ stands alone between two slashes, or before a column's name")


def level_value(kind: str, text: str) -> Any:
    """A level as its column's type has it; ValueError where it is none."""
    if kind in ("INT", "BIGINT"):
        return int(text)
    if kind == "DOUBLE":
        return float(text)
    if kind == "BOOLEAN":
        return flag_value(text)
    return text


def flag_value(text: str) -> bool:
    """True and false as switches say them."""
    word = text.strip().lower()
    if word in ("true", "t", "1", "on", "yes"):
        return True
    if word in ("false", "f", "0", "off", "no"):
        return False
    raise ValueError(f'"{text[:60]}" is neither true nor false')
