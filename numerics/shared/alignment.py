"""Common entities of several sites, from keyed hashes of the entities' names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int64, UInt64

Keys = UInt64[np.ndarray, "n 2"]
"""128 bits an entity, two words."""

Words = UInt64[np.ndarray, "n"]
"""One word an entity, different where the keys are, in the order of the keys."""


class AlignmentError(ValueError):
    """Keys that do not say which rows are the same entity; the message names the site."""


@dataclass(frozen=True)
class CommonEntities:
    """The common entities of several sites.

    Attributes
    ----------
    rows : dict[str, ndarray]
        By site, ``(n,)`` the places of the n common entities among its rows, in one order for all sites: that of
        the keys. It depends neither on the order of anybody's rows nor on that of the sites.
    n_distinct : int
        Entities that anybody has.
    lost : dict[str, int]
        By site, its rows that are not at every other site.
    """

    rows: dict[str, Int64[np.ndarray, "n"]]
    n_distinct: int
    lost: dict[str, int]


def align(holders: Mapping[str, Keys]) -> CommonEntities:
    """Match the rows of several sites.

    Parameters
    ----------
    holders : Mapping[str, ndarray]
        By site, ``(n_j, 2)`` the keys of its rows, each once.

    Returns
    -------
    CommonEntities
        Without a site, or where one has no row, nothing is common.

    Raises
    ------
    AlignmentError
        If two rows of a site have the same key.
    """
    # Honest keys differ in their first words already (2^64 against 10^6 rows), so that one word is sorted and searched.
    # Keys that were forged to agree there are put in order by both.
    by_first_word = _align_words({site: keys[:, 0] for site, keys in holders.items()}, holders)
    if by_first_word is not None:
        return by_first_word
    ranks = _ranks(holders)
    for site, words in ranks.items():
        _refuse_duplicates(site, words)
    by_rank = _align_words(ranks, holders)
    assert by_rank is not None, "ranks are equal for equal keys only"
    return by_rank


def _align_words(words: Mapping[str, Words], holders: Mapping[str, Keys]) -> CommonEntities | None:
    """The alignment by one word a key; None where two keys, or two rows of a site, share it."""
    order: dict[str, Int64[np.ndarray, "n"]] = {site: np.argsort(own) for site, own in words.items()}
    everything: Words = np.zeros(0, np.uint64)
    for site, own in words.items():
        ordered = own[order[site]]
        if (ordered[1:] == ordered[:-1]).any():
            return None
        everything = _union(everything, ordered)

    second: Words = np.zeros(len(everything), np.uint64)
    count = np.zeros(len(everything), np.int64)
    place: dict[str, Int64[np.ndarray, "n"]] = {}
    for site, keys in holders.items():
        place[site] = np.searchsorted(everything, words[site][order[site]])
        known, own_second = count[place[site]] > 0, keys[order[site], 1]
        if (second[place[site]] != own_second)[known].any():
            return None
        second[place[site]] = own_second
        count[place[site]] += 1

    common = count == len(holders)
    rows = {site: order[site][common[place[site]]] for site in holders}
    lost = {site: len(keys) - len(rows[site]) for site, keys in holders.items()}
    return CommonEntities(rows, len(everything), lost)


def _union(some: Words, others: Words) -> Words:
    """All words of two ordered arrays, each once, in order."""
    new = others[~_holds(some, others)]
    # A stable sort merges two ordered runs instead of sorting anew.
    return np.sort(np.concatenate([some, new]), kind="stable") if len(new) else some


def _holds(ordered: Words, words: Words) -> Bool[np.ndarray, "n"]:
    """Which words are in an ordered array."""
    if not len(ordered):
        return np.zeros(len(words), np.bool_)
    found: Bool[np.ndarray, "n"] = ordered[np.minimum(np.searchsorted(ordered, words), len(ordered) - 1)] == words
    return found


def _ranks(holders: Mapping[str, Keys]) -> dict[str, Words]:
    """Each key's rank among all different keys of all sites, by the first word and then by the second."""
    keys = np.concatenate(list(holders.values()))
    order = np.lexsort((keys[:, 1], keys[:, 0]))
    ordered = keys[order]
    rank = np.zeros(len(keys), np.uint64)
    rank[order[1:]] = np.cumsum((ordered[1:] != ordered[:-1]).any(axis=1))
    ends = np.cumsum([len(own) for own in holders.values()])
    return dict(zip(holders, np.split(rank, ends[:-1]), strict=True))


def _refuse_duplicates(site: str, words: Words) -> None:
    order = np.argsort(words, kind="stable")
    again = np.flatnonzero(words[order[1:]] == words[order[:-1]])
    # Of all rows that repeat an earlier one, the first.
    for place in again[np.argsort(order[again + 1])][:1]:
        raise AlignmentError(
            f"rows {order[place] + 1} and {order[place + 1] + 1} of {site} are the same entity; each entity may have "
            "one row"
        )
