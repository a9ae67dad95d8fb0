"""What addresses in rows may name: files, hosts, and how long a line from there may be.

A file is a regular file below one folder, the setting `sensor_files`. Rows are written with the role write, so an address is not trusted. It is looked at when a row is written (`check`) and again, after
links, when its sensor is opened (`open`). A link that is swapped in between is not followed.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from penstock.errors import PenstockError, error
from penstock.sensors.targets import Targets
from penstock.settings import Settings

SETTING = "sensor_files"
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
            raise FileNotFoundError(f'there is no file "{inside}" in the folder of {SETTING}') from None
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
            hint=f"addresses name regular files below the folder of the setting {SETTING}",
        )


def _kind(mode: int) -> str:
    for is_kind, name in (
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISFIFO, "a FIFO"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISLNK, "a link"),
    ):
        if is_kind(mode):
            return name
    return "a device"


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
