"""Secrets from their shares, many that are shared out alike at a time.

Flower's `create_shares` makes the shares (Shamir's scheme in the field of 2^128 elements, whose polynomial is
x^128 + x^7 + x^2 + x + 1): the holder's number in 4 bytes, then 16 bytes for each block of 16 of the padded secret. Its
`combine_shares` finds the interpolation's weights anew for every block of every secret, in a time that is cubic in the
sites over a whole sum. They depend on who the holders are alone, and are kept here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from Crypto.Util.Padding import unpad

_BLOCK, _NUMBER = 16, 4
_BITS = 8 * _BLOCK
_REST = 0b10000111
"""What x^128 is congruent to."""
_ONES = int.from_bytes(b"\1" * 2 * _BITS, "big")
_DIGITS = int.from_bytes(b"0" * 2 * _BITS, "big")


def combined(shares: Sequence[bytes]) -> bytes:
    """The secret that as many shares as its threshold tell, of different holders.

    Parameters
    ----------
    shares : sequence of bytes
        Of one secret, as `create_shares` made them; exactly the threshold.

    Raises
    ------
    ValueError
        If they are not shares of one secret; that is noticed in most cases, not in all.
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
        padded += _reduced(_gathered(total)).to_bytes(_BLOCK, "big")
    return unpad(padded, _BLOCK)


@lru_cache(maxsize=16)  # holders whose shares are used; other ones where somebody's were not as they should be
def _weights(numbers: tuple[int, ...]) -> tuple[int, ...]:
    """Of each share in the value at 0 of the polynomial through all, spread."""
    if len(set(numbers)) < len(numbers) or not all(0 < number < 2**16 for number in numbers):
        raise ValueError("shares are of no holder, or two of the same")
    found = []
    for own in numbers:
        above = below = 1
        for other in numbers:
            if other != own:
                above, below = _product(above, other), _product(below, own ^ other)
        found.append(_spread(_product(above, _inverse(below))))
    return tuple(found)


# -- the field --------------------------------------------------------------------------------------------------------


def _product(one: int, other: int) -> int:
    return _reduced(_gathered(_spread(one) * _spread(other) & _ONES))


def _inverse(element: int) -> int:
    """Fermat: the power 2^128 - 2."""
    power, found = element, 1
    for _ in range(_BITS - 1):
        power = _product(power, power)
        found = _product(found, power)
    return found


def _spread(polynomial: int) -> int:
    """A bit in every byte: a product of integers then has in each byte how many terms meet there, 128 at most."""
    return int.from_bytes(format(polynomial, f"0{_BITS}b").encode(), "big") & _ONES


def _gathered(spread: int) -> int:
    """The polynomial whose bits are spread, each in a byte of its own."""
    return int((spread | _DIGITS).to_bytes(2 * _BITS, "big"), 2)


def _reduced(polynomial: int) -> int:
    """The remainder of a product of two elements."""
    while high := polynomial >> _BITS:
        polynomial &= (1 << _BITS) - 1
        for place in range(_REST.bit_length()):
            if _REST >> place & 1:
                polynomial ^= high << place
    return polynomial
