"""Keyed hashes of entities' names: how sites find out which entities they have in common.

A hash is HMAC-SHA256 of a name. Its key is derived from a secret that the sites share (``align-key-file``) and from
the run's salt. Hashes of two runs cannot be matched. Without the secret nobody can test guesses of a name. If the sites
share no secret, the fusion center can.
"""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path

import numpy as np
from jaxtyping import Shaped, UInt8, UInt64

KEY_FILE = "align-key-file"
"""Configuration key of the file with the sites' shared secret."""

SHORTEST_SECRET = 16
"""Fewest bytes of a secret: a shorter one could be found by trying all values."""

_OF_NAMES, _OF_SECRET = b"consilience: names of entities", b"consilience: same secret"
"""Purposes of the derived keys; no two purposes share a key."""


class SecretError(ValueError):
    """A file that holds no usable shared secret; the message is one line."""


def read_secret(path: str) -> bytes:
    """Return the shared secret in a file, without one line break at its end; nothing if no file is named.

    Parameters
    ----------
    path : str
        Path of the file; empty: the sites share no secret.

    Raises
    ------
    SecretError
        If the file cannot be read, or holds fewer than 16 bytes.

    Examples
    --------
    >>> read_secret("")
    b''
    """
    if not path:
        return b""
    try:
        secret = Path(path).expanduser().read_bytes()
    except (OSError, ValueError, RuntimeError) as error:  # unreadable, a null byte in its name, an unknown ~user
        raise SecretError(f"{KEY_FILE} cannot be read: {error}") from error
    secret = secret.removesuffix(b"\n").removesuffix(b"\r") if secret.endswith(b"\n") else secret
    if len(secret) < SHORTEST_SECRET:
        raise SecretError(
            f"{KEY_FILE} {path} holds {len(secret)} bytes; a secret needs at least {SHORTEST_SECRET} (make one with "
            "'openssl rand -hex 32' and give it to all sites)"
        )
    return secret


def secret_check(secret: bytes, salt: str) -> UInt8[np.ndarray, "_"]:
    """Return 16 bytes that are equal at two sites if their secrets are, and otherwise reveal nothing of the secret.

    Parameters
    ----------
    secret : bytes
        Result of `read_secret`; without a secret there are no bytes.
    salt : str
        Salt of the run.

    Examples
    --------
    >>> one, other = secret_check(b"0123456789abcdef", "run-1"), secret_check(b"0123456789abcdef", "run-1")
    >>> len(one), bool((one == other).all()), len(secret_check(b"", "run-1"))
    (16, True, 0)
    """
    digest = _key(secret, salt, _OF_SECRET)[:16] if secret else b""
    return np.frombuffer(digest, np.uint8).copy()


def keyed_hashes(names: Shaped[np.ndarray, "n"], secret: bytes, salt: str) -> UInt64[np.ndarray, "n 2"]:
    """Return HMAC-SHA256 of every name in UTF-8, cut to 128 bits.

    Parameters
    ----------
    names : ndarray
        ``(n,)`` text; whole numbers are hashed as their decimal digits.
    secret : bytes
        Result of `read_secret`; may be empty.
    salt : str
        Salt of the run.

    Returns
    -------
    ndarray
        ``(n, 2)``; the same for the same names, secret and salt on every machine.

    Examples
    --------
    >>> hashes = keyed_hashes(np.array(["Ann", "Bob", "Ann"]), b"", "run-1")
    >>> hashes.shape, bool((hashes[0] == hashes[2]).all()), bool((hashes[0] == hashes[1]).any())
    ((3, 2), True, False)
    """
    # HMAC by its definition (RFC 2104), with both padded keys hashed once for all names: half a microsecond a name,
    # where hmac.digest takes one and a half.
    key = _key(secret, salt, _OF_NAMES).ljust(hashlib.sha256().block_size, b"\0")
    inner, outer = (hashlib.sha256(bytes(byte ^ pad for byte in key)) for pad in (0x36, 0x5C))

    def digest(name: object) -> bytes:
        inside, outside = inner.copy(), outer.copy()
        inside.update(str(name).encode("utf-8", "surrogatepass"))  # text of a site's own function may hold anything
        outside.update(inside.digest())
        return outside.digest()

    digests = np.fromiter(map(digest, names.tolist()), dtype="S32", count=len(names))
    words: UInt64[np.ndarray, "n 2"] = digests.view("<u8").reshape(len(names), 4)[:, :2].astype(np.uint64)
    return words


def _key(secret: bytes, salt: str, purpose: bytes) -> bytes:
    # The purpose has a fixed text without a null byte, so that no salt of one purpose looks like another purpose.
    return hmac.digest(secret, purpose + b"\0" + salt.encode(), "sha256")
