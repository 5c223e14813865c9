"""A fusion center that does not keep to the protocol of masked sums, against sites that share a secret."""

from __future__ import annotations

import os
import pickle
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import RecordDict
from flwr.common.secure_aggregation.crypto.shamir import combine_shares

import clients.dispatch
from clients.dispatch import handler_of
from clients.keys import PrivateKeys, turns_in
from clients.site import Site
from protocols.gp.payloads import Slope, Train
from protocols.secure_aggregation import masking
from protocols.secure_aggregation.masking import MaskError
from protocols.secure_aggregation.payloads import Deal, Hide, Join, MaskedAnswer, SecretShares, Shares, Show
from protocols.wire.faults import Fault, SiteFault
from protocols.wire.message import Ask
from protocols.wire.packing import pack
from protocols.wire.payload import Payload
from strategies.errors import FusionError
from strategies.secure_aggregation import Masking
from tests.support.secure_aggregation_sites import ZERO, MaskingSite, converse, inner, masking_sites, slope

NAMES = tuple("abcdefg")
VICTIM, OTHERS = NAMES[0], NAMES[1:]


def array(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, MaskingSite]:
    """Sites with one align-key-file."""
    (tmp_path / "key").write_text("a secret that the sites share, long enough")
    found = masking_sites(monkeypatch, NAMES, tmp_path)
    for member in found.values():
        member.config["align-key-file"] = str(tmp_path / "key")
        member.restart()
    return found


class Center:
    """Asks what it likes, and keeps all that it hears."""

    def __init__(self, world: dict[str, MaskingSite]) -> None:
        self.world = world
        self.channels = {site: self.answer(site, Join("t")).channel for site in world}

    def answer(self, site: str, ask: Payload) -> Any:
        return self.world[site].answer(ask, 1)

    def refused(self, site: str, ask: Payload) -> Fault:
        with pytest.raises(SiteFault) as error:
            self.answer(site, ask)
        return error.value.fault

    def deal(self, number: int, who: tuple[str, ...] = NAMES) -> Deal:
        return Deal("t", number, who, np.stack([self.channels[site] for site in who]))

    def hide(
        self, site: str, number: int, shares: dict[str, Shares], masks: dict[str, np.ndarray] | None = None
    ) -> Hide:
        """The ask over all who have dealt; `masks`: told in place of theirs. A share that there is not is another's."""
        who, ask = tuple(shares), inner()
        told = [(masks or {}).get(peer, shares[peer].mask) for peer in who]
        sealed = np.stack([shares[peer].sealed[min(who.index(site), len(shares[peer].sealed) - 1)] for peer in who])
        return Hide("t", number, who, np.stack(told), sealed, ask.title(), array(pack(ask)))


@pytest.fixture
def center(world: dict[str, MaskingSite]) -> Center:
    return Center(world)


@pytest.fixture
def dealt(center: Center) -> dict[str, Shares]:
    return {site: center.answer(site, center.deal(1)) for site in NAMES}


# -- keys of its own --------------------------------------------------------------------------------------------------


def test_one_victim_is_told_keys_of_the_centers_own(center: Center, dealt: dict[str, Shares]) -> None:
    """All others are told true ones, and would show the victim's own mask: it says nothing under such masks."""
    false = {peer: array(masking.public_of(masking.new_seed())) for peer in OTHERS}
    assert center.refused(VICTIM, center.hide(VICTIM, 1, dealt, false)) is Fault.BROKEN_SEAL
    for peer in OTHERS:  # a single one is noticed, too
        told = center.hide(VICTIM, 1, dealt, {peer: false[peer]})
        assert center.refused(VICTIM, told) is Fault.BROKEN_SEAL


def test_keys_and_shares_of_another_site_are_noticed(center: Center, dealt: dict[str, Shares]) -> None:
    """What was sealed for one site, or by one owner, is of no use in another's place."""
    ask = center.hide(VICTIM, 1, dealt)
    rolled = replace(ask, sealed=np.roll(ask.sealed, 1, axis=0))
    both = replace(rolled, masks=np.roll(ask.masks, 1, axis=0))
    for other in (rolled, both, center.hide("b", 1, dealt)):
        assert center.refused(VICTIM, other) is Fault.BROKEN_SEAL


