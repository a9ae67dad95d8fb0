"""HTTPS by two settings, from `penstock serve`'s own socket to the client."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import httpx
import pytest

import penstock
from penstock.errors import PenstockError
from penstock.server.http.listener import check_tls
from penstock.settings import Settings
from tests.server.fake import FakeDatabase
from tests.server.live import serving


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """One that signs itself, and its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    files = str(folder / "certificate.pem"), str(folder / "key.pem")
    command = [openssl, "req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    command += ["-subj", "/CN=penstock", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    subprocess.run([*command, "-out", files[0], "-keyout", files[1]], check=True, capture_output=True)
    return files


def test_with_both_settings_the_server_speaks_https_only(certificate: tuple[str, str]) -> None:
    settings = Settings(
        tls_certificate=certificate[0], tls_key=certificate[1], token="right-right-right-right-right-right"
    )
    with serving(FakeDatabase(), settings) as live:
        assert live.url.startswith("https://")
        with penstock.connect(live.url, token="right-right-right-right-right-right", ca=certificate[0]) as connection:
            assert connection.sql("SELECT 1").rows()
        answer = httpx.post(
            f"{live.url}/v1/session",
            json={"token": "right-right-right-right-right-right"},
            verify=_trust(certificate[0]),
            timeout=60,
        )
        assert "; secure" in answer.headers["set-cookie"].lower()
        with (
            penstock.connect(live.url, token="right-right-right-right-right-right") as connection,
            pytest.raises(PenstockError) as caught,
        ):
            connection.sql("SELECT 1")
        assert caught.value.condition == "connection_failed" and "certificate" in caught.value.message
        with pytest.raises(httpx.TransportError):
            httpx.get(live.url.replace("https", "http") + "/v1/health")


def _trust(file: str) -> object:
    import ssl

    return ssl.create_default_context(cafile=file)


def test_half_of_it_or_files_that_do_not_fit_are_refused_before_anything_starts(
    certificate: tuple[str, str], tmp_path: Path
) -> None:
    other = tmp_path / "other.pem"
    other.write_text("nothing")
    for bad in (
        Settings(tls_certificate=certificate[0]),
        Settings(tls_key=certificate[1]),
        Settings(tls_certificate=certificate[0], tls_key=str(other)),
        Settings(tls_certificate=str(tmp_path / "missing.pem"), tls_key=certificate[1]),
    ):
        with pytest.raises(PenstockError) as caught:
            check_tls(bad)
        assert caught.value.condition == "invalid_option"
    check_tls(Settings(tls_certificate=certificate[0], tls_key=certificate[1]))
    check_tls(Settings())


def test_a_file_without_certificates_is_no_authority(tmp_path: Path) -> None:
    with pytest.raises(PenstockError, match="holds no certificates"):
        penstock.connect("https://127.0.0.1:1", ca=str(tmp_path / "missing.pem"))
