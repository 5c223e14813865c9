"""Equal messages of several sites or files, as one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_MOST_NAMED = 3
_MOST_LISTED = 8


def group_messages(messages: Iterable[tuple[str, str]]) -> list[str]:
    """Return each distinct message once, after the names of all that have it.

    Parameters
    ----------
    messages : iterable of (str, str)
        Name and message; a message with an empty name stands alone.

    Returns
    -------
    list of str
        In the order of the first names.

    Examples
    --------
    >>> group_messages([("cork", "no answer"), ("bonn", "no file"), ("", "stopped"), ("oslo", "no answer")])
    ['cork, oslo: no answer', 'bonn: no file', 'stopped']
    >>> group_messages((f"site-{place}", "no file") for place in range(50))
    ['site-0, site-1, site-2 and 47 more: no file']
    """
    names: dict[str, dict[str, None]] = {}
    for name, message in messages:
        names.setdefault(message, {}).update({name: None} if name else {})
    return [f"{list_names([*those], _MOST_NAMED)}: {message}" if those else message for message, those in names.items()]


def list_names(names: Sequence[str], most: int = _MOST_LISTED) -> str:
    """List the first names, and say how many more there are.

    Examples
    --------
    >>> list_names(["age", "bmi", "sex"], most=2)
    'age, bmi and 1 more'
    """
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")
