"""The cryptography of masked sums, as both sides need it (Bonawitz et al. 2017, docs/secure-aggregation.md).

Flower's SecAgg+ building blocks agree on keys, encrypt, and share secrets. Its mask expansion is not used: it seeds
NumPy's Mersenne Twister with 32 bits, which a computer tries out in minutes. Masks are ChaCha20 keystreams.
"""

from __future__ import annotations

import os
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from hashlib import sha256

import numpy as np
from cryptography.fernet import InvalidToken
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from flwr.common.secure_aggregation.crypto.shamir import create_shares
from flwr.common.secure_aggregation.crypto.symmetric_encryption import decrypt, encrypt, generate_shared_key
from flwr.supercore.primitives.asymmetric import (
    bytes_to_private_key,
    bytes_to_public_key,
    generate_key_pairs,
    private_key_to_bytes,
    public_key_to_bytes,
)
from jaxtyping import UInt64

from protocols.secure_aggregation.shamir import combined

SHARE_BYTES = 36
"""Of a share of a seed: its number, and two blocks of 16 bytes."""
PUBLIC_BYTES = 33
"""Of a mask's public key: a compressed point."""
DIGEST_BYTES = 32
SEALED_BYTES = 228
"""Of a digest and two shares, encrypted."""
FEWEST_SITES = 3
"""Of a sum over two sites each of them could tell what the other said."""
MOST_SITES = 500
"""Each shares out its secrets in a time quadratic in the sites: some 7 s for a sum over so many."""

_SEED_BYTES = 31  # Flower pads a secret to whole blocks of 16 bytes, by one byte at least
_CURVE, _ORDER = ec.SECP256R1(), 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_PURPOSE = b"consilience: masked sums, 1: "


class MaskError(ValueError):
    """A key, a share or a sealed text that cannot be used. Its message holds nothing of it."""


def threshold(holders: int) -> int:
    """How many of those who hold shares must say theirs before a secret is known.

    More than two thirds. More than half are needed, so that the fusion center cannot tell one half of the sites that
    somebody is gone and the other half that he is there, and so learn both his secrets; with more than two thirds it
    cannot even if up to a third of the sites take its side.
    """
    return 2 * holders // 3 + 1


def enough(there: int, holders: int) -> bool:
    """Whether so many of those who hold shares can open a sum."""
    return there >= max(FEWEST_SITES, threshold(holders))


# -- channels: what one site says to another, through the fusion center -----------------------------------------------


def new_channel() -> tuple[bytes, bytes]:
    """A private key and its public one, by which sites encrypt for each other."""
    private, public = generate_key_pairs()
    return private_key_to_bytes(private), public_key_to_bytes(public)


def public_of_channel(private: bytes) -> bytes:
    """The public key that goes with a private one."""
    return public_key_to_bytes(bytes_to_private_key(private).public_key())


def is_channel(public: bytes) -> bool:
    """Whether these are the bytes of a public key that `new_channel` may have made."""
    try:
        key = bytes_to_public_key(public)
        return isinstance(key.curve, ec.SECP384R1) and public_key_to_bytes(key) == public
    except Exception:  # cryptography has one for each thing that can be wrong with a foreign key
        return False


def channel_key(private: bytes, peer: bytes, secret: bytes = b"") -> bytes:
    """What two sites alone know.

    Parameters
    ----------
    private : bytes
        Of one of them.
    peer : bytes
        Public key of the other, as the fusion center says.
    secret : bytes
        What all sites share and the center does not know: with it the center gains nothing by handing out keys of its
        own, or by sites that it invents. May be empty.

    Raises
    ------
    MaskError
        If `peer` is no public key of this kind.
    """
    if not is_channel(peer):
        raise MaskError("a public key cannot be used")
    common = generate_shared_key(bytes_to_private_key(private), bytes_to_public_key(peer))
    return urlsafe_b64encode(HKDF(SHA256(), 32, salt=secret, info=_PURPOSE + b"channel").derive(common))


def sealed(key: bytes, plain: bytes) -> bytes:
    """Encrypted for the other holder of a channel's key."""
    return encrypt(key, plain)


def opened(key: bytes, token: bytes) -> bytes:
    """What `sealed` encrypted.

    Raises
    ------
    MaskError
        If it was encrypted with another key, or changed.
    """
    try:
        return decrypt(key, token)
    except InvalidToken:
        raise MaskError("a sealed share cannot be opened") from None


# -- seeds: shared out, put together, committed to --------------------------------------------------------------------


def new_seed() -> bytes:
    """A secret of 248 random bits."""
    return os.urandom(_SEED_BYTES)


def shares_of(seed: bytes, holders: int) -> list[bytes]:
    """One share for each of some holders, `threshold` of which tell the seed and fewer nothing."""
    return create_shares(seed, threshold(holders), holders)


def seed_of(shares: Sequence[bytes]) -> bytes:
    """The seed that as many shares as are needed tell.

    Raises
    ------
    MaskError
        If they do not fit together.
    """
    try:
        return combined(shares)
    except ValueError:
        raise MaskError("shares do not fit together") from None


def digest(*parts: bytes) -> bytes:
    """32 bytes that stand for some others; of a secret as long as these they tell nothing."""
    found = sha256(_PURPOSE)
    for part in parts:
        found.update(len(part).to_bytes(8, "little") + part)
    return found.digest()


def context(*words: object) -> bytes:
    """Which sum, and whose: what is derived or sealed for one is of no use for another."""
    return digest(*(str(word).encode() for word in words))


# -- masks ------------------------------------------------------------------------------------------------------------


def public_of(seed: bytes) -> bytes:
    """The public key of the masks that follow from a seed: 33 bytes."""
    return _private(seed).public_key().public_bytes(Encoding.X962, PublicFormat.CompressedPoint)


def check_public(public: bytes) -> None:
    """Refuse bytes that are no public key of masks.

    Raises
    ------
    MaskError
        If they are none.
    """
    try:
        ec.EllipticCurvePublicKey.from_encoded_point(_CURVE, public)
    except ValueError:
        raise MaskError("a public key cannot be used") from None


def pair_mask(seed: bytes, peer: bytes, context: bytes, size: int) -> UInt64[np.ndarray, "w"]:
    """The mask that two sites add and subtract: both derive it, each from its own seed and the other's public key.

    Parameters
    ----------
    seed : bytes
        Of one of them.
    peer : bytes
        Public key of the other, checked.
    context : bytes
        Which sum it is for, and whom of.
    size : int
        Words.
    """
    common = generate_shared_key(_private(seed), ec.EllipticCurvePublicKey.from_encoded_point(_CURVE, peer))
    return _expanded(common, b"pair" + context, size)


def own_mask(seed: bytes, context: bytes, size: int) -> UInt64[np.ndarray, "w"]:
    """The mask that a site adds on its own."""
    return _expanded(seed, b"own" + context, size)


def _private(seed: bytes) -> ec.EllipticCurvePrivateKey:
    # 16 bytes more than the order has: what is left of them is as good as uniform.
    number = int.from_bytes(HKDF(SHA256(), 48, salt=None, info=_PURPOSE + b"key").derive(seed), "big")
    return ec.derive_private_key(number % (_ORDER - 1) + 1, _CURVE)


def _expanded(secret: bytes, context: bytes, size: int) -> UInt64[np.ndarray, "w"]:
    """Uniform words: a keystream under a key of its own for every secret and context, so its nonce may be zero."""
    key = HKDF(SHA256(), 32, salt=None, info=_PURPOSE + context).derive(secret)
    stream = Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor().update(bytes(8 * size))
    return np.frombuffer(stream, "<u8").astype(np.uint64)
