"""What each command prints, where, and with which status."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest
from typer.testing import CliRunner

import penstock
from penstock.cli.main import app
from penstock.manifest import FileSum, write_manifest
from penstock.pipeline import jvm
from penstock.settings import SETTINGS, load_settings
from penstock.views.results import Health, Result
from tests.cli.conftest import Run
from tests.server.fake import FakeDatabase
from tests.support.watched import watched


def test_the_version_is_told() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"penstock {penstock.__version__}\n")


def test_every_setting_is_a_flag_of_serve() -> None:
    shown = CliRunner().invoke(app, ["serve", "--help"], env={"COLUMNS": "200"}).stdout
    for setting in SETTINGS:
        assert "--" + setting.name.replace("_", "-") in shown


def test_a_pipe_gets_csv(run: Run) -> None:
    result = run("sql", "-c", "SELECT 1")
    assert (result.exit_code, result.stdout) == (0, "location,ppm\nnorth gate,37.5\npier,41.0\n")


def test_a_statement_has_a_time(run: Run) -> None:
    assert run("sql", "--timeout", "5", "-c", "SELECT 1").exit_code == 0
    assert run("sql", "--timeout", "0", "-c", "SELECT 1").exit_code == 2


def test_json_is_an_array_of_objects(run: Run) -> None:
    result = run("sql", "-c", "SELECT 1", "--format", "json")
    assert json.loads(result.stdout) == [{"location": "north gate", "ppm": 37.5}, {"location": "pier", "ppm": 41.0}]


def test_a_table_is_for_reading_and_its_facts_go_to_stderr(run: Run) -> None:
    result = run("sql", "-c", "SELECT 1", "--format", "table")
    assert "north gate" in result.stdout and "37.5" in result.stdout
    assert "2 rows, cycle 7, now 2023-11-14T22:13:20.000000Z" in result.stderr


def test_values_in_brackets_are_not_taken_for_colours(run: Run, database: FakeDatabase) -> None:
    database.result = Result(pa.table({"[bold]x": ["[red]a[/red]", None]}))
    result = run("sql", "-c", "SELECT 1", "--format", "table")
    assert "[bold]x" in result.stdout and "[red]a[/red]" in result.stdout


def test_queries_of_a_file_go_to_the_server_together(run: Run, database: FakeDatabase, tmp_path: Path) -> None:
    script = tmp_path / "alarms.sql"
    script.write_text(
        "-- all of them\nCREATE TABLE t (a INT);\n\nCREATE QUERY a AS\n  SELECT 1 -- one\n;\n"
        "CREATE QUERY b AS SELECT 2; CREATE QUERY c AS SELECT 3;\nSELECT 4;\nCREATE QUERY d AS SELECT 5"
    )
    assert run("sql", "--file", str(script)).exit_code == 0
    assert [sql for sql, _ in database.statements] == [
        "-- all of them\nCREATE TABLE t (a INT)",
        "\n\n\nCREATE QUERY a AS\n  SELECT 1 -- one\n;\nCREATE QUERY b AS SELECT 2;CREATE QUERY c AS SELECT 3;",
        "SELECT 4",
        "CREATE QUERY d AS SELECT 5",
    ]


def test_a_bad_query_of_a_file_is_shown_on_its_own_line(run: Run, tmp_path: Path) -> None:
    script = tmp_path / "alarms.sql"
    script.write_text("CREATE QUERY a AS SELECT 1;\n\nCREATE QUERY b AS SELECT pmp;\n")
    result = run("sql", str(script))
    assert result.exit_code == 1 and f"{script}:\n" in result.stderr


def test_what_a_file_says_about_refusals_holds_to_its_end(run: Run, database: FakeDatabase, tmp_path: Path) -> None:
    script = tmp_path / "alarms.sql"
    script.write_text("SET on_error = rest;\nCREATE QUERY a AS SELECT 1;\nSELECT 2;\nCREATE QUERY b AS SELECT 3;")
    assert run("sql", str(script)).exit_code == 0
    assert [sql for sql, _ in database.statements] == [
        "SET on_error = rest;\nCREATE QUERY a AS SELECT 1;",
        "SELECT 2",
        "SET on_error = rest;\n\n\nCREATE QUERY b AS SELECT 3;",
    ]


def test_each_statement_of_a_script_answers(run: Run, database: FakeDatabase, tmp_path: Path) -> None:
    script = tmp_path / "plant.sql"
    script.write_text("CREATE TABLE t (a INT);\nSELECT 1;\nSELECT 2;")
    result = run("sql", str(script))
    assert result.stdout.count("location,ppm") == 2
    assert result.stderr == "CREATE TABLE\nnote: noted\n"
    assert [sql for sql, _ in database.statements] == ["CREATE TABLE t (a INT)", "SELECT 1", "SELECT 2"]


def test_stdin_is_a_script_too(run: Run, database: FakeDatabase) -> None:
    assert run("sql", input="SELECT 1;\n").exit_code == 0
    assert run("sql", "-", input="SELECT 2;\n").exit_code == 0
    assert len(database.statements) == 2


def test_an_error_has_a_caret_and_ends_the_script(run: Run, database: FakeDatabase, tmp_path: Path) -> None:
    script = tmp_path / "plant.sql"
    script.write_text("SELECT 1;\n\nSELECT pmp FROM sensors;\nSELECT 3;")
    result = run("sql", str(script))
    assert result.exit_code == 1
    assert result.stderr == (
        f"{script}, statement at line 3:\n"
        'ERROR 42703 column_not_found: table "sensors" has no column "pmp"\n'
        "  1 | SELECT pmp FROM sensors\n"
        "    |        ^^^\n"
        'hint: did you mean "ppm"?\n'
    )
    assert len(database.statements) == 2


def test_a_server_that_is_not_there_is_said_plainly(run: Run) -> None:
    for arguments in (["sql", "-c", "SELECT 1"], ["status"], ["export", "q", "--to", "x.csv"]):
        result = run(*arguments, "--url", "http://127.0.0.1:9")
        assert result.exit_code == 1
        assert "is `penstock serve` running at http://127.0.0.1:9?" in result.stderr


def test_subscribe_prints_rows_as_they_come_until_the_query_goes(run: Run, database: FakeDatabase) -> None:
    database.commit("gas_alarm", 1)

    def later() -> None:
        while not database.subscriptions:
            time.sleep(0.01)
        database.commit("gas_alarm", 2)
        del database.definitions["gas_alarm"]
        database.wake()

    thread = threading.Thread(target=later)
    thread.start()
    result = run("sql", "-c", "SUBSCRIBE gas_alarm", "--format", "csv")
    thread.join()
    assert result.stdout == "cycle,location,ppm\n1,north gate,37.5\n1,pier,41.0\n2,north gate,37.5\n2,pier,41.0\n"
    assert result.exit_code == 1
    assert "query_not_found" in result.stderr


def test_status_shows_every_fact(run: Run) -> None:
    table = run("status", "--format", "table")
    assert table.exit_code == 0
    for word in ("ready", "tables", "sensors", "1.5", 'odd "name"'):
        assert word in table.stdout
    assert json.loads(run("status", "--format", "json").stdout)["cycle"] == 7
    assert "tables.sensors.rows_per_s,1.5" in run("status").stdout


def test_status_fails_while_the_server_is_not_ready(run: Run, database: FakeDatabase) -> None:
    database.health_now = Health(False, "the pipeline is being restarted")
    result = run("status")
    assert result.exit_code == 1
    assert "being restarted" in result.stdout


ROWS = [{"sensor_id": 1, "ppm": 37.5}, {"sensor_id": 2, "ppm": 41.0}]


def write(path: Path) -> Path:
    table = pa.Table.from_pylist(ROWS)
    if path.suffix == ".csv":
        path.write_text("sensor_id,ppm\n1,37.5\n2,41.0\n")
    elif path.suffix == ".ndjson":
        path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    elif path.suffix == ".parquet":
        pa_parquet.write_table(table, path)
    elif path.suffix == ".arrow":
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    else:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    return path


@pytest.mark.parametrize("name", ["a.csv", "a.ndjson", "a.parquet", "a.arrow", "a.arrows"])
def test_load_takes_each_kind_of_file(run: Run, database: FakeDatabase, tmp_path: Path, name: str) -> None:
    result = run("load", str(write(tmp_path / name)), "--table", "sensors")
    assert (result.exit_code, result.stdout) == (0, ""), result.stderr
    assert "2 readings stored in sensors, 0 refused" in result.stderr
    assert [(int(row["sensor_id"]), float(row["ppm"])) for row in database.readings] == [(1, 37.5), (2, 41.0)]


def test_loading_again_under_the_same_key_stores_nothing_twice(
    run: Run, database: FakeDatabase, tmp_path: Path
) -> None:
    file = str(write(tmp_path / "a.csv"))
    for _ in range(2):
        assert run("load", file, "-t", "sensors", "--idempotency-key", "monday").exit_code == 0
    assert len(database.readings) == 2


def test_load_reads_a_pipe(run: Run, database: FakeDatabase) -> None:
    result = run("load", "-", "--input", "csv", "-t", "sensors", input="sensor_id,ppm\n1,2\n")
    assert result.exit_code == 0, result.stderr
    assert len(database.readings) == 1


def test_refused_readings_are_shown_with_their_line_and_fail_the_command(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("sensor_id\n1\n" + "-1\n" * 12)
    result = run("load", str(file), "-t", "sensors")
    assert result.exit_code == 1
    assert "1 readings stored in sensors, 12 refused" in result.stderr
    assert "reading 2: sensor_not_found: no sensor -1" in result.stderr
    assert "and 2 more" in result.stderr


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.txt", "x", "cannot tell from its name"),
        ("missing.csv", None, "cannot read"),
        ("a.csv", "a,b\n1\n", "a.csv"),
        ("a.ndjson", "{}\n[]\n", "line 2"),
        ("a.parquet", "x", "a.parquet"),
        ("empty.csv", "", "empty.csv"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    run: Run, tmp_path: Path, name: str, content: str | None, says: str
) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    result = run("load", str(tmp_path / name), "-t", "sensors")
    assert result.exit_code == 1
    assert says in result.stderr


@pytest.mark.parametrize("suffix", ["csv", "parquet", "arrow", "ndjson"])
@pytest.mark.parametrize("what", ["gas_alarm", "SELECT location, ppm FROM sensors"])
def test_export_writes_each_kind_of_file(run: Run, tmp_path: Path, suffix: str, what: str) -> None:
    target = tmp_path / f"out.{suffix}"
    result = run("export", what, "--to", str(target))
    assert (result.exit_code, result.stdout) == (0, ""), result.stderr
    assert [path.name for path in tmp_path.iterdir()] == [target.name]
    if suffix == "parquet":
        assert pa_parquet.read_table(target).num_rows == 2
    elif suffix == "arrow":
        assert pa.ipc.open_file(str(target)).read_all().num_rows == 2
    else:
        assert "north gate" in target.read_text()


def test_backup_names_the_folder_and_restore_brings_it_back(run: Run, tmp_path: Path) -> None:
    assert run("backup", str(tmp_path / "copy")).exit_code == 0
    (tmp_path / "copy" / "lock").write_text("123")
    again = run("backup", str(tmp_path / "copy"))
    assert again.exit_code == 1 and "already exists" in again.stderr
    result = run("restore", str(tmp_path / "copy"), "--data", str(tmp_path / "data"))
    assert result.exit_code == 0, result.stderr
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["format_version"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "data"]


def test_restore_overwrites_nothing(run: Run, tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    result = run("restore", str(tmp_path / "copy"), "--data", str(tmp_path / "data"))
    assert result.exit_code == 1 and "is not a backup" in result.stderr
    (tmp_path / "copy" / "format_version").write_text("1")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine").write_text("x")
    result = run("restore", str(tmp_path / "copy"), "--data", str(tmp_path / "data"))
    assert result.exit_code == 1 and "already exists" in result.stderr
    assert (tmp_path / "data" / "mine").exists()


def test_serve_refuses_what_it_cannot_do_before_it_starts_anything(run: Run) -> None:
    started: list[object] = []
    with watched(jvm.launch_java_early, tell=started.append):
        refused = run("serve", "--host", "0.0.0.0")
        assert refused.exit_code == 1 and "token_required" in refused.stderr
        for flags in (["--port", "99999999"], ["--port", "0", "--log-level", "LOUD"]):
            typo = run("serve", *flags)
            assert typo.exit_code == 1 and "invalid_option" in typo.stderr
    assert started == []


def test_without_an_address_the_server_of_this_folder_is_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "penstock.toml").write_text('host = "0.0.0.0"\nport = 9\ntoken = "x"\n')
    result = CliRunner().invoke(app, ["status"])
    assert "is `penstock serve` running at http://127.0.0.1:9?" in result.stderr
    (tmp_path / "penstock.toml").write_text("prot = 9\n")
    assert 'did you mean "port"?' in CliRunner().invoke(app, ["status"]).stderr


def test_a_setting_that_was_removed_is_refused_with_what_to_do(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text('catalog_url = "postgresql://host/database"\n')
    in_file = run("serve", "--config", str(file))
    monkeypatch.setenv("PENSTOCK_CATALOG_URL", "postgresql://host/database")
    in_environment = run("serve")
    for refused in (in_file, in_environment):
        assert refused.exit_code == 1 and "it was removed" in refused.stderr
        assert "take catalog_url out of penstock.toml" in refused.stderr
        assert "Traceback" not in refused.stderr


def test_a_setting_that_was_renamed_is_read_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    for given in (
        load_settings({"history_max_rows": 70}),
        load_settings(environ={"PENSTOCK_HISTORY_MAX_ROWS": "70"}),
        load_settings({"answer_read_max_rows": 70}, {"PENSTOCK_HISTORY_MAX_ROWS": "7"}),
    ):
        assert given.answer_read_max_rows == 70
    assert (
        caplog.messages
        == ['the setting "history_max_rows" is now called "answer_read_max_rows"; a later version refuses the old name']
        * 3
    )


def test_backup_names_what_was_damaged_before(run: Run, database: FakeDatabase, tmp_path: Path) -> None:
    database.damaged = ["log/1/a.arrow: its checksum is wrong"]
    result = run("backup", str(tmp_path / "copy"))
    assert result.exit_code == 1 and "1 files were damaged before" in result.stderr
    assert "log/1/a.arrow: its checksum is wrong" in result.stderr and (tmp_path / "copy").is_dir()


def test_restore_names_what_differs_from_the_manifest(run: Run, tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "format_version").write_text("1")
    write_manifest(tmp_path / "copy", {"format_version": FileSum(1, "0" * 64)}, [])
    result = run("restore", str(tmp_path / "copy"), "--data", str(tmp_path / "data"))
    assert result.exit_code == 1 and "damaged_backup" in result.stderr and "format_version has changed" in result.stderr
    assert "--accept-damage" in result.stderr and not (tmp_path / "data").exists()
    result = run("restore", str(tmp_path / "copy"), "--data", str(tmp_path / "data"), "--accept-damage")
    assert result.exit_code == 0 and "format_version has changed" in result.stderr
