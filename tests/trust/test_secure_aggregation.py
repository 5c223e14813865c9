"""Masked sums: the total to the last bit, whoever drops out; and what a site refuses to say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numerics.shared.exact_sum import exact_sum
from protocols.gp.payloads import Slope, Survey
from protocols.secure_aggregation import masking
from protocols.secure_aggregation.payloads import Deal, Hide, Join, Keys, MaskedAnswer, SecretShares, Shares, Show
from protocols.wire.faults import Fault, SiteFault
from protocols.wire.packing import pack
from protocols.wire.payload import Payload
from protocols.wire.vector_encoding import from_vector, layout, minus, plus, size_of, to_vector
from strategies.conversation import Conversation
from strategies.errors import FusionError
from strategies.secure_aggregation import Masking, Total
from tests.support.payloads import CLASSES, example
from tests.support.secure_aggregation_sites import (
    ZERO,
    MaskingSite,
    Meddle,
    Transcript,
    W,
    converse,
    hidden_words,
    inner,
    masking_sites,
    silent,
    slope,
)

NAMES = tuple("abcdefg")
Asked = dict[tuple[str, str], Any]


def expected(sites: Sequence[str]) -> Slope:
    losses = exact_sum([np.array(slope(site).loss) for site in sites])
    return Slope(float(losses), exact_sum([slope(site).gradient for site in sites]))


def assert_total(total: Total[Slope], sites: Sequence[str]) -> None:
    assert total.sites == tuple(sites)
    assert total.sum.loss == expected(sites).loss
    assert total.sum.gradient.tobytes() == expected(sites).gradient.tobytes()


def sums(masks: Masking, sites: Sequence[str], times: int = 1) -> Conversation[list[Total[Slope]]]:
    found: list[Total[Slope]] = []
    for _ in range(times):
        total = yield from masks.total(dict.fromkeys(sites, inner()), ZERO)
        found.append(total)
    return found


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, MaskingSite]:
    return masking_sites(monkeypatch, NAMES, tmp_path)


def run(
    world: dict[str, MaskingSite],
    meddle: Meddle = lambda _n, _s, _a, answer: answer,
    sites: Sequence[str] = NAMES,
    times: int = 1,
    said: Transcript | None = None,
) -> Transcript:
    return converse(sums(Masking("t"), sites, times), world, meddle, said)


def refusals(world: dict[str, MaskingSite], meddle: Meddle = lambda _n, _s, _a, answer: answer) -> dict[str, str]:
    """The faults of the sites in a run that ends because too few answer."""
    said = Transcript()
    with pytest.raises(FusionError, match="too few sites answered to reveal their sum"):
        run(world, meddle, said=said)
    assert not hidden_words(said)
    return said.faults


# -- the vector -------------------------------------------------------------------------------------------------------

SUMMED = [each for each in CLASSES if each.summed]


def test_something_is_summed() -> None:
    assert {each.title() for each in SUMMED} >= {"bc3e.Statistics", "gp.Likelihood", "gp.Slope"}


@pytest.mark.parametrize("kind", SUMMED, ids=lambda kind: kind.title())
def test_payload_is_its_vector(kind: type[Payload]) -> None:
    payload: Any = example(kind)
    count, back = from_vector(payload, to_vector(payload))
    assert count == 1
    assert layout(back) == layout(payload)
    assert to_vector(back).tobytes() == to_vector(payload).tobytes()
    assert len(to_vector(payload)) == size_of(payload)


@given(st.integers(1, 6), st.randoms(use_true_random=False))
def test_masks_cancel_and_their_order_does_not_matter(n: int, random: Any) -> None:
    names = list(NAMES[:n])
    mask = np.frombuffer(random.randbytes(8 * size_of(ZERO)), "<u8").astype(np.uint64)
    words = mask
    random.shuffle(names)
    for name in names:
        words = plus(ZERO, words, to_vector(slope(name)))
    count, total = from_vector(ZERO, minus(ZERO, words, mask))
    assert count == n
    assert total.gradient.tobytes() == expected(names).gradient.tobytes()


def test_what_is_not_of_numbers_is_not_summed() -> None:
    with pytest.raises(TypeError, match="does not say that it may be summed"):
        to_vector(Survey(1, "se", fit=False))


# -- totals -----------------------------------------------------------------------------------------------------------


def test_total_is_the_sum_to_the_last_bit(world: dict[str, MaskingSite]) -> None:
    said = run(world, times=3)
    for total in said.result:
        assert_total(total, NAMES)
    assert not said.faults
    assert len(said.rounds) == 2 + 2 * 3  # keys once, then two asks for every sum


def test_masked_vectors_differ_each_time_and_look_uniform(world: dict[str, MaskingSite]) -> None:
    said = run(world, times=20)
    words = [answer.words for site, answer in hidden_words(said) if site == "a"]
    assert len({each.tobytes() for each in words}) == len(words)
    for word in np.stack(words)[1:].T:  # the same numbers under other masks share no word
        assert len(set(word.tolist())) == len(word)
    bits = np.unpackbits(np.concatenate([answer.words for _, answer in hidden_words(said)]).view(np.uint8))
    assert abs(bits.mean() - 0.5) < 6 * 0.5 / np.sqrt(bits.size)
    plain = to_vector(slope("a"))
    assert not np.isin(np.stack(words), plain).any()


def test_no_seed_crosses(world: dict[str, MaskingSite]) -> None:
    """What is said of a site in the open, in any one message or all it sends, holds neither seed nor key."""
    said = run(world)
    sent = b"".join(
        value.tobytes() if isinstance(value, np.ndarray) else str(value).encode()
        for asked in said.rounds
        for _, answer in asked.values()
        for value in vars(answer).values()
    )
    for member in world.values():
        kept = member.site().keys.get("0/t")
        for secret in (kept["current"], kept["upcoming"]):
            assert bytes.fromhex(secret["pair"]) not in sent
            assert bytes.fromhex(secret["own"]) not in sent
        assert kept["channel"].encode() not in sent
        assert not any(key.encode() in sent for key in kept["keys"].values())


@pytest.mark.parametrize("kind", [Join, Deal, Hide, Show], ids=lambda kind: kind.__name__)
def test_site_that_drops_at_any_step_leaves_the_total_of_the_others(
    world: dict[str, MaskingSite], kind: type[Payload]
) -> None:
    said = run(world, silent("c", kind, times=99), times=2)
    for total in said.result:  # of one that answered, and then showed nothing, there are shares enough with others
        assert_total(total, NAMES if kind is Show else [name for name in NAMES if name != "c"])


def test_one_drops_before_and_one_after(world: dict[str, MaskingSite]) -> None:
    before, after = silent("b", Hide), silent("e", Show)
    said = run(world, lambda n, s, ask, answer: before(n, s, ask, after(n, s, ask, answer)))
    assert_total(said.result[0], [name for name in NAMES if name != "b"])


def test_site_that_lost_its_keys_is_in_again_in_the_next_sum(world: dict[str, MaskingSite]) -> None:
    def restart(number: int, site: str, ask: Payload, answer: Payload | None) -> Payload | None:
        if number == 2:
            world["d"].restart()
        return answer

    said = run(world, restart, times=2)
    assert said.faults == {"d": Fault.NO_MASK_KEYS.slug}
    assert_total(said.result[0], [name for name in NAMES if name != "d"])
    assert_total(said.result[1], NAMES)


@pytest.mark.parametrize("when", [2, 3, 4])
def test_all_sites_that_lost_their_keys_are_asked_once_more(world: dict[str, MaskingSite], when: int) -> None:
    def restart(number: int, site: str, ask: Payload, answer: Payload | None) -> Payload | None:
        if number == when and site == NAMES[-1]:
            for member in world.values():
                member.restart()
        return answer

    said = run(world, restart, times=2)
    for total in said.result:
        assert_total(total, NAMES)


def test_sites_that_never_joined_are_none_of_those_it_takes(world: dict[str, MaskingSite]) -> None:
    said = run(world, lambda _, site, ask, answer: None if site in "abc" else answer)
    assert_total(said.result[0], NAMES[3:])


@pytest.mark.parametrize("kind", [Deal, Hide, Show], ids=lambda kind: kind.__name__)
def test_too_few_are_told_in_one_line(world: dict[str, MaskingSite], kind: type[Payload]) -> None:
    def mute(_: int, site: str, ask: Payload, answer: Payload | None) -> Payload | None:
        return None if site in "abc" and type(ask) is kind else answer

    with pytest.raises(FusionError, match=r"too few sites answered.*(a, b, c|none in the last round)") as error:
        run(world, mute)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("n", [1, 2])
def test_two_sites_hide_nothing(world: dict[str, MaskingSite], n: int) -> None:
    with pytest.raises(FusionError, match=f"needs 3 to 500 sites, there are {n}"):
        run(world, sites=NAMES[:n])


def test_three_sites_are_enough(world: dict[str, MaskingSite]) -> None:
    assert_total(run(world, sites=NAMES[:3]).result[0], NAMES[:3])


def test_fewer_than_min_sites_end_the_run(world: dict[str, MaskingSite]) -> None:
    with pytest.raises(FusionError, match=r"of 7 7 are needed \(no answer: g\)"):
        converse(Masking("t", 7).total(dict.fromkeys(NAMES, inner()), ZERO), world, silent("g", Hide, 2))


# -- answers that are not what they must be ---------------------------------------------------------------------------


def forging(name: str, kind: type[Payload], forge: Any) -> Meddle:
    def meddle(_: int, site: str, ask: Payload, answer: Payload | None) -> Payload | None:
        return forge(answer) if site == name and type(answer) is kind else answer

    return meddle


def flipped(field: str) -> Any:
    def forge(answer: Any) -> Any:
        other = getattr(answer, field).copy()
        other.ravel()[-1] ^= 1
        return replace(answer, **{field: other})

    return forge


def test_lying_share_is_left_out(world: dict[str, MaskingSite]) -> None:
    """Others' shares do: a single site cannot spoil the sum by what it shows."""
    assert_total(run(world, forging("b", SecretShares, flipped("shares"))).result[0], NAMES)


