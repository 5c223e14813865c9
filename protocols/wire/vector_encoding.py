"""A payload as one vector of words that can be added, and a sum of such vectors as a payload.

The first word is a one, so that a sum has the number of its terms. Then come all integers, modulo ``2**64``, and then
all floating-point numbers as in `numerics.shared.exact_sum`. Words added in any order, masked or not, give the same
payload.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np
from jaxtyping import UInt64

from numerics.shared.exact_sum import LARGEST_TERM, WORDS, add, from_words, negate, to_words
from protocols.wire.payload import Payload, PayloadError, specs

Sum = TypeVar("Sum", bound=Payload)
Vector = UInt64[np.ndarray, "w"]


def layout(payload: Payload) -> str:
    """Return names, dtypes and shapes of all numbers in order; payloads that are added have the same layout.

    Examples
    --------
    >>> from protocols.gp.payloads import Slope
    >>> layout(Slope(0.5, np.zeros(3)))
    'gp.Slope loss:float64[] gradient:float64[3]'
    """
    return f"{payload.title()} " + " ".join(
        f"{name}:{part.dtype.name}[{','.join(map(str, part.shape))}]" for name, part in _parts(payload)
    )


def size_of(payload: Payload) -> int:
    """Return the number of words of its vector."""
    singles = _singles(payload)
    return singles + WORDS * (sum(part.size for _, part in _parts(payload)) - (singles - 1))


def to_vector(payload: Payload) -> Vector:
    """Return a payload's numbers as a vector.

    Raises
    ------
    ValueError
        If one is too large (`numerics.shared.exact_sum.to_words`).
    TypeError
        If it is not a payload of numbers that declares ``summed=True``.

    Examples
    --------
    >>> from protocols.gp.payloads import Slope
    >>> one, other = Slope(0.5, np.array([1.0, 2.0])), Slope(0.25, np.array([0.0, 4.0]))
    >>> total = plus(one, to_vector(one), to_vector(other))
    >>> from_vector(one, total)
    (2, Slope(loss=0.75, gradient=array([1., 6.])))
    """
    integers = [np.ones(1, np.uint64)]
    floats = [np.zeros(0)]
    for _, part in _parts(payload):
        if part.dtype.kind == "i":
            integers.append(part.ravel().astype(np.int64).view(np.uint64))
        else:
            floats.append(part.ravel())
    return np.concatenate([*integers, to_words(np.concatenate(floats)).ravel()])


def check_summable(payload: Payload) -> None:
    """Refuse a payload with a number that is too large to be added up.

    Examples
    --------
    >>> from protocols.gp.payloads import Slope
    >>> check_summable(Slope(1e60, np.zeros(3)))
    Traceback (most recent call last):
    protocols.wire.payload.PayloadError: payload gp.Slope, field 'loss': is larger than 1.53e+54
    """
    for name, part in _parts(payload):
        if part.dtype.kind == "f" and not (np.abs(part) <= LARGEST_TERM).all():
            raise PayloadError(payload.title(), name, f"is larger than {LARGEST_TERM:.3g}")


def from_vector(like: Sum, vector: Vector) -> tuple[int, Sum]:
    """Return how many payloads a vector is the sum of, and that sum, in the shapes of `like`."""
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
        arrays = parts.get(name, [])
        values[name] = (
            tuple(arrays) if spec.kind == "arrays" else arrays[0] if spec.kind == "array" else arrays[0].item()
        )
    return int(integers[0]), type(like)(**values)


def plus(like: Payload, one: Vector, other: Vector) -> Vector:
    """Return the sum of two vectors, word by word or number by number as in `like`."""
    singles = _singles(like)
    wide = add(one[singles:].reshape(-1, WORDS), other[singles:].reshape(-1, WORDS))
    return np.concatenate([one[:singles] + other[:singles], wide.ravel()])


def minus(like: Payload, one: Vector, other: Vector) -> Vector:
    """Return the difference of two vectors."""
    singles = _singles(like)
    wide = negate(other[singles:].reshape(-1, WORDS)).ravel()
    return plus(like, one, np.concatenate([np.negative(other[:singles]), wide]))


def _parts(payload: Payload) -> Iterator[tuple[str, np.ndarray]]:
    """Yield its numbers by field, in the declared order."""
    if not payload.summed:
        raise TypeError(f"{payload.title()} does not say that it may be summed")
    for name, spec in specs(type(payload)).items():
        value = getattr(payload, name)
        if spec.kind not in ("array", "arrays", "int", "float") or not set(spec.dtypes) <= {"int64", "float64"}:
            raise TypeError(f"{payload.title()}: field {name!r} is not of 64-bit numbers, and cannot be summed")
        for each in value if spec.kind == "arrays" else (value,):
            yield name, np.asarray(each, np.int64 if spec.kind == "int" else None)


def _singles(payload: Payload) -> int:
    """Return the number of words of the count and of all integers."""
    return 1 + sum(part.size for _, part in _parts(payload) if part.dtype.kind == "i")
