"""What a newer Penstock wrote is refused with `folder_too_new`, and stays as it was. What is damaged is not taken for that."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

from penstock.catalog.journal import JournalReader, JournalWriter, journal_file, journal_files
from penstock.catalog.snapshot import list_snapshots, read_snapshot, snapshot_path, write_snapshot
from penstock.cycle.commit_files import CommitRecord, read_record, record_name, record_writer, result_batch
from penstock.errors import PenstockError
from penstock.sql.plan import plan_from_json
from penstock.streams.log.checksums import read_sealed, sealed_file
from tests.support.pipe import BEGAN_US, Pipe

SELECT = "SELECT value FROM probes WHERE value > 1 BEGIN (NOW - 1 HOUR) END (NOW)"
QUESTIONS = {
    "chosen": SELECT,
    "counted": "SELECT place, COUNT(*) AS n FROM probes GROUP BY place, TUMBLE(1 MINUTE) BEGIN (NOW - 1 HOUR) END (NOW)",
    "paired": "SELECT a.value FROM probes a, probes b WINDOW(a, b) = 1 SECOND WHERE a.id = b.id BEGIN (NOW - 1 HOUR) END (NOW)",
    "both": f"{SELECT} UNION ALL {SELECT}",
    "total": f"SELECT COUNT(*) AS n FROM ({SELECT} UNION ALL {SELECT}) u BEGIN (NOW - 1 HOUR) END (NOW)",
    "ranked": "SELECT value, RANK() OVER (ORDER BY value) AS r FROM probes QUALIFY r < 3 BEGIN (NOW - 1 HOUR) END (NOW)",
    "sampled": "SELECT a.value, RESAMPLE(b.value, 1 SECOND) AS other FROM probes a, probes b BEGIN (NOW - 1 HOUR) END (NOW)",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a definition of each kind and a cycle."""
    folder = tmp_path_factory.mktemp("made") / "data"
    pipe = Pipe(folder)
    pipe.db.execute("CREATE STREAM TYPE plain AS (value DOUBLE)")
    pipe.db.execute("CREATE FUNCTION same(x DOUBLE) RETURNS DOUBLE LANGUAGE python AS $$ return x $$")
    pipe.probes("WITH (retention = '1 DAY')")
    for name, question in QUESTIONS.items():
        pipe.db.execute(f"CREATE QUERY {name} AS {question}")
    pipe.db.execute("CREATE SINK out FOR chosen TO files (folder = 'out')")
    pipe.db.execute("CREATE ROLLUP hours ON probes AS SELECT COUNT(*) EVERY 1 HOUR KEEP FOR EVER")
    pipe.push(1.0, 2.0, 3.0)
    pipe.engine.drain()
    pipe.db.stop()
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "data", symlinks=True))


def opened(folder: Path) -> Pipe:
    return Pipe(folder, began_us=BEGAN_US + 60_000_000)


def refused(folder: Path, *words: str) -> None:
    """Opening says that the folder is too new, twice, and moves and removes nothing."""
    before = {path.name: path.read_bytes() for part in ("journal", "commits") for path in (folder / part).iterdir()}
    for _ in range(2):
        with pytest.raises(PenstockError) as caught:
            opened(folder)
        assert caught.value.condition == "folder_too_new" and caught.value.hint == "install a newer Penstock"
        assert all(word in caught.value.message for word in words), caught.value.message
    after = {path.name: path.read_bytes() for part in ("journal", "commits") for path in (folder / part).iterdir()}
    assert before.items() <= after.items() and not list((folder / "corrupt").glob("**/*.arrow"))


def append(folder: Path, kind: str, body: dict[str, Any]) -> None:
    """An entry as a newer version would write it: whole, and with the right chain."""
    heads = JournalReader(folder).read()[-1].heads
    writer = JournalWriter(folder)
    writer.append([(kind, body)], heads, BEGAN_US + 2_000_000)
    writer.close()


def body_of(folder: Path, kind: str) -> dict[str, Any]:
    return next(entry.body for entry in JournalReader(folder).read() if entry.kind == kind)


def test_the_folder_opens_where_nothing_was_added(folder: Path) -> None:
    pipe = opened(folder)
    assert pipe.answer("chosen") == [2.0, 3.0]
    pipe.db.stop()


def test_a_newer_format_is_refused_by_its_number(folder: Path) -> None:
    (folder / "folder_id").write_text(f"{'a' * 32}\n")
    (folder / "format_version").write_text("999\n")
    refused(folder, "format 999")


def test_an_entry_of_an_unknown_kind_is_of_a_newer_version(folder: Path) -> None:
    append(folder, "create_landmark", {"name": "shift"})
    refused(folder, "create_landmark")


def test_an_entry_of_an_unknown_kind_that_is_damaged_is_damage(folder: Path) -> None:
    append(folder, "create_landmark", {"name": "shift"})
    append(folder, "create_landmark", {"name": "night"})
    newest = journal_files(folder)[-1][1]
    newest.write_bytes(newest.read_bytes().replace(b"shift", b"shaft"))
    with pytest.raises(PenstockError) as caught:
        opened(folder)
    assert caught.value.condition == "corrupt_journal"