def test_lying_shares_of_too_many_are_named(world: dict[str, MaskingSite]) -> None:
    def lie(_: int, site: str, ask: Payload, answer: Payload | None) -> Payload | None:
        return flipped("shares")(answer) if site in "bcd" and isinstance(answer, SecretShares) else answer

    with pytest.raises(FusionError, match=r"b, c, d sent wrong shares of g's secret: 4 .* 5 are needed"):
        run(world, lie)


def test_forged_commitment_names_its_maker(world: dict[str, MaskingSite]) -> None:
    with pytest.raises(FusionError, match="the shares that c made are not of the secret that it uses"):
        run(world, forging("c", Shares, flipped("commitment")))


def test_forged_sealed_share_keeps_out_whom_it_is_for(world: dict[str, MaskingSite]) -> None:
    """He cannot know whether the key that he is told is that of the secret."""
    said = run(world, forging("c", Shares, flipped("sealed")))
    assert said.faults == {"g": Fault.BROKEN_SEAL.slug}
    assert_total(said.result[0], NAMES[:-1])


def test_other_key_than_that_of_the_masks_is_noticed(world: dict[str, MaskingSite]) -> None:
    """Nobody has shares of a secret that it belongs to, not even the site itself."""
    other = np.frombuffer(masking.public_of(masking.new_seed()), np.uint8)
    faults = refusals(world, forging("c", Shares, lambda answer: replace(answer, mask=other)))
    assert faults == dict.fromkeys(NAMES, Fault.BROKEN_SEAL.slug)


