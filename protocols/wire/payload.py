"""Typed payloads, their encoding into Flower records and their checks on arrival.

A payload is a frozen dataclass. Its annotations are its contract: jaxtyping arrays (``Float64[np.ndarray, "k k_m"]``,
``tuple[Int64[np.ndarray, "k _"], ...]``), ``bool``, ``int``, ``float``, ``str``, ``tuple[str, ...]``. An array of one
of several dtypes is a union of annotations that differ in nothing else (``Float64[np.ndarray, "n"] |
Float32[np.ndarray, "n"]``). Arrays cross as raw little-endian numbers, never as pickles. The receiver checks field
names, dtypes, shapes (a dimension name has one size within a payload; ``_`` is any size) and that floating-point
numbers are finite, before any handler gets them.
"""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, ClassVar, Self

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord

RAW = "raw"
"""Flower's name for a serialization: C order, little-endian, without a header."""

_SCALARS: dict[object, str] = {bool: "bool", int: "int", float: "float", str: "str", tuple[str, ...]: "strs"}
_DTYPES = {
    name: np.dtype(name).newbyteorder("<")
    for name in ("bool", "uint8", "uint64", "int64", "float16", "float32", "float64")
}
_MOST_DIMENSIONS = 8  # more than any payload has; limits the length of a received shape in a message


class PayloadError(ValueError):
    """A payload that breaks its contract.

    Attributes
    ----------
    payload, field, problem : str
        The payload, the field, and what is wrong with it; none of them contains a value.

    Examples
    --------
    >>> print(PayloadError("gp.Moments", "counts", "is missing"))
    payload gp.Moments, field 'counts': is missing
    """

    def __init__(self, payload: str, field: str, problem: str) -> None:
        self.payload, self.field, self.problem = payload, field, problem
        super().__init__(f"payload {payload}, field {field!r}: {problem}")


class Payload:
    """Base of all payloads.

    A subclass is a frozen dataclass. An ask names its answer: ``class EStep(Payload, answer=Statistics)``. An answer of
    which the fusion center needs only the sum over sites is declared so: ``class Statistics(Payload, summed=True)``;
    secure aggregation masks it (protocols/secure_aggregation/payloads.py). ``alike=True`` declares that all sites of a
    sum get the same ask: ``class Price(Payload, answer=Masses, alike=True)``. Masks of answers to different asks then
    do not cancel. Otherwise a center could ask all other sites for numbers that it knows, and subtract these.

    Examples
    --------
    >>> from protocols.gp.payloads import Evaluate
    >>> Evaluate.title(), Evaluate.answer.title(), Evaluate.answer.summed
    ('gp.Evaluate', 'gp.Likelihood', True)
    """

    answer: ClassVar[type[Payload] | None] = None
    summed: ClassVar[bool] = False
    alike: ClassVar[bool] = False
    _spends: ClassVar[dict[str, int]] = {}

    def __init_subclass__(
        cls,
        answer: type[Payload] | None = None,
        summed: bool = False,
        alike: bool = False,
        spends: dict[str, int] | None = None,
    ) -> None:
        super().__init_subclass__()
        cls.answer = answer
        cls.summed = summed
        cls.alike = alike
        cls._spends = cls._spends if spends is None else spends

    def spends(self) -> dict[str, int]:
        """Return how much of the data's budget an answer to this ask takes, by kind (`protocols.budget`).

        Each ask is also charged as one ask, and for its bytes. A class whose asks all take the same declares it
        (``spends={MODELS: 1}``). Other amounts follow from numbers that the center chose, and may be anything.
        """
        return self._spends

    @classmethod
    def title(cls) -> str:
        """Return ``protocol.Name``, as wire and ledger call it; the protocol is the package that holds the module."""
        return f"{cls.__module__.split('.')[-2:][0]}.{cls.__name__}"


@dataclass(frozen=True)
class FieldSpec:
    """The contract of a field, read from its annotation.

    Attributes
    ----------
    kind : str
        ``array``, ``arrays`` (a tuple of them), or a scalar kind: ``bool``, ``int``, ``float``, ``str``, ``strs``.
    dtypes : tuple of str
        Accepted dtypes of arrays, the usual one first; empty for scalars.
    dims : tuple of str
        Names, sizes or ``_`` of an array's dimensions.

    Examples
    --------
    >>> from jaxtyping import Float64
    >>> FieldSpec.of(Float64[np.ndarray, "n 3"])
    FieldSpec(kind='array', dtypes=('float64',), dims=('n', '3'))
    """

    kind: str
    dtypes: tuple[str, ...] = ()
    dims: tuple[str, ...] = ()

    @classmethod
    def of(cls, annotation: Any) -> Self:
        """Read an annotation; a TypeError if it cannot cross the wire."""
        if annotation in _SCALARS:
            return cls(_SCALARS[annotation])
        kind = "array"
        if typing.get_origin(annotation) is tuple and typing.get_args(annotation)[1:] == (...,):
            kind, annotation = "arrays", typing.get_args(annotation)[0]
        union = typing.get_origin(annotation) in (types.UnionType, typing.Union)
        members = [_array_type(each) for each in (typing.get_args(annotation) if union else (annotation,))]
        dims = members[0][1]
        if any(other != dims for _, other in members):
            raise TypeError(f"{annotation!r} cannot cross the wire: its members differ in more than their dtype")
        return cls(kind, tuple(dtype for dtype, _ in members), dims)


