"""Hosts and ports of `connect_allow`: how patterns are read, and what they let through."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from penstock.errors import PenstockError
from penstock.sensors.address_rules import Targets, is_never, plain_address
from penstock.sinks.postgres import checked_hosts

NAMES = {
    "plc7.plant.example": ["10.1.2.3"],
    "both.example": ["169.254.169.254", "192.0.2.1"],
    "metadata.example": ["169.254.169.254"],
    "six.example": ["2001:db8::1"],
}


@pytest.fixture(autouse=True)
def name_server(monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.getaddrinfo

    def answer(host: Any, port: Any, *arguments: Any, **named: Any) -> Any:
        if host not in NAMES:
            return real(host, port, *arguments, **{**named, "flags": socket.AI_NUMERICHOST})
        return [found for address in NAMES[host] for found in real(address, port, *arguments, **named)]

    monkeypatch.setattr(socket, "getaddrinfo", answer)


def allows(pattern: str, host: str, port: int, by_admin: bool = False) -> bool:
    try:
        return bool(Targets(pattern).resolve(host, port, by_admin))
    except PenstockError as refusal:
        assert refusal.condition == "address_not_allowed" and "connect_allow" in str(refusal.hint)
        return False


@pytest.mark.parametrize(
    ("pattern", "host", "port", "allowed"),
    [
        ("", "127.0.0.1", 1, True),
        ("", "127.8.9.10", 1, True),
        ("", "2130706433", 1, True),
        ("", "::1", 1, True),
        ("", "::ffff:127.0.0.1", 1, True),
        ("", "10.1.2.3", 1, False),
        ("", "plc7.plant.example", 1, False),
        ("10.0.0.0/8", "plc7.plant.example", 1, True),
        ("10.0.0.0/8", "127.0.0.1", 1, False),
        ("10.0.0.0/8:9000", "10.1.2.3", 9000, True),
        ("10.0.0.0/8:9000", "10.1.2.3", 9001, False),
        ("10.1.2.3:9000-9010", "10.1.2.3", 9010, True),
        ("*.PLANT.example", "plc7.plant.example", 1, True),
        ("*.plant.example", "PLC7.plant.example", 1, False),  # the name server of this test does not know it
        ("*.plant.example:9000", "plc7.plant.example", 80, False),
        ("[2001:db8::/32]:80", "six.example", 80, True),
        ("2001:db8::/32", "six.example", 80, True),
        ("[2001:db8::1]:81", "six.example", 80, False),
        ("192.0.2.5, 10.1.2.3 ,*:1883", "10.1.2.3", 7, True),
        ("192.0.2.5, 10.1.2.3 ,*:1883", "192.0.2.9", 1883, True),
        ("*", "metadata.example", 80, False),
        ("metadata.example, 169.254.0.0/16", "metadata.example", 80, False),
        ("*", "both.example", 80, True),
    ],
)
def test_a_target_is_allowed_by_its_name_or_by_the_address_it_resolves_to(
    pattern: str, host: str, port: int, allowed: bool
) -> None:
    if host.startswith("PLC7"):
        with pytest.raises(OSError):
            Targets(pattern).resolve(host, port)
        return
    assert allows(pattern, host, port) is allowed


def test_only_the_addresses_that_passed_are_connected_to() -> None:
    assert [target.address for target in Targets("*").resolve("both.example", 80)] == ["192.0.2.1"]


def test_options_of_an_admin_are_free_until_the_setting_is_set_and_never_link_local() -> None:
    assert allows("", "192.0.2.1", 80, by_admin=True)
    assert not allows("10.0.0.0/8", "192.0.2.1", 80, by_admin=True)
    assert not allows("", "metadata.example", 80, by_admin=True)


def test_a_host_behind_a_proxy_is_checked_by_its_name() -> None:
    Targets("").check_unresolved("anywhere.example", 80, by_admin=True)
    Targets("*.example").check_unresolved("anywhere.example", 80, by_admin=True)
    for pattern, host in (("", "0xA9FEA9FE"), ("10.0.0.0/8", "anywhere.example")):
        with pytest.raises(PenstockError, match="not allowed"):
            Targets(pattern).check_unresolved(host, 80, by_admin=True)


@pytest.mark.parametrize("text", ["10.0.0.0/8:http", "10.0.0.0/8:70000", "a b", "[::1", "http://x/", "[::1]x", ":80"])
def test_a_pattern_that_cannot_be_read_is_refused_at_the_start(text: str) -> None:
    with pytest.raises(PenstockError) as caught:
        Targets(text)
    assert caught.value.condition == "invalid_option" and "connect_allow" in caught.value.message


@pytest.mark.parametrize(
    "text", ["::169.254.1.1", "64:ff9b::169.254.1.1", "2002:a9fe:101::", "::ffff:0.0.0.0", "febf::1"]
)
def test_addresses_inside_addresses_are_seen(text: str) -> None:
    assert is_never(plain_address(text))


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("postgresql://u@plc7.plant.example/d", {"host": "plc7.plant.example", "hostaddr": "10.1.2.3", "port": "5432"}),
        (
            "postgresql://u@10.1.2.3:7,six.example/d",
            {"host": "10.1.2.3,six.example", "hostaddr": "10.1.2.3,2001:db8::1", "port": "7,5432"},
        ),
        ("postgresql://u@a.example/d?hostaddr=10.9.9.9", {"host": "a.example", "hostaddr": "10.9.9.9", "port": "5432"}),
        ("postgresql:///d?host=/run/postgresql", {}),
        ("postgresql:///d", {}),
    ],
)
def test_postgres_gets_the_checked_address_of_each_host(url: str, hosts: dict[str, str]) -> None:
    assert checked_hosts(url, Targets()) == hosts


@pytest.mark.parametrize("item", ["10.0.*", "192.168.1.?:9000", "10.*:9000-9010"])
def test_a_pattern_that_looks_like_a_network_is_refused(item: str) -> None:
    """It would let 10.0.anything.example through, a name whose address its owner chooses."""
    with pytest.raises(PenstockError, match="not a host with ports"):
        Targets(item)


@pytest.mark.parametrize("text", ["64:ff9b:1::a9fe:a9fe", "::ffff:0:169.254.169.254"])
def test_a_link_local_address_behind_a_translator_is_never_connected_to(text: str) -> None:
    assert is_never(plain_address(text))