@pytest.mark.parametrize("place", [0, 1, -1])
def test_changed_words_do_not_make_a_sum_unnoticed_where_masks_do_not_cancel(
    world: dict[str, MaskingSite], place: int
) -> None:
    """A site that lies about its own numbers is believed, masked or not; masks that do not cancel are noticed."""
    random = np.random.default_rng(0).integers(0, 2**63, size_of(ZERO)).astype(np.uint64)
    with pytest.raises(FusionError, match="do not cancel"):
        run(world, forging("c", MaskedAnswer, lambda answer: replace(answer, words=answer.words + random)))


@pytest.mark.parametrize(
    ("forge", "field"),
    [
        (lambda answer: replace(answer, layout="gp.Slope loss:float64[] gradient:float64[6]"), "layout"),
        (lambda answer: replace(answer, words=answer.words[:-1]), "words"),
        (lambda answer: replace(answer, mask=np.zeros(33, np.uint8)), "mask"),
        (lambda answer: replace(answer, sealed=answer.sealed[:, :-1]), "sealed"),
        (lambda answer: replace(answer, sealed=answer.sealed[:-1], digests=answer.digests[:-1]), "sealed"),
    ],
    ids=["layout", "words", "key", "sealed", "count"],
)
def test_answer_of_other_shape_is_refused_by_name(world: dict[str, MaskingSite], forge: Any, field: str) -> None:
    said = run(world, forging("c", MaskedAnswer, forge))
    assert f"'{field}'" in said.faults["c"]
    assert_total(said.result[0], [name for name in NAMES if name != "c"])


