"""The file that a model travels in: a zip of ``schema.json`` and NumPy arrays, read without trusting any of it.

skops writes memory addresses and the time of day into its files, and reads any file with general tools (``zipfile``,
``numpy.load``). Here a file has one form only: `pack` gives equal models equal bytes. `unpack` accepts nothing that
`pack` could not have written, within limits that hold before anything is inflated. skops reads `Archive.stored`, which
is written anew from what was accepted.
"""

from __future__ import annotations

import io
import json
import math
import re
import struct
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from protocols.wire.payload import shorten

MOST_BYTES = 256 * 2**20
"""Most bytes of a file as it crosses, of all that it inflates to, and of all arrays of a model."""
MOST_SCHEMA_BYTES = 16 * 2**20
_BYTES_A_COMMA = 12
"""Fewest bytes of a schema for each comma: skops writes some 23. A schema of empty lists grows fiftyfold in memory."""
MOST_MEMBERS = 20_000
SKOPS_PROTOCOL = 2
"""Version of skops' format. With an older number a file could choose loaders that skops keeps for old files."""

_SCHEMA = "schema.json"
_MEMBER = re.compile(r"(0|[1-9][0-9]{0,19})\.npy")
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""zipfile inflates others block by block without a limit: a kilobyte of bzip2 to gigabytes."""
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest date of a zip
_END = struct.Struct("<4s4H2LH")  # of a zip without a comment: its last bytes
_MOST_ENTRY_BYTES = 46 + 64  # a directory entry of ours: fixed part, and room for a name
_NPY = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': (.{1,600}), 'fortran_order': (False|True), "
    rb"'shape': \(((?:[0-9]{1,12},(?: [0-9]{1,12})?(?:, [0-9]{1,12}){0,2})?)\), \} *\n",
    re.DOTALL,
)
"""The header that numpy.save writes, up to 4 dimensions. It is matched, never evaluated as numpy's reader does."""

# Fields that a tree predicts by; impurities and numbers of rows stay at the site.
_TREE_FIELDS = ("left_child", "right_child", "feature", "threshold", "missing_go_to_left")
_PREDICTOR_FIELDS = (
    *("value", "feature_idx", "num_threshold", "missing_go_to_left", "left", "right", "depth"),
    *("is_leaf", "is_categorical", "bitset_idx"),
)


class ModelError(ValueError):
    """A model that may not cross the wire, or a file that is refused.

    Attributes
    ----------
    problem : str
        What is wrong, as the end of a sentence that begins with "the model". Quotes from a file are cut and printable.
    type_name : str
        The Python type that is to blame; empty if there is none.
    """

    def __init__(self, problem: str, type_name: str = "") -> None:
        self.problem, self.type_name = problem, type_name
        super().__init__(f"the model {problem}")


def quote(text: object) -> str:
    """Return a foreign text, cut and in printable ASCII, for an error message.

    Examples
    --------
    >>> quote("caf\u00e9")
    'caf?'
    """
    return "".join(letter if letter.isascii() and letter.isprintable() else "?" for letter in shorten(text, 100))


@dataclass(frozen=True)
class Archive:
    """The content of a file.

    Attributes
    ----------
    schema : object
        Content of ``schema.json``, without skops' protocol number.
    arrays : Mapping[str, ndarray]
        Arrays by their names in the schema; read-only.
    members : Mapping[str, bytes]
        All of it as bytes, for `stored`.
    """

    schema: Any
    arrays: Mapping[str, np.ndarray]
    members: Mapping[str, bytes]

    def stored(self) -> bytes:
        """Return an uncompressed skops file of the same content."""
        return _zip(self.members.items(), zipfile.ZIP_STORED)

    @property
    def size(self) -> int:
        """Bytes of all members."""
        return sum(map(len, self.members.values()))


def pack(skops_file: bytes) -> bytes:
    """Convert a file of skops to the one form that `unpack` accepts.

    Arrays are numbered in the order of the schema, and equal ones are stored once. Object ids, the version of skops and
    times of day are left out. Tree nodes keep only the fields that a prediction reads; other fields, and the padding,
    which may hold anything, are zero.
    """
    members: dict[str, bytes] = {}
    names: dict[bytes, str] = {}
    with zipfile.ZipFile(io.BytesIO(skops_file)) as source:

        def renamed(node: Any) -> Any:
            if isinstance(node, list):
                return [renamed(item) for item in node]
            if not isinstance(node, dict):
                return node
            plain = {key: renamed(value) for key, value in node.items() if key != "__id__"}
            if plain.get("__loader__") == "NdArrayNode" and "file" in plain:
                content = _without_training(source.read(plain["file"]))
                plain["file"] = names.setdefault(content, f"{len(names)}.npy")
                members[plain["file"]] = content
            return plain

        schema = renamed(json.loads(source.read(_SCHEMA)))
    schema.pop("_skops_version", None)
    members = {_SCHEMA: json.dumps(schema, separators=(",", ":")).encode(), **members}
    return _zip(members.items(), zipfile.ZIP_DEFLATED)


