"""Names that sites give their columns: held to a usual form, compared, and told in a sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from protocols.wire.payload import Payload, PayloadError
from strategies.node_registry import FusionError

MOST_NAME = 200
"""Characters of a column's name: it is shown in log and report."""
_SHOWN = 8


def check_names(answer: Payload, field: str, names: Sequence[str]) -> None:
    """Refuse an answer whose names are none, come twice, or could not be shown.

    Raises
    ------
    PayloadError
        That says which field holds them.
    """
    if not names or len(set(names)) < len(names):
        raise PayloadError(answer.title(), field, "there is none, or one comes twice")
    if not all(0 < len(name) <= MOST_NAME and name.isprintable() for name in names):
        problem = f"a name is longer than {MOST_NAME} characters, or holds others than printable ones"
        raise PayloadError(answer.title(), field, problem)


def columns_of_most(columns: Mapping[str, tuple[str, ...]], what: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """The columns that most sites have, and by site, why one that has others is left out.

    Parameters
    ----------
    columns : Mapping[str, tuple of str]
        By site; there is one or more.
    what : str
        What they are called: columns, or inputs.

    Raises
    ------
    FusionError
        If as many sites have these as have those.
    """
    (common, most), *others = Counter(columns.values()).most_common(2)
    if others and others[0][1] == most:
        raise FusionError(
            f"as many sites have the {what} {listed(common)} as have {listed(others[0][0])}: name those that all of"
            " them have in `features`"
        )
    excluded = {
        site: f"left out: its {what} are {listed(own)}; most sites have {listed(common)}"
        for site, own in columns.items()
        if own != common
    }
    return common, excluded


def check_enough(n_left: int, min_sites: int, excluded: Mapping[str, str], purpose: str) -> None:
    """Refuse to go on with fewer than `min_sites` sites; `excluded` says by site why it is not among them."""
    if n_left < max(1, min_sites):
        why = "; ".join(f"{site}: {reason}" for site, reason in excluded.items())
        raise FusionError(f"{n_left} sites are left to {purpose}, min-sites is {min_sites} ({why})")


def listed(names: Sequence[str], most: int = _SHOWN) -> str:
    """The first names, and how many more there are."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")
