"""References to data in a configuration: a file or folder, the paths of several sites, a function, or a query."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

_FUNCTION = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_PATH_OF_SITE = re.compile(r"([\w.-]+)=(.+)", re.ASCII)

_LONGEST_QUERY = 40  # characters of a query in a message

GIVEN_IN_PYTHON = "clients.data.in_memory:held."
"""Prefix of references to data that were given in Python, and exist in one process only."""


def is_function(text: str) -> bool:
    """Whether a text names a function, ``package.module:function``, and no file has that name.

    Examples
    --------
    >>> is_function("hospital.records:load"), is_function("records/north.csv")
    (True, False)
    """
    return bool(_FUNCTION.fullmatch(text)) and not os.path.exists(text)


def is_query(text: str) -> bool:
    """Whether a text is a query of the site's database.

    Examples
    --------
    >>> is_query("select age from ward order by id"), is_query("selected.csv")
    (True, False)
    """
    return text.lower().lstrip().startswith(("select ", "select\n", "with ")) and not os.path.exists(text)


def paths_by_site(text: str) -> dict[str, str]:
    """Return the paths in ``north=a.csv south=b.csv`` by site; none if the text is something else.

    Examples
    --------
    >>> paths_by_site("north=a.csv 'south=old data/b.csv'")
    {'north': 'a.csv', 'south': 'old data/b.csv'}
    >>> paths_by_site("records")
    {}
    """
    try:
        pairs = [_PATH_OF_SITE.fullmatch(word) for word in shlex.split(text)]
    except ValueError:
        return {}
    sites = {pair[1]: pair[2] for pair in pairs if pair}
    return sites if len(sites) == len(pairs) and not os.path.exists(text) else {}


def as_text(paths: Mapping[str, str | Path]) -> str:
    """Return the text that `paths_by_site` reads.

    Examples
    --------
    >>> as_text({"north": "a.csv", "south": "old data/b.csv"})
    "north=a.csv 'south=old data/b.csv'"
    """
    return shlex.join(f"{site}={path}" for site, path in paths.items())


def shown_place(text: str) -> str:
    """Return how a message names data.

    Examples
    --------
    >>> shown_place("records"), shown_place("clients.data.in_memory:held.t0")
    ('records', 'what was given in Python')
    """
    if is_query(text):
        words = " ".join(text.split())
        return f"the query {words if len(words) <= _LONGEST_QUERY else f'{words[:_LONGEST_QUERY]}...'!r}"
    return "what was given in Python" if text.startswith(GIVEN_IN_PYTHON) else text


def absolute_place(text: str) -> str:
    """Return the text with absolute paths; the name of a function, and a query, stay as they are.

    Examples
    --------
    >>> absolute_place("/data/../records"), absolute_place("hospital.records:load")
    ('/records', 'hospital.records:load')
    """
    if is_function(text) or is_query(text):
        return text
    paths = paths_by_site(text)
    if paths:
        return as_text({site: _absolute(path) for site, path in paths.items()})
    return _absolute(text)


def _absolute(path: str) -> str:
    return os.path.abspath(os.path.expanduser(path))
