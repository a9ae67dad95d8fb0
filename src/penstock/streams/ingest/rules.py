"""The rules of time, order and repeats, one reading after the other, compiled.

For each reading in turn, the first that holds decides: too far ahead of the wall clock; older than the table keeps; older than
its watermark; a repeat of a remembered key; older than its sensor's newest (refused, moved up to it, or accepted, as the table
says). What passes is accepted and moves its sensor's newest time. Every change of state is noted, so that a
push that could not be written is taken back exactly.

DEDUPLICATE BY: a reading is a repeat when its sensor has an accepted reading with an equal key at most `within` away in `ts`.
Remembered are, per sensor, the keys of the readings from `within` before its newest on; that is exact unless a
reading comes out of order by more than that. NULL equals NULL here, and NaN equals NaN. Under
`out_of_order = 'clamp'` the time as stored counts. A key is a row of whole numbers, and a table numbers these, without Python
objects. A value of fixed width is its own number; any other value is given one when it first comes (`ValueCodes`). 0.0 equals -0.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from penstock.catalog.model import TIME_COLUMN, Table
from penstock.catalog.rows import Int32s, Int64s
from penstock.expr.kernel import kernel

Column: TypeAlias = "pa.Array | pa.ChunkedArray | Int64s"

NO_TIME = np.iinfo(np.int64).min
_LEAST_SLOTS = 2048  # a power of two, like every number of slots
_EMPTY = -1
_SLACK = 65_536

ACCEPTED, AHEAD, BEFORE, DUPLICATE, OUT_OF_ORDER, TOO_LATE, SKIPPED = 0, 1, 2, 3, 4, 5, 255
REFUSE, CLAMP, ACCEPT = 0, 1, 2
LATE, CLAMPED, UNORDERED = 1, 2, 4  # marks of an accepted reading

COUNT_ACCEPTED, COUNT_REFUSED, COUNT_LATE, COUNT_CLAMPED, COUNT_DUPLICATE, COUNTS = 0, 1, 2, 3, 4, 5


# Plain tuples: Numba looks up the type of a named one again at each call, which takes longer than to judge a reading.
# What decides: now, max_ahead, retention (-1: readings of any age are kept), policy, within, lateness (-1: any), and a time
# before which none is accepted (NO_TIME: there is none).
OrderRules = tuple[int, int, int, int, int, int, int]
# What the rules change: newest and counts by sid, latest[0] of the table, the remembered time by key. In this order:
# newest, latest, counts, remembered.
OrderState = tuple[Any, Any, Any, Any]
# One per reading: the code of what was decided, marks of accepted ones, and the newest and remembered time before. For a reading
# that came too late, the watermark stands in place of the newest time.
Decisions = tuple[Any, Any, Any, Any]


@kernel
def apply_rules(sids: Any, ts: Any, keys: Any, rules: OrderRules, state: OrderState, out: Decisions) -> None:
    """Decide on every reading in order.

    `sids` of -1 leave a reading out. A `ts` of NO_TIME means the wall clock, or its sensor's newest if that is later;
    times are changed to those that are stored. `keys` are empty without deduplication.
    """
    now, max_ahead, retention, policy, within, lateness, watermark = rules
    newest, latest, counts, remembered = state
    code, marks, old_newest, old_remembered = out
    dedupe = keys.shape[0] > 0
    for i in range(sids.shape[0]):
        sid = sids[i]
        if sid < 0:
            code[i] = SKIPPED
            continue
        before = newest[sid]
        old_newest[i] = before
        time = ts[i]
        if time == NO_TIME:
            time = max(now, before)
        elif time > now + max_ahead:
            code[i] = AHEAD
            counts[sid, COUNT_REFUSED] += 1
            continue
        elif retention >= 0 and latest[0] != NO_TIME and time < latest[0] - retention:
            code[i] = BEFORE
            counts[sid, COUNT_REFUSED] += 1
            continue
        accepts_from = watermark
        if lateness >= 0 and latest[0] != NO_TIME:
            accepts_from = max(accepts_from, latest[0] - lateness)
        if time < accepts_from:
            code[i] = TOO_LATE
            ts[i] = time
            old_newest[i] = accepts_from  # for what the sender is told
            counts[sid, COUNT_REFUSED] += 1
            continue
        unordered = before != NO_TIME and time < before
        mark = 0
        if unordered and policy == CLAMP:
            time = before
            unordered = False
            mark = CLAMPED
        if dedupe:
            last = remembered[keys[i]]
            old_remembered[i] = last
            if last != NO_TIME and last >= before - within and abs(time - last) <= within:
                code[i] = DUPLICATE
                ts[i] = time
                counts[sid, COUNT_DUPLICATE] += 1
                continue
        if unordered and policy == REFUSE:
            code[i] = OUT_OF_ORDER
            counts[sid, COUNT_REFUSED] += 1
            continue
        code[i] = ACCEPTED
        ts[i] = time
        counts[sid, COUNT_ACCEPTED] += 1
        if unordered:
            mark |= UNORDERED
        else:
            newest[sid] = time
            if latest[0] != NO_TIME and time < latest[0]:
                mark |= LATE
                counts[sid, COUNT_LATE] += 1
        if mark & CLAMPED:
            counts[sid, COUNT_CLAMPED] += 1
        marks[i] = mark
        if latest[0] == NO_TIME or time > latest[0]:
            latest[0] = time
        if dedupe and time >= newest[sid] - within:
            remembered[keys[i]] = time


@kernel
def take_back(sids: Any, keys: Any, state: OrderState, out: Decisions) -> None:
    """Undo what one push did, last reading first."""
    newest, _, counts, remembered = state
    code, marks, old_newest, old_remembered = out
    dedupe = keys.shape[0] > 0
    for j in range(sids.shape[0]):
        i = sids.shape[0] - 1 - j
        sid = sids[i]
        if code[i] == SKIPPED:
            continue
        if code[i] != ACCEPTED:
            counts[sid, COUNT_DUPLICATE if code[i] == DUPLICATE else COUNT_REFUSED] -= 1
            continue
        newest[sid] = old_newest[i]
        counts[sid, COUNT_ACCEPTED] -= 1
        if marks[i] & LATE:
            counts[sid, COUNT_LATE] -= 1
        if marks[i] & CLAMPED:
            counts[sid, COUNT_CLAMPED] -= 1
        if dedupe:
            remembered[keys[i]] = old_remembered[i]


@kernel
def raise_newest(newest: Any, vids: Any, ts: Any, sid_of: Any) -> None:
    """Move the newest time of each sensor up to the logged rows, in any order."""
    for i in range(vids.shape[0]):
        sid = sid_of[vids[i]]
        if ts[i] > newest[sid]:
            newest[sid] = ts[i]


@kernel
def _slot_of(row: Any, mask: int) -> Any:
    mixed = np.uint64(0x9E3779B97F4A7C15)
    for word in row:
        mixed = (mixed ^ np.uint64(word)) * np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(29)
    return np.int64(mixed & np.uint64(mask))


@kernel
def _number_rows(rows: Any, known: Any, slots: Any, count: int, numbers: Any) -> int:
    """Give each row its number, the next one if it is new; how many there are then. There must be room for all."""
    mask = slots.shape[0] - 1
    for i in range(rows.shape[0]):
        slot = _slot_of(rows[i], mask)
        while True:
            number = slots[slot]
            if number == _EMPTY:
                number = slots[slot] = count
                for j in range(rows.shape[1]):
                    known[count, j] = rows[i, j]
                count += 1
                break
            same = True
            for j in range(rows.shape[1]):
                if known[number, j] != rows[i, j]:
                    same = False
                    break
            if same:
                break
            slot = (slot + 1) & mask
        numbers[i] = number
    return count


@kernel
def _fill_slots(known: Any, count: int, slots: Any) -> None:
    mask = slots.shape[0] - 1
    for number in range(count):
        slot = _slot_of(known[number], mask)
        while slots[slot] != _EMPTY:
            slot = (slot + 1) & mask
        slots[slot] = number


class KeyNumbers:
    """Rows of `width` whole numbers, numbered from 0 in the order in which they first came."""

    def __init__(self, width: int) -> None:
        self.count = 0
        self._known: Int64s = np.empty((_LEAST_SLOTS // 2, width), dtype=np.int64)
        self._slots = np.full(_LEAST_SLOTS, _EMPTY, dtype=np.int32)

    @property
    def rows(self) -> Int64s:
        """The rows by number."""
        return self._known[: self.count]

    def find(self, rows: Int64s) -> Int64s:
        """The number of each row; new rows get one."""
        self._make_room(self.count + len(rows))
        numbers = np.empty(len(rows), dtype=np.int64)
        self.count = int(_number_rows(rows, self._known, self._slots, self.count, numbers))
        return numbers

    def keep(self, chosen: np.ndarray[Any, np.dtype[np.bool_]]) -> None:
        """Forget the other rows. Those that stay are numbered anew, in the same order."""
        kept = self.rows[chosen]
        self.count = len(kept)
        self._known = np.concatenate([kept, np.empty((max(len(kept), 1024), kept.shape[1]), dtype=np.int64)])
        self._hash_anew()

    def _make_room(self, count: int) -> None:
        if count > len(self._known):
            grown = np.empty((max(count, 2 * len(self._known)), self._known.shape[1]), dtype=np.int64)
            grown[: self.count] = self.rows
            self._known = grown
            self._hash_anew()

    def _hash_anew(self) -> None:
        """At most half of the slots are ever taken, so that few are tried."""
        size = max(_LEAST_SLOTS, 1 << (2 * len(self._known) - 1).bit_length())
        self._slots = np.full(size, _EMPTY, dtype=np.int32)
        _fill_slots(self._known, self.count, self._slots)


class ValueCodes:
    """Whole numbers for the values of one column of a type without a fixed width."""

    def __init__(self) -> None:
        self._codes: dict[Any, int] = {}
        self._next = 0

    def find(self, column: pa.Array) -> Int64s:
        """The code of each value; 0 for NULL, which `words_of` marks."""
        if pa.types.is_nested(column.type):
            column = pa.array([None if value is None else repr(value) for value in column.to_pylist()], pa.string())
        encoded = column.dictionary_encode()
        codes = np.fromiter(map(self._code, encoded.dictionary.to_pylist()), dtype=np.int64)
        if not len(codes):
            return np.zeros(len(column), dtype=np.int64)
        return np.asarray(codes[encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)], dtype=np.int64)

    def keep(self, used: Int64s) -> None:
        """Forget the values that no key has any more."""
        if not self._codes:
            return
        kept = set(np.unique(used).tolist())
        self._codes = {value: code for value, code in self._codes.items() if code in kept}

    def _code(self, value: Any) -> int:
        code = self._codes.setdefault(value, self._next)
        self._next += code == self._next
        return code


def words_of(column: Column, codes: ValueCodes) -> tuple[Int64s, np.ndarray[Any, np.dtype[np.bool_]] | None]:
    """A whole number per value, equal for equal values, and where the values are NULL (None: nowhere)."""
    if isinstance(column, np.ndarray):
        return column, None
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    nulls = np.asarray(whole.is_null()) if whole.null_count else None
    kind = whole.type
    if pa.types.is_null(kind):
        return np.zeros(len(whole), dtype=np.int64), nulls
    if pa.types.is_timestamp(kind):
        whole = whole.view(pa.int64())
    elif pa.types.is_boolean(kind):
        whole = whole.cast(pa.int8())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        words = codes.find(whole)
        return words if nulls is None else np.where(nulls, 0, words), nulls
    values = (whole.fill_null(0) if nulls is not None else whole).to_numpy(zero_copy_only=False)
    if pa.types.is_floating(kind):
        values = np.where(np.isnan(values), np.nan, values.astype(np.float64) + 0.0)
        return values.view(np.int64), nulls
    return values.astype(np.int64), nulls


def key_fields(table: Table) -> list[str]:
    """The logged columns that make up a key; static key columns are the sensor itself, which is always part of it."""
    wanted = table.options.deduplicate
    if wanted is None or table.stream is None:
        return []
    logged = {field.name for field in table.stream.fields} | {TIME_COLUMN}
    prefix = f"{table.stream.name}."
    return [name.removeprefix(prefix) for name in wanted.fields if name.removeprefix(prefix) in logged]


class KeyMemory:
    """Numbers for keys, and the newest accepted time by number. Grows with the keys inside `within`, not beyond."""

    def __init__(self, within_us: int, fields: int) -> None:
        self.within_us = within_us
        self.times: Int64s = np.full(1024, NO_TIME, dtype=np.int64)
        self._keys = KeyNumbers(fields + 2)  # the sensor, the fields, and which of them are NULL
        self._codes = [ValueCodes() for _ in range(fields)]
        self._swept = 0

    def __len__(self) -> int:
        return self._keys.count

    def numbers(self, sids: Int64s | Int32s, columns: Sequence[Column]) -> Int64s:
        """A number per reading; equal ones for equal keys of the same sensor."""
        rows = np.zeros((len(sids), len(self._codes) + 2), dtype=np.int64)
        rows[:, 0] = sids
        for i, (column, codes) in enumerate(zip(columns, self._codes, strict=True)):
            rows[:, 1 + i], nulls = words_of(column, codes)
            if nulls is not None:
                rows[:, -1] |= nulls.astype(np.int64) << i
        found = self._keys.find(rows)
        if len(self) > len(self.times):
            grown = np.full(max(len(self), 2 * len(self.times)), NO_TIME, dtype=np.int64)
            grown[: len(self.times)] = self.times
            self.times = grown
        return found

    @property
    def needs_sweep(self) -> bool:
        return len(self) > 2 * self._swept + _SLACK

    def sweep(self, newest: Int64s) -> None:
        """Forget what no reading can repeat any more. Numbers change: no caller may keep one across a sweep."""
        times = self.times[: len(self)]
        kept = (times != NO_TIME) & (times >= newest[self._keys.rows[:, 0]] - self.within_us)
        if kept.all():
            self._swept = len(self)
            return
        left = times[kept]
        self._keys.keep(kept)
        for i, codes in enumerate(self._codes):
            codes.keep(self._keys.rows[:, 1 + i])
        self.times = np.full(max(1024, 2 * len(left)), NO_TIME, dtype=np.int64)
        self.times[: len(left)] = left
        self._swept = len(left)


def warm_up() -> None:
    """Compile, or load from the cache on disk, before the first push has to wait for it."""
    sids, ints, codes = np.zeros(1, np.int32), np.zeros(1, np.int64), np.zeros(1, np.uint8)
    counts = np.zeros((1, COUNTS), np.int64)
    state = (ints.copy(), ints.copy(), counts, ints.copy())
    out = (codes, codes.copy(), ints.copy(), ints.copy())
    apply_rules(sids, ints, ints.copy(), (0, 0, -1, REFUSE, 0, -1, NO_TIME), state, out)
    take_back(sids, ints, state, out)
    raise_newest(ints, sids, ints, sids)
    # Columns of the log come read-only, which is another type to the compiler.
    frozen_sids, frozen_ints = sids.copy(), ints.copy()
    frozen_sids.flags.writeable = frozen_ints.flags.writeable = False
    raise_newest(ints, frozen_sids, frozen_ints, sids)
    numbers = KeyNumbers(2)
    numbers.find(np.zeros((1, 2), dtype=np.int64))
    numbers.keep(np.ones(1, dtype=np.bool_))
