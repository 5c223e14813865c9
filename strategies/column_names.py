"""Checks of the sites' column names, and the choice of the columns that most sites have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from common.grouping import group_messages, list_names
from protocols.wire.payload import Payload, PayloadError
from strategies.errors import FusionError

MOST_NAME = 200
"""Most characters of a column's name, which log and report show."""


def check_names(answer: Payload, field: str, names: Sequence[str]) -> None:
    """Refuse an answer without names, with a name twice, or with an unprintable name.

    Raises
    ------
    PayloadError
        Naming the field.
    """
    if not names or len(set(names)) < len(names):
        raise PayloadError(answer.title(), field, "there is none, or one comes twice")
    if not all(0 < len(name) <= MOST_NAME and name.isprintable() for name in names):
        problem = f"a name is longer than {MOST_NAME} characters, or has an unprintable character"
        raise PayloadError(answer.title(), field, problem)


def columns_of_most(columns: Mapping[str, tuple[str, ...]], what: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """Find the columns that most sites have, and exclude the sites with other columns.

    Parameters
    ----------
    columns : Mapping[str, tuple of str]
        Columns by site, of one site at least.
    what : str
        Their name in messages: columns, or inputs.

    Returns
    -------
    columns, excluded
        The columns, and reasons by excluded site.

    Raises
    ------
    FusionError
        If two sets of columns are equally common.

    Examples
    --------
    >>> columns, excluded = columns_of_most({"a": ("x", "y"), "b": ("x", "y"), "c": ("x",)}, "columns")
    >>> columns
    ('x', 'y')
    >>> excluded
    {'c': 'left out: its columns are x; most sites have x, y'}
    """
    (common, most), *others = Counter(columns.values()).most_common(2)
    if others and others[0][1] == most:
        raise FusionError(
            f"as many sites have the {what} {list_names(common)} as have {list_names(others[0][0])}: name those that"
            " all of them have in `features`"
        )
    excluded = {
        site: f"left out: its {what} are {list_names(own)}; most sites have {list_names(common)}"
        for site, own in columns.items()
        if own != common
    }
    return common, excluded


def check_enough(n_left: int, min_sites: int, excluded: Mapping[str, str], purpose: str) -> None:
    """Refuse to go on with fewer than `min_sites` sites; `excluded` has reasons by excluded site.

    Examples
    --------
    >>> check_enough(1, 2, {"oslo": "left out: its inputs are x"}, "fit")
    Traceback (most recent call last):
    strategies.errors.FusionError: 1 sites are left to fit, min-sites is 2 (oslo: left out: its inputs are x)
    """
    if n_left < max(1, min_sites):
        why = "; ".join(group_messages(excluded.items()))
        raise FusionError(f"{n_left} sites are left to {purpose}, min-sites is {min_sites} ({why})")
