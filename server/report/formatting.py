"""Numbers and names as text, for the terminal and for pages."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any


def printable(text: str) -> str:
    r"""Return `text` on one line with control characters escaped, so that a site's name cannot steer the terminal.

    Examples
    --------
    >>> printable("north\n")
    'north\\n'
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def number(value: object) -> str:
    """Return a number to six significant digits or more, anything else as text, None as an empty text.

    Examples
    --------
    >>> number(0.123456789), number(3.0), number(1017551.6), number(None)
    ('0.123457', '3', '1017552', '')
    """
    if value is None:
        return ""
    if isinstance(value, float):
        whole = abs(value) < 1e15 and (value.is_integer() or abs(value) >= 1e6)
        return f"{value:.0f}" if whole else f"{value:.6g}"
    return printable(str(value))


def short(value: float, digits: int = 4) -> str:
    """Return a number to so many significant digits, and a whole one from 10,000 on.

    Examples
    --------
    >>> short(0.123456), short(24620.3), short(8802.4, digits=3)
    ('0.1235', '24,620', '8,802')
    """
    return f"{value:,.0f}" if 10 ** min(digits, 4) <= abs(value) < 1e15 else number(float(f"{value:.{digits}g}"))


def with_error(value: float, error: float) -> str:
    """Return a number with its standard error, to one digit of the error (two if that digit is 1).

    Examples
    --------
    >>> with_error(0.9421, 0.004)
    '0.942 ± 0.004'
    """
    if not (math.isfinite(error) and error > 0):
        return f"{number(value)} ± {number(error)}"
    mantissa, exponent = f"{error:.1e}".split("e")
    decimals = (2 if mantissa[0] == "1" else 1) - 1 - int(exponent)
    if decimals > 9:
        return f"{number(value)} ± {number(error)}"
    return f"{value:.{max(0, decimals)}f} ± {error:.{max(0, decimals)}f}"


def folded(values: Mapping[str, Any]) -> dict[str, str]:
    """Return values as text, with the standard error ``x_se`` beside its ``x``.

    Examples
    --------
    >>> folded({"error": 0.25, "error_se": 0.01})
    {'error': '0.250 ± 0.010'}
    """
    texts = {}
    for name, value in values.items():
        error = values.get(f"{name}_se")
        if name.endswith("_se") and values.get(name.removesuffix("_se")) is not None:
            continue
        both = isinstance(value, int | float) and isinstance(error, int | float)
        texts[name] = with_error(float(value), float(error)) if both else number(value)  # type: ignore[arg-type]
    return texts


def percent(share: float, error: float | None = None) -> str:
    """Return a share as a percentage, a small one with more digits.

    Parameters
    ----------
    share : float
        1 for 100 %.
    error : float, optional
        Standard error; 0 is not shown.

    Examples
    --------
    >>> percent(0.956), percent(0.956, 0.004)
    ('95.6 %', '95.6 ± 0.4 %')
    """
    if error:
        return f"{with_error(100 * share, 100 * error)} %"
    size = abs(100 * share)
    digits = 0 if size >= 99.95 else 1 if size >= 0.995 or size == 0 else 2
    return f"{100 * share:.{digits}f} %" if size >= 0.005 or size == 0 else f"{100 * share:.1g} %"


def human_bytes(count: float) -> str:
    """Return a number of bytes in decimal units.

    Examples
    --------
    >>> human_bytes(345), human_bytes(1234)
    ('345 B', '1.2 kB')
    """
    if count < 1000:
        return f"{count:.0f} B"
    size = float(count)
    for unit in ("kB", "MB", "GB"):
        size /= 1000
        if size < 999.95:
            return f"{size:.1f} {unit}"
    return f"{size / 1000:.1f} TB"


def human_seconds(seconds: float) -> str:
    """Return a duration in words.

    Examples
    --------
    >>> human_seconds(0.04), human_seconds(12.3), human_seconds(125), human_seconds(3720)
    ('40 ms', '12.3 s', '2 min 5 s', '1 h 2 min')
    """
    if 0 < seconds < 0.0995:
        return f"{1000 * seconds:.0f} ms" if seconds >= 0.0005 else "below 1 ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def columns(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the names of all columns of `rows`, in the order of their first appearance.

    Examples
    --------
    >>> columns([{"k": 2, "cost": 1.5}, {"k": 3, "price": 0.1}])
    ['k', 'cost', 'price']
    """
    return list(dict.fromkeys(name for row in rows for name in row))


def counted(n: float, thing: str) -> str:
    """Return a count with its noun.

    Examples
    --------
    >>> counted(1, "site"), counted(2000, "round")
    ('1 site', '2,000 rounds')
    """
    return f"{n:,.0f} {thing}{'' if n == 1 else 's'}"


def listed(items: Iterable[str], last: str = "and") -> str:
    """Return items as a list in words.

    Examples
    --------
    >>> listed("abc")
    'a, b and c'
    """
    every = list(items)
    return f"{', '.join(every[:-1])} {last} {every[-1]}" if len(every) > 1 else "".join(every)
