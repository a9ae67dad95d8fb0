"""What addresses in rows may name: files, hosts, and how long a line from there may be.

Rows are written with the role write, so an address is not trusted. A file is a regular file below one folder, the setting
`sensor_files`. It is looked at when a row is written (`check`) and again, after links, when its sensor is opened (`open`). A link
that is swapped in between is not followed.

A host is one of the setting `connect_allow`. Its name is resolved once, its addresses are checked, and the connection goes to an
address that was checked: a name server that answers differently a moment later (DNS rebinding) changes nothing. Link-local
addresses, where clouds serve their machines' credentials, are refused in every spelling and whatever the setting says.
"""

from __future__ import annotations

import errno
import os
import re
import socket
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from penstock.errors import PenstockError, error
from penstock.settings import Settings

HOSTS_SETTING = "connect_allow"
IpAddress = IPv4Address | IPv6Address
_LOOPBACK = "127.0.0.0/8, [::1]"
# Link-local, and what means "this host" or none at all. The last one is AWS's metadata service over IPv6.
_NEVER = tuple(ip_network(text) for text in ("169.254.0.0/16", "0.0.0.0/8", "fe80::/10", "::/128", "fd00:ec2::254/128"))
# Prefixes of translators to IPv4 (RFC 6052, 8215, 7915): the last four bytes are an IPv4 address.
_TRANSLATED = tuple(ip_network(text) for text in ("64:ff9b::/96", "64:ff9b:1::/48", "::ffff:0:0:0/96"))


@dataclass(frozen=True, slots=True)
class TargetPattern:
    """One item of the setting: a network or a pattern of names, and the ports from `first` to `last`."""

    network: IPv4Network | IPv6Network | None
    name: str
    first: int
    last: int

    def matches(self, host: str, address: IpAddress | None, port: int) -> bool:
        if not self.first <= port <= self.last:
            return False
        if self.network is None:
            return fnmatchcase(host.lower().rstrip("."), self.name)
        return address is not None and address in self.network


@dataclass(frozen=True, slots=True)
class Target:
    """An address that was checked, as `socket` wants it."""

    family: int
    kind: int
    protocol: int
    where: Any

    @property
    def address(self) -> str:
        return str(self.where[0])


class Targets:
    """What the setting allows. Empty: loopback for addresses in rows, any host for options that an admin wrote."""

    def __init__(self, allowed: str = "") -> None:
        self._explicit = bool(allowed.strip())
        self._patterns = parse_patterns(allowed if self._explicit else _LOOPBACK)

    def check(self, host: str, port: int, by_admin: bool = False) -> None:
        """Refuse what can be refused without asking a name server: numbers in every spelling that `socket` reads."""
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        except (OSError, UnicodeError):
            return
        self._allowed(host, port, found, by_admin)

    def check_unresolved(self, host: str, port: int, by_admin: bool = False) -> None:
        """For a host that a proxy resolves: numbers as in `check`, names by the patterns of names."""
        self.check(host, port, by_admin)
        free = by_admin and not self._explicit
        if not free and not _is_numeric(host) and not any(p.matches(host, None, port) for p in self._patterns):
            raise _refusal(host, port, "no pattern names it")

    def resolve(self, host: str, port: int, by_admin: bool = False) -> tuple[Target, ...]:
        """The addresses of a host that may be connected to; address_not_allowed where there is none."""
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except UnicodeError:
            raise error("invalid_parameter", detail=f'"{host[:100]}" is not the name of a host') from None
        return self._allowed(host, port, found, by_admin)

    def connect(self, host: str, port: int, timeout_s: float, by_admin: bool = False) -> socket.socket:
        """A connection to the first checked address that answers."""
        last: OSError | None = None
        for target in self.resolve(host, port, by_admin):
            connection = socket.socket(target.family, target.kind, target.protocol)
            try:
                connection.settimeout(timeout_s)
                connection.connect(target.where)
            except OSError as failure:
                connection.close()
                last = failure
            else:
                return connection
        raise last or OSError(f"{host} has no address")

    def _allowed(self, host: str, port: int, found: Sequence[Any], by_admin: bool) -> tuple[Target, ...]:
        free = by_admin and not self._explicit
        targets, why = [], "no pattern names it"
        for family, kind, protocol, _, where in found:
            address = plain_address(str(where[0]))
            if is_never(address):
                why = f"{address} is link-local, unspecified or a metadata service, and never connected to"
            elif free or any(p.matches(host, address, port) for p in self._patterns):
                targets.append(Target(family, kind, protocol, where))
            else:
                why = f"no pattern names it or {address}"
        if not targets:
            raise _refusal(host, port, why)
        return tuple(targets)


