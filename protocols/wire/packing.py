"""A payload as one string of bytes, to be sealed before it becomes a field of another payload.

Four bytes for the length of the header; the header in JSON: title, scalars, and name, dtype, shape and bytes of every
array; then the arrays' numbers as `protocols.wire.payload` encodes them, one after the other.
"""

from __future__ import annotations

import json
from typing import Any, TypeGuard

from flwr.app import Array, ArrayRecord, ConfigRecord

from protocols.wire.payload import RAW, Payload, PayloadError, decode, encode, shorten

PACKED = "packed"
"""Name of an unknown payload in errors."""

_LENGTH_BYTES = 4
_MOST_HEADER = 1 << 20
"""Most bytes of a header: parsed JSON can take a hundred times the memory of its text, and senders are not trusted."""


def pack(payload: Payload) -> bytes:
    """Return a checked payload as bytes.

    Raises
    ------
    PayloadError
        If it breaks its contract, or its scalars take more than a MiB.

    Examples
    --------
    >>> from protocols.secure_aggregation.payloads import Join
    >>> unpack(pack(Join("weights")), Join)
    Join(total='weights')
    """
    scalars, arrays = encode(payload)
    described = [[name, array.dtype, list(array.shape), len(array.data)] for name, array in arrays.items()]
    header = json.dumps([payload.title(), dict(scalars), described], separators=(",", ":")).encode()
    if len(header) > _MOST_HEADER:
        raise PayloadError(payload.title(), "header", f"takes {len(header)} bytes, of {_MOST_HEADER} at most")
    length = len(header).to_bytes(_LENGTH_BYTES, "little")
    return b"".join([length, header, *(array.data for array in arrays.values())])


def unpack(data: bytes, *allowed: type[Payload]) -> Payload:
    """Decode the bytes of `pack`, and check the payload.

    Parameters
    ----------
    data : bytes
        From any sender.
    allowed : type of Payload
        Classes that are accepted.

    Raises
    ------
    PayloadError
        If it is anything else, or breaks its contract. Arrays take no more memory than `data` has bytes.
    """
    header, start = _header(data)
    classes = {each.title(): each for each in allowed}
    if header[0] not in classes:
        raise PayloadError(shorten(header[0]), "title", f"is not expected here; expected {' or '.join(classes)}")
    return decode(classes[header[0]], *_records(data, header, start))


def unpack_records(data: bytes) -> tuple[ConfigRecord, ArrayRecord]:
    """Return scalars and arrays of packed bytes of any payload; its contract is not checked.

    Raises
    ------
    PayloadError
        If `data` is not what `pack` returns.
    """
    return _records(data, *_header(data))


def _records(
    data: bytes, header: tuple[str, dict[str, Any], list[Any]], start: int
) -> tuple[ConfigRecord, ArrayRecord]:
    title, scalars, described = header
    try:
        record = ConfigRecord(scalars)
    except (TypeError, ValueError):  # Flower's own text would show the values
        raise PayloadError(title, "scalars", "are not what a payload holds") from None
    return record, _arrays(title, data, start, described)


def _header(data: bytes) -> tuple[tuple[str, dict[str, Any], list[Any]], int]:
    """Return title, scalars and arrays of the header, and where the numbers begin."""
    start = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES], "little")
    if not _LENGTH_BYTES < start <= min(len(data), _LENGTH_BYTES + _MOST_HEADER):
        raise PayloadError(PACKED, "header", f"is not within the {len(data)} bytes, or longer than {_MOST_HEADER}")
    try:
        header = json.loads(data[_LENGTH_BYTES:start])
    except (ValueError, RecursionError):
        raise PayloadError(PACKED, "header", "is not JSON") from None
    if not _is_header(header):
        raise PayloadError(PACKED, "header", "does not hold title, scalars and arrays")
    return (header[0], header[1], header[2]), start


def _is_header(header: object) -> TypeGuard[list[Any]]:
    return isinstance(header, list) and list(map(type, header)) == [str, dict, list]


def _arrays(title: str, data: bytes, start: int, described: list[Any]) -> ArrayRecord:
    """Return the arrays in `data` from `start` on, to its last byte."""
    arrays: dict[str, Array] = {}
    for each in described:
        if not _is_description(each) or each[0] in arrays:
            raise PayloadError(title, "arrays", "are not described by name, dtype, shape and bytes, each once")
        name, dtype, shape, size = each
        if not 0 <= size <= len(data) - start:
            raise PayloadError(title, shorten(name), f"is not within the {len(data)} bytes")
        arrays[name] = Array(dtype=dtype, shape=tuple(shape), stype=RAW, data=data[start : start + size])
        start += size
    if start != len(data):
        raise PayloadError(title, "arrays", f"end {len(data) - start} bytes before the packed bytes do")
    return ArrayRecord(arrays)


def _is_description(each: object) -> TypeGuard[list[Any]]:
    return (
        isinstance(each, list)
        and list(map(type, each)) == [str, str, list, int]
        and all(type(size) is int for size in each[2])
    )
