"""A site in secure aggregation: its keys, its masked answers, and the shares that reveal a sum.

A sum hides its terms only under conditions that every site checks:

- it is over three sites or more, and over more than two thirds of the sites that hold shares;
- the same sites hold shares of the seeds of all masks;
- every sum has one answer under one mask, and one list of the sites that answered;
- no sum is repeated after a later one.
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
from protocols.secure_aggregation.payloads import Deal, Hide, Join, Keys, MaskedAnswer, SecretShares, Shares, Show
from protocols.wire.faults import Fault, SiteFault
from protocols.wire.message import find
from protocols.wire.packing import unpack
from protocols.wire.payload import Payload, PayloadError
from protocols.wire.vector_encoding import Vector, layout, minus, plus, size_of, to_vector


@dataclass(frozen=True)
class _MaskSeeds:
    """The seeds of a site's masks of one sum, in hexadecimal digits.

    Attributes
    ----------
    number : int
        Number of the sum.
    holders : tuple of str
        Sites that hold shares of the seeds.
    pair, own : str
        Seed of the pairwise masks, and of the site's own mask.
    sites, shares : tuple of str
        Sites of the sum, once they are known, and this site's shares of their seeds.
    answer, dropped : str
        Digests of the masked answer, and of the list of sites that did not answer.
    """

    number: int = -1
    holders: tuple[str, ...] = ()
    pair: str = ""
    own: str = ""
    sites: tuple[str, ...] = ()
    shares: tuple[str, ...] = ()
    answer: str = ""
    dropped: str = ""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> _MaskSeeds:
        """Return the seeds from their JSON, which has lists in place of tuples."""
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
        }
        return cls(**fields)


@dataclass(frozen=True)
class _SumState:
    """The state of the sums of one name at a site.

    Attributes
    ----------
    channel : str
        The site's private key.
    keys : dict of str
        By site, the key shared with it.
    current, upcoming : _MaskSeeds
        Seeds of the newest sum, and of the next one.
    newest : int
        Number of the newest sum that the site has answered, under whatever keys.
    """

    channel: str = ""
    keys: dict[str, str] = field(default_factory=dict)
    current: _MaskSeeds = field(default_factory=_MaskSeeds)
    upcoming: _MaskSeeds = field(default_factory=_MaskSeeds)
    newest: int = -1

    @classmethod
    def load(cls, site: Site, total: str) -> _SumState:
        values = site.keys.get(_key(site, total))
        if not values:
            return cls()
        seeds = {name: _MaskSeeds.of(values[name]) for name in ("current", "upcoming")}
        return cls(**{**values, **seeds})

    def store(self, site: Site, total: str, *, anew: bool = False) -> None:
        site.keys.put(_key(site, total), asdict(self), anew=anew)


def _key(site: Site, total: str) -> str:
    return f"{site.lane}/{total}"


# -- keys -------------------------------------------------------------------------------------------------------------


@answers(Join)
def join(ask: Join, site: Site) -> Keys:
    """Make a new pair of keys, and keep only the number of the newest sum."""
    if site.replaying:
        return Keys(np.zeros(0, np.uint8))
    private, public = masking.new_channel()
    newest = _SumState.load(site, ask.total).newest
    _SumState(channel=private.decode(), newest=newest).store(site, ask.total, anew=True)
    return Keys(_array(public))


@answers(Deal)
def deal(ask: Deal, site: Site) -> Shares:
    """Agree on a key with every other site, and share out the seeds of the next sum."""
    if site.replaying:
        return Shares(*_no_shares())
    state = _SumState.load(site, ask.total)
    if not state.channel:
        raise SiteFault(Fault.NO_MASK_KEYS)
    if ask.number <= state.newest:
        raise SiteFault(Fault.SHOWN_OTHERWISE, f"sum {ask.number} is asked after sum {state.newest}")
    private = state.channel.encode()
    _check_sites(ask.sites, site)
    if len(ask.channels) != len(ask.sites):
        raise SiteFault(Fault.MALFORMED_ASK, "there is not one public key for every site")
    channels = dict(zip(ask.sites, (row.tobytes() for row in ask.channels), strict=True))
    if channels[site.name] != masking.public_of_channel(private):
        raise SiteFault(Fault.NO_MASK_KEYS, "the public key in the ask is not this site's")
    secret = shared_secret(site.config)
    try:
        keys = {peer: masking.channel_key(private, public, secret).decode() for peer, public in channels.items()}
    except MaskError as error:
        raise SiteFault(Fault.MALFORMED_ASK, str(error)) from error
    state = replace(state, keys=keys)
    upcoming, shares = _share_seeds(state, site, ask.total, ask.number, ask.sites)
    replace(state, upcoming=upcoming).store(site, ask.total)
    return Shares(**shares)


def _share_seeds(
    state: _SumState, site: Site, total: str, number: int, holders: Sequence[str]
) -> tuple[_MaskSeeds, dict[str, Any]]:
    """Return new seeds, and their shares as fields of an answer."""
    pair, own = masking.new_seed(), masking.new_seed()
    public = masking.public_of(pair)
    rows, digests = [], []
    for holder, *shares in zip(
        holders, masking.shares_of(pair, len(holders)), masking.shares_of(own, len(holders)), strict=True
    ):
        plain = _share_header(site, total, number, site.name, holder, public, holders) + b"".join(shares)
        rows.append(masking.seal(state.keys[holder].encode(), plain))
        digests.append(b"".join(masking.digest(share) for share in shares))
    fields = {
        "mask": _array(public),
        "commitment": _array(masking.digest(own)),
        "sealed": np.stack([_array(row) for row in rows]),
        "digests": np.stack([_array(row) for row in digests]),
    }
    return _MaskSeeds(number, tuple(holders), pair.hex(), own.hex()), fields


def _share_header(
    site: Site, total: str, number: int, owner: str, holder: str, public: bytes, holders: Sequence[str]
) -> bytes:
    """Return the header of a sealed share, which binds it to this sum, pair of sites, public key and holders.

    So a site notices, before it masks, if the center has changed the owner's key or the owner's list of holders.
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
def hide(ask: Hide, site: Site) -> MaskedAnswer:
    """Answer the wrapped ask, add the masks, and share out the seeds of the next sum."""
    if site.replaying:
        _answer(ask, site)
        return MaskedAnswer(*_no_shares(), "", np.zeros(0, np.uint64))
    state = _SumState.load(site, ask.total)
    # The newest sum may be asked again, where the fusion center was interrupted; no earlier one.
    repeated = ask.number == state.current.number
    seeds = state.current if repeated else state.upcoming
    if not seeds.holders or seeds.number != ask.number:
        raise SiteFault(Fault.NO_MASK_KEYS)
    _check_sites(ask.sites, site)
    if not set(ask.sites) <= set(seeds.holders) or not len(ask.masks) == len(ask.sealed) == len(ask.sites):
        raise SiteFault(Fault.MALFORMED_ASK, "some site of the sum holds no shares, or has no public key")
    if not masking.enough(len(ask.sites), len(seeds.holders)):
        raise SiteFault(Fault.TOO_FEW_TO_MASK)
    shares = _open_shares(ask, site, state, seeds.holders)
    answer = _answer(ask, site)
    words = _mask(answer, ask, site, seeds)
    digest = masking.digest(repr(ask.sites).encode(), ask.masks.tobytes(), layout(answer).encode(), words.tobytes())
    if repeated and digest.hex() != seeds.answer:
        raise SiteFault(Fault.SHOWN_OTHERWISE, "another answer is asked for under the same masks")
    current = replace(seeds, sites=ask.sites, shares=shares, answer=digest.hex())
    upcoming, next_shares = _share_seeds(state, site, ask.total, ask.number + 1, ask.sites)
    replace(state, current=current, upcoming=upcoming, newest=ask.number).store(site, ask.total)
    return MaskedAnswer(**next_shares, layout=layout(answer), words=words)


