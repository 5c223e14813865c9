"""Secure aggregation at the fusion center, which sees only sums over sites (docs/secure-aggregation.md).

`Masking.total` is a conversation: ``total = yield from masking.total(...)``. It takes two rounds, and two more the
first time and whenever a site returns without its keys. If too few sites send their shares, the center asks them again,
since the answers may only be late; the difference to a new sum over fewer sites would reveal single answers. The center
has no secret. Its asks follow from the sites' answers, so that a resumed run can replay them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic

import numpy as np

from protocols.secure_aggregation import masking
from protocols.secure_aggregation.masking import MaskError, context, digest
from protocols.secure_aggregation.payloads import Deal, Hide, Join, Keys, MaskedAnswer, SecretShares, Shares, Show
from protocols.wire.packing import pack
from protocols.wire.payload import Payload, PayloadError, shorten
from protocols.wire.vector_encoding import (
    Sum,
    Vector,
    check_summable,
    from_vector,
    layout,
    minus,
    plus,
    size_of,
    to_vector,
)
from strategies.conversation import Check, Conversation, Tell
from strategies.errors import FusionError

_HALF = masking.DIGEST_BYTES


@dataclass(frozen=True, eq=False)
class Total(Generic[Sum]):
    """Sum of the answers of several sites.

    Attributes
    ----------
    sum : Payload
        Sum, of the answers' class.
    sites : tuple of str
        Sites whose answers are in it, in order of name.
    answers : Mapping[str, Payload]
        By site, answers that were not masked.

    Examples
    --------
    >>> Total(Join("weights"), ("bank", "shop", "ward")).name
    'the sum over bank, shop, ward'
    """

    sum: Sum
    sites: tuple[str, ...]
    answers: Mapping[str, Sum] = field(default_factory=dict)

    @classmethod
    def of(cls, answers: Mapping[str, Sum]) -> Total[Sum]:
        """Add plain answers; the sum equals that of masked ones, bit for bit."""
        first, *others = (answers[site] for site in sorted(answers))
        words = to_vector(first)
        for other in others:
            words = plus(first, words, to_vector(other))
        return cls(from_vector(first, words)[1], tuple(sorted(answers)), answers)

    @property
    def name(self) -> str:
        """Name of the sum, in place of a site's name; different for different sites."""
        return f"the sum over {', '.join(self.sites)}"


CheckOf = Callable[[Mapping[str, tuple[str, ...]]], Check]
"""Returns the check of answers, given the sites of each answer: one site, or all sites of a masked sum."""


def _check_sum(total: Total[Sum], check_of: CheckOf) -> None:
    """Check a sum like the answer of one site. An error in it cannot be traced to a site."""
    try:
        check_of({total.name: total.sites})(total.name, total.sum)
    except PayloadError as error:
        raise FusionError(f"secure-aggregation: {total.name} is impossible for their rows ({error})") from None


def ask_plain_or_masked(
    asks: Mapping[str, Payload],
    zero: Sum,
    check_of: CheckOf,
    masking: Masking | None,
    *,
    attempts: int = 1,
    measure: Mapping[str, float] | None = None,
    needed: bool = True,
) -> Conversation[dict[tuple[str, ...], Sum]]:
    """Ask the sites; return each plain answer by its site, or the sum of masked answers by all its sites.

    Parameters
    ----------
    asks, zero, measure
        As of `Masking.total`.
    check_of : Callable
        Makes the check of an answer.
    masking : Masking, optional
        Secure aggregation. A site that does not answer is not in the sum, and is not asked again.
    attempts : int
        Number of times that a site is asked, without masks.
    needed : bool
        As of `strategies.conversation.Tell`, without masks.
    """
    if masking is None:
        own = check_of({site: (site,) for site in asks})

        def check(site: str, answer: Sum) -> None:
            own(site, answer)
            check_summable(answer)

        answers: dict[str, Sum] = {}
        for _ in range(attempts):
            missing = {site: ask for site, ask in asks.items() if site not in answers}
            if missing:
                answers |= yield Tell(missing, check=check, measure=measure or {}, needed=needed)
        return {(site,): answer for site, answer in answers.items()}
    total = yield from masking.total(asks, zero, measure=measure)
    _check_sum(total, check_of)
    return {total.sites: total.sum}