def test_too_few_shares_are_refused_by_name(world: dict[str, MaskingSite]) -> None:
    """The sum needs shares of most sites only."""
    said = run(world, forging("c", SecretShares, lambda answer: replace(answer, shares=answer.shares[:-1])))
    assert "'shares'" in said.faults["c"]
    assert_total(said.result[0], NAMES)


def test_channel_key_that_is_none_is_refused_by_name(world: dict[str, MaskingSite]) -> None:
    said = run(world, forging("c", Keys, lambda _: Keys(np.zeros(215, np.uint8))))
    assert "is not a public key" in said.faults["c"]


def test_number_beyond_sums_is_refused(world: dict[str, MaskingSite], monkeypatch: pytest.MonkeyPatch) -> None:
    import clients.dispatch
    from protocols.gp.payloads import Train

    huge = Slope(1e60, np.zeros(W))
    monkeypatch.setitem(
        clients.dispatch._HANDLERS, Train, lambda ask, site: huge if site.name == "c" else slope(site.name)
    )
    said = run(world)
    assert said.faults["c"] == Fault.BEYOND_SUMS.slug


# -- what a site refuses ----------------------------------------------------------------------------------------------


@pytest.fixture
def hidden(world: dict[str, MaskingSite]) -> Asked:
    """By name and site, the asks of a first sum, which all have answered."""
    asks: Asked = {}

    def note(_: int, site: str, ask: Payload, answer: Payload | None) -> Payload | None:
        asks[type(ask).__name__, site] = ask
        if isinstance(ask, Show) and site == NAMES[-1]:
            raise _DoneError
        return answer

    with pytest.raises(_DoneError):
        run(world, note)
    return asks


class _DoneError(Exception):
    pass


def refusal(member: MaskingSite, ask: Payload) -> Fault:
    with pytest.raises(SiteFault) as error:
        member.answer(ask, 9)
    return error.value.fault


def test_site_shows_one_sum_in_one_way(world: dict[str, MaskingSite], hidden: Asked) -> None:
    """All answered `Show` with nobody gone; that a site is gone after all is not believed."""
    ask: Show = hidden["Show", "a"]
    assert isinstance(world["a"].answer(ask, 9), SecretShares)  # the same once more is no other
    gone = ask.dropped.copy()
    gone[2] = True
    assert refusal(world["a"], replace(ask, dropped=gone)) is Fault.SHOWN_OTHERWISE


def test_site_does_not_show_for_fewer_than_two_thirds(world: dict[str, MaskingSite], hidden: Asked) -> None:
    ask: Show = hidden["Show", "a"]
    gone = np.arange(len(NAMES)) >= masking.threshold(len(NAMES)) - 1
    assert refusal(world["a"], replace(ask, dropped=gone)) is Fault.TOO_FEW_TO_MASK


@pytest.mark.parametrize("number", [0, 2, 3, -1])
def test_site_shows_no_sum_that_it_has_not_hidden(world: dict[str, MaskingSite], hidden: Asked, number: int) -> None:
    assert refusal(world["a"], replace(hidden["Show", "a"], number=number)) is Fault.NO_MASK_KEYS


