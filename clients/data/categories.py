"""Categories that the settings ``categories`` and ``ordinal`` name: columns of text with their values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from clients.data.table import DataError, setting

SEPARATORS = {"categories": "|", "ordinal": "<"}
"""Separator of a column's values, by key."""
MOST_VALUES = 50
"""Most values of a category."""
REST = "*"
"""Stands for all values of a category that are not named."""

_SIGNS = ";=|<"
_QUOTED = re.compile(rf"""(?:^|(?<=[{_SIGNS}]))\s*(?:'[^']*'|"[^"]*")\s*(?=[{_SIGNS}]|$)""")
_PLACEHOLDER_OF = {ord(sign): chr(0xE000 + place) for place, sign in enumerate(_SIGNS)}
_SIGN_OF = {ord(placeholder): chr(sign) for sign, placeholder in _PLACEHOLDER_OF.items()}


@dataclass(frozen=True)
class Category:
    """A column of categories, with its values at all sites.

    Attributes
    ----------
    column : str
        Name of the column.
    values : tuple of str
        Its values, in order; `REST` last if all other values share a column.
    ordinal : bool
        Whether the values become 0, 1, 2, ... in one column, instead of a column each.
    """

    column: str
    values: tuple[str, ...]
    ordinal: bool = False


def categories_of(config: Mapping[str, object]) -> list[Category]:
    """Return the categories that ``categories`` and ``ordinal`` name; a value with ; = | or < stands in quotes.

    Raises
    ------
    DataError
        If they cannot be read.

    Examples
    --------
    >>> categories_of({"categories": "sex=f|m; ward='a|b'|*", "ordinal": "grade=low<high"})[1]
    Category(column='ward', values=('a|b', '*'), ordinal=False)
    """
    categories = []
    for key, separator in SEPARATORS.items():
        for part in parts_of(setting(config, key)):
            column, *after = split(part, "=")
            pieces = split("=".join(after), separator)
            values = tuple(map(_bare, pieces))
            if not all(values) or len(set(values)) != len(values) or len(values) > MOST_VALUES or _is_open(pieces):
                raise DataError(
                    f"configuration: {key} has {part!r}; write NAME=VALUE{separator}VALUE, each value once, at most"
                    f" {MOST_VALUES}, columns separated by ; and a value with one of {' '.join(_SIGNS)} in quotes",
                    "bad-configuration",
                )
            categories.append(Category(_bare(column), values, ordinal=key == "ordinal"))
    return categories


def parts_of(text: str) -> list[str]:
    """Return the parts of ``categories`` or ``ordinal``, one for each column.

    Examples
    --------
    >>> parts_of("sex=f|m; ward='a;b'|*")
    ['sex=f|m', "ward='a;b'|*"]
    """
    return [part for part in split(text, ";") if part]


def column_of(part: str) -> str:
    """Return the name of the column, or the glob, that a part is about.

    Examples
    --------
    >>> column_of("ward=north|south")
    'ward'
    """
    return _bare(split(part, "=")[0])


def categories_text(categories: Iterable[Category]) -> str:
    """Return categories, all of one kind, as the key ``categories`` or ``ordinal`` has them.

    Examples
    --------
    >>> categories_text([Category("sex", ("f", "m")), Category("ward", ("a|b", "*"))])
    "sex=f|m; ward='a|b'|*"
    """
    separators = [SEPARATORS["ordinal" if each.ordinal else "categories"] for each in categories]
    parts = zip(categories, separators, strict=True)
    return "; ".join(f"{_quoted(each.column)}={sign.join(map(_quoted, each.values))}" for each, sign in parts)


def can_be_named(value: str) -> bool:
    r"""Whether a setting can name a value: not if it needs quotes and has both kinds.

    Examples
    --------
    >>> can_be_named("a|b"), can_be_named("o'clock"), can_be_named("a'b\"|c")
    (True, True, False)
    """
    return not (_needs_quotes(value) and "'" in value and '"' in value)


def split(text: str, sign: str) -> list[str]:
    """Split at a sign outside of quotes, which stand around a whole name or value; blanks at the ends go.

    Examples
    --------
    >>> split("'a|b'| o'clock |c", "|")
    ["'a|b'", "o'clock", 'c']
    """
    hidden = _QUOTED.sub(lambda quoted: quoted[0].translate(_PLACEHOLDER_OF), text)
    return [piece.translate(_SIGN_OF).strip() for piece in hidden.split(sign)]


def _bare(piece: str) -> str:
    return piece[1:-1] if len(piece) > 1 and piece[0] == piece[-1] and piece[0] in "'\"" else piece


def _is_open(pieces: Sequence[str]) -> bool:
    """Whether a quote begins a value and does not end it."""
    return any(piece[0] in "'\"" and _bare(piece) == piece for piece in pieces)


def _needs_quotes(value: str) -> bool:
    return value[:1] in {"'", '"'} or any(sign in value for sign in _SIGNS)


def _quoted(value: str) -> str:
    quote = '"' if "'" in value else "'"
    return f"{quote}{value}{quote}" if _needs_quotes(value) else value
