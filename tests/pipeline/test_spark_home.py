"""The Spark home of links: whole, mended when a link went wrong, and without the zip that slows every worker down."""

from __future__ import annotations

from pathlib import Path

import pyspark

from penstock.pipeline.jvm import link_home


def test_the_home_has_what_spark_starts_from_and_no_second_pyspark(tmp_path: Path) -> None:
    home = link_home(tmp_path / "spark")
    assert (home / "bin" / "spark-submit").is_file() and any((home / "jars").glob("spark-core*.jar"))
    assert not (home / "python").exists()


def test_a_link_to_a_pyspark_that_is_gone_is_mended(tmp_path: Path) -> None:
    home = tmp_path / "spark"
    home.mkdir()
    (home / "jars").symlink_to(tmp_path / "gone")
    assert link_home(link_home(home)).joinpath("jars").resolve() == Path(pyspark.__file__).parent / "jars"
    assert {p.name for p in home.iterdir()} <= {"bin", "jars", "sbin"}, "nothing is left aside"
