"""Reconstruction of secrets from their shares (Shamir 1979), for many secrets with the same holders.

Flower's `create_shares` makes the shares, in the field of 2^128 elements with the polynomial x^128 + x^7 + x^2 + x + 1.
A share is the holder's number in 4 bytes, then 16 bytes for each block of 16 bytes of the padded secret. Flower's
`combine_shares` computes the weights of the interpolation for every block of every secret: over a whole sum this takes
a time cubic in the number of sites. The weights depend on the holders alone, and are cached here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from Crypto.Util.Padding import unpad  # nosec B413 - PyCryptodome, which Flower brings

_BLOCK, _NUMBER = 16, 4
_BITS = 8 * _BLOCK
_REST = 0b10000111
"""Polynomial congruent to x^128."""
_ONES = int.from_bytes(b"\1" * 2 * _BITS, "big")
_DIGITS = int.from_bytes(b"0" * 2 * _BITS, "big")


def combine(shares: Sequence[bytes]) -> bytes:
    """Reconstruct a secret from exactly as many shares as its threshold, of different holders.

    Parameters
    ----------
    shares : sequence of bytes
        Shares of one secret, as `create_shares` made them.

    Raises
    ------
    ValueError
        If they are not shares of one secret; most such cases are noticed, not all.

    Examples
    --------
    >>> from flwr.common.secure_aggregation.crypto.shamir import create_shares
    >>> combine(create_shares(b"a seed", threshold=2, num=3)[1:])
    b'a seed'
    """
    sizes = {len(share) for share in shares}
    if len(sizes) != 1 or min(sizes) < _NUMBER + _BLOCK or (min(sizes) - _NUMBER) % _BLOCK:
        raise ValueError("no shares, or not of one length")
    weights = _weights(tuple(int.from_bytes(share[:_NUMBER], "little") for share in shares))
    padded = b""
    for begin in range(_NUMBER, min(sizes), _BLOCK):
        total = 0
        for share, weight in zip(shares, weights, strict=True):
            total ^= _spread(int.from_bytes(share[begin : begin + _BLOCK], "big")) * weight & _ONES
        padded += _reduce(_gather(total)).to_bytes(_BLOCK, "big")
    return unpad(padded, _BLOCK)


@lru_cache(maxsize=16)  # a sum has one set of holders, and more only if some shares are wrong
def _weights(numbers: tuple[int, ...]) -> tuple[int, ...]:
    """Return the weight of each share in the value at 0 of the polynomial through all, spread."""
    if len(set(numbers)) < len(numbers) or not all(0 < number < 2**16 for number in numbers):
        raise ValueError("shares are of no holder, or two of the same")
    weights = []
    for own in numbers:
        above = below = 1
        for other in numbers:
            if other != own:
                above, below = _product(above, other), _product(below, own ^ other)
        weights.append(_spread(_product(above, _inverse(below))))
    return tuple(weights)


# -- the field --------------------------------------------------------------------------------------------------------


def _product(one: int, other: int) -> int:
    return _reduce(_gather(_spread(one) * _spread(other) & _ONES))


def _inverse(element: int) -> int:
    """Return the inverse by Fermat: the power 2^128 - 2."""
    power, inverse = element, 1
    for _ in range(_BITS - 1):
        power = _product(power, power)
        inverse = _product(inverse, power)
    return inverse


def _spread(polynomial: int) -> int:
    """Put each bit into a byte: in a product of integers a byte then counts the terms that meet there, at most 128."""
    return int.from_bytes(format(polynomial, f"0{_BITS}b").encode(), "big") & _ONES


def _gather(spread: int) -> int:
    """Invert `_spread`: collect the lowest bit of each byte."""
    return int((spread | _DIGITS).to_bytes(2 * _BITS, "big"), 2)


def _reduce(polynomial: int) -> int:
    """Return the remainder of a product of two elements."""
    while high := polynomial >> _BITS:
        polynomial &= (1 << _BITS) - 1
        for place in range(_REST.bit_length()):
            if _REST >> place & 1:
                polynomial ^= high << place
    return polynomial
