"""Files of messages. A file is an uncompressed ZIP archive of two members: a JSON description, and all bytes in order.

NumPy's archives have a member for every array, and take ten times as long for the many small arrays of a round.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict

_ABOUT, _BYTES = "about.json", "bytes"
_KINDS: Mapping[str, type[ConfigRecord] | type[MetricRecord]] = {"config": ConfigRecord, "metric": MetricRecord}


def write_records(path: Path, about: Any, contents: Sequence[RecordDict], *, durable: bool = True) -> None:
    """Write messages' records and a JSON value about them; the bytes depend on these alone.

    Parameters
    ----------
    path : Path
        The file.
    about : Any
        A value that JSON can hold.
    contents : Sequence[RecordDict]
        Any records, also invalid ones: a replay must refuse the answers that were refused the first time.
    durable : bool
        Whether to wait until the file is on the disk.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "round.zip"
    >>> write_records(path, {"round": 3}, [RecordDict({"scalars": ConfigRecord({"n": 1})})])
    >>> read_records(path)[0], read_records(path)[1][0]["scalars"]["n"]
    ({'round': 3}, 1)
    """
    blobs: list[bytes] = []
    described = [_describe(content, blobs) for content in contents]
    with path.open("wb") as file:
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr(zipfile.ZipInfo(_ABOUT), json.dumps([about, described]))
            with archive.open(zipfile.ZipInfo(_BYTES), "w", force_zip64=True) as member:
                for blob in blobs:
                    member.write(blob)
        if durable:
            file.flush()
            os.fsync(file.fileno())


def read_records(path: Path) -> tuple[Any, list[RecordDict]]:
    """Read a file of `write_records`: return the value about the messages, and their records.

    A damaged file raises an error of `zipfile`, `json` or Flower, or a `ValueError`.
    """
    with zipfile.ZipFile(path) as archive:
        about, described = json.loads(archive.read(_ABOUT))
        with archive.open(_BYTES) as member:
            contents = [_restore(description, member) for description in described]
            if member.read(1):  # the checksum is compared at the end
                raise ValueError("it holds more than it says")
    return about, contents


def _describe(content: RecordDict, blobs: list[bytes]) -> dict[str, Any]:
    """Return a message's records as JSON values; append their bytes to `blobs`."""

    def keep(data: bytes) -> int:
        blobs.append(data)
        return len(data)

    description: dict[str, Any] = {}
    for name, record in content.items():
        if isinstance(record, ArrayRecord):
            description[name] = ["array", [[key, x.dtype, x.shape, x.stype, keep(x.data)] for key, x in record.items()]]
        else:
            description[name] = ["config" if isinstance(record, ConfigRecord) else "metric", keep(record.deflate())]
    return description


def _restore(description: Mapping[str, Any], bytes_: IO[bytes]) -> RecordDict:
    """Rebuild the records that `_describe` described, from the next bytes."""

    def take(size: int) -> bytes:
        data = bytes_.read(size)
        if len(data) != size:
            raise ValueError("it ends early")
        return data

    content = RecordDict()
    for name, (kind, value) in description.items():
        if kind == "array":
            arrays = {key: Array(dtype, tuple(shape), stype, take(size)) for key, dtype, shape, stype, size in value}
            content[name] = ArrayRecord(arrays)
        else:
            content[name] = _KINDS[kind].inflate(take(value))
    return content