@dataclass(frozen=True, eq=False)
class _Round:
    """One numbered sum.

    Attributes
    ----------
    number : int
        Number of the sum.
    sites : tuple of str
        Asked sites.
    holders : tuple of str
        Sites that hold shares of their secrets.
    secrets : Mapping[str, Shares]
        By site, the shares of its secrets for each holder.
    hidden : Mapping[str, MaskedAnswer]
        Masked answers by site.
    ask_words : tuple of str
        Part of the ask in the context of the masks.
    """

    number: int
    sites: tuple[str, ...]
    holders: tuple[str, ...]
    secrets: Mapping[str, Shares]
    hidden: Mapping[str, MaskedAnswer]
    ask_words: tuple[str, ...]

    @property
    def missing(self) -> list[str]:
        """Sites that have not answered."""
        return [site for site in self.sites if site not in self.hidden]


class Masking:
    """The fusion center's side of all sums of one name in one lane.

    Parameters
    ----------
    name : str
        Name of the sums; conversations that share the rounds of a lane have different ones.
    min_sites : int
        Fewest sites of a sum; the run stops if fewer answer.
    """

    def __init__(self, name: str, min_sites: int = 1) -> None:
        self._name, self._min_sites = name, min_sites
        self._number = 0
        self._channels: dict[str, Keys] = {}
        self._secrets: dict[str, Shares] = {}
        self._holders: tuple[str, ...] = ()

    def total(
        self, asks: Mapping[str, Payload], zero: Sum, *, measure: Mapping[str, float] | None = None
    ) -> Conversation[Total[Sum]]:
        """Ask the sites, and return the sum of their answers.

        Parameters
        ----------
        asks : Mapping[str, Payload]
            Asks by site; all have answers of one class, and are equal if their class demands it (`Payload.alike`).
        zero : Payload
            An answer with the shapes of all answers; its numbers are not used.
        measure : Mapping[str, float], optional
            Measures of the round, as of `strategies.conversation.Tell`.

        Returns
        -------
        Conversation
            Returns the `Total` over the sites that answered.

        Raises
        ------
        FusionError
            If too few sites answer to reveal the sum, or a site's keys, shares or masks are wrong.
        """
        if not masking.FEWEST_SITES <= len(asks) <= masking.MOST_SITES:
            raise FusionError(
                f"secure-aggregation: a sum needs {masking.FEWEST_SITES} to {masking.MOST_SITES} sites,"
                f" there are {len(asks)} ({shorten(', '.join(sorted(asks)), 200)})"
            )
        for again in (False, True):
            total = yield from self._attempt(asks, zero, measure or {}, again=again)
            if total:
                return total
        missing = ", ".join(sorted(set(asks) - set(self._secrets))) or "none in the last round"
        raise FusionError(
            f"secure-aggregation: too few sites answered to reveal their sum: of {len(asks)}"
            f" {max(masking.threshold(len(asks)), self._min_sites)} are needed (no answer: {missing})"
        )

    def _attempt(
        self, asks: Mapping[str, Payload], zero: Sum, measure: Mapping[str, float], *, again: bool
    ) -> Conversation[Total[Sum] | None]:
        """Return a sum, or None if too few sites answered.

        In the first attempt all sites may have lost their keys, which must not stop the run. In the second (`again`), a
        site that does not answer is missing, and the run stops if too few are left (`Tell.needed`).
        """
        if again or not self._channels:
            yield from self._join(asks)
        if set(self._channels) & set(asks) != set(self._secrets):
            yield from self._deal(asks, again)
        if not masking.enough(len(self._secrets), len(self._holders)):
            return None
        about = yield from self._hide(asks, zero, measure, again)
        if len(about.hidden) < self._min_sites or not masking.enough(len(about.hidden), len(about.holders)):
            return None
        shares = yield from self._show(about, asks, measure, again)
        if masking.enough(len(shares), len(about.holders)):
            return _unmask(self._name, about, shares, zero)
        self._lose(set(about.hidden) - set(shares))
        return None

    # -- keys ---------------------------------------------------------------------------------------------------------

    def _join(self, asks: Mapping[str, Payload]) -> Conversation[None]:
        """Ask sites without keys for new ones."""
        wanted: dict[str, Payload] = {site: Join(self._name) for site in sorted(asks) if site not in self._channels}
        if wanted:
            self._channels |= yield Tell(wanted, _check_keys)

    def _deal(self, asks: Mapping[str, Payload], needed: bool) -> Conversation[None]:
        """Ask all sites with keys for secrets of the next sum."""
        sites = tuple(sorted(set(self._channels) & set(asks)))
        self._number += 1
        self._secrets, self._holders = {}, sites
        if len(sites) < masking.FEWEST_SITES:
            return
        ask = Deal(self._name, self._number, sites, np.stack([self._channels[site].channel for site in sites]))

        def check(site: str, answer: Shares) -> None:
            _check_shares(answer, len(sites))

        self._secrets = yield Tell(dict.fromkeys(sites, ask), check, needed=needed)
        self._lose(set(sites) - set(self._secrets))

    def _lose(self, sites: set[str]) -> None:
        """Drop the keys of sites that did not answer, because they may have lost them."""
        for site in sites:
            self._channels.pop(site, None)
            self._secrets.pop(site, None)

    # -- a sum --------------------------------------------------------------------------------------------------------

    def _hide(
        self, asks: Mapping[str, Payload], zero: Sum, measure: Mapping[str, float], needed: bool
    ) -> Conversation[_Round]:
        """Ask for the masked answers."""
        number, holders, secrets = self._number, self._holders, dict(self._secrets)
        sites, place = tuple(secrets), {site: place for place, site in enumerate(holders)}
        masks = np.stack([secrets[site].mask for site in sites])
        bodies = {id(asks[site]): asks[site] for site in sites}  # equal asks are encoded once
        packed = {key: np.frombuffer(pack(ask), np.uint8) for key, ask in bodies.items()}
        hides = {}
        for site in sites:
            sealed = np.stack([secrets[owner].sealed[place[site]] for owner in sites])
            body, title = packed[id(asks[site])], asks[site].title()
            hides[site] = Hide(self._name, number, sites, masks, sealed, title, body)
        wanted, size = layout(zero), size_of(zero)

        def check(site: str, answer: MaskedAnswer) -> None:
            _check_shares(answer, len(sites))
            if answer.layout != wanted:
                got = shorten(answer.layout, 200)
                raise PayloadError(answer.title(), "layout", f"expected {wanted!r}, got {got!r}")
            if len(answer.words) != size:
                raise PayloadError(answer.title(), "words", f"expected {size} words, got {len(answer.words)}")

        hidden: dict[str, MaskedAnswer] = yield Tell(hides, check, measure, needed)
        self._number, self._holders, self._secrets = number + 1, sites, dict(hidden)
        self._lose(set(sites) - set(hidden))
        ask_words = masking.words_of_ask(type(asks[sites[0]]), packed[id(asks[sites[0]])].tobytes())
        return _Round(number, sites, holders, secrets, hidden, ask_words)

    def _show(
        self, about: _Round, wanted: Mapping[str, Payload], measure: Mapping[str, float], needed: bool
    ) -> Conversation[dict[str, SecretShares]]:
        """Ask for the shares, twice if too few arrive; in the same round ask sites without keys for new ones."""
        show = Show(self._name, about.number, np.array([site in about.missing for site in about.sites]))
        shares: dict[str, SecretShares] = {}

        def check(site: str, answer: Any) -> None:
            if isinstance(answer, Keys):
                _check_keys(site, answer)
            elif len(answer.shares) != len(about.sites):
                raise PayloadError(answer.title(), "shares", f"expected {len(about.sites)}, got {len(answer.shares)}")

        for again in (False, True):
            asks: dict[str, Payload] = {site: show for site in about.hidden if site not in shares}
            asks |= {site: Join(self._name) for site in sorted(wanted) if site not in self._channels}
            answers: dict[str, Any] = yield Tell(asks, check, measure, needed and again)
            self._channels |= {site: answer for site, answer in answers.items() if isinstance(answer, Keys)}
            shares |= {site: answer for site, answer in answers.items() if isinstance(answer, SecretShares)}
            if masking.enough(len(shares), len(about.holders)):
                break
        return shares


