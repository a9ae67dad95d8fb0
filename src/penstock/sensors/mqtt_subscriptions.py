"""What a source asks its broker for: one pattern for the whole table, or the address of each sensor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.errors import error
from penstock.sensors.mqtt_client import Client
from penstock.sensors.mqtt_topics import TopicPattern, check_filter
from penstock.sensors.source import Inbox


class Subscriptions:
    """`follow` keeps the broker's subscriptions equal to what the table wants; `levels` says what a topic means."""

    def __init__(self, pattern: TopicPattern | None, inbox: Inbox) -> None:
        self._pattern = pattern
        self._inbox = inbox
        self._asked: set[str] = set()
        self._version: int | None = None
        self._by_topic: Mapping[str, Mapping[str, Any]] = {}

    def forget(self) -> None:
        """The connection is gone; on the next one everything is asked for again."""
        self._asked = set()
        self._version = None

    def follow(self, client: Client) -> None:
        if self._pattern is not None:
            wanted = {self._pattern.filter}
        else:
            version, found = self._inbox.addresses()
            if version == self._version:
                return
            self._version = version
            self._by_topic = {topic: key for topic, key in found.items() if self._is_topic(topic)}
            wanted = set(self._by_topic)
        if wanted != self._asked:
            client.subscribe(sorted(wanted - self._asked))
            client.unsubscribe(sorted(self._asked - wanted))
            self._asked = wanted

    def levels(self, topic: str) -> Mapping[str, Any]:
        """Values of static columns; an error where the topic belongs to no sensor."""
        found = self._by_topic.get(topic) if self._pattern is None else self._pattern.values(topic)
        if found is None:
            raise error("invalid_parameter", detail="this topic is not one that the table asks for")
        return found

    def _is_topic(self, address: str) -> bool:
        try:
            check_filter(address)
            if "+" in address or "#" in address:
                raise ValueError("it has a wildcard, but is the address of one sensor")
        except ValueError as problem:
            if address:
                self._inbox.refuse("invalid_parameter", f"address {address[:100]}: {problem}")
            return False
        return True