def plain_address(text: str) -> IpAddress:
    """An address without its zone; an IPv4 address inside an IPv6 one as what it is."""
    found = ip_address(text.partition("%")[0])
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        return found.ipv4_mapped
    return found


def is_never(address: IpAddress) -> bool:
    """Whether an address, or an IPv4 address that is written inside it, is refused whatever the setting says."""
    inner: list[IpAddress] = [address]
    if isinstance(address, IPv6Address):
        if address.sixtofour is not None:
            inner.append(address.sixtofour)
        if any(address in network for network in _TRANSLATED) or (int(address) >> 32 == 0 and int(address) > 1):
            inner.append(IPv4Address(int(address) & 0xFFFFFFFF))
    return any(each in network for each in inner for network in _NEVER)


def parse_patterns(text: str) -> tuple[TargetPattern, ...]:
    """Items like `10.0.0.0/8`, `*.plant.example:9000`, `[::1]:9000-9010` or `*`, separated by commas."""
    return tuple(_parse_pattern(item.strip()) for item in text.split(",") if item.strip())


def _parse_pattern(item: str) -> TargetPattern:
    bracketed = re.fullmatch(r"\[([^\]]*)\](?::(.*))?", item)
    if bracketed:
        host, ports = bracketed.group(1), bracketed.group(2)
    elif item.count(":") > 1:  # IPv6 without brackets has no port
        host, ports = item, None
    else:
        host, _, after = item.partition(":")
        ports = after if ":" in item else None
    first, last = _parse_ports(item, ports)
    try:
        network = ip_network(host, strict=False)
    except ValueError:
        # 10.0.* is no network, and as a pattern of names it would let 10.0.evil.example through.
        looks_like_network = re.fullmatch(r"[0-9.*?]*[0-9][0-9.*?]*", host)
        if looks_like_network or not re.fullmatch(r"[A-Za-z0-9_.*?-]+", host):
            raise _invalid(item) from None
        return TargetPattern(None, host.lower().rstrip("."), first, last)
    return TargetPattern(network, host, first, last)


def _parse_ports(item: str, ports: str | None) -> tuple[int, int]:
    if ports is None or ports == "*":
        return 0, 65_535
    found = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", ports)
    if found is None or int(found.group(1)) > 65_535:
        raise _invalid(item)
    return int(found.group(1)), int(found.group(2) or found.group(1))


def _invalid(item: str) -> PenstockError:
    hint = "write hosts such as 10.0.0.0/8, plc7.plant.example:9000, *.plant.example or [fd00::/8]:9000-9010"
    return error("invalid_option", option=HOSTS_SETTING, detail=f'"{item}" is not a host with ports', hint=hint)


