"""A payload as one vector of words that can be added, and a sum of such vectors as a payload.

First a one, so that a sum tells how many it is of; then all integers, modulo ``2**64``; then all floating-point numbers
as `numerics.shared.exact_sum` has them. Words added in any order, masked and unmasked, make the same payload.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np
from jaxtyping import UInt64

from numerics.shared.exact_sum import WORDS, added, from_words, negated, to_words
from protocols.wire.payload import Payload, specs

Sum = TypeVar("Sum", bound=Payload)
Vector = UInt64[np.ndarray, "w"]


def layout(payload: Payload) -> str:
    """What stands where: names, kinds and shapes of all numbers; payloads that are added have the same."""
    return f"{payload.title()} " + " ".join(
        f"{name}:{part.dtype.name}[{','.join(map(str, part.shape))}]" for name, part in _parts(payload)
    )


def size_of(payload: Payload) -> int:
    """Words of its vector."""
    singles = _singles(payload)
    return singles + WORDS * (sum(part.size for _, part in _parts(payload)) - (singles - 1))


def to_vector(payload: Payload) -> Vector:
    """A payload's numbers.

    Raises
    ------
    ValueError
        If one is too large (`numerics.shared.exact_sum.to_words`).
    TypeError
        If it is not a payload of numbers that says ``summed=True``.
    """
    integers = [np.ones(1, np.uint64)]
    floats = [np.zeros(0)]
    for _, part in _parts(payload):
        if part.dtype.kind == "i":
            integers.append(part.ravel().astype(np.int64).view(np.uint64))
        else:
            floats.append(part.ravel())
    return np.concatenate([*integers, to_words(np.concatenate(floats)).ravel()])


def from_vector(like: Sum, vector: Vector) -> tuple[int, Sum]:
    """How many payloads a vector is the sum of, and that sum, which has the shapes of `like`."""
    integers = vector[: _singles(like)].view(np.int64)
    floats = from_words(vector[len(integers) :].reshape(-1, WORDS))
    place = {"i": 1, "f": 0}
    parts: dict[str, list[Any]] = {}
    for name, part in _parts(like):
        source = integers if part.dtype.kind == "i" else floats
        begin = place[part.dtype.kind]
        place[part.dtype.kind] += part.size
        parts.setdefault(name, []).append(source[begin : begin + part.size].reshape(part.shape).copy())
    values: dict[str, Any] = {}
    for name, spec in specs(type(like)).items():
        found = parts.get(name, [])
        values[name] = tuple(found) if spec.kind == "arrays" else found[0] if spec.kind == "array" else found[0].item()
    return int(integers[0]), type(like)(**values)


def plus(like: Payload, one: Vector, other: Vector) -> Vector:
    """The sum of two vectors, word by word or number by number as `like` has them."""
    singles = _singles(like)
    wide = added(one[singles:].reshape(-1, WORDS), other[singles:].reshape(-1, WORDS))
    return np.concatenate([one[:singles] + other[:singles], wide.ravel()])


def minus(like: Payload, one: Vector, other: Vector) -> Vector:
    """The difference of two vectors."""
    singles = _singles(like)
    wide = negated(other[singles:].reshape(-1, WORDS)).ravel()
    return plus(like, one, np.concatenate([np.negative(other[:singles]), wide]))


def _parts(payload: Payload) -> Iterator[tuple[str, np.ndarray]]:
    """Its numbers by field, in the declared order."""
    if not payload.summed:
        raise TypeError(f"{payload.title()} does not say that it may be summed")
    for name, spec in specs(type(payload)).items():
        value = getattr(payload, name)
        if spec.kind not in ("array", "arrays", "int", "float") or not set(spec.dtypes) <= {"int64", "float64"}:
            raise TypeError(f"{payload.title()}: field {name!r} is not of 64-bit numbers, and cannot be summed")
        for each in value if spec.kind == "arrays" else (value,):
            yield name, np.asarray(each, np.int64 if spec.kind == "int" else None)


def _singles(payload: Payload) -> int:
    """Words of the count and of all integers."""
    return 1 + sum(part.size for _, part in _parts(payload) if part.dtype.kind == "i")
