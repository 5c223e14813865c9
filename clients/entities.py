"""Names of entities, and the keyed hashes by which parties find out which entities they have in common.

A hash is HMAC-SHA256 of a name. Its key comes from the secret that the sites share (``align-key-file``) and from the
run's salt: hashes of two runs cannot be matched, and who has no secret cannot find out a name by hashing guesses.
Without a shared secret the fusion center can.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import numpy as np
from jaxtyping import Bool, Shaped, UInt8, UInt64

from clients.data import DataError, Table, cell_name, setting
from protocols.wire.faults import Fault, SiteFault

KEY_FILE = "align-key-file"
"""The configuration's key for the file that holds the sites' secret."""

SHORTEST_SECRET = 16
"""Bytes: a shorter secret could be guessed by trying all."""

_OF_NAMES, _OF_SECRET = b"consilience: names of entities", b"consilience: same secret"
"""What a key is for: two purposes never share one."""

_EXACT = 2.0**53  # from here on neighbouring whole numbers are one float64


# -- names ------------------------------------------------------------------------------------------------------------


def entity_names(table: Table, column: str) -> tuple[Shaped[np.ndarray, "n"], str]:
    """The entities' names as text, so that ``12`` of one file and ``"12"`` of another are the same entity.

    Parameters
    ----------
    table : Table
        One row an entity.
    column : str
        The column of their names: whole numbers or text.

    Returns
    -------
    names : ndarray
        ``(n,)`` text, each name once.
    kind : str
        ``number`` or ``text``: what the column holds. Where it differs between two parties, names such as ``012`` do
        not match.

    Raises
    ------
    DataError
        With the first row that has no name, a number that is no name, or the name of an earlier row.
    """
    cells = table.column(column)
    number = cells.dtype.kind in "fi"
    missing = np.array([cell is None for cell in cells]) if cells.dtype == object else np.isnan(cells.astype(float))
    for row in np.flatnonzero(missing)[:1]:
        raise DataError(f"{cell_name(table, column, int(row))}: is empty; every row needs a name", "missing-value")
    names = np.array([str(cell) for cell in (_whole(table, column) if cells.dtype.kind == "f" else cells).tolist()])
    # A set of strings is many times faster than their sort, and its order is not used.
    if len(set(names.tolist())) < table.n:
        _refuse_duplicate(table, column, names)
    return names, "number" if number else "text"


def _whole(table: Table, column: str) -> Shaped[np.ndarray, "n"]:
    """Whole numbers that came as floating-point numbers."""
    cells = table.column(column)
    _refuse(table, column, ~np.isfinite(cells) | (cells != np.floor(cells)), "a name is a whole number or text")
    _refuse(table, column, np.abs(cells) >= _EXACT, "numbers so large are rounded; store the names as text")
    return cells.astype(np.int64)


def _refuse(table: Table, column: str, bad: Bool[np.ndarray, "n"], why: str) -> None:
    for row in np.flatnonzero(bad)[:1]:
        cell = table.column(column)[row]
        raise DataError(f"{cell_name(table, column, int(row))}: {cell:.15g} is no name; {why}", "bad-shape")


def _refuse_duplicate(table: Table, column: str, names: Shaped[np.ndarray, "n"]) -> NoReturn:
    first = {name: row for row, name in reversed(list(enumerate(names.tolist())))}
    row, name = next((row, name) for row, name in enumerate(names.tolist()) if first[name] != row)
    raise DataError(
        f"{cell_name(table, column, row)}: {name[:20]!r} is the name of {table.where(first[name])} already; a row "
        "needs a name of its own",
        "duplicate-entity",
    )


# -- the sites' secret ------------------------------------------------------------------------------------------------


def read_secret(config: Mapping[str, object]) -> bytes:
    """The secret in the file that ``align-key-file`` names, less one line break at its end; nothing if none is named.

    Raises
    ------
    DataError
        If the file cannot be read, or holds fewer than 16 bytes.
    """
    named = setting(config, KEY_FILE)
    if not named:
        return b""
    try:
        secret = Path(named).expanduser().read_bytes()
    except (OSError, ValueError, RuntimeError) as error:  # of the file; of a null byte in its name; of an unknown ~user
        raise DataError(f"{KEY_FILE} cannot be read: {error}", "bad-configuration") from error
    secret = secret.removesuffix(b"\n").removesuffix(b"\r") if secret.endswith(b"\n") else secret
    if len(secret) < SHORTEST_SECRET:
        raise DataError(
            f"{KEY_FILE} {named} holds {len(secret)} bytes; a secret needs at least {SHORTEST_SECRET} (make one with "
            "'openssl rand -hex 32' and give it to all sites)",
            "bad-configuration",
        )
    return secret


def shared_secret(config: Mapping[str, object]) -> bytes:
    """As `read_secret`, for a site that answers an ask.

    Raises
    ------
    SiteFault
        ``BAD_CONFIGURATION``; the detail stays in the site's own log.
    """
    try:
        return read_secret(config)
    except DataError as error:
        raise SiteFault(Fault.BAD_CONFIGURATION, str(error)) from error


def secret_check(secret: bytes, salt: str) -> UInt8[np.ndarray, "_"]:
    """16 bytes that are equal at two sites if their secrets are, and tell nothing else of it; none without a secret.

    Parameters
    ----------
    secret : bytes
        As `shared_secret` gives it.
    salt : str
        Of the run.
    """
    digest = _key(secret, salt, _OF_SECRET)[:16] if secret else b""
    return np.frombuffer(digest, np.uint8).copy()


def _key(secret: bytes, salt: str, purpose: bytes) -> bytes:
    # The purpose has a fixed text without a null byte, so that no salt of one purpose looks like another purpose.
    return hmac.digest(secret, purpose + b"\0" + salt.encode(), "sha256")


# -- keyed hashes -----------------------------------------------------------------------------------------------------


def keyed_hashes(names: Shaped[np.ndarray, "n"], secret: bytes, salt: str) -> UInt64[np.ndarray, "n 2"]:
    """HMAC-SHA256 of every name in UTF-8, cut to 128 bits.

    Parameters
    ----------
    names : ndarray
        ``(n,)`` text; whole numbers are hashed as their decimal digits.
    secret : bytes
        As `shared_secret` gives it; may be empty.
    salt : str
        Of the run.

    Returns
    -------
    ndarray
        ``(n, 2)``; the same for the same names, secret and salt on every machine.
    """
    # HMAC by its definition (RFC 2104), with both padded keys hashed once for all names: half a microsecond a name,
    # where hmac.digest takes one and a half.
    key = _key(secret, salt, _OF_NAMES).ljust(hashlib.sha256().block_size, b"\0")
    inner, outer = (hashlib.sha256(bytes(byte ^ pad for byte in key)) for pad in (0x36, 0x5C))

    def digest(name: object) -> bytes:
        inside, outside = inner.copy(), outer.copy()
        inside.update(str(name).encode("utf-8", "surrogatepass"))  # text of a party's own function may hold anything
        outside.update(inside.digest())
        return outside.digest()

    digests = np.fromiter(map(digest, names.tolist()), dtype="S32", count=len(names))
    words: UInt64[np.ndarray, "n 2"] = digests.view("<u8").reshape(len(names), 4)[:, :2].astype(np.uint64)
    return words