def _is_numeric(host: str) -> bool:
    try:
        socket.getaddrinfo(host, None, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return False
    return True


def _refusal(host: str, port: int, why: str) -> PenstockError:
    return error(
        "address_not_allowed",
        address=f"{host[:100]}:{port}",
        detail=why,
        hint=f"the setting {HOSTS_SETTING} lists the hosts and ports that the server may connect to",
    )


FILES_SETTING = "sensor_files"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A FIFO would wait for its writer, a terminal would become ours: neither happens before the file is known to be regular.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class SensorFiles:
    """The one folder that addresses may name files of. Without a folder every address is refused."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def check(self, address: str) -> PurePosixPath:
        """The file's path inside the folder, as it is written; address_not_allowed where it lies elsewhere.

        The file itself is not looked at. For an absolute address, links in the path of the folder are read from disk.
        """
        if self._folder is None:
            raise self._refusal(address, "no folder is set")
        try:
            os.fsencode(address)
        except ValueError:
            raise self._refusal(address, "it is not the name of a file") from None
        path = PurePosixPath(address)
        if path.is_absolute():
            path = self._below_folder(path)
        if "\0" in address or not path.parts or any(len(os.fsencode(part)) > 255 for part in path.parts):
            raise self._refusal(address, "it is not the name of a file")
        if ".." in path.parts:
            raise self._refusal(address, 'it has ".." in it')
        return path

    def open(self, address: str) -> BinaryIO:
        """The file, open for reading; address_not_allowed where it is not a regular file below the folder."""
        inside = self.check(address)
        assert self._folder is not None
        root = os.path.realpath(self._folder)
        found = os.path.realpath(os.path.join(root, inside))
        if os.path.commonpath([root, found]) != root or found == root:
            raise self._refusal(address, "a link leads out of the folder")
        try:
            return os.fdopen(self._open_below(root, PurePosixPath(found).relative_to(root), address), "rb")
        except FileNotFoundError:
            raise FileNotFoundError(f'there is no file "{inside}" in the folder of {FILES_SETTING}') from None
        except OSError as cause:
            if cause.errno not in (errno.ELOOP, errno.ENOTDIR):
                raise
            raise self._refusal(address, "a link, or a file in the place of a folder, is on the way to it") from None

    def _open_below(self, root: str, inside: PurePosixPath, address: str) -> int:
        """Open folder by folder without following links: what is a link now was none when `realpath` looked."""
        *folders, name = inside.parts
        at = os.open(root, _FOLDER)
        try:
            for folder in folders:
                below = os.open(folder, _FOLDER, dir_fd=at)
                os.close(at)
                at = below
            self._require_regular(os.stat(name, dir_fd=at, follow_symlinks=False), address)
            file = os.open(name, _FILE, dir_fd=at)
        finally:
            os.close(at)
        try:
            self._require_regular(os.fstat(file), address)
        except PenstockError:
            os.close(file)
            raise
        return file

    def _require_regular(self, found: os.stat_result, address: str) -> None:
        if not stat.S_ISREG(found.st_mode):
            raise self._refusal(address, f"it is {_kind(found.st_mode)}, not a regular file")

    def _below_folder(self, path: PurePosixPath) -> PurePosixPath:
        assert self._folder is not None
        for root in (os.path.abspath(self._folder), os.path.realpath(self._folder)):
            if path.is_relative_to(root):
                return path.relative_to(root)
        raise self._refusal(str(path), "it lies elsewhere")

    def _refusal(self, address: str, why: str) -> PenstockError:
        return error(
            "address_not_allowed",
            address=address[:100],
            detail=why,
            hint=f"addresses name regular files below the folder of the setting {FILES_SETTING}",
        )


def _kind(mode: int) -> str:
    names = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket", stat.S_IFLNK: "a link"}
    return names.get(stat.S_IFMT(mode), "a device")


LINE_MAX_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class AddressRules:
    """The rules of one server. Without settings: no file, loopback only."""

    files: SensorFiles = field(default_factory=lambda: SensorFiles(None))
    targets: Targets = field(default_factory=Targets)
    line_max_bytes: int = LINE_MAX_BYTES


def rules_of(settings: Settings, data: Path) -> AddressRules:
    """The rules that the settings of a server with this data folder make."""
    folder = data / (settings.sensor_files or "in")
    return AddressRules(SensorFiles(folder), Targets(settings.connect_allow), settings.line_max_bytes)
