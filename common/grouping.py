"""Equal messages of several sites or files, as one."""

from __future__ import annotations

from collections.abc import Mapping

_MOST_NAMED = 3


def grouped(messages: Mapping[str, str]) -> list[str]:
    """Return every different message once, with the names that have it, in the order of its first name.

    Examples
    --------
    >>> grouped({"cork": "no answer", "bonn": "no file", "oslo": "no answer"})
    ['cork, oslo: no answer', 'bonn: no file']
    >>> grouped({f"site-{place}": "no file" for place in range(50)})
    ['site-0, site-1, site-2 and 47 more: no file']
    """
    names: dict[str, list[str]] = {}
    for name, message in messages.items():
        names.setdefault(message, []).append(name)
    return [f"{_listed(those)}: {message}" for message, those in names.items()]


def _listed(names: list[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