def _unmask(name: str, about: _Round, shares: Mapping[str, SecretShares], zero: Sum) -> Total[Sum]:
    """Add the masked answers, and subtract the remaining masks."""
    sites = tuple(about.hidden)
    seeds = {owner: _seed(about, shares, owner) for owner in about.sites}
    size = size_of(zero)
    words: Vector = np.zeros(size, np.uint64)
    for site, answer in about.hidden.items():
        words = plus(zero, words, answer.words)
        own = context(name, about.number, site, *about.ask_words)
        words = minus(zero, words, masking.own_mask(seeds[site], own, size))
    place = {site: number for number, site in enumerate(about.sites)}
    for missing in about.missing:
        for site in sites:
            first, second = sorted((missing, site), key=place.__getitem__)
            peer = about.secrets[site].mask.tobytes()
            mask = masking.pair_mask(
                seeds[missing], peer, context(name, about.number, first, second, *about.ask_words), size
            )
            words = (minus if site == first else plus)(zero, words, mask)
    count, total = from_vector(zero, words)
    if count != len(sites):
        raise FusionError(
            f"secure-aggregation: the masks of {', '.join(sites)} do not cancel: one of them answered under other"
            " keys than it was given, or messages were changed on their way"
        )
    return Total(total, sites)


def _seed(about: _Round, shares: Mapping[str, SecretShares], owner: str) -> bytes:
    """Reconstruct the seed of a site's own mask, or of a missing site's pairwise masks.

    Raises
    ------
    FusionError
        If that fails; the message names the sites that sent wrong shares, or the owner.
    """
    secret, missing = about.secrets[owner], owner not in about.hidden
    row = about.sites.index(owner)
    part = slice(0, _HALF) if missing else slice(_HALF, 2 * _HALF)
    right, wrong = [], []
    for site, answer in shares.items():
        share = answer.shares[row].tobytes()
        expected = secret.digests[about.holders.index(site), part].tobytes()
        if digest(share) == expected:
            right.append(share)
        else:
            wrong.append(site)
    needed = masking.threshold(len(about.holders))
    if len(right) < needed:
        raise FusionError(
            f"secure-aggregation: {', '.join(wrong)} sent wrong shares of {owner}'s secret: {len(right)} right ones are"
            f" too few, {needed} are needed; are messages changed on their way?"
        )
    try:
        seed = masking.seed_of(right[:needed])
        public = masking.public_of(seed) if missing else digest(seed)
    except MaskError:
        public = b""
    if public != (secret.mask if missing else secret.commitment).tobytes():
        raise FusionError(f"secure-aggregation: the shares that {owner} made are not of the secret that it uses")
    return seed


def _check_keys(site: str, answer: Keys) -> None:
    if not masking.is_channel(answer.channel.tobytes()):
        raise PayloadError(answer.title(), "channel", "is not a public key")


def _check_shares(answer: Shares, holders: int) -> None:
    for name, got in (("sealed", len(answer.sealed)), ("digests", len(answer.digests))):
        if got != holders:
            raise PayloadError(answer.title(), name, f"expected rows for {holders} sites, got {got}")
    if answer.sealed.shape[1] != masking.SEALED_BYTES:
        raise PayloadError(answer.title(), "sealed", f"expected {masking.SEALED_BYTES} bytes for every site")
    try:
        masking.check_public(answer.mask.tobytes())
    except MaskError:
        raise PayloadError(answer.title(), "mask", "is not a public key") from None
