"""Exact sums of floating-point numbers, as wide integers: independent of the order, and ready for masks.

A number is represented by the nearest multiple of ``2**-64``: a two's complement integer of 256 bits in four words of
64, the lowest first. Integers add exactly modulo ``2**256``. A sum is therefore the same in any order; its rounding
errors are those of its terms (``2**-65`` each) and that of the result. A term plus a uniformly random integer is
uniformly random. Four words are needed because numbers of GP may be as large as `protocols.gp.payloads.LARGEST`.

`numerics.bc3e.grid` is the coarser grid of BC3E, whose terms fit into one word.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64, Int64, UInt64

WORDS = 4
"""Words of one number."""
LARGEST_TERM = 2.0**180
"""Largest absolute value of a term, about 1.5e54."""
MOST_TERMS = 2**10
"""Largest number of terms, whose sum cannot overflow."""

_BITS = 64
_FRACTION = 64
_MANTISSA = 53

Words = UInt64[np.ndarray, "*shape 4"]


def to_words(values: Float64[np.ndarray, "*shape"]) -> Words:
    """Round numbers to multiples of ``2**-64`` (ties to even), and represent them by integers.

    Parameters
    ----------
    values : ndarray
        Numbers, of any shape.

    Returns
    -------
    ndarray
        ``(*shape, 4)``.

    Raises
    ------
    ValueError
        If a number is not finite, or its absolute value exceeds `LARGEST_TERM`.

    Examples
    --------
    >>> to_words(np.array(2.0))
    array([0, 2, 0, 0], dtype=uint64)
    """
    size = np.abs(values)
    if not (size <= LARGEST_TERM).all():
        raise ValueError(f"a number is not finite, or its size is beyond {LARGEST_TERM:g}")
    fraction, exponent = np.frexp(size)
    mantissa = np.ldexp(fraction, _MANTISSA).astype(np.uint64)
    shift = np.where(size > 0, exponent.astype(np.int64) - _MANTISSA + _FRACTION, 0)
    # A mantissa that extends below the grid is rounded to at most 53 bits, which is exact.
    small = shift < 0
    mantissa = np.where(small, np.rint(np.ldexp(size, np.where(small, _FRACTION, 0))), mantissa).astype(np.uint64)
    place, offset = np.divmod(np.where(small, 0, shift), _BITS)
    low = mantissa << offset.astype(np.uint64)
    high = (mantissa >> np.uint64(1)) >> (_BITS - 1 - offset).astype(np.uint64)
    longer = np.zeros((*values.shape, WORDS + 1), np.uint64)
    np.put_along_axis(longer, place[..., np.newaxis], low[..., np.newaxis], axis=-1)
    np.put_along_axis(longer, place[..., np.newaxis] + 1, high[..., np.newaxis], axis=-1)
    words: Words = longer[..., :WORDS]
    return np.where((values < 0)[..., np.newaxis], negate(words), words)


def from_words(words: Words) -> Float64[np.ndarray, "*shape"]:
    """Convert integers to the nearest floating-point numbers (ties to even).

    Examples
    --------
    >>> from_words(to_words(np.array([0.1, -3.0])))
    array([ 0.1, -3. ])
    """
    negative = words[..., -1] >> np.uint64(_BITS - 1) != 0
    size = np.where(negative[..., np.newaxis], negate(words), words)
    top = WORDS - 1 - np.argmax(size[..., ::-1] != 0, axis=-1)
    first = np.take_along_axis(size, top[..., np.newaxis], axis=-1)[..., 0]
    below = np.where(np.arange(WORDS) < top[..., np.newaxis], size, np.uint64(0))
    second = np.take_along_axis(below, np.maximum(top - 1, 0)[..., np.newaxis], axis=-1)[..., 0]
    third = np.where(np.arange(WORDS) < top[..., np.newaxis] - 1, below, np.uint64(0)).any(axis=-1)
    # The leading 64 bits; the lowest is set if any omitted bit is, which decides the rounding.
    free = (_BITS - _bit_length(first)).clip(max=_BITS - 1)
    right = (_BITS - 1 - free).astype(np.uint64)
    leading = (first << free.astype(np.uint64)) | ((second >> np.uint64(1)) >> right)
    omitted = third | (second << free.astype(np.uint64) != 0)
    rounded = (leading | omitted.astype(np.uint64)).astype(np.float64)
    numbers: Float64[np.ndarray, "*shape"] = np.ldexp(rounded, _BITS * top - free - _FRACTION)
    return np.where(negative, -numbers, numbers)


def add(one: Words, other: Words) -> Words:
    """Add modulo ``2**256``.

    Examples
    --------
    >>> from_words(add(to_words(np.array(1e20)), to_words(np.array(0.5)))) == 1e20 + 0.5
    np.True_
    """
    total: Words = one + other
    carry = np.zeros(total.shape[:-1], bool)
    for place in range(WORDS):
        over = total[..., place] < one[..., place]
        total[..., place] += carry
        carry = over | (carry & (total[..., place] == 0))
    return total


def negate(words: Words) -> Words:
    """Negate modulo ``2**256``.

    Examples
    --------
    >>> from_words(negate(to_words(np.array(2.5)))).item()
    -2.5
    """
    one = np.zeros(WORDS, np.uint64)
    one[0] = 1
    return add(~words, np.broadcast_to(one, words.shape))


def exact_sum(terms: Sequence[Float64[np.ndarray, "*shape"]]) -> Float64[np.ndarray, "*shape"]:
    """Sum arrays of one shape; the result does not depend on their order, and equals that of masked words to the bit.

    Raises
    ------
    ValueError
        If there is no term, or more than `MOST_TERMS`, or a term is out of range (`to_words`).

    Examples
    --------
    >>> terms = [np.array(term) for term in (1e20, 1.0, -1e20)]
    >>> exact_sum(terms).item(), float(sum(terms))
    (1.0, 0.0)
    """
    if not 0 < len(terms) <= MOST_TERMS:
        raise ValueError(f"{len(terms)} terms; from 1 to {MOST_TERMS} can be added")
    total = to_words(np.asarray(terms[0]))
    for term in terms[1:]:
        total = add(total, to_words(np.asarray(term)))
    return from_words(total)


def _bit_length(words: UInt64[np.ndarray, "*shape"]) -> Int64[np.ndarray, "*shape"]:
    """Count the bits without leading zeros, by halves of words: these are exact as floating-point numbers."""
    high, low = words >> np.uint64(32), words & np.uint64(0xFFFFFFFF)
    bits = np.where(high > 0, 32 + np.frexp(high.astype(np.float64))[1], np.frexp(low.astype(np.float64))[1])
    return bits.astype(np.int64)
