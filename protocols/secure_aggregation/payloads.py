"""Payloads of secure aggregation: the fusion center sees the sum of the sites' answers and no single one.

The protocol is that of Bonawitz et al. (2017) with two masks (docs/secure-aggregation.md). Every sum has a name within
its lane, and the sums of a name are numbered. `Join` and `Deal` exchange keys. `Hide` then wraps any ask whose answer
may be summed (``summed=True``). Each site answers with the words of its own answer
(protocols/wire/vector_encoding.py) under pairwise masks, which cancel in the sum over all sites, and one mask of its
own. `Hide` also brings the site its shares of all sites' secrets; the site answers only if they belong to the keys of
its masks. `Show` asks for the shares by which the center removes the own masks of the sites that answered, and the
pairwise masks of the sites that did not.

What that reveals: the sum, and the sites that it is over. For every sum a site accepts one list of missing sites, and
never gives both kinds of share of one site. Numbers of sums only increase, so that no sum is repeated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, UInt8, UInt64

from protocols.wire.payload import Payload


@dataclass(frozen=True)
class Keys(Payload):
    """To the center: the public key by which other sites encrypt for this one."""

    channel: UInt8[np.ndarray, "c"]


@dataclass(frozen=True)
class Join(Payload, answer=Keys):
    """To sites: asks for a new pair of keys; `total` is the name of the sums."""

    total: str


@dataclass(frozen=True)
class Shares(Payload):
    """To the center: the secrets of the site's masks of one sum, in shares for other sites.

    Attributes
    ----------
    mask : ndarray
        Public key of its pairwise masks.
    commitment : ndarray
        Digest of the seed of its own mask.
    sealed : ndarray
        For each site of the ask, a share of either secret, encrypted for it.
    digests : ndarray
        For each site, digests of the two shares, which expose wrong ones.
    """

    mask: UInt8[np.ndarray, "33"]
    commitment: UInt8[np.ndarray, "32"]
    sealed: UInt8[np.ndarray, "n c"]
    digests: UInt8[np.ndarray, "n 64"]


@dataclass(frozen=True)
class Deal(Payload, answer=Shares):
    """To sites: asks for secrets for the sum of this number, higher than all before, in shares for these sites.

    Attributes
    ----------
    total, number
        Name and number of the sum.
    sites : tuple of str
        Sites that take part; three or more, this site among them.
    channels : ndarray
        Their public keys.
    """

    total: str
    number: int
    sites: tuple[str, ...]
    channels: UInt8[np.ndarray, "n c"]


@dataclass(frozen=True)
class MaskedAnswer(Shares):
    """To the center: an answer under masks, and the secrets of the next sum, in shares for the same sites.

    Attributes
    ----------
    layout : str
        Names and shapes of the answer's fields.
    words : ndarray
        The answer's numbers plus the masks; uniformly distributed, whatever the answer is.
    """

    layout: str
    words: UInt64[np.ndarray, "w"]


@dataclass(frozen=True)
class Hide(Payload, answer=MaskedAnswer):
    """To sites: an ask that is to be answered under masks.

    Attributes
    ----------
    total, number
        Name and number of the sum.
    sites : tuple of str
        Sites that it is over.
    masks : ndarray
        Public keys of their masks.
    sealed : ndarray
        Their shares, encrypted for this site.
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
class SecretShares(Payload):
    """To the center: this site's share of one secret of every site of the sum; zeros where there was none."""

    shares: UInt8[np.ndarray, "n 36"]


@dataclass(frozen=True)
class Show(Payload, answer=SecretShares):
    """To sites: asks for the shares that reveal the sum.

    Attributes
    ----------
    total, number
        Name and number of the sum.
    dropped : ndarray
        Sites of `Hide` that did not answer it. Of these, the center needs the share of the pairwise masks' secret; of
        all others, the share of their own mask's secret.
    """

    total: str
    number: int
    dropped: Bool[np.ndarray, "n"]