@pytest.mark.parametrize(
    "kind", ["create_table", "create_stream_type", "create_function", "create_query", "create_sink", "create_rollup"]
)
def test_a_definition_with_an_unknown_field_is_of_a_newer_version(folder: Path, kind: str) -> None:
    append(folder, kind, {**body_of(folder, kind), "sharded": 4})
    refused(folder, "sharded")


@pytest.mark.parametrize("part", ["options", "stream"])
def test_an_unknown_option_of_a_table_is_of_a_newer_version(folder: Path, part: str) -> None:
    body = body_of(folder, "create_table")
    append(folder, "alter_table", {**body, part: {**body[part], "sharded": 4}})
    refused(folder, "sharded")


@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize("name", QUESTIONS)
def test_a_plan_with_an_unknown_field_is_of_a_newer_version(folder: Path, name: str, folded: bool) -> None:
    body = next(e.body for e in JournalReader(folder).read() if e.kind == "create_query" and e.body["name"] == name)
    plan_from_json(body["plan"])
    with pytest.raises(PenstockError, match="sharded") as caught:
        plan_from_json({**body["plan"], "sharded": 4})
    assert caught.value.condition == "folder_too_new"
    append(folder, "change_query", {**body, "plan": {**body["plan"], "sharded": 4}})
    if folded:
        record_cycle(folder)
    refused(folder, "sharded")


def test_a_value_behind_those_that_are_known_is_of_a_newer_version(folder: Path) -> None:
    body = next(e.body for e in JournalReader(folder).read() if e.kind == "create_query")
    plan = body["plan"]
    with pytest.raises(PenstockError) as caught:
        plan_from_json({**plan, "outputs": [[*plan["outputs"][0], "sharded"]]})
    assert caught.value.condition == "folder_too_new"


def test_a_plan_of_an_unknown_kind_is_of_a_newer_version(folder: Path) -> None:
    append(folder, "change_query", {**body_of(folder, "create_query"), "plan": {"kind": "skyline"}})
    record_cycle(folder)
    refused(folder, "skyline")


def test_a_snapshot_of_the_catalog_with_an_unknown_part_is_of_a_newer_version(pipes: Callable[..., Pipe]) -> None:
    pipe = pipes()
    pipe.probes()
    pipe.db.catalog.write_snapshot()
    pipe.db.stop()
    (position,) = list_snapshots(pipe.folder)
    write_snapshot(pipe.folder, {**read_snapshot(snapshot_path(pipe.folder, position)), "landmarks": []})
    journal_file(pipe.folder).unlink()
    refused(pipe.folder, "landmarks")


# -- commit records


def last_record(folder: Path) -> CommitRecord:
    return read_record(max((folder / "commits").glob("0*.arrow")))


def write(folder: Path, record: CommitRecord) -> Path:
    path = folder / "commits" / record_name(record.cycle)
    record_writer(record)(path)
    return path


def record_cycle(folder: Path, *rows: Any) -> Path:
    """One more cycle, with all of the journal and these results."""
    last, head = last_record(folder), JournalReader(folder).head()
    end = replace(last.end, journal=head, now_us=last.end.now_us + 1)
    return write(
        folder, CommitRecord(last.cycle + 1, last.end, end, pa.Table.from_batches([result_batch([*rows])]), {})
    )


def test_a_result_of_an_unknown_kind_is_of_a_newer_version(folder: Path) -> None:
    record_cycle(folder, (1, "skyline", 0, 0, b""))
    refused(folder, "skyline")


def rewritten(path: Path, member: str, header: Callable[[dict[str, Any]], Any]) -> None:
    """A sealed record whose header a newer version has changed."""
    with pa.OSFile(str(path), "rb") as source:
        table = read_sealed(path, source)
    known = orjson.loads(table.schema.metadata[b"penstock"])
    known[member] = header(known.get(member))
    table = table.replace_schema_metadata({"penstock": orjson.dumps(known)})
    path.unlink()
    sealed_file(table.schema, table.combine_chunks().to_batches())(path)


def test_a_record_with_an_unknown_member_is_of_a_newer_version(folder: Path) -> None:
    rewritten(record_cycle(folder), "branch", lambda _: "main")
    refused(folder, "branch")


def test_an_offset_with_an_unknown_member_is_of_a_newer_version(folder: Path) -> None:
    rewritten(record_cycle(folder), "end", lambda end: {**end, "shed": 1})
    refused(folder, "shed")


def test_a_record_with_an_unknown_column_is_of_a_newer_version(folder: Path) -> None:
    path = record_cycle(folder)
    with pa.OSFile(str(path), "rb") as source:
        table = read_sealed(path, source)
    wider = table.append_column("shard", pa.array([], pa.int64())).replace_schema_metadata(table.schema.metadata)
    path.unlink()
    sealed_file(wider.schema, wider.combine_chunks().to_batches())(path)
    refused(folder, "shard")


def test_a_record_of_a_newer_version_that_is_damaged_is_damage(folder: Path) -> None:
    path = record_cycle(folder, (1, "skyline", 0, 0, b""))
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"skyline", b"skyland"))
    pipe = opened(folder)
    assert pipe.answer("chosen") == [2.0, 3.0]
    assert f"commits/{path.name}" in [row.file for row in pipe.db.damage.rows()]
    pipe.db.stop()
