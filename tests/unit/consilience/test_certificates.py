"""Certificates and keys that Flower and OpenSSL take, for their owner's eyes only, never written over."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from flwr.cli.supernode.register import try_load_public_key
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from typer.testing import CliRunner

from consilience import cli
from consilience.certificates import CertificateError, make_server, make_site_key

RUNNER = CliRunner()


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.mark.skipif(os.name != "posix", reason="modes of files are POSIX's")
def test_what_is_secret_is_for_its_owner_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        made = [*make_server(tmp_path / "new" / "keys", ["center.example.org"]), *make_site_key(tmp_path / "new", "a")]
        made += make_site_key(tmp_path / "new", "b.pem")
    finally:
        os.umask(before)
    assert {path.name: mode(path) for path in made} == {
        "ca.key": 0o600,
        "ca.pem": 0o644,
        "server.key": 0o600,
        "server.pem": 0o644,
        "a": 0o600,
        "a.pub": 0o644,
        "b.pem": 0o600,
        "b.pem.pub": 0o644,
    }
    assert mode(tmp_path / "new" / "keys") == 0o700


def handshake(keys: Path, root: Path, host: str) -> str:
    """A TLS connection to a server with the certificate, under this name; returns the protocol that was agreed on."""
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(keys / "server.pem", keys / "server.key")
    asking = ssl.create_default_context(cafile=str(root))
    asking.verify_flags |= ssl.VERIFY_X509_STRICT  # Python 3.13's default
    ours, theirs = socket.socketpair()

    def serve() -> None:
        with theirs, contextlib.suppress(OSError):  # the other side is told
            serving.wrap_socket(theirs, server_side=True).close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with ours, asking.wrap_socket(ours, server_hostname=host) as connection:
            return str(connection.version())
    finally:
        thread.join(10)


def test_a_client_that_has_the_ca_trusts_the_server_under_its_names_only(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    make_server(keys, ["center.example.org", "192.0.2.10", "2001:db8::1"])
    for host in ("center.example.org", "192.0.2.10", "2001:db8::1", "localhost", "127.0.0.1"):
        assert handshake(keys, keys / "ca.pem", host) == "TLSv1.3"
    with pytest.raises(ssl.SSLCertVerificationError, match=r"(?i)hostname mismatch"):
        handshake(keys, keys / "ca.pem", "other.example.org")
    make_server(tmp_path / "other", ["center.example.org"])
    with pytest.raises(ssl.SSLCertVerificationError, match="verify failed"):
        handshake(keys, tmp_path / "other" / "ca.pem", "center.example.org")


def test_renewing_needs_nothing_of_the_sites(tmp_path: Path) -> None:
    make_server(tmp_path, ["center.example.org"])
    root = (tmp_path / "ca.pem").read_bytes()
    for name in ("server.pem", "server.key"):
        (tmp_path / name).rename(tmp_path / f"old.{name}")
    made = make_server(tmp_path, ["moved.example.org"], days=7)
    assert [path.name for path in made] == ["server.key", "server.pem"]
    assert (tmp_path / "ca.pem").read_bytes() == root
    assert handshake(tmp_path, tmp_path / "ca.pem", "moved.example.org")
    certificate = x509.load_pem_x509_certificate((tmp_path / "server.pem").read_bytes())
    assert timedelta(days=6) < certificate.not_valid_after_utc - datetime.now(UTC) <= timedelta(days=7)


def test_no_server_certificate_outlives_its_ca(tmp_path: Path) -> None:
    make_server(tmp_path, ["center"], days=100_000)
    server, root = (
        x509.load_pem_x509_certificate((tmp_path / f"{name}.pem").read_bytes()) for name in ("server", "ca")
    )
    assert server.not_valid_after_utc == root.not_valid_after_utc


def test_flower_takes_the_sites_keys(tmp_path: Path) -> None:
    private, public = make_site_key(tmp_path, "hospital-a")
    key = load_ssh_private_key(private.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert public_key_to_bytes(key.public_key()) == try_load_public_key(public)
    assert public.read_text().endswith(" hospital-a\n")


def test_nothing_is_written_over(tmp_path: Path) -> None:
    make_server(tmp_path, ["center"])
    make_site_key(tmp_path, "a")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(CertificateError, match="exists already and is not replaced"):
        make_server(tmp_path, ["center"])
    with pytest.raises(CertificateError, match="exists already and is not replaced"):
        make_site_key(tmp_path, "a")
    (tmp_path / "a.pub").unlink()
    with pytest.raises(CertificateError, match="exists already"):
        make_site_key(tmp_path, "a")
    (tmp_path / "b").symlink_to(tmp_path / "nowhere")
    with pytest.raises(CertificateError, match="exists already"):
        make_site_key(tmp_path, "b")
    assert {path: path.read_bytes() for path in before if path.exists()}.items() <= before.items()


def test_a_failed_attempt_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = os.open

    def full(path: object, *options: int) -> int:
        if str(path).endswith("server.pem"):
            raise OSError(28, "No space left on device")
        return opened(str(path), *options)

    monkeypatch.setattr("consilience.certificates.os.open", full)
    with pytest.raises(CertificateError, match="cannot be written to: No space left"):
        make_server(tmp_path, ["center"])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "host", ["", "center:8443", "https://center", "-center", "a..b", "1.2.3", "10.0.0.300", "ü.de"]
)
def test_what_is_no_host_is_refused(tmp_path: Path, host: str) -> None:
    with pytest.raises(CertificateError, match="neither a host name nor an IP address"):
        make_server(tmp_path / "keys", [host])
    assert not (tmp_path / "keys").exists()


@pytest.mark.parametrize("name", ["", "../a", "a b", ".."])
def test_what_is_no_sites_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(CertificateError, match="a site's name has letters"):
        make_site_key(tmp_path, name)


def test_a_ca_of_two_halves_signs_nothing(tmp_path: Path) -> None:
    make_server(tmp_path / "one", ["center"])
    make_server(tmp_path / "other", ["center"])
    for name in ("server.key", "server.pem"):
        (tmp_path / "one" / name).unlink()
    (tmp_path / "one" / "ca.key").write_bytes((tmp_path / "other" / "ca.key").read_bytes())
    with pytest.raises(CertificateError, match="is not the key of"):
        make_server(tmp_path / "one", ["center"])
    (tmp_path / "one" / "ca.key").unlink()
    with pytest.raises(CertificateError, match="holds part of a CA"):
        make_server(tmp_path / "one", ["center"])


def test_the_command_says_what_each_file_is_for(tmp_path: Path) -> None:
    made = RUNNER.invoke(cli.app, ["certificates", str(tmp_path), "--host", "center", "--site", "a", "--site", "b"])
    assert made.exit_code == 0, made.output
    lines = dict(line.split(": ", 1) for line in made.stdout.splitlines())
    assert {Path(path).name for path in lines} == {path.name for path in tmp_path.iterdir()}
    assert "keep it secret" in lines[str(tmp_path / "ca.key")]
    assert "register" in lines[str(tmp_path / "a.pub")]
    again = RUNNER.invoke(cli.app, ["certificates", str(tmp_path), "--site", "a"])
    assert again.exit_code == 1
    assert "Traceback" not in again.output
    nothing = RUNNER.invoke(cli.app, ["certificates", str(tmp_path)])
    assert nothing.exit_code == 2
    assert "--host" in nothing.stderr
