"""Common entities of several sites, by keyed hashes of the entities' names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int64, UInt64

Keys = UInt64[np.ndarray, "n 2"]
"""Keys of n entities: 128 bits each, as two words."""

Words = UInt64[np.ndarray, "n"]
"""One word for each entity; words differ if the keys do, and have the order of the keys."""


class AlignmentError(ValueError):
    """Error: keys do not identify the entities. The message names the site."""


@dataclass(frozen=True)
class CommonEntities:
    """The common entities of several sites.

    Attributes
    ----------
    rows : dict[str, ndarray]
        By site, ``(n,)`` indices of the n common entities among its rows. The order is that of the keys at all sites;
        it depends neither on the order of the rows nor on that of the sites.
    n_distinct : int
        Number of different entities over all sites.
    lost : dict[str, int]
        By site, its number of rows that are missing at another site.
    gains : dict[str, int]
        By site, the number of entities that would be common without it, beyond those that are.
    """

    rows: dict[str, Int64[np.ndarray, "n"]]
    n_distinct: int
    lost: dict[str, int]
    gains: dict[str, int]


def align(holders: Mapping[str, Keys]) -> CommonEntities:
    """Match the rows of several sites.

    Parameters
    ----------
    holders : Mapping[str, ndarray]
        By site, ``(n_j, 2)`` keys of its rows, each once.

    Returns
    -------
    CommonEntities
        Without a site, or if a site has no row, there are no common entities.

    Raises
    ------
    AlignmentError
        If two rows of a site have the same key.

    Examples
    --------
    >>> keys = np.array([[3, 0], [1, 0], [2, 0]], np.uint64)
    >>> common = align({"a": keys, "b": keys[:2]})
    >>> common.rows["a"], common.rows["b"], common.lost, common.gains
    (array([1, 0]), array([1, 0]), {'a': 1, 'b': 0}, {'a': 0, 'b': 1})
    """
    # The first words of honest keys differ (2^64 words for 10^6 rows), so that one word suffices. Keys that are forged
    # to agree in it are ordered by both words.
    by_first_word = _align_words({site: keys[:, 0] for site, keys in holders.items()}, holders)
    if by_first_word is not None:
        return by_first_word
    ranks = _ranks(holders)
    for site, words in ranks.items():
        _refuse_duplicates(site, words)
    by_rank = _align_words(ranks, holders)
    assert by_rank is not None  # noqa: S101 - ranks are equal for equal keys only
    return by_rank


def _align_words(words: Mapping[str, Words], holders: Mapping[str, Keys]) -> CommonEntities | None:
    """Align by one word a key; return None if two keys, or two rows of a site, have the same word."""
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
        elsewhere, own_second = count[place[site]] > 0, keys[order[site], 1]
        if (second[place[site]] != own_second)[elsewhere].any():
            return None
        second[place[site]] = own_second
        count[place[site]] += 1

    common = count == len(holders)
    rows = {site: order[site][common[place[site]]] for site in holders}
    lost = {site: len(keys) - len(rows[site]) for site, keys in holders.items()}
    nearly = count == len(holders) - 1
    gains = {site: int(nearly.sum() - nearly[place[site]].sum()) for site in holders}
    return CommonEntities(rows, len(everything), lost, gains)


def _union(some: Words, others: Words) -> Words:
    """Return the distinct words of two ordered arrays, in order."""
    new = others[~_holds(some, others)]
    # A stable sort merges two ordered runs.
    return np.sort(np.concatenate([some, new]), kind="stable") if len(new) else some


def _holds(ordered: Words, words: Words) -> Bool[np.ndarray, "n"]:
    """Return which words are in an ordered array."""
    if not len(ordered):
        return np.zeros(len(words), np.bool_)
    present: Bool[np.ndarray, "n"] = ordered[np.minimum(np.searchsorted(ordered, words), len(ordered) - 1)] == words
    return present


def _ranks(holders: Mapping[str, Keys]) -> dict[str, Words]:
    """Rank each key among the distinct keys of all sites, by its first and then by its second word."""
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
    # The first of all rows that repeat an earlier one.
    for place in again[np.argsort(order[again + 1])][:1]:
        raise AlignmentError(
            f"rows {order[place] + 1} and {order[place + 1] + 1} of {site} are the same entity; each entity may have "
            "one row"
        )