def _array_type(annotation: Any) -> tuple[str, tuple[str, ...]]:
    """Return the dtype and the dimensions of one array annotation."""
    dims = tuple(str(getattr(annotation, "dim_str", "")).split())
    plain = all(dim.isidentifier() or dim.isdigit() for dim in dims)  # no "...", "*k" or "k+1": not checked here
    listed = getattr(annotation, "dtypes", ())
    dtypes = set(listed) - {"bool_"} if isinstance(listed, list | tuple) else set()  # "bool_": numpy 1's name
    if len(dtypes) != 1 or not plain:
        raise TypeError(f"{annotation!r} cannot cross the wire")
    dtype = str(dtypes.pop())
    if dtype not in _DTYPES:
        raise TypeError(f"arrays of {dtype} cannot cross the wire; use one of {', '.join(_DTYPES)}")
    return dtype, dims


@cache
def _specs(payload: Any) -> dict[str, FieldSpec]:
    hints = typing.get_type_hints(payload)
    return {field.name: FieldSpec.of(hints[field.name]) for field in fields(payload)}


def specs(payload: type[Payload]) -> dict[str, FieldSpec]:
    """Return the fields of a payload class and their contracts, in order.

    Examples
    --------
    >>> from protocols.secure_aggregation.payloads import Join
    >>> specs(Join)
    {'total': FieldSpec(kind='str', dtypes=(), dims=())}
    """
    contract: Any = payload  # mypy holds the class's __hash__ against the instances'
    return _specs(contract)


def check(payload: Payload) -> None:
    """Check a payload against its annotations.

    Raises
    ------
    PayloadError
        The message names the payload and the field, with the expected and the actual sizes or types.

    Examples
    --------
    >>> from protocols.gp.payloads import Rows
    >>> check(Rows(np.zeros((4, 2)), np.zeros(3)))
    Traceback (most recent call last):
    protocols.wire.payload.PayloadError: payload gp.Rows, field 'y': dimension 'r' has size 3, but 4 in x
    """
    title = payload.title()
    sizes: dict[str, tuple[int, str]] = {}
    for name, spec in specs(type(payload)).items():
        value = getattr(payload, name)
        if spec.kind == "array":
            _check_array(title, name, spec, value, sizes)
        elif spec.kind == "arrays":
            if not isinstance(value, tuple):
                raise PayloadError(title, name, f"expected a tuple of arrays, got {type(value).__name__}")
            for place, item in enumerate(value):
                _check_array(title, f"{name}[{place}]", spec, item, sizes)
        else:
            _check_scalar(title, name, spec, value)


def _check_scalar(title: str, name: str, spec: FieldSpec, value: Any) -> None:
    if spec.kind == "strs":
        good = isinstance(value, tuple) and all(isinstance(item, str) for item in value)
    else:
        good = _SCALARS.get(type(value)) == spec.kind
    if not good:
        raise PayloadError(title, name, f"expected {spec.kind}, got {type(value).__name__}")
    if spec.kind in ("str", "strs") and not _is_text(value if spec.kind == "strs" else (value,)):
        raise PayloadError(title, name, "holds half a character, which cannot be written")
    if spec.kind == "float" and not math.isfinite(value):
        raise PayloadError(title, name, "not finite")
    if spec.kind == "int" and not -(2**63) <= value < 2**63:
        raise PayloadError(title, name, "does not fit in 64 bits")


def _is_text(values: tuple[str, ...]) -> bool:
    """Return whether it can be written as UTF-8; lone surrogates, from JSON or a site's own function, cannot."""
    try:
        "".join(values).encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_array(title: str, name: str, spec: FieldSpec, value: Any, sizes: dict[str, tuple[int, str]]) -> None:
    if not isinstance(value, np.ndarray):
        raise PayloadError(title, name, f"expected an array of {' or '.join(spec.dtypes)}, got {type(value).__name__}")
    if value.dtype.name not in spec.dtypes:
        raise PayloadError(title, name, f"expected dtype {' or '.join(spec.dtypes)}, got {value.dtype.name}")
    if value.ndim != len(spec.dims):
        raise PayloadError(title, name, f"expected {len(spec.dims)} dimensions {spec.dims}, got shape {value.shape}")
    for dim, size in zip(spec.dims, value.shape, strict=True):
        if dim == "_":
            continue
        expected, where = (int(dim), "its declaration") if dim.isdigit() else sizes.setdefault(dim, (size, name))
        if size != expected:
            raise PayloadError(title, name, f"dimension {dim!r} has size {size}, but {expected} in {where}")
    if value.dtype.kind == "f" and not np.isfinite(value).all():
        raise PayloadError(title, name, "holds NaN or infinity")


