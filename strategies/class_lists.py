"""Choice of the sites whose class lists fit together."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from protocols.classes import ClassListError, agree_on_classes

_FEWEST_SITES = 3
"""With two sites that differ, nothing shows which one errs."""


def classes_of_most(
    lists: Mapping[str, Sequence[str]], target: str, judges: Collection[str] = ()
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the class list of the run, and exclude the sites whose targets do not fit those of most.

    Sites with amounts are excluded where most have classes, and the other way round. So is one site without which the
    others' classes agree (`protocols.classes.agree_on_classes`), if there is only one such site among three or more.

    Parameters
    ----------
    lists : Mapping of sequence of str
        Classes by site; empty for amounts.
    target : str
        Name of the target, for messages.
    judges : collection of str
        Sites that decide alone and are never excluded, such as those of an earlier run; by default all count alike.

    Returns
    -------
    classes, excluded
        The classes, empty for amounts, and reasons by excluded site.

    Raises
    ------
    ClassListError
        If as many sites have classes as have amounts, or if the remaining lists do not fit together.

    Examples
    --------
    >>> lists = {"a": ("no", "yes"), "b": ("no", "yes"), "c": (), "d": ("No", "Yes"), "e": ("yes",)}
    >>> classes, excluded = classes_of_most(lists, "ill")
    >>> classes, excluded["c"]
    (('no', 'yes'), "left out: its target 'ill' holds amounts; most sites have classes: set task there")
    >>> excluded["d"]
    "left out: the target 'ill' has a class 'No' at d and 'no' at a, which would be two: write them alike"
    """
    votes = [bool(lists[site]) for site in judges or lists]
    excluded, kinds = {}, ("amounts", "classes")
    if 2 * sum(votes) != len(votes):
        most = 2 * sum(votes) > len(votes)
        excluded = {
            site: f"left out: its target {target!r} holds {kinds[not most]}; most sites have {kinds[most]}: set task"
            " there"
            for site, own in lists.items()
            if bool(own) != most and site not in judges
        }
    left = {site: own for site, own in lists.items() if site not in excluded}
    try:
        return agree_on_classes(left, target), excluded
    except ClassListError as error:
        others = {odd: {site: own for site, own in left.items() if site != odd} for odd in left if odd not in judges}
        odd_ones = [odd for odd, rest in others.items() if _agree(rest, target)]
        if len(left) < _FEWEST_SITES or len(odd_ones) != 1:
            raise
        return agree_on_classes(others[odd_ones[0]], target), excluded | {odd_ones[0]: f"left out: {error}"}


def _agree(lists: Mapping[str, Sequence[str]], target: str) -> bool:
    try:
        agree_on_classes(lists, target)
    except ClassListError:
        return False
    return True
