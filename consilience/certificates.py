"""Keys and certificates of a federation: a CA and the SuperLink's certificate, and the keys of SuperNodes.

OpenSSL and ssh-keygen make them, too. This module writes the one form that Flower accepts. A private key is never
readable by others, never half written, and never replaced.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from protocols.wire.faults import usable_name

CA_CERTIFICATE, CA_KEY = "ca.pem", "ca.key"
SERVER_CERTIFICATE, SERVER_KEY = "server.pem", "server.key"

DAYS = 825
"""Default validity of a server certificate: the longest that browsers and operating systems accept."""

_PURPOSES = {
    CA_KEY: "signs server certificates; keep it secret and off line",
    CA_CERTIFICATE: "for every site, and for everybody who starts runs",
    SERVER_KEY: "of the SuperLink; keep it secret",
    SERVER_CERTIFICATE: "of the SuperLink",
}

_CA_DAYS = 3650
_CURVE = ec.SECP384R1()  # the one that Flower's guide names
_LATE = timedelta(hours=1)  # another machine's clock may be behind
_OWN_HOSTS = ("localhost", "127.0.0.1", "::1")
_NAME_LENGTH = 64  # of a certificate's common name (RFC 5280, ub-common-name)


class CertificateError(ValueError):
    """Error: keys or certificates cannot be made. The message is one line: why, and what to do."""


def make_server(folder: Path, hosts: Sequence[str], days: int = DAYS) -> list[Path]:
    """Make a server certificate for the SuperLink, signed by the CA in `folder`, which is made if there is none.

    The certificate also names the SuperLink's own machine (``localhost``, ``127.0.0.1``, ``::1``): the processes that
    the SuperLink starts reach it by that name.

    Parameters
    ----------
    folder : Path
        Folder of the files; made if need be, for its owner only.
    hosts : sequence of str
        Host names and IP addresses by which sites and users reach the SuperLink; one at least.
    days : int
        Validity, 1 at least; never longer than the CA's.

    Returns
    -------
    list of Path
        The new files.

    Raises
    ------
    CertificateError
        If a host is neither name nor address, a server certificate is there already, or the CA cannot be used.
    """
    names = [_host(host) for host in dict.fromkeys([*hosts, *_OWN_HOSTS])]
    if not hosts or days < 1:
        raise CertificateError("a server certificate needs one host at least (--host), and one day at least (--days)")
    _refuse_existing(folder, (SERVER_KEY, SERVER_CERTIFICATE), "to renew it, move the old one away")
    files: dict[str, bytes] = {}
    if (folder / CA_KEY).exists() or (folder / CA_CERTIFICATE).exists():
        ca_key, ca = _authority_in(folder)
    else:
        ca_key, ca = _new_authority()
        files |= {CA_KEY: _pem(ca_key), CA_CERTIFICATE: ca.public_bytes(Encoding.PEM)}
    key = ec.generate_private_key(_CURVE)
    certificate = _server_certificate(key.public_key(), names, hosts[0], ca_key, ca, days)
    files |= {SERVER_KEY: _pem(key), SERVER_CERTIFICATE: certificate.public_bytes(Encoding.PEM)}
    return _write(folder, files, (CA_KEY, SERVER_KEY))


def make_site_key(folder: Path, name: str) -> list[Path]:
    """Make a SuperNode's key pair: ``NAME`` stays at the site, the fusion center registers ``NAME.pub``.

    Returns
    -------
    list of Path
        The new files.

    Raises
    ------
    CertificateError
        If `name` cannot be a site's name, or the key exists already.
    """
    check_name(name)
    _refuse_existing(folder, (name, f"{name}.pub"), "use it, or move it away and have the new one registered")
    key = ec.generate_private_key(_CURVE)
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    return _write(folder, {name: private, f"{name}.pub": public + f" {name}\n".encode()}, (name,))


def check_name(name: str) -> None:
    """Raise `CertificateError` unless `name` can be a site's name.

    Examples
    --------
    >>> check_name("hospital-a")
    """
    if not usable_name(name):
        raise CertificateError(
            f"--site {name!r}: a site's name has letters, digits, dot, hyphen and underscore only, 64 at most"
        )


def purpose(path: Path) -> str:
    """Return the purpose of a file of this module in a few words.

    Examples
    --------
    >>> purpose(Path("keys/hospital-a.pub"))
    'for the fusion center to register'
    """
    of_a_site = "for the fusion center to register" if path.suffix == ".pub" else "of the SuperNode; keep it secret"
    return _PURPOSES.get(path.name, of_a_site)


def _host(host: str) -> x509.GeneralName:
    """Return the form of a host in a certificate."""
    with contextlib.suppress(ValueError):
        return x509.IPAddress(ipaddress.ip_address(host))
    labels = host.split(".")
    good = all(
        label and len(label) < 64 and label.isascii() and label.replace("-", "").isalnum() and label.strip("-") == label
        for label in labels
    )
    # A name that ends in a number would be read as an address, and a wrong one.
    if not good or len(host) > 253 or labels[-1].isdecimal():
        raise CertificateError(
            f"--host {host!r} is neither a host name nor an IP address; give it without port and without https://"
        )
    return x509.DNSName(host)


def _new_authority() -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(_CURVE)
    name = _name("consilience federation CA")
    builder = _builder(name, name, key.public_key(), _CA_DAYS)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
    return key, builder.sign(key, hashes.SHA384())


def _authority_in(folder: Path) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    try:
        key = load_pem_private_key((folder / CA_KEY).read_bytes(), None)
        certificate = x509.load_pem_x509_certificate((folder / CA_CERTIFICATE).read_bytes())
    except (OSError, ValueError, TypeError) as error:
        raise CertificateError(
            f"{folder}: holds part of a CA, or one that cannot be read ({type(error).__name__}); put both {CA_KEY} and "
            f"{CA_CERTIFICATE} of one CA there, or neither"
        ) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise CertificateError(f"{folder}: {CA_KEY} is not the key of {CA_CERTIFICATE}; put those of one CA there")
    if certificate.not_valid_after_utc <= datetime.now(UTC):
        raise CertificateError(f"{folder / CA_CERTIFICATE} has expired; make a new CA in another folder")
    return key, certificate


def _server_certificate(
    key: ec.EllipticCurvePublicKey,
    names: Sequence[x509.GeneralName],
    host: str,
    ca_key: ec.EllipticCurvePrivateKey,
    ca: x509.Certificate,
    days: int,
) -> x509.Certificate:
    builder = _builder(_name(host[:_NAME_LENGTH]), ca.subject, key, days, ca.not_valid_after_utc)
    builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    # Python 3.13 and later refuse a certificate that does not name the key that signed it.
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    return builder.add_extension(issuer, critical=False).sign(ca_key, hashes.SHA384())


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    days: int,
    at_most: datetime | None = None,
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    end = now + timedelta(days=days)
    return (
        x509.CertificateBuilder(subject_name=subject, issuer_name=issuer, public_key=key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _LATE)
        .not_valid_after(min(end, at_most) if at_most else end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _refuse_existing(folder: Path, names: Sequence[str], advice: str) -> None:
    if existing := next((path for name in names if os.path.lexists(path := folder / name)), None):
        raise CertificateError(f"{existing} exists already and is not replaced; {advice}")


def _write(folder: Path, files: Mapping[str, bytes], secret: Collection[str]) -> list[Path]:
    """Write all of these new files or none; only their owner can read the secret ones."""
    written: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for name, content in files.items():
            mode = 0o600 if name in secret else 0o644
            # The file has its mode from the start, and a file of another process is left alone.
            descriptor = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            written.append(folder / name)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
    except BaseException as error:
        for path in written:
            path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise CertificateError(f"{folder}: cannot be written to: {error.strerror}") from error
        raise
    return written
