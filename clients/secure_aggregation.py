"""A site in masked sums: its keys, what it hides, and what it says that a sum can be seen.

It holds the fusion center to what makes a sum hide its terms: sums over three sites or more, more than two thirds of
those who hold shares; masks that others have shared out the secrets of, among the same holders; one answer under one
mask, and one list of who was there, for every sum; and no going back to an earlier one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import UInt8

from clients.dispatch import answers, handler_of
from clients.keys import shared_secret
from clients.site import Site
from protocols.secure_aggregation import masking
from protocols.secure_aggregation.masking import MaskError
from protocols.secure_aggregation.payloads import Deal, Hidden, Hide, Join, Keys, Shares, Show, Shown
from protocols.wire.faults import Fault, SiteFault
from protocols.wire.message import find
from protocols.wire.packing import unpack
from protocols.wire.payload import Payload, PayloadError
from protocols.wire.vector_encoding import Vector, layout, minus, plus, size_of, to_vector


@dataclass(frozen=True)
class _Secret:
    """The seeds of a site's masks of one sum, in hexadecimal digits, and who holds shares of them.

    `sites` and `shares`: whom the sum is over, once that is known, and this site's shares of their secrets. `hidden`
    and `shown`: digests of what was hidden under the masks, and of who was said to be gone.
    """

    number: int = -1
    holders: tuple[str, ...] = ()
    pair: str = ""
    own: str = ""
    sites: tuple[str, ...] = ()
    shares: tuple[str, ...] = ()
    hidden: str = ""
    shown: str = ""

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> _Secret:
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in kept.items()
        }
        return cls(**values)


@dataclass(frozen=True)
class _Standing:
    """What a site knows of the sums of one name: its private key, the keys it shares with others, its secrets.

    `newest`: number of the newest sum that it has hidden an answer in, under whatever keys.
    """

    channel: str = ""
    keys: dict[str, str] = field(default_factory=dict)
    current: _Secret = field(default_factory=_Secret)
    coming: _Secret = field(default_factory=_Secret)
    newest: int = -1

    @classmethod
    def load(cls, site: Site, total: str) -> _Standing:
        kept = site.keys.get(_place(site, total))
        if not kept:
            return cls()
        current, coming = _Secret.of(kept["current"]), _Secret.of(kept["coming"])
        return cls(kept["channel"], kept["keys"], current, coming, kept["newest"])

    def store(self, site: Site, total: str, *, anew: bool = False) -> None:
        site.keys.put(_place(site, total), asdict(self), anew=anew)


def _place(site: Site, total: str) -> str:
    return f"{site.lane}/{total}"


# -- keys -------------------------------------------------------------------------------------------------------------


@answers(Join)
def join(ask: Join, site: Site) -> Keys:
    """A new pair of keys; what went before is forgotten, but for how far it went."""
    if site.replaying:
        return Keys(np.zeros(0, np.uint8))
    private, public = masking.new_channel()
    newest = _Standing.load(site, ask.total).newest
    _Standing(channel=private.decode(), newest=newest).store(site, ask.total, anew=True)
    return Keys(_array(public))


@answers(Deal)
def deal(ask: Deal, site: Site) -> Shares:
    """Agree on a key with every other site, and share out the secrets of the sum to come."""
    if site.replaying:
        return Shares(*_nothing())
    standing = _Standing.load(site, ask.total)
    if not standing.channel:
        raise SiteFault(Fault.NO_MASK_KEYS)
    if ask.number <= standing.newest:
        raise SiteFault(Fault.SHOWN_OTHERWISE, f"sum {ask.number} is gone back to, after {standing.newest}")
    private = standing.channel.encode()
    _check_sites(ask.sites, site)
    if len(ask.channels) != len(ask.sites):
        raise SiteFault(Fault.MALFORMED_ASK, "not one public key for every site")
    channels = dict(zip(ask.sites, (row.tobytes() for row in ask.channels), strict=True))
    if channels[site.name] != masking.public_of_channel(private):
        raise SiteFault(Fault.NO_MASK_KEYS, "the public key named is not its own")
    secret = shared_secret(site.config)
    try:
        keys = {peer: masking.channel_key(private, public, secret).decode() for peer, public in channels.items()}
    except MaskError as error:
        raise SiteFault(Fault.MALFORMED_ASK, str(error)) from error
    standing = replace(standing, keys=keys)
    coming, shares = _dealt(standing, site, ask.total, ask.number, ask.sites)
    replace(standing, coming=coming).store(site, ask.total)
    return Shares(**shares)


def _dealt(
    standing: _Standing, site: Site, total: str, number: int, holders: Sequence[str]
) -> tuple[_Secret, dict[str, Any]]:
    """New secrets, and their shares as fields of an answer."""
    pair, own = masking.new_seed(), masking.new_seed()
    public = masking.public_of(pair)
    rows, digests = [], []
    for holder, *shares in zip(
        holders, masking.shares_of(pair, len(holders)), masking.shares_of(own, len(holders)), strict=True
    ):
        plain = _between(site, total, number, site.name, holder, public, holders) + b"".join(shares)
        rows.append(masking.sealed(standing.keys[holder].encode(), plain))
        digests.append(b"".join(masking.digest(share) for share in shares))
    fields = {
        "mask": _array(public),
        "commitment": _array(masking.digest(own)),
        "sealed": np.stack([_array(row) for row in rows]),
        "digests": np.stack([_array(row) for row in digests]),
    }
    return _Secret(number, tuple(holders), pair.hex(), own.hex()), fields


def _between(
    site: Site, total: str, number: int, owner: str, holder: str, public: bytes, holders: Sequence[str]
) -> bytes:
    """What a sealed share begins with: it counts for this sum, pair of sites, key of its masks and all these holders.

    So a site notices before it masks whether it was told another key of the owner's than the owner has, or the owner
    of other holders.
    """
    return masking.context(site.session, site.lane, total, number, owner, holder, public.hex(), *holders)


def _check_sites(sites: Sequence[str], site: Site) -> None:
    if len(set(sites)) != len(sites) or site.name not in sites:
        raise SiteFault(Fault.MALFORMED_ASK, "the sites of the sum are not this one and others, each once")
    if len(sites) < masking.FEWEST_SITES:
        raise SiteFault(Fault.TOO_FEW_TO_MASK)
    if len(sites) > masking.MOST_SITES:
        raise SiteFault(Fault.MALFORMED_ASK, f"the sum is over more than {masking.MOST_SITES} sites")


# -- sums -------------------------------------------------------------------------------------------------------------


@answers(Hide)
def hide(ask: Hide, site: Site) -> Hidden:
    """Answer the ask that is wrapped, and add the masks; share out the secrets of the next sum."""
    if site.replaying:
        _answer(ask, site)
        return Hidden(*_nothing(), "", np.zeros(0, np.uint64))
    standing = _Standing.load(site, ask.total)
    # The sum that was hidden last may be asked again where the fusion center was interrupted; no earlier one.
    repeated = ask.number == standing.current.number
    secret = standing.current if repeated else standing.coming
    if not secret.holders or secret.number != ask.number:
        raise SiteFault(Fault.NO_MASK_KEYS)
    _check_sites(ask.sites, site)
    if not set(ask.sites) <= set(secret.holders) or not len(ask.masks) == len(ask.sealed) == len(ask.sites):
        raise SiteFault(Fault.MALFORMED_ASK, "not every site of the sum holds shares, or has a public key and shares")
    if not masking.enough(len(ask.sites), len(secret.holders)):
        raise SiteFault(Fault.TOO_FEW_TO_MASK)
    shares = _opened(ask, site, standing, secret.holders)
    answer = _answer(ask, site)
    words = _masked(answer, ask, site, secret)
    hidden = masking.digest(repr(ask.sites).encode(), ask.masks.tobytes(), layout(answer).encode(), words.tobytes())
    if repeated and hidden.hex() != secret.hidden:
        raise SiteFault(Fault.SHOWN_OTHERWISE, "another answer is asked for under masks that were used")
    current = replace(secret, sites=ask.sites, shares=shares, hidden=hidden.hex())
    coming, dealt = _dealt(standing, site, ask.total, ask.number + 1, ask.sites)
    replace(standing, current=current, coming=coming, newest=ask.number).store(site, ask.total)
    return Hidden(**dealt, layout=layout(answer), words=words)


def _opened(ask: Hide, site: Site, standing: _Standing, holders: Sequence[str]) -> tuple[str, ...]:
    """The site's shares of everybody's secrets of the sum.

    Raises
    ------
    SiteFault
        If one is not what its owner sealed for this sum, with this key of his masks and these holders.
    """
    if not set(ask.sites) <= set(standing.keys):
        raise SiteFault(Fault.NO_MASK_KEYS)
    shares = []
    for owner, mask, row in zip(ask.sites, ask.masks, ask.sealed, strict=True):
        begin = _between(site, ask.total, ask.number, owner, site.name, mask.tobytes(), holders)
        try:
            plain = masking.opened(standing.keys[owner].encode(), row.tobytes())
        except MaskError as error:
            raise SiteFault(Fault.BROKEN_SEAL, f"{error}: of {owner}'s secrets") from error
        if not plain.startswith(begin) or len(plain) != len(begin) + 2 * masking.SHARE_BYTES:
            raise SiteFault(Fault.BROKEN_SEAL, f"{owner} has sealed shares of another sum, key or list of holders")
        shares.append(plain[len(begin) :].hex())
    return tuple(shares)


def _answer(ask: Hide, site: Site) -> Payload:
    """The answer to the ask that is wrapped."""
    try:
        kind = find(ask.inner)
        if kind.answer is None or not kind.answer.summed:
            raise SiteFault(Fault.UNKNOWN_ASK, f"the answer to {kind.title()} is not one that may be summed")
        site.policy.admit_ask(kind, masked=True)
        inner = unpack(ask.ask.tobytes(), kind)
    except PayloadError as error:
        raise SiteFault(Fault.MALFORMED_ASK, str(error)) from error
    answer = handler_of(kind)(inner, replace(site, masked=True))
    if type(answer) is not kind.answer:
        raise SiteFault(Fault.HANDLER_FAILED, f"the handler of {kind.title()} answered {type(answer)}")
    return answer


def _masked(answer: Payload, ask: Hide, site: Site, secret: _Secret) -> Vector:
    try:
        words = to_vector(answer)
    except ValueError as error:
        raise SiteFault(Fault.BEYOND_SUMS, str(error)) from error
    size = size_of(answer)
    own, pair = bytes.fromhex(secret.own), bytes.fromhex(secret.pair)
    words = plus(answer, words, masking.own_mask(own, masking.context(ask.total, ask.number, site.name), size))
    place = ask.sites.index(site.name)
    if ask.masks[place].tobytes() != masking.public_of(pair):
        raise SiteFault(Fault.NO_MASK_KEYS, "the public key named is not its own")
    for other, peer in enumerate(ask.sites):
        if other == place:
            continue
        first, second = sorted((place, other))
        about = masking.context(ask.total, ask.number, ask.sites[first], ask.sites[second])
        try:
            masking.check_public(ask.masks[other].tobytes())
        except MaskError as error:
            raise SiteFault(Fault.MALFORMED_ASK, f"{error}: {peer}") from error
        mask = masking.pair_mask(pair, ask.masks[other].tobytes(), about, size)
        words = (plus if place == first else minus)(answer, words, mask)
    return words


@answers(Show)
def show(ask: Show, site: Site) -> Shown:
    """The shares by which the sum over those who answered can be seen; once for every sum."""
    if site.replaying:
        return Shown(np.zeros((0, masking.SHARE_BYTES), np.uint8))
    standing = _Standing.load(site, ask.total)
    secret = standing.current
    if not secret.sites or secret.number != ask.number:
        raise SiteFault(Fault.NO_MASK_KEYS)
    if len(ask.dropped) != len(secret.sites):
        raise SiteFault(Fault.MALFORMED_ASK, "the sites are not those of the sum")
    if ask.dropped[secret.sites.index(site.name)]:
        raise SiteFault(Fault.MALFORMED_ASK, "it is itself said not to have answered")
    if not masking.enough(int((~ask.dropped).sum()), len(secret.holders)):
        raise SiteFault(Fault.TOO_FEW_TO_MASK)
    shown = masking.digest(ask.dropped.tobytes()).hex()
    if secret.shown not in ("", shown):
        raise SiteFault(Fault.SHOWN_OTHERWISE)
    replace(standing, current=replace(secret, shown=shown)).store(site, ask.total)
    both = np.stack([_array(bytes.fromhex(each)) for each in secret.shares])
    size = masking.SHARE_BYTES
    return Shown(np.where(ask.dropped[:, np.newaxis], both[:, :size], both[:, size:]))


# -- small ------------------------------------------------------------------------------------------------------------


def _array(data: bytes) -> UInt8[np.ndarray, "n"]:
    return np.frombuffer(data, np.uint8)


def _nothing() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Shares of no one, for an answer that is nobody's."""
    empty = np.zeros(0, np.uint8)
    return (
        np.zeros(masking.PUBLIC_BYTES, np.uint8),
        np.zeros(masking.DIGEST_BYTES, np.uint8),
        empty.reshape(0, 0),
        empty.reshape(0, 2 * masking.DIGEST_BYTES),
    )
