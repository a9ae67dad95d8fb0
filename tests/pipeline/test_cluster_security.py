"""Masters on other machines: with a secret, authentication and encryption, or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pyspark.java_gateway
import pytest
from pyspark import SparkContext

from penstock.errors import PenstockError
from penstock.settings import Settings

SECRET = "0123456789abcdef0123456789abcdef"
OWN = ("local", "local[*]", "local[4]", "local[2,4]", "local-cluster[2,1,1024]")
FOREIGN = (
    "spark://host:7077",
    "yarn",
    "k8s://https://host",
    "localhost",
    "local-cluster",
    "locally[1]",
    "spark://local[2]",
)


@pytest.fixture
def secret_file(tmp_path: Path) -> Path:
    file = tmp_path / "secret"
    file.write_text(SECRET + "\n")
    file.chmod(0o600)
    return file


def refusal(settings: Settings) -> PenstockError:
    from penstock.pipeline.jvm import security_settings

    with pytest.raises(PenstockError) as caught:
        security_settings(settings)
    return caught.value


def test_on_this_machine_a_secret_is_made_at_each_start() -> None:
    from penstock.pipeline.jvm import security_settings

    made = [security_settings(Settings(spark_master=master)) for master in (*OWN, OWN[-1])]
    assert made[:-2] == [{"spark.authenticate": "true"}] * (len(OWN) - 1)  # Spark makes it
    first, second = (settings.pop("spark.authenticate.secret") for settings in made[-2:])
    assert made[-2:] == made[:2] and len(first) == 64 and first != second


@pytest.mark.parametrize("master", FOREIGN)
def test_any_other_master_gets_a_secret_authentication_and_encryption(master: str, secret_file: Path) -> None:
    from penstock.pipeline.jvm import security_settings

    made = security_settings(Settings(spark_master=master, spark_secret_file=str(secret_file)))
    assert made == {
        "spark.authenticate": "true",
        "spark.authenticate.secret": SECRET,
        "spark.network.crypto.enabled": "true",
        "spark.io.encryption.enabled": "true",
    }
    refused = refusal(Settings(spark_master=master))
    assert refused.condition == "invalid_option" and "spark_secret_file" in refused.message


@pytest.mark.parametrize("how", ["missing", "readable by others", "a folder", "short", "empty"])
def test_a_secret_that_is_none_refuses_the_start(secret_file: Path, how: str) -> None:
    if how == "missing":
        secret_file.unlink()
    elif how == "readable by others":
        secret_file.chmod(0o640)
    elif how == "a folder":
        secret_file.unlink()
        secret_file.mkdir()
    else:
        secret_file.write_text("" if how == "empty" else "short")
    refused = refusal(Settings(spark_master="spark://host:7077", spark_secret_file=str(secret_file)))
    assert "spark_secret_file" in refused.message and SECRET not in str(refused)


def test_the_secret_is_not_among_what_the_java_process_is_started_with(
    secret_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other accounts of the machine see the arguments of processes."""
    from penstock.pipeline import session

    started: list[str] = []

    def launch(command: list[str], **_: object) -> None:
        started.append(" ".join(command))
        raise InterruptedError

    monkeypatch.setattr(pyspark.java_gateway, "Popen", launch)
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    settings = Settings(spark_master="spark://host:7077", spark_secret_file=str(secret_file))
    with pytest.raises(InterruptedError):
        session.start_session(settings, tmp_path / "scratch")
    assert "spark.driver.memory" in started[0] and SECRET not in str(started[0])