def encode(payload: Payload) -> tuple[ConfigRecord, ArrayRecord]:
    """Encode a checked payload as two Flower records: scalars (and the counts of tuples), and arrays.

    Examples
    --------
    >>> from protocols.secure_aggregation.payloads import Join
    >>> decode(Join, *encode(Join("weights")))
    Join(total='weights')
    """
    check(payload)
    scalars = ConfigRecord()
    arrays: dict[str, Array] = {}
    for name, spec in specs(type(payload)).items():
        value = getattr(payload, name)
        if spec.kind == "array":
            arrays[name] = encode_array(value)
        elif spec.kind == "arrays":
            scalars[name] = len(value)
            arrays.update({f"{name}.{place}": encode_array(item) for place, item in enumerate(value)})
        else:
            scalars[name] = list(value) if spec.kind == "strs" else value
    return scalars, ArrayRecord(arrays)


def decode(payload: type[Payload], scalars: ConfigRecord, arrays: ArrayRecord) -> Payload:
    """Decode two Flower records as a payload of this class, and check it.

    Raises
    ------
    PayloadError
        If a field is missing, unknown, or breaks its contract.
    """
    title = payload.title()
    wanted = specs(payload)
    values: dict[str, Any] = {}
    used: set[str] = set()
    for name, spec in wanted.items():
        if spec.kind == "array":
            values[name] = _take(title, arrays, name, used)
            continue
        if name not in scalars:
            raise PayloadError(title, name, "is missing")
        value = scalars[name]
        if spec.kind == "arrays":
            if type(value) is not int or not 0 <= value <= len(arrays):
                got = value if type(value) is int else type(value).__name__
                raise PayloadError(title, name, f"expected a count of up to {len(arrays)} arrays that came, got {got}")
            values[name] = tuple(_take(title, arrays, f"{name}.{place}", used) for place in range(value))
        else:
            values[name] = tuple(value) if spec.kind == "strs" and isinstance(value, list) else value
    for name in scalars:
        if name not in wanted or wanted[name].kind == "array":
            raise PayloadError(title, shorten(name), "is not a field of this payload")
    for name in arrays:
        if name not in used:
            raise PayloadError(title, shorten(name), "is not a field of this payload")
    decoded = payload(**values)
    check(decoded)
    return decoded


def _take(title: str, arrays: Mapping[str, Array], name: str, used: set[str]) -> np.ndarray:
    if name not in arrays:
        raise PayloadError(title, name, "is missing")
    used.add(name)
    try:
        return decode_array(arrays[name])
    except ValueError as problem:
        raise PayloadError(title, name, str(problem)) from None


def encode_array(values: np.ndarray) -> Array:
    """Encode an array as raw little-endian numbers in C order; a `TypeError` if the dtype cannot cross the wire.

    Examples
    --------
    >>> decode_array(encode_array(np.array([1.5, 2.5])))
    array([1.5, 2.5])
    """
    name = values.dtype.name
    if name not in _DTYPES:
        raise TypeError(f"arrays of {name} cannot be encoded; use one of {', '.join(_DTYPES)}")
    return Array(name, tuple(values.shape), RAW, values.astype(_DTYPES[name], copy=False).tobytes())


def decode_array(array: Array) -> np.ndarray:
    """Decode an array of `encode_array`.

    Raises
    ------
    ValueError
        If it has another serialization or dtype, or its bytes do not match its shape. Nothing is allocated before that
        is known.
    """
    if array.stype != RAW:
        raise ValueError(f"expected serialization {RAW!r}, got {shorten(array.stype)!r}")
    if array.dtype not in _DTYPES:
        raise ValueError(f"arrays of dtype {shorten(array.dtype)!r} are not accepted")
    if len(array.shape) > _MOST_DIMENSIONS or any(
        type(size) is not int or not 0 <= size < 2**63 for size in array.shape
    ):
        raise ValueError(f"its shape is not one of up to {_MOST_DIMENSIONS} sizes")
    dtype = _DTYPES[array.dtype]
    expected = math.prod(array.shape) * dtype.itemsize
    if len(array.data) != expected:
        raise ValueError(f"shape {tuple(array.shape)} takes {expected} bytes, got {len(array.data)}")
    if array.dtype == "bool" and not np.isin(np.frombuffer(array.data, np.uint8), (0, 1)).all():
        raise ValueError("holds bytes that are neither 0 nor 1")
    return np.frombuffer(array.data, dtype).reshape(array.shape).astype(array.dtype)


def shorten(text: object, length: int = 40) -> str:
    """Return a foreign text for an error message: cut to a length, and lone surrogates escaped.

    Examples
    --------
    >>> shorten("residuals", 8)
    'resid...'
    """
    plain = str(text)
    cut = plain if len(plain) <= length else plain[: length - 3] + "..."
    return cut.encode(errors="backslashreplace").decode()