def _open_shares(ask: Hide, site: Site, state: _SumState, holders: Sequence[str]) -> tuple[str, ...]:
    """Return the site's shares of all sites' seeds of the sum.

    Raises
    ------
    SiteFault
        If its owner did not seal a share for this sum, this public key and these holders.
    """
    if not set(ask.sites) <= set(state.keys):
        raise SiteFault(Fault.NO_MASK_KEYS)
    shares = []
    for owner, mask, row in zip(ask.sites, ask.masks, ask.sealed, strict=True):
        header = _share_header(site, ask.total, ask.number, owner, site.name, mask.tobytes(), holders)
        try:
            plain = masking.unseal(state.keys[owner].encode(), row.tobytes())
        except MaskError as error:
            raise SiteFault(Fault.BROKEN_SEAL, f"{error}: the share of {owner}'s seeds") from error
        if not plain.startswith(header) or len(plain) != len(header) + 2 * masking.SHARE_BYTES:
            raise SiteFault(Fault.BROKEN_SEAL, f"{owner} has sealed shares of another sum, key or list of holders")
        shares.append(plain[len(header) :].hex())
    return tuple(shares)


def _answer(ask: Hide, site: Site) -> Payload:
    """Return the answer to the wrapped ask."""
    try:
        kind = find(ask.inner)
        if kind.answer is None or not kind.answer.summed:
            raise SiteFault(Fault.UNKNOWN_ASK, f"the answer to {kind.title()} may not be summed")
        site.policy.admit_ask(kind, masked=True)
        inner = unpack(ask.ask.tobytes(), kind)
        site.charge(inner)
    except PayloadError as error:
        raise SiteFault(Fault.MALFORMED_ASK, str(error)) from error
    answer = handler_of(kind)(inner, replace(site, masked=True))
    if type(answer) is not kind.answer:
        raise SiteFault(Fault.HANDLER_FAILED, f"the handler of {kind.title()} answered {type(answer)}")
    return answer