def test_site_never_says_that_it_is_gone_itself(world: dict[str, MaskingSite], hidden: Asked) -> None:
    gone = hidden["Show", "a"].dropped.copy()
    gone[0] = True
    assert refusal(world["a"], replace(hidden["Show", "a"], dropped=gone)) is Fault.MALFORMED_ASK


def test_site_hides_one_answer_under_one_mask(world: dict[str, MaskingSite], hidden: Asked) -> None:
    ask: Hide = hidden["Hide", "a"]
    first, again = world["a"].answer(ask, 9), world["a"].answer(ask, 9)
    assert isinstance(first, MaskedAnswer)
    assert isinstance(again, MaskedAnswer)
    assert first.words.tobytes() == again.words.tobytes()
    assert refusal(world["a"], taking(ask, slice(-1))) is Fault.SHOWN_OTHERWISE
    assert refusal(world["a"], taking(ask, slice(None, None, -1))) is Fault.SHOWN_OTHERWISE


def taking(ask: Hide, part: slice) -> Hide:
    """The same over some of the sites."""
    return replace(ask, sites=ask.sites[part], masks=ask.masks[part], sealed=ask.sealed[part])


def test_site_hides_nothing_among_few(world: dict[str, MaskingSite], hidden: Asked) -> None:
    ask: Hide = replace(hidden["Hide", "a"], number=2)
    for n in (1, 2, 4):
        assert refusal(world["a"], taking(ask, slice(n))) is Fault.TOO_FEW_TO_MASK
    assert refusal(world["a"], replace(ask, sealed=ask.sealed[:-1])) is Fault.MALFORMED_ASK
    strangers = ("a", *"uvwxyz")
    assert refusal(world["a"], replace(ask, sites=strangers)) is Fault.MALFORMED_ASK
    assert refusal(world["a"], replace(ask, sites=("a",) * len(NAMES))) is Fault.MALFORMED_ASK
    assert refusal(world["a"], replace(ask, sites=("b", *NAMES[1:]))) is Fault.MALFORMED_ASK


def test_site_deals_nothing_among_few(world: dict[str, MaskingSite], hidden: Asked) -> None:
    ask: Deal = replace(hidden["Deal", "a"], number=2)
    assert refusal(world["a"], replace(ask, sites=ask.sites[:2], channels=ask.channels[:2])) is Fault.TOO_FEW_TO_MASK
    many = ("a", *map(str, range(masking.MOST_SITES)))
    assert refusal(world["a"], replace(ask, sites=many)) is Fault.MALFORMED_ASK
    other = ask.channels.copy()
    other[0] = other[1]
    assert refusal(world["a"], replace(ask, channels=other)) is Fault.NO_MASK_KEYS
    bad = ask.channels.copy()
    bad[1, 40] ^= 1
    assert refusal(world["a"], replace(ask, channels=bad)) is Fault.MALFORMED_ASK


def test_only_what_may_be_summed_is_wrapped(world: dict[str, MaskingSite], hidden: Asked) -> None:
    survey = Survey(1, "se", fit=False)
    body = np.frombuffer(pack(survey), np.uint8)
    ask: Hide = replace(hidden["Hide", "a"], inner=survey.title(), ask=body)
    assert refusal(world["a"], ask) is Fault.UNKNOWN_ASK
    for other in (replace(hidden["Hide", "a"], ask=body), replace(hidden["Hide", "a"], inner="gp.Nothing")):
        assert refusal(world["a"], other) is Fault.MALFORMED_ASK


def test_sites_with_another_secret_open_nothing(world: dict[str, MaskingSite], tmp_path: Path) -> None:
    """So neither does the center, for whatever keys it hands out, nor a site that it invents."""
    for name, member in world.items():
        (tmp_path / name).write_text(f"secret of {name in 'abc'}, long enough to be one")
        member.config["align-key-file"] = str(tmp_path / name)
        member.restart()
    assert refusals(world) == dict.fromkeys(NAMES, Fault.BROKEN_SEAL.slug)


def test_threshold_is_more_than_two_thirds() -> None:
    for n in range(3, 40):
        assert 3 * masking.threshold(n) > 2 * n
        assert masking.threshold(n) <= n
        assert 2 * masking.threshold(n) > n + n // 3  # no two lists of who is there, though a third of the sites lie