def unpack(data: bytes) -> Archive:
    """Read and check a file; nothing is evaluated, nothing is inflated beyond the limits.

    Raises
    ------
    ModelError
        If it is not a zip as `pack` writes it, too large, or holds something else than a schema and plain arrays.
    """
    _check_end(data)
    # Damaged bytes make zipfile raise a dozen kinds of errors, which all mean the same.
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            members = _members(file)
        text = members[_SCHEMA]
        if text.count(b",") * _BYTES_A_COMMA > len(text):
            raise ModelError(f"is not a skops file: its {_SCHEMA} is not as skops writes it")
        schema = json.loads(text)
    except ModelError:
        raise
    except Exception:
        raise ModelError("is not a skops file: its zip or its schema.json cannot be read") from None
    protocol = schema.pop("protocol", None) if isinstance(schema, dict) else None
    if type(protocol) is not int or protocol != SKOPS_PROTOCOL:
        raise ModelError(f"is not a skops file of protocol {SKOPS_PROTOCOL}")
    arrays = {name: _array(content) for name, content in members.items() if name != _SCHEMA}
    return Archive(schema, arrays, members)


def _check_end(data: bytes) -> None:
    """Check the zip's last record: zipfile would first make an object of every directory entry."""
    if len(data) > MOST_BYTES:
        raise ModelError(f"is too large: {len(data)} bytes, and {MOST_BYTES} are accepted")
    if len(data) < _END.size or data[-_END.size :][:4] != b"PK\x05\x06":
        raise ModelError("is not a skops file: it does not end as a zip does")
    entries, directory_bytes = _END.unpack(data[-_END.size :])[4:6]
    if b"PK\x06\x07" in data[-_END.size - 20 : -_END.size]:
        raise ModelError("is not a skops file: it is a zip of the 64-bit form")
    if entries > MOST_MEMBERS or directory_bytes > _MOST_ENTRY_BYTES * MOST_MEMBERS:
        raise ModelError(f"is too large: its zip has more than {MOST_MEMBERS} members")


def _members(file: zipfile.ZipFile) -> dict[str, bytes]:
    infos = file.infolist()
    names = [info.filename for info in infos]
    for name in names:
        if name != _SCHEMA and not _MEMBER.fullmatch(name):
            raise ModelError(f"holds a file {quote(name)}, which is neither {_SCHEMA} nor a numbered array")
    if len(set(names)) != len(names) or len(names) > MOST_MEMBERS:
        raise ModelError("holds two files of one name, or too many files")
    if _SCHEMA not in names:
        raise ModelError(f"is not a skops file: it has no {_SCHEMA}")
    inflated = sum(info.file_size for info in infos)
    if inflated > MOST_BYTES:
        raise ModelError(f"is too large: it inflates to {inflated} bytes, and {MOST_BYTES} are accepted")
    members = {}
    for info in infos:
        if info.filename == _SCHEMA and info.file_size > MOST_SCHEMA_BYTES:
            raise ModelError(f"is too large: its {_SCHEMA} takes more than {MOST_SCHEMA_BYTES} bytes")
        if info.compress_type not in _COMPRESSIONS:
            raise ModelError("is not a skops file: a member is compressed otherwise than skops does")
        with file.open(info) as member:
            # Without a count zipfile inflates everything, whatever size the directory claims.
            members[info.filename] = member.read(info.file_size + 1)
        if len(members[info.filename]) != info.file_size:
            raise ModelError("is not a skops file: a member is shorter than its zip says")
    return members


@cache
def _dtypes() -> dict[bytes, np.dtype[Any]]:
    """Return the dtypes of a model's arrays, by their text in a header. No objects, so no pickles."""
    from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE
    from sklearn.tree._tree import NODE_DTYPE

    plain = [np.dtype(name) for name in ("<f8", "<f4", "<i8", "<i4", "<u4", "|u1")]
    kinds = [*plain, NODE_DTYPE, PREDICTOR_RECORD_DTYPE]
    return {repr(np.lib.format.dtype_to_descr(kind)).encode(): kind for kind in kinds}


def _array(content: bytes) -> np.ndarray:
    header = _NPY.match(content)
    dtype = _dtypes().get(header[1]) if header else None
    if header is None or dtype is None:
        raise ModelError("holds an array that is not of plain numbers or tree nodes")
    shape = tuple(int(size) for size in header[3].split(b",") if size)
    if math.prod(max(length, 1) for length in shape) > MOST_BYTES:  # also where another length is 0
        raise ModelError("holds an array whose shape is too large")
    size, start = math.prod(shape), header.end()
    if int.from_bytes(content[8:10], "little") != start - 10 or len(content) - start != size * dtype.itemsize:
        raise ModelError("holds an array whose bytes are not as many as its shape says")
    return np.frombuffer(content, dtype, offset=start).reshape(shape, order="F" if header[2] == b"True" else "C")


def _without_training(content: bytes) -> bytes:
    """Return an array unchanged, but of tree nodes only `_TREE_FIELDS` or `_PREDICTOR_FIELDS`."""
    array = np.load(io.BytesIO(content), allow_pickle=False)
    names = array.dtype.names
    if names is None:
        return content
    clean = np.zeros(array.shape, array.dtype)
    for field in _TREE_FIELDS if "left_child" in names else _PREDICTOR_FIELDS:
        clean[field] = array[field]
    if "is_leaf" in names:
        clean["value"][clean["is_leaf"] == 0] = 0  # means of rows; with the children's they reveal numbers of rows
    buffer = io.BytesIO()
    np.save(buffer, clean, allow_pickle=False)
    return buffer.getvalue()


def _zip(members: Iterable[tuple[str, bytes]], compression: int) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, content in members:
            info = zipfile.ZipInfo(name, _EPOCH)
            info.compress_type = compression
            info.create_system = 3  # else the bytes would depend on the sender's operating system
            file.writestr(info, content)
    return buffer.getvalue()
