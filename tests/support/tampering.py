"""Replies that are lost, replaced or poisoned on their way to the fusion center."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from flwr.app import Array, Error, Message, RecordDict

from protocols.wire.message import find
from protocols.wire.payload import RAW, FieldSpec, Payload, decode_array, encode_array, specs
from tests.support.grid import Tamper

CANARY = "canary-7f3a: blood pressure of patient 17 is 181"
"""What must never be seen outside the site that said it."""


# -- replies that go astray -------------------------------------------------------------------------------------------


def silent(place: int, rounds: Iterable[int]) -> Tamper:
    """One site's replies of these rounds are lost."""
    lost = set(rounds)
    return lambda at, number, reply: None if (at, number) in {(place, each) for each in lost} else reply


def with_content(reply: Message, content: RecordDict) -> Message:
    """The reply with another content."""
    changed = Message(content, reply_to=reply)
    changed.__dict__["_metadata"] = reply.metadata
    return changed


def with_error(reply: Message, reason: str, code: int = 1) -> Message:
    """What Flower delivers instead of the reply when the node fails."""
    failed = Message(Error(code=code, reason=reason), reply_to=reply)
    failed.__dict__["_metadata"] = reply.metadata
    return failed


# -- poison -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Field:
    """One field of one payload in a reply, to be poisoned."""

    content: RecordDict
    place: int
    name: str
    spec: FieldSpec

    @property
    def scalars(self) -> Any:
        return self.content.config_records[f"{self.place}.scalars"]

    @property
    def arrays(self) -> Any:
        return self.content.array_records[f"{self.place}.arrays"]

    @property
    def keys(self) -> list[str]:
        """Names of the arrays that hold it."""
        if self.spec.kind == "array":
            return [self.name]
        return (
            [f"{self.name}.{place}" for place in range(self.scalars[self.name])] if self.spec.kind == "arrays" else []
        )


Poison = Callable[[Field], None]


def poisons(kind: str, field: Field) -> list[tuple[str, Poison]]:
    """Ways to break a field's contract: what is done, and the function that does it to a reply's field."""
    return {"name": _wrong_names, "dtype": _wrong_types, "shape": _wrong_shapes, "finite": _not_finite}[kind](field)


def _wrong_names(field: Field) -> list[tuple[str, Poison]]:
    home = "arrays" if field.spec.kind == "array" else "scalars"

    def leave_out(each: Field) -> None:
        del getattr(each, home)[each.name]

    def rename(each: Field) -> None:
        record = getattr(each, home)
        record[f"{each.name}_of_another_version"] = record[each.name]
        del record[each.name]

    return [("is called otherwise", rename), ("is left out", leave_out)]


def _wrong_types(field: Field) -> list[tuple[str, Poison]]:
    if field.keys:
        other = "float32" if "float32" not in field.spec.dtypes else "int64"
        return [(f"is {other}", _changed(lambda values: values.astype(other))), ("is pickled", _pickle)]
    if field.spec.kind in ("array", "arrays"):
        return []
    return [("is of another type", _set("0.5" if field.spec.kind == "float" else 0.5))]


def _wrong_shapes(field: Field) -> list[tuple[str, Poison]]:
    found: list[tuple[str, Poison]] = []
    if field.keys:
        first = decode_array(field.arrays[field.keys[0]])
        found += [(f"is longer along axis {axis}", _changed(partial(_longer, axis=axis))) for axis in range(first.ndim)]
        if first.size > 1:  # one number would be spread over all by broadcasting
            found.append(("is cut to one number", _changed(lambda v: v.reshape(-1)[:1].reshape((1,) * v.ndim))))
        found.append(("has one more dimension", _changed(lambda values: values[np.newaxis])))
        found.append(("has fewer bytes than its shape says", _cut))
    if field.spec.kind == "arrays":
        found += [("holds an array more", _append), ("counts one array too many", _set(field.scalars[field.name] + 1))]
    elif field.spec.kind not in ("array", "strs"):
        found.append(("is a list", _set([field.scalars[field.name]] * 2)))
    return found


def _not_finite(field: Field) -> list[tuple[str, Poison]]:
    if field.spec.kind == "float":
        return [(f"is {bad}", _set(bad)) for bad in (float("nan"), float("-inf"))]
    if field.keys and field.spec.dtypes[0].startswith("float") and decode_array(field.arrays[field.keys[0]]).size:
        return [(f"holds {bad}", _changed(partial(np.full_like, fill_value=bad))) for bad in (np.nan, np.inf)]
    return []


def _set(value: Any) -> Poison:
    def poison(field: Field) -> None:
        field.scalars[field.name] = value

    return poison


def _changed(change: Callable[[np.ndarray], np.ndarray]) -> Poison:
    """Change the first of the field's arrays."""

    def poison(field: Field) -> None:
        key = field.keys[0]
        field.arrays[key] = encode_array(change(decode_array(field.arrays[key])))

    return poison


def _longer(values: np.ndarray, axis: int) -> np.ndarray:
    return np.pad(values, [(0, int(place == axis)) for place in range(values.ndim)])


def _pickle(field: Field) -> None:
    key = field.keys[0]
    array = field.arrays[key]
    field.arrays[key] = Array(array.dtype, array.shape, "numpy.ndarray", array.data)


def _cut(field: Field) -> None:
    key = field.keys[0]
    array = field.arrays[key]
    field.arrays[key] = Array(array.dtype, tuple(size + 1 for size in array.shape) or (2,), RAW, array.data)


def _append(field: Field) -> None:
    count = field.scalars[field.name]
    empty = np.zeros((1,) * len(field.spec.dims), field.spec.dtypes[0])
    source = field.arrays[field.keys[0]] if count else encode_array(empty)
    field.arrays[f"{field.name}.{count}"] = source
    field.scalars[field.name] = count + 1


def parcels_of(content: RecordDict) -> list[type[Payload]]:
    """Payload class of every parcel in a message, in order."""
    records: Any = content.config_records
    return [find(records[f"{place}.scalars"]["parcel"][1]) for place in range((len(content) - 1) // 2)]


# -- lies -------------------------------------------------------------------------------------------------------------


def lying(place: int, payload: type[Payload], field: str, change: Callable[[Any], Any]) -> Tamper:
    """One site's answers have another value in a field of this payload, whole numbers, floats and arrays alike."""

    def tamper(at: int, number: int, reply: Message) -> Message:
        for parcel, kind in enumerate(parcels_of(reply.content) if at == place and reply.has_content() else ()):
            if kind is payload:
                _lie(Field(reply.content, parcel, field, specs(payload)[field]), change)
        return reply

    return tamper


def _lie(field: Field, change: Callable[[Any], Any]) -> None:
    for key in field.keys:
        values = decode_array(field.arrays[key])
        field.arrays[key] = encode_array(np.asarray(change(values)).astype(values.dtype))
    if not field.keys:
        field.scalars[field.name] = change(field.scalars[field.name])
