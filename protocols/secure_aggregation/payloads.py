"""What crosses the wire when the fusion center is to see the sum of the sites' answers and no single one.

The protocol is that of Bonawitz et al. (2017) with two masks (docs/secure-aggregation.md). Every sum has a name within
its lane and sums of a name are numbered. `Join` and `Deal` set up keys. `Hide` then wraps any ask whose answer may be
summed (``summed=True``): each site answers with the words of its own answer (protocols/wire/vector_encoding.py) under
masks that
cancel in the sum over all sites, and one mask that does not. `Hide` also brings the site its shares of everybody's
secrets, and it answers nothing before it has found that they belong to the keys that it is to mask with. `Show` has it
say those by which the center takes out that last mask of those who answered, and the masks of those who did not.

What that reveals: the sum, and over whom it is. A site says once for every sum who is thought to be there, and never
both kinds of share of one site; numbers of sums only rise, so that none is gone back to.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, UInt8, UInt64

from protocols.wire.payload import Payload


@dataclass(frozen=True)
class Keys(Payload):
    """Up: the public key by which other sites encrypt for this one."""

    channel: UInt8[np.ndarray, "c"]


@dataclass(frozen=True)
class Join(Payload, answer=Keys):
    """Down: make a new pair of keys; `total` is the name of the sums."""

    total: str


@dataclass(frozen=True)
class Shares(Payload):
    """Up: the secrets of the site's masks of one sum, in shares for other sites.

    Attributes
    ----------
    mask : ndarray
        Public key of the masks it has in common with others.
    commitment : ndarray
        Digest of the seed of the mask it has alone.
    sealed : ndarray
        For each site of the ask, a share of either secret, encrypted for it.
    digests : ndarray
        For each site, digests of the two shares, by which wrong ones are told.
    """

    mask: UInt8[np.ndarray, "33"]
    commitment: UInt8[np.ndarray, "32"]
    sealed: UInt8[np.ndarray, "n c"]
    digests: UInt8[np.ndarray, "n 64"]


@dataclass(frozen=True)
class Deal(Payload, answer=Shares):
    """Down: make secrets for the sum of this number, higher than any before, and shares of them for these sites.

    Attributes
    ----------
    total, number
        Name and number of the sum.
    sites : tuple of str
        Who takes part; three or more, the site itself among them.
    channels : ndarray
        Their public keys.
    """

    total: str
    number: int
    sites: tuple[str, ...]
    channels: UInt8[np.ndarray, "n c"]


@dataclass(frozen=True)
class Hidden(Shares):
    """Up: an answer under masks; and the secrets of the next sum, in shares for the same sites.

    Attributes
    ----------
    layout : str
        Names and shapes of what was answered.
    words : ndarray
        The answer's numbers plus the masks; uniformly distributed, whatever the answer was.
    """

    layout: str
    words: UInt64[np.ndarray, "w"]


@dataclass(frozen=True)
class Hide(Payload, answer=Hidden):
    """Down: answer this ask under masks.

    Attributes
    ----------
    total, number
        Name and number of the sum.
    sites : tuple of str
        Whom it is over.
    masks : ndarray
        Public keys of their masks.
    sealed : ndarray
        Their shares, as they encrypted them for this site.
    inner : str
        Title of the ask.
    ask : ndarray
        The ask, packed (protocols/wire/packing.py).
    """

    total: str
    number: int
    sites: tuple[str, ...]
    masks: UInt8[np.ndarray, "n 33"]
    sealed: UInt8[np.ndarray, "n c"]
    inner: str
    ask: UInt8[np.ndarray, "b"]


@dataclass(frozen=True)
class Shown(Payload):
    """Up: this site's share of one secret of every site that the sum was to be over; zeros where there was none."""

    shares: UInt8[np.ndarray, "n 36"]


@dataclass(frozen=True)
class Show(Payload, answer=Shown):
    """Down: say your shares, that the sum can be seen.

    Attributes
    ----------
    total, number
        Name and number of the sum.
    dropped : ndarray
        Which of the sites of `Hide` did not answer it: of those the share of what they have in common with others is
        asked, of all others the share of what each has alone.
    """

    total: str
    number: int
    dropped: Bool[np.ndarray, "n"]
