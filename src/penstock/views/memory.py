"""The memory of the answers and the folder of bit matrices: measured, and kept within limits. Called under the lock.

What is dropped here can be evaluated again or was never committed; `retention` drops what windows no longer reach.
"""

from __future__ import annotations

from pathlib import Path

from penstock.cycle.lag import LAG_MAX
from penstock.expr.windows import FOREVER
from penstock.views.answer_store import AnswerStore

ORPHAN_CYCLES = 2 * LAG_MAX


def merge_lists(store: AnswerStore) -> None:
    """Merge many lists into few: an answer has to search each of them."""
    for match_store in store.match_stores.values():
        match_store.merge(None)


def give_up_passed(store: AnswerStore, most_bytes: int) -> list[Path]:
    """Drop bit matrices that no sliding window reaches as of now, then the oldest until the rest fits; returns their files."""
    for table_id, match_store in store.match_stores.items():
        now_us = store.now_of(store.state.tables_by_id[table_id], None)
        if now_us is not None:
            match_store.give_up_passed(now_us, store.window_index.spans(table_id))
    while sum(match_store.nbytes for match_store in store.match_stores.values()) > most_bytes:
        largest = max(store.match_stores.values(), key=lambda match_store: match_store.nbytes)
        largest.give_up(largest.sheets[:1])
    return [path for match_store in store.match_stores.values() for path in match_store.take_files()]


def forget_evaluated(store: AnswerStore, most_bytes: int) -> None:
    """What was found when asked is found again when asked again: it must not grow with all that was ever asked."""
    kept = sum(answer.evaluated.nbytes for answer in store.answers.values() if answer.evaluated)
    lasting = [answer.lasting for answer in store.answers.values() if answer.lasting is not None]
    if kept + sum(memory.nbytes for memory in lasting) > most_bytes:
        for answer in store.answers.values():
            answer.evaluated.clear()
        for memory in lasting:
            memory.clear()


def remove_orphans(store: AnswerStore, sheets: Path) -> None:
    """Remove bit matrices of cycles that were never committed, and files that killed tasks had begun to write.

    Later cycles write theirs while this one is folded, so a bit matrix is removed only if none of them can have written it.
    """
    assert store.offset is not None
    known = {kept.name.file for match_store in store.match_stores.values() for kept in match_store.sheets}
    seen, store.orphans = store.orphans, {}
    for path in sheets.glob("*.sheet"):
        table_id, first = (int(part) for part in path.name.removeprefix(".").split("-")[:2])
        if path.name in known or first >= store.offset.data.get(table_id, FOREVER):
            continue
        since = seen.get(path.name, store.cycle)
        if store.cycle - since > ORPHAN_CYCLES:
            path.unlink(missing_ok=True)
        else:
            store.orphans[path.name] = since
