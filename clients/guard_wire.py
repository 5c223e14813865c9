"""Bytes on the socket between a run's messenger and the site's guard: one ask in, one answer out.

The messenger sends ``_MARK``, two lengths of eight bytes and a header in JSON: the run's number and its configuration.
If the guard accepts an ask of that size, it sends ``_GO``, and the message's records follow, as Flower serializes them.
Its answer is ``_MARK``, a length and records. A refused ask is answered at once, without ``_GO``.
"""

from __future__ import annotations

import json
import socket
import struct
import time
from dataclasses import dataclass
from typing import Any

from flwr.app import RecordDict
from flwr.common.serde import recorddict_from_proto, recorddict_to_proto
from flwr.proto.recorddict_pb2 import RecordDict as ProtoRecordDict

_MARK = b"consilience guard 1\n"
_GO = b"+"
_LENGTH = struct.Struct(">Q")
_MOST_HEADER = 1_000_000
"""Most bytes of a header; a run configuration has a few thousand."""
_MOST_RECORDS = 2**31
"""Most bytes of serialized records: the limit of Protocol Buffers."""
_RUNS = 2**64
_BLOCK = 2**20


class MalformedAskError(ValueError):
    """Error: the bytes are not an ask. The message quotes none of them."""


class AskTooLargeError(ValueError):
    """Error: an ask is larger than the site accepts. Its records were not read."""


@dataclass(frozen=True)
class GuardAsk:
    """An ask on its way to the guard.

    Attributes
    ----------
    run : int
        Flower's number of the run, as the messenger states it.
    config : dict
        The run configuration, as the messenger states it.
    content : RecordDict
        Records of the message.

    Examples
    --------
    >>> from threading import Thread
    >>> messenger, guard = socket.socketpair()
    >>> sending = Thread(target=answer_of_guard, args=(messenger, GuardAsk(7, {"seed": 0}, RecordDict()), 5.0))
    >>> sending.start()
    >>> ask = receive_ask(guard, most_bytes=1e6, seconds=5.0)
    >>> ask.run, ask.config
    (7, {'seed': 0})
    >>> send_answer(guard, RecordDict())
    >>> sending.join()
    """

    run: int
    config: dict[str, Any]
    content: RecordDict


def answer_of_guard(connection: socket.socket, ask: GuardAsk, seconds: float) -> RecordDict:
    """Send an ask, and return the records of its answer.

    Parameters
    ----------
    connection : socket
        To the guard.
    ask : GuardAsk
        The ask.
    seconds : float
        Seconds to wait for the answer.

    Raises
    ------
    OSError
        If the connection ends or fails, time runs out, or the bytes received are not an answer.
    """
    deadline = time.monotonic() + seconds
    header = json.dumps({"run": ask.run, "config": ask.config}).encode()
    content = _pack(ask.content)
    connection.sendall(_MARK + _LENGTH.pack(len(header)) + _LENGTH.pack(len(content)) + header)
    lead = _receive(connection, 1, deadline)
    if lead == _GO:
        connection.sendall(content)
        lead = b""
    return _receive_answer(connection, lead, deadline)


def receive_ask(connection: socket.socket, most_bytes: float, seconds: float) -> GuardAsk | None:
    """Receive an ask; None if the connection was closed before the first byte.

    Parameters
    ----------
    connection : socket
        To the messenger.
    most_bytes : float
        Most bytes of the records; larger ones are not read.
    seconds : float
        Seconds that the whole ask may take.

    Raises
    ------
    MalformedAskError, AskTooLargeError
        If the bytes are not an ask, or its records are too large.
    OSError
        If the connection fails or time runs out.
    """
    deadline = time.monotonic() + seconds
    first = _receive(connection, 1, deadline)
    if not first:
        return None
    start = len(_MARK)
    lead = first + _receive(connection, start - 1 + 2 * _LENGTH.size, deadline)
    if len(lead) != start + 2 * _LENGTH.size or not lead.startswith(_MARK):
        raise MalformedAskError("it does not begin as an ask of this version does")
    header_size, content_size = (_LENGTH.unpack_from(lead, place)[0] for place in (start, start + _LENGTH.size))
    if header_size > _MOST_HEADER:
        raise MalformedAskError(f"its header has {header_size} bytes, {_MOST_HEADER} are allowed")
    run, config = _header(_receive(connection, header_size, deadline))
    if content_size > min(most_bytes, _MOST_RECORDS):
        raise AskTooLargeError(f"it has {content_size} bytes")
    connection.sendall(_GO)
    content = _receive(connection, content_size, deadline)
    if len(content) != content_size:
        raise MalformedAskError("it ends early")
    return GuardAsk(run, config, _unpack(content))


def send_answer(connection: socket.socket, content: RecordDict) -> None:
    """Send an answer's records; raises an `OSError` if the connection fails."""
    packed = _pack(content)
    connection.sendall(_MARK + _LENGTH.pack(len(packed)))
    connection.sendall(packed)


def _receive_answer(connection: socket.socket, first: bytes, deadline: float) -> RecordDict:
    """Receive the records of an answer; `first` is its first byte, if it was read already."""
    lead = first + _receive(connection, len(_MARK) + _LENGTH.size - len(first), deadline)
    if len(lead) != len(_MARK) + _LENGTH.size or not lead.startswith(_MARK):
        raise ConnectionError("it closed the connection without an answer; its own log says why")
    (size,) = _LENGTH.unpack_from(lead, len(_MARK))
    packed = _receive(connection, size, deadline) if size <= _MOST_RECORDS else b""
    if len(packed) != size:
        raise ConnectionError("its answer broke off")
    try:
        return _unpack(packed)
    except MalformedAskError:
        raise ConnectionError("its answer cannot be read") from None


def _receive(connection: socket.socket, size: int, deadline: float) -> bytes:
    """Receive `size` bytes, or fewer if the connection is closed. Memory grows with what arrives, not with `size`."""
    data = bytearray()
    while len(data) < size:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("time ran out")
        connection.settimeout(left)
        block = connection.recv(min(size - len(data), _BLOCK))
        if not block:
            break
        data += block
    return bytes(data)


def _header(data: bytes) -> tuple[int, dict[str, Any]]:
    try:
        header = json.loads(data)
        run, config = header["run"], header["config"]
    except (ValueError, TypeError, LookupError, RecursionError):
        raise MalformedAskError("its header cannot be read") from None
    if type(run) is not int or not 0 <= run < _RUNS:
        raise MalformedAskError("its run is not a number of Flower's")
    if not isinstance(config, dict) or not all(type(value) in (bool, int, float, str) for value in config.values()):
        raise MalformedAskError("its run configuration holds other than numbers and texts")
    return run, config


def _pack(content: RecordDict) -> bytes:
    packed: bytes = recorddict_to_proto(content).SerializeToString()
    return packed


def _unpack(data: bytes) -> RecordDict:
    try:
        return recorddict_from_proto(ProtoRecordDict.FromString(data))
    except Exception:  # each library raises its own, and its text may quote the bytes
        raise MalformedAskError("its records cannot be read") from None