def test_shares_of_another_sum_are_noticed(center: Center, dealt: dict[str, Shares]) -> None:
    """The second sum's keys are those that came with the first; the first's, or shares of them, are refused."""
    hidden = {site: center.answer(site, center.hide(site, 1, dealt)) for site in NAMES}
    mixed = hidden | {"b": dealt["b"]}
    assert center.refused(VICTIM, center.hide(VICTIM, 2, mixed)) is Fault.BROKEN_SEAL
    assert center.refused(VICTIM, center.hide(VICTIM, 2, hidden, {"b": dealt["b"].mask})) is Fault.BROKEN_SEAL
    assert isinstance(center.answer(VICTIM, center.hide(VICTIM, 2, hidden)), MaskedAnswer)


@pytest.mark.parametrize("secret", [True, False], ids=["shared secret", "none"])
def test_invented_sites_share_no_secret(world: dict[str, MaskingSite], secret: bool) -> None:
    """The center seals what sites that it has invented would; only the sites' secret tells that from another site's."""
    if not secret:
        del world[VICTIM].config["align-key-file"]
        world[VICTIM].restart()
    center, who = Center(world), (VICTIM, "x", "y")
    private, public = masking.new_channel()
    center.channels |= dict.fromkeys("xy", array(public))
    shares = {VICTIM: center.answer(VICTIM, center.deal(1, who))}
    key = masking.channel_key(private, center.channels[VICTIM].tobytes())
    for owner in "xy":
        mask = masking.public_of(masking.new_seed())
        begin = masking.context("s", "0", "t", 1, owner, VICTIM, mask.hex(), *who)
        row = array(masking.seal(key, begin + bytes(2 * masking.SHARE_BYTES)))
        shares[owner] = replace(shares[VICTIM], mask=array(mask), sealed=np.stack([row] * 3))
    ask = center.hide(VICTIM, 1, shares)
    if secret:
        assert center.refused(VICTIM, ask) is Fault.BROKEN_SEAL
    else:  # docs/secure-aggregation.md says so
        assert isinstance(center.answer(VICTIM, ask), MaskedAnswer)


# -- two groups of holders --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("few", [3, 5, 6])
def test_the_victim_is_told_of_fewer_holders_than_its_peers(center: Center, few: int) -> None:
    """Its three shares would open its own mask, and the others', of whom a third may be gone, those that it shares."""
    who = NAMES[:few]
    shares = {
        site: center.answer(site, center.deal(1, who if site == VICTIM else NAMES)) for site in (VICTIM, *OTHERS[::-1])
    }
    assert center.refused(VICTIM, center.hide(VICTIM, 1, {site: shares[site] for site in who})) is Fault.BROKEN_SEAL
    assert center.refused("b", center.hide("b", 1, {site: shares[site] for site in NAMES})) is Fault.BROKEN_SEAL


def test_holders_in_another_order_are_other_holders(center: Center) -> None:
    shares = {site: center.answer(site, center.deal(1, NAMES if site == VICTIM else NAMES[::-1])) for site in NAMES}
    assert center.refused(VICTIM, center.hide(VICTIM, 1, shares)) is Fault.BROKEN_SEAL


# -- back to an earlier sum -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("joins", [False, True], ids=["deal", "join and deal"])
def test_no_sum_is_gone_back_to(center: Center, dealt: dict[str, Shares], joins: bool) -> None:
    """A holder that had shown one share of the victim's secrets would show the other."""
    hidden = {site: center.answer(site, center.hide(site, 1, dealt)) for site in NAMES}
    first, gone = np.zeros(len(NAMES), bool), np.array([site == VICTIM for site in NAMES])
    for site in NAMES:
        assert isinstance(center.answer(site, Show("t", 1, first)), SecretShares)
    for site in NAMES:
        assert isinstance(center.answer(site, center.hide(site, 2, hidden)), MaskedAnswer)
    for site in OTHERS:
        if joins:
            center.channels[site] = center.answer(site, Join("t")).channel
        for number in (-1, 0, 1, 2):
            assert center.refused(site, center.deal(number)) is Fault.SHOWN_OTHERWISE
        assert isinstance(center.answer(site, center.deal(3)), Shares)
        assert center.refused(site, center.hide(site, 1, dealt)) is Fault.NO_MASK_KEYS
        assert center.refused(site, Show("t", 1, gone)) is Fault.NO_MASK_KEYS


