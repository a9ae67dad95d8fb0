"""Damaged files of a data folder: what was found, when, and whether it still harms an answer.

Readers and recoveries note what they find, the scrubber and `penstock check` look for more, and health and the system table
`penstock.damage` show it. Files that a recovery takes out of use are moved to `corrupt/`; none is removed without a word.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import threading
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import orjson

from penstock.clock import WallClock
from penstock.disk_sync import replace_file
from penstock.errors import PenstockError

_log = logging.getLogger("penstock.damage")
FOLDER = "corrupt"
ASIDE_MAX_BYTES = 1 << 30  # beyond it the oldest files that were moved aside are removed
ROWS_MAX = 1000
UNLISTED_MAX = 100_000  # names of damaged files that do not fit the list; beyond it they are only in the log
_REPORT = "damage.json"
CONDITIONS_OF_DAMAGE = ("corrupt_segment", "corrupt_journal")
_SEGMENT = re.compile(r'segment "([^"]+)"')
_LOG_FILE = re.compile(r"\d+/")


@dataclass(frozen=True, slots=True)
class Damage:
    """One damaged file.

    `healed`: nothing that is asked today needs it, or it was made again. `accepted`: it is not, and an admin has seen it.
    """

    file: str
    kind: str
    detail: str
    since_us: int
    healed: bool = False
    accepted: bool = False

    @property
    def open(self) -> bool:
        """Whether it still harms, and no admin has accepted that."""
        return not self.healed and not self.accepted


class DamageReport:
    """What is known to be damaged in one data folder. Thread-safe; kept across restarts in `corrupt/damage.json`.

    It lists at most `ROWS_MAX` files. Healed ones make room for others; what is open and finds no room is counted.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._file = root / FOLDER / _REPORT
        self._lock = threading.Lock()
        self._known: dict[str, Damage] = {}
        self._unlisted: dict[str, tuple[str, int]] = {}  # open, without room: kind and since when, by file
        try:
            stored = orjson.loads(self._file.read_bytes())
            if isinstance(stored, list):  # as older versions wrote it
                stored = {"rows": stored, "unlisted": {}}
            self._known = {row["file"]: Damage(**row) for row in stored["rows"]}
            self._unlisted = {str(file): (str(kind), int(at)) for file, (kind, at) in stored["unlisted"].items()}
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            pass  # soft: without it the time of discovery begins anew

    def note(self, path: Path | str, kind: str, detail: str, healed: bool = False) -> None:
        """A file is damaged. The first time that it was found stays."""
        name = self._name(path)
        with self._lock:
            known = self._known.get(name)
            found = Damage(name, kind, detail, known.since_us if known else WallClock().now_us(), healed)
            if known in (found, replace(found, accepted=True)):
                return
            if name in self._unlisted and not healed and not self._has_room():
                return
            if known is not None or self._has_room():
                self._list(found)
            elif healed:
                self._unlisted.pop(name, None)
            elif len(self._unlisted) < UNLISTED_MAX:
                self._unlisted[name] = kind, found.since_us
            self._save()
        _log.log(logging.INFO if healed else logging.ERROR, "%s is damaged: %s", name, detail)

    def note_failure(self, failure: PenstockError) -> None:
        """An answer could not be given: if a file is damaged, health names it from now on."""
        if failure.condition in CONDITIONS_OF_DAMAGE:
            file = file_named(failure.message)
            if all(row.file != file or row.healed for row in self.rows()):
                self.note(file, file.split("/", 1)[0], failure.message)

    def heal(self, path: Path | str) -> None:
        """A file that was damaged is whole again, or nothing needs it any more."""
        name = self._name(path)
        with self._lock:
            known = self._known.get(name)
            if known is not None and not known.healed:
                self._known[name] = replace(known, healed=True, accepted=False)
            elif self._unlisted.pop(name, None) is None:
                return
            self._save()

    def accept(self) -> list[Damage]:
        """An admin has seen what is open: it stays in the report, and health names it no more. What it was.

        Damage that did not fit is dropped: where it is found again, it is open again.
        """
        with self._lock:
            accepted = [row for row in self._rows() if row.open]
            self._known |= {row.file: replace(row, accepted=True) for row in accepted if row.file in self._known}
            self._unlisted.clear()
            if accepted:
                self._save()
            return accepted

    def _has_room(self) -> bool:
        return len(self._known) < ROWS_MAX or any(row.healed for row in self._known.values())

    def _list(self, found: Damage) -> None:
        """Put a row into the report; where it is full, in the place of the oldest one that is healed."""
        if found.file not in self._known and len(self._known) >= ROWS_MAX:
            del self._known[next(name for name, row in self._known.items() if row.healed)]
        since = self._unlisted.pop(found.file, (found.kind, found.since_us))[1]
        self._known[found.file] = replace(found, since_us=since)

    def set_aside(self, path: Path, kind: str, detail: str, healed: bool = False) -> Path:
        """Move a damaged file to `corrupt/` and note it; where it is now."""
        target = self._place(self._name(path))
        os.replace(path, target)
        self.note(path, kind, f"{detail}; moved to {target.relative_to(self.root)}", healed)
        self._limit()
        return target

    def keep_bytes(self, name: str, data: bytes) -> Path:
        """Keep what is about to be cut off a file under `corrupt/`."""
        target = self._place(name)
        with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
        self._limit()
        return target

    def rows(self) -> list[Damage]:
        """Everything known, the oldest first; a last row counts what did not fit."""
        with self._lock:
            return self._rows()

    def _rows(self) -> list[Damage]:
        rows = list(self._known.values())
        if self._unlisted:
            count = len(self._unlisted)
            detail = f"the report is full; the server's log names {'all' if count < UNLISTED_MAX else 'still others'}"
            rows.append(Damage(f"{count} more", "unlisted", detail, min(at for _, at in self._unlisted.values())))
        return rows

    def open_rows(self) -> list[Damage]:
        """What still harms: damage that is neither healed nor accepted."""
        return [row for row in self.rows() if row.open]

    def open_kinds(self) -> set[str]:
        """The kinds of file among what still harms, listed or not."""
        with self._lock:
            listed = {row.kind for row in self._known.values() if row.open}
            return listed | {kind for kind, _ in self._unlisted.values()}

    def _name(self, path: Path | str) -> str:
        return str(Path(path).relative_to(self.root)) if isinstance(path, Path) else path

    def _place(self, name: str) -> Path:
        """A place below `corrupt/` that is not taken."""
        target = free_name(self.root / FOLDER, name)
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return target

    def _save(self) -> None:
        rows = [asdict(row) for row in self._known.values()]
        text = orjson.dumps({"rows": rows, "unlisted": self._unlisted})
        try:
            self._file.parent.mkdir(exist_ok=True, mode=0o700)
            replace_file(self._file, text)
        except OSError as failure:
            _log.warning("the report of damage could not be written: %s", failure)

    def _limit(self) -> None:
        """Remove the oldest files beyond the limit. Folders of whole tables (`log-<id>`) are left to the administrator."""
        folder = self.root / FOLDER
        files = [
            (path.stat().st_mtime_ns, path.stat().st_size, path)
            for path in folder.rglob("*")
            if path.is_file() and path != self._file and not path.relative_to(folder).parts[0].startswith("log-")
        ]
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files, key=lambda found: found[0]):
            if total <= ASIDE_MAX_BYTES:
                return
            path.unlink(missing_ok=True)
            total -= size
            _log.warning("%s was removed: the folder %s holds more than %d bytes", path, FOLDER, ASIDE_MAX_BYTES)


