"""Sealed from site to site: only the one it is meant for opens it, only in its context, and only unchanged."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clients.residual.sealing import (
    KEY_BYTES,
    NONCE_BYTES,
    TAG_BYTES,
    SealError,
    new_private_key,
    public_key_of,
    seal,
    unseal,
)

SECRET = b"what the sites share"
CONTEXT = b"session 1, round 2, lane 0, a to b"
PLAIN = b"canary-4711"


class Pair(NamedTuple):
    """A site's keys."""

    private: bytes
    public: bytes


def site() -> Pair:
    private = new_private_key()
    return Pair(private, public_key_of(private))


A, B, CENTER = site(), site(), site()
BODY = seal(PLAIN, private=A.private, peer=B.public, secret=SECRET, context=CONTEXT)


def test_keys_are_new_each_time() -> None:
    assert len({A.private, B.private, CENTER.private}) == len({A.public, B.public, CENTER.public}) == 3
    assert len(A.private) == len(A.public) == KEY_BYTES


def test_the_public_key_is_x25519_s() -> None:
    """RFC 7748, section 5.2: the base point times itself."""
    public = public_key_of((9).to_bytes(32, "little"))
    assert public.hex() == "422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079"


@given(plain=st.binary(max_size=300), secret=st.binary(max_size=80), context=st.binary(max_size=80))
def test_the_other_site_opens_what_was_sealed_for_it(plain: bytes, secret: bytes, context: bytes) -> None:
    body = seal(plain, private=A.private, peer=B.public, secret=secret, context=context)
    assert len(body) == len(plain) + NONCE_BYTES + TAG_BYTES
    assert unseal(body, private=B.private, peer=A.public, secret=secret, context=context) == plain


def test_a_site_may_seal_for_itself() -> None:
    """A ring of one agent."""
    body = seal(PLAIN, private=A.private, peer=A.public, secret=SECRET, context=CONTEXT)
    assert unseal(body, private=A.private, peer=A.public, secret=SECRET, context=CONTEXT) == PLAIN


def test_nothing_shows_and_nothing_repeats() -> None:
    again = seal(PLAIN, private=A.private, peer=B.public, secret=SECRET, context=CONTEXT)
    assert again[:NONCE_BYTES] != BODY[:NONCE_BYTES]
    assert again[NONCE_BYTES:] != BODY[NONCE_BYTES:]
    assert PLAIN not in BODY


# -- what does not open -----------------------------------------------------------------------------------------------


def refused(
    body: bytes = BODY,
    *,
    private: bytes = B.private,
    peer: bytes = A.public,
    secret: bytes = SECRET,
    context: bytes = CONTEXT,
) -> str:
    with pytest.raises(SealError) as caught:
        unseal(body, private=private, peer=peer, secret=secret, context=context)
    return str(caught.value)


def test_every_refusal_has_the_same_words() -> None:
    messages = {
        refused(private=CENTER.private),
        refused(peer=CENTER.public),
        refused(secret=b""),
        refused(secret=SECRET + b"x"),
        refused(context=b""),
        refused(context=CONTEXT.replace(b"round 2", b"round 3")),
        refused(context=b"session 1, round 2, lane 0, b to a"),
        refused(BODY[:-1]),
        refused(BODY + b"\0"),
        refused(b""),
        refused(BODY[: NONCE_BYTES + TAG_BYTES - 1]),
        refused(BODY[: NONCE_BYTES + TAG_BYTES]),
        refused(peer=b""),
        refused(peer=bytes(32)),
    }
    assert messages == {str(SealError())}


@pytest.mark.parametrize("place", range(len(BODY)))
def test_a_changed_bit_is_noticed(place: int) -> None:
    refused(BODY[:place] + bytes([BODY[place] ^ 1]) + BODY[place + 1 :])


def test_the_two_directions_have_keys_of_their_own() -> None:
    """A message that the center sends back to its sender does not open there, whatever the context."""
    refused(private=A.private, peer=B.public)


def test_a_center_that_swaps_public_keys_learns_nothing_where_the_sites_share_a_secret() -> None:
    """It stands between A and B with keys of its own, and knows everything but the secret."""
    body = seal(PLAIN, private=A.private, peer=CENTER.public, secret=SECRET, context=CONTEXT)
    refused(body, private=CENTER.private, peer=A.public, secret=b"")
    forged = seal(PLAIN, private=CENTER.private, peer=B.public, secret=b"", context=CONTEXT)
    refused(forged, peer=CENTER.public)
    # Without a shared secret it does: that is what the file is for.
    body = seal(PLAIN, private=A.private, peer=CENTER.public, secret=b"", context=CONTEXT)
    assert unseal(body, private=CENTER.private, peer=A.public, secret=b"", context=CONTEXT) == PLAIN


P = 2**255 - 19
LOW_ORDER = [
    0,
    1,
    P - 1,
    P,
    P + 1,
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
]
"""All that X25519 maps to zero, but for the unused bit (Bernstein, Curve25519: section 'How do I validate keys?')."""


@pytest.mark.parametrize("point", LOW_ORDER)
@pytest.mark.parametrize("top_bit", [0, 1 << 255])
def test_a_key_of_low_order_is_refused(point: int, top_bit: int) -> None:
    """Whoever hands it out would know the common key."""
    key = (point | top_bit).to_bytes(32, "little")
    with pytest.raises(SealError):
        seal(PLAIN, private=A.private, peer=key, secret=SECRET, context=CONTEXT)
    refused(peer=key)


@pytest.mark.parametrize("size", [0, 1, 31, 33, 64])
def test_a_key_of_another_length_is_refused(size: int) -> None:
    with pytest.raises(SealError):
        seal(PLAIN, private=A.private, peer=bytes([9] * size), secret=SECRET, context=CONTEXT)
