"""Floating-point numbers as wide integers, so that their sums depend on no order and can be masked.

A number stands for the nearest multiple of ``2**-64``, a two's complement integer of 256 bits in four words of 64, the
lowest first. Integers add exactly and modulo ``2**256``: a sum of floats is then the same whoever adds them in which
order, its only rounding errors those of its terms (``2**-65`` each) and that of the result, and a term plus a uniformly
random integer is uniformly random itself. Four words, for GP's numbers may be as large as
`protocols.gp.payloads.LARGEST`.

`numerics.bc3e.grid` is the coarser grid of BC3E, whose terms fit in one word.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64, Int64, UInt64

WORDS = 4
"""Words of a number."""
LARGEST_TERM = 2.0**180
"""Largest size of a number, about 1.5e54."""
MOST_TERMS = 2**10
"""Terms whose sum cannot overflow."""

_BITS = 64
_FRACTION = 64
_MANTISSA = 53

Words = UInt64[np.ndarray, "*shape 4"]


def to_words(values: Float64[np.ndarray, "*shape"]) -> Words:
    """The nearest multiples of ``2**-64`` (ties to even), as integers.

    Parameters
    ----------
    values : ndarray
        Of any shape.

    Raises
    ------
    ValueError
        If a number is not finite, or larger in size than `LARGEST_TERM`.
    """
    size = np.abs(values)
    if not (size <= LARGEST_TERM).all():
        raise ValueError(f"a number is not finite, or its size is beyond {LARGEST_TERM:g}")
    fraction, exponent = np.frexp(size)
    mantissa = np.ldexp(fraction, _MANTISSA).astype(np.uint64)
    shift = np.where(size > 0, exponent.astype(np.int64) - _MANTISSA + _FRACTION, 0)
    # Of a mantissa that reaches below the grid, a number smaller than half a step, or of at most 53 bits: exact.
    small = shift < 0
    mantissa = np.where(small, np.rint(np.ldexp(size, np.where(small, _FRACTION, 0))), mantissa).astype(np.uint64)
    place, offset = np.divmod(np.where(small, 0, shift), _BITS)
    low = mantissa << offset.astype(np.uint64)
    high = (mantissa >> np.uint64(1)) >> (_BITS - 1 - offset).astype(np.uint64)
    longer = np.zeros((*values.shape, WORDS + 1), np.uint64)
    np.put_along_axis(longer, place[..., np.newaxis], low[..., np.newaxis], axis=-1)
    np.put_along_axis(longer, place[..., np.newaxis] + 1, high[..., np.newaxis], axis=-1)
    words: Words = longer[..., :WORDS]
    return np.where((values < 0)[..., np.newaxis], negated(words), words)


def from_words(words: Words) -> Float64[np.ndarray, "*shape"]:
    """The floating-point numbers nearest to what `words` stand for (ties to even)."""
    negative = words[..., -1] >> np.uint64(_BITS - 1) != 0
    size = np.where(negative[..., np.newaxis], negated(words), words)
    top = WORDS - 1 - np.argmax(size[..., ::-1] != 0, axis=-1)
    first = np.take_along_axis(size, top[..., np.newaxis], axis=-1)[..., 0]
    below = np.where(np.arange(WORDS) < top[..., np.newaxis], size, np.uint64(0))
    second = np.take_along_axis(below, np.maximum(top - 1, 0)[..., np.newaxis], axis=-1)[..., 0]
    third = np.where(np.arange(WORDS) < top[..., np.newaxis] - 1, below, np.uint64(0)).any(axis=-1)
    # The leading 64 bits; the lowest is set where anything is left out, which settles how they round.
    free = (_BITS - _bit_length(first)).clip(max=_BITS - 1)
    right = (_BITS - 1 - free).astype(np.uint64)
    leading = (first << free.astype(np.uint64)) | ((second >> np.uint64(1)) >> right)
    left_out = third | (second << free.astype(np.uint64) != 0)
    rounded = (leading | left_out.astype(np.uint64)).astype(np.float64)
    found: Float64[np.ndarray, "*shape"] = np.ldexp(rounded, _BITS * top - free - _FRACTION)
    return np.where(negative, -found, found)


def added(one: Words, other: Words) -> Words:
    """Sums modulo ``2**256``."""
    total: Words = one + other
    carry = np.zeros(total.shape[:-1], bool)
    for place in range(WORDS):
        over = total[..., place] < one[..., place]
        total[..., place] += carry
        carry = over | (carry & (total[..., place] == 0))
    return total


def negated(words: Words) -> Words:
    """Negative numbers modulo ``2**256``."""
    one = np.zeros(WORDS, np.uint64)
    one[0] = 1
    return added(~words, np.broadcast_to(one, words.shape))


def exact_sum(terms: Sequence[Float64[np.ndarray, "*shape"]]) -> Float64[np.ndarray, "*shape"]:
    """Sum of arrays of one shape, whatever their order; it equals that of their masked words bit for bit.

    Raises
    ------
    ValueError
        If there is no term, or more than `MOST_TERMS`, or one of them is out of range (`to_words`).
    """
    if not 0 < len(terms) <= MOST_TERMS:
        raise ValueError(f"{len(terms)} terms; from 1 to {MOST_TERMS} can be added")
    total = to_words(np.asarray(terms[0]))
    for term in terms[1:]:
        total = added(total, to_words(np.asarray(term)))
    return from_words(total)


def _bit_length(words: UInt64[np.ndarray, "*shape"]) -> Int64[np.ndarray, "*shape"]:
    """Bits without leading zeros; halves of a word are exact as floating-point numbers, whole words are not."""
    high, low = words >> np.uint64(32), words & np.uint64(0xFFFFFFFF)
    bits = np.where(high > 0, 32 + np.frexp(high.astype(np.float64))[1], np.frexp(low.astype(np.float64))[1])
    return bits.astype(np.int64)