def test_sites_dealt_anew_among_others_fail_no_handler(center: Center, dealt: dict[str, Shares]) -> None:
    """The keys are then of other sites than the sum before was over."""
    ask = center.hide(VICTIM, 1, dealt)
    center.answer(VICTIM, ask)
    center.answer(VICTIM, center.deal(2, NAMES[:3]))
    assert center.refused(VICTIM, ask) is Fault.NO_MASK_KEYS
    assert isinstance(center.answer(VICTIM, Show("t", 1, np.zeros(len(NAMES), bool))), SecretShares)


@pytest.mark.parametrize("directory", [True, False], ids=["own directory", "none"])
def test_two_asks_at_the_same_time_are_not_answered_from_the_same_secrets(
    world: dict[str, MaskingSite], tmp_path: Path, directory: bool
) -> None:
    """A SuperNode starts a process for each, with the same context, and keeps the context of the one that ends last."""
    for site, member in world.items():
        if directory:
            member.config["site-output-dir"] = str(tmp_path / site)
        member.restart()
    center = Center(world)
    shares = {site: center.answer(site, center.deal(1)) for site in NAMES}
    for site in NAMES:
        center.answer(site, center.hide(site, 1, shares))
    member, before = world["b"], pickle.dumps(world["b"].context)
    nobody, gone = np.zeros(len(NAMES), bool), np.array([site == VICTIM for site in NAMES])
    assert isinstance(center.answer("b", Show("t", 1, nobody)), SecretShares)
    member.context = pickle.loads(before)
    assert center.refused("b", Show("t", 1, gone)) is Fault.NO_MASK_KEYS
    assert center.refused("b", center.hide("b", 1, shares)) is Fault.NO_MASK_KEYS
    assert center.refused("b", center.deal(2)) is Fault.NO_MASK_KEYS
    center.channels["b"] = center.answer("b", Join("t")).channel  # new keys are of use to no one who had the old
    assert isinstance(center.answer("b", center.deal(2)), Shares)


@pytest.mark.parametrize("directory", [True, False], ids=["own directory", "none"])
def test_a_checkpoint_of_the_context_gives_no_second_answer_under_one_mask(
    world: dict[str, MaskingSite], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, directory: bool
) -> None:
    """The difference of two masked answers of a site would be that of the plain ones."""
    monkeypatch.setitem(
        clients.dispatch._HANDLERS, Train, lambda ask, site: Slope(float(ask.weights.sum()), ZERO.gradient)
    )
    if directory:
        world[VICTIM].config["site-output-dir"] = str(tmp_path / "own")
        world[VICTIM].restart()
    center = Center(world)
    shares = {site: center.answer(site, center.deal(1)) for site in NAMES}
    before, ask = pickle.dumps(world[VICTIM].context), center.hide(VICTIM, 1, shares)
    other = replace(ask, ask=array(pack(inner(9))))
    center.answer(VICTIM, ask)
    assert center.refused(VICTIM, other) is Fault.SHOWN_OTHERWISE
    world[VICTIM].context = pickle.loads(before)
    for repeated in (ask, other):
        assert center.refused(VICTIM, repeated) is Fault.NO_MASK_KEYS