def _mask(answer: Payload, ask: Hide, site: Site, seeds: _MaskSeeds) -> Vector:
    """Return an answer's numbers plus the site's own mask and its pairwise masks."""
    try:
        words = to_vector(answer)
    except ValueError as error:
        raise SiteFault(Fault.BEYOND_SUMS, str(error)) from error
    size = size_of(answer)
    ask_words = masking.words_of_ask(find(ask.inner), ask.ask.tobytes())
    own, pair = bytes.fromhex(seeds.own), bytes.fromhex(seeds.pair)
    context = masking.context(ask.total, ask.number, site.name, *ask_words)
    words = plus(answer, words, masking.own_mask(own, context, size))
    place = ask.sites.index(site.name)
    if ask.masks[place].tobytes() != masking.public_of(pair):
        raise SiteFault(Fault.NO_MASK_KEYS, "the public key in the ask is not this site's")
    for other, peer in enumerate(ask.sites):
        if other == place:
            continue
        first, second = sorted((place, other))
        about = masking.context(ask.total, ask.number, ask.sites[first], ask.sites[second], *ask_words)
        try:
            masking.check_public(ask.masks[other].tobytes())
        except MaskError as error:
            raise SiteFault(Fault.MALFORMED_ASK, f"{error}: {peer}") from error
        mask = masking.pair_mask(pair, ask.masks[other].tobytes(), about, size)
        words = (plus if place == first else minus)(answer, words, mask)
    return words


@answers(Show)
def show(ask: Show, site: Site) -> SecretShares:
    """Return the shares that reveal the sum over the sites that answered; a sum has one list of these sites."""
    if site.replaying:
        return SecretShares(np.zeros((0, masking.SHARE_BYTES), np.uint8))
    state = _SumState.load(site, ask.total)
    seeds = state.current
    if not seeds.sites or seeds.number != ask.number:
        raise SiteFault(Fault.NO_MASK_KEYS)
    if len(ask.dropped) != len(seeds.sites):
        raise SiteFault(Fault.MALFORMED_ASK, "the sites are not those of the sum")
    if ask.dropped[seeds.sites.index(site.name)]:
        raise SiteFault(Fault.MALFORMED_ASK, "the ask says that this site has not answered")
    if not masking.enough(int((~ask.dropped).sum()), len(seeds.holders)):
        raise SiteFault(Fault.TOO_FEW_TO_MASK)
    dropped = masking.digest(ask.dropped.tobytes()).hex()
    if seeds.dropped not in ("", dropped):
        raise SiteFault(Fault.SHOWN_OTHERWISE)
    replace(state, current=replace(seeds, dropped=dropped)).store(site, ask.total)
    both = np.stack([_array(bytes.fromhex(each)) for each in seeds.shares])
    size = masking.SHARE_BYTES
    return SecretShares(np.where(ask.dropped[:, np.newaxis], both[:, :size], both[:, size:]))


# -- arrays -----------------------------------------------------------------------------------------------------------


def _array(data: bytes) -> UInt8[np.ndarray, "n"]:
    return np.frombuffer(data, np.uint8)


def _no_shares() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the shares of an answer that is discarded."""
    empty = np.zeros(0, np.uint8)
    return (
        np.zeros(masking.PUBLIC_BYTES, np.uint8),
        np.zeros(masking.DIGEST_BYTES, np.uint8),
        empty.reshape(0, 0),
        empty.reshape(0, 2 * masking.DIGEST_BYTES),
    )