def file_named(message: str) -> str:
    """The file that an error's message names, relative to the data folder."""
    match = _SEGMENT.search(message)
    if match is None:
        return "journal" if "journal" in message else message
    return f"log/{match[1]}" if _LOG_FILE.match(match[1]) else match[1]


_reports: dict[Path, DamageReport] = {}
_reports_lock = threading.Lock()


def damage_of(root: Path) -> DamageReport:
    """The report of a data folder: one for all that read it in this process."""
    key = Path(root).absolute()
    with _reports_lock:
        found = _reports.get(key)
        if found is None:
            found = _reports[key] = DamageReport(key)
        return found


def forget_report(root: Path) -> None:
    """The folder is closed: the next one to open it reads the report anew."""
    with _reports_lock:
        _reports.pop(Path(root).absolute(), None)


def free_name(folder: Path, name: str) -> Path:
    """A path in a folder that is not taken yet."""
    found, number = folder / name, 1
    while found.exists():
        found, number = folder / f"{name}.{number}", number + 1
    return found


def move_folder_aside(root: Path, folder: Path, kind: str, detail: str) -> None:
    """Move a whole folder to `corrupt/`, so that its name can be given again without its content."""
    target = free_name(root / FOLDER, f"{folder.parent.name}-{folder.name}")
    target.parent.mkdir(exist_ok=True, mode=0o700)
    shutil.move(str(folder), str(target))
    damage_of(root).note(folder, kind, f"{detail}; moved to {target.relative_to(root)}")