@pytest.mark.parametrize("where", ["session", "lane", "name", "run"])
def test_shares_of_another_run_or_name_are_of_no_use(
    world: dict[str, MaskingSite], center: Center, dealt: dict[str, Shares], where: str
) -> None:
    """The center sends, in place of a peer's shares, those that the peer sealed for the same site elsewhere."""
    session, lane, name = ("z" if where == "session" else "s"), ("1" if where == "lane" else "0"), "t"
    name = "u" if where == "name" else name
    if where == "run":
        world[VICTIM].context.run_id = 8

    def answer(ask: Payload) -> Payload:
        site = Site.open(VICTIM, world[VICTIM].context, Ask(session, 1, 0, ())).in_lane(lane)
        return handler_of(type(ask))(ask, site)

    with pytest.raises(SiteFault) as first:
        answer(replace(center.hide(VICTIM, 1, dealt), total=name))
    assert first.value.fault is (Fault.BROKEN_SEAL if where == "session" else Fault.NO_MASK_KEYS)
    joined: Any = answer(Join(name))
    channels = np.stack([joined.channel, *(center.channels[site] for site in OTHERS)])
    own: Any = answer(Deal(name, 1, NAMES, channels))
    with pytest.raises(SiteFault) as second:
        answer(replace(center.hide(VICTIM, 1, dealt | {VICTIM: own}), total=name))
    assert second.value.fault is Fault.BROKEN_SEAL


def test_two_sums_that_differ_by_a_site_tell_its_answer(world: dict[str, MaskingSite]) -> None:
    """So they do where the site has left (docs/secure-aggregation.md): no other site can tell why it is missing."""
    whole, rest = (
        converse(Masking(name).total(dict.fromkeys(who, inner()), ZERO), world).result.sum
        for name, who in (("t", NAMES), ("u", OTHERS))
    )
    assert whole.loss - rest.loss == pytest.approx(slope(VICTIM).loss)


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="files have no owners")
def test_turns_are_not_taken_in_a_folder_of_another_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Who has made it in the temporary directory before the site did could give one turn to two processes."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    turns, owner = turns_in(None), os.getuid()
    PrivateKeys(RecordDict(), 1, turns).put("sum", {}, anew=True)
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    with pytest.raises(SiteFault, match="belongs to another user"):
        PrivateKeys(RecordDict(), 1, turns).put("sum", {}, anew=True)


# -- late answers -----------------------------------------------------------------------------------------------------


def test_a_victim_is_asked_something_else_than_its_peers(
    world: dict[str, MaskingSite], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of asks that are all alike no sum comes out; of others it does: their protocols need different asks."""
    asks = {site: inner(1 if site == VICTIM else 2) for site in NAMES}
    assert converse(Masking("t").total(asks, ZERO), world).result.sites == NAMES
    monkeypatch.setattr(Train, "alike", True)
    with pytest.raises(FusionError, match=r"masks of .* do not cancel"):
        converse(Masking("u").total(asks, ZERO), world)
    assert converse(Masking("v").total(dict.fromkeys(NAMES, inner()), ZERO), world).result.sites == NAMES


def test_shares_that_are_late_are_asked_for_again(world: dict[str, MaskingSite]) -> None:
    """A new sum of the same answers, while the first's shares still arrive, would tell the difference of the two."""
    late = {"a", "b", "c"}

    def meddle(_: int, site: str, ask: Payload, answer: Payload | None) -> Payload | None:
        if isinstance(ask, Show) and site in late:
            late.remove(site)
            return None
        return answer

    said = converse(Masking("t").total(dict.fromkeys(NAMES, inner()), ZERO), world, meddle)
    assert said.result.sites == NAMES
    assert len(said.of(Hide)) == len(NAMES)
    assert [sorted(asked) for asked in said.rounds[-2:]] == [sorted(NAMES), ["a", "b", "c"]]
    assert len({ask.dropped.tobytes() for _, ask in said.of(Show)}) == 1


# -- shares -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("holders", [3, 7, 20])
def test_seed_is_what_flower_finds(holders: int) -> None:
    seed = masking.new_seed()
    shares, needed = masking.shares_of(seed, holders), masking.threshold(holders)
    for some in (shares[:needed], shares[-needed:], shares[::-1][:needed]):
        assert masking.seed_of(some) == combine_shares(some) == seed


def test_what_are_no_shares_is_refused() -> None:
    first, second, third = masking.shares_of(masking.new_seed(), 3)
    for wrong in ([], [first[:-1], second[:-1], third[:-1]], [first, second, third[:20]], [first, first, second]):
        with pytest.raises(MaskError):
            masking.seed_of(wrong)
    with pytest.raises(MaskError):
        masking.seed_of([bytes(36), second, third])
