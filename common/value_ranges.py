"""Ranges of values that a setting may have, in words and as a test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

Value = bool | int | float | str
"""What a key of a configuration may hold."""


class ValueRange(NamedTuple):
    """The values that a setting may have: in words, and as a test of a value of the right type.

    Examples
    --------
    >>> even = ValueRange("an even number", lambda value: value % 2 == 0)
    >>> even.test(3), POSITIVE.words
    (False, 'greater than 0')
    """

    words: str
    test: Callable[[Any], bool]


ANY = ValueRange("", lambda value: True)
NOT_EMPTY = ValueRange("not empty", bool)
POSITIVE = ValueRange("greater than 0", lambda value: value > 0)


def one_of(*values: Value) -> ValueRange:
    """Allow some values only.

    Examples
    --------
    >>> one_of("row", "column").words
    "one of 'row', 'column'"
    """
    return ValueRange("one of " + ", ".join(repr(value) for value in values), lambda value: value in values)


def at_least(low: float) -> ValueRange:
    """Allow numbers from `low` on.

    Examples
    --------
    >>> at_least(1).words, at_least(1).test(0)
    ('1 or greater', False)
    """
    return ValueRange(f"{low:g} or greater", lambda value: value >= low)


def between(low: float, high: float) -> ValueRange:
    """Allow numbers from `low` to `high`, both included.

    Examples
    --------
    >>> between(1, 64).words
    'from 1 to 64'
    """
    return ValueRange(f"from {_plain(low)} to {_plain(high)}", lambda value: low <= value <= high)


def below(high: float) -> ValueRange:
    """Allow numbers from 0 to less than `high`.

    Examples
    --------
    >>> below(1).words, below(1).test(1.0)
    ('from 0 to below 1', False)
    """
    return ValueRange(f"from 0 to below {high:g}", lambda value: 0 <= value < high)


def _plain(number: float) -> str:
    return str(number) if isinstance(number, int) else f"{number:g}"
