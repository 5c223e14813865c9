"""Payloads for tests: every class of `protocols`, values for it, and the way over the wire."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from typing import Any

import numpy as np
from flwr.app import RecordDict
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import protocols
from protocols.wire.payload import FieldSpec, Payload, specs

CANARY_NUMBER = 98765
CANARY_TEXT = "canary"


def _discover() -> list[type[Payload]]:
    names = [found.name for found in pkgutil.walk_packages(protocols.__path__, "protocols.")]
    modules = [importlib.import_module(name) for name in names if name.endswith("payloads")]
    found = {
        value: None
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and dataclasses.is_dataclass(value) and issubclass(value, Payload)
    }
    return list(found)


CLASSES = _discover()
"""Every payload class of `protocols`."""


def through_bytes(content: RecordDict) -> RecordDict:
    """Records as they arrive: taken apart into Flower's bytes and put together again."""
    contents = {identity: each.deflate() for identity, each in get_all_nested_objects(content).items()}
    copy = inflate_object_from_contents(content.object_id, contents)
    assert isinstance(copy, RecordDict)
    return copy


def same(one: Payload, other: Payload) -> bool:
    """Whether two payloads are equal, bit for bit."""
    return type(one) is type(other) and all(
        _same_value(getattr(one, name), getattr(other, name)) for name in specs(type(one))
    )


def _same_value(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        one, other = one.astype(one.dtype.newbyteorder("=")), other.astype(other.dtype.newbyteorder("="))
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(_same_value, one, other))
    return type(one) is type(other) and one == other and str(one) == str(other)


def example(cls: type[Payload], tuple_length: int = 2) -> Payload:
    """A payload full of canaries; every named dimension has another size, 2, 3, ...; ``_`` is 7."""
    names = [dim for spec in specs(cls).values() for dim in spec.dims if not dim.isdigit() and dim != "_"]
    sizes = {dim: place for place, dim in enumerate(dict.fromkeys(names), start=2)}

    def value(spec: FieldSpec) -> Any:
        if spec.kind == "array":
            shape = [int(dim) if dim.isdigit() else sizes.get(dim, 7) for dim in spec.dims]
            # What a small type holds of it is no canary: any number up to 255 stands in some message's sizes.
            small = {"bool": True, "uint8": 98, "float16": 98}
            return np.full(shape, small.get(spec.dtypes[0], CANARY_NUMBER), spec.dtypes[0])
        if spec.kind == "arrays":
            return tuple(value(dataclasses.replace(spec, kind="array")) for _ in range(tuple_length))
        return {
            "bool": True,
            "int": CANARY_NUMBER,
            "float": float(CANARY_NUMBER),
            "str": CANARY_TEXT,
            "strs": (CANARY_TEXT,) * tuple_length,
        }[spec.kind]

    return cls(**{name: value(spec) for name, spec in specs(cls).items()})


_TEXTS = st.text(max_size=8)
_SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(allow_nan=False, allow_infinity=False),
    "str": _TEXTS,
    "strs": st.lists(_TEXTS, max_size=3).map(tuple),
}


@st.composite
def payloads(draw: st.DrawFn, cls: type[Payload]) -> Payload:
    """Any valid payload of a class, with zero-size arrays and empty tuples among them."""
    sizes: dict[str, int] = {}

    def size(dim: str) -> int:
        if dim.isdigit():
            return int(dim)
        if dim == "_":
            return draw(st.integers(0, 3))
        if dim not in sizes:
            sizes[dim] = draw(st.integers(0, 3))
        return sizes[dim]

    def array(spec: FieldSpec) -> np.ndarray:
        shape = tuple(size(dim) for dim in spec.dims)
        dtype = draw(st.sampled_from(spec.dtypes))
        elements = {"allow_nan": False, "allow_infinity": False} if dtype.startswith("float") else None
        return draw(hnp.arrays(dtype, shape, elements=elements))

    values: dict[str, Any] = {}
    for name, spec in specs(cls).items():
        if spec.kind == "array":
            values[name] = array(spec)
        elif spec.kind == "arrays":
            values[name] = tuple(array(spec) for _ in range(draw(st.integers(0, 3))))
        else:
            values[name] = draw(_SCALARS[spec.kind])
    return cls(**values)
