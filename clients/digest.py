"""Digests of data and asks. Equal content has equal digests in every process and on every machine."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np


def digest_of(value: Any) -> list[int]:
    """Return the SHA-256 of a value's content as eight numbers.

    Parameters
    ----------
    value : object
        Arrays, mappings, sequences and dataclasses of them, and plain values.

    Examples
    --------
    >>> digest_of({"a": np.zeros(2)}) == digest_of({"a": np.zeros(2)})
    True
    >>> digest_of(np.zeros(2)) == digest_of(np.zeros(3))
    False
    """
    digest = hashlib.sha256()
    _feed(digest, value)
    return [int(word) for word in np.frombuffer(digest.digest(), np.uint32)]


def _feed(digest: hashlib._Hash, value: Any) -> None:
    if isinstance(value, np.ndarray) and value.dtype != object:
        digest.update(f"{value.dtype.str}{value.shape}".encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    elif isinstance(value, Mapping):
        for key in value:
            digest.update(repr(key).encode())
            _feed(digest, value[key])
    elif isinstance(value, list | tuple | np.ndarray):
        for item in value:
            _feed(digest, item)
    elif is_dataclass(value):
        for each in fields(value):
            if each.metadata.get("optional") and getattr(value, each.name) is None:
                continue
            digest.update(each.name.encode())
            _feed(digest, getattr(value, each.name))
    else:
        digest.update(repr(value).encode())
