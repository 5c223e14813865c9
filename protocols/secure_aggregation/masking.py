"""The cryptography of masked sums, for both sides (Bonawitz et al. 2017, docs/secure-aggregation.md).

Flower's SecAgg+ building blocks agree on keys, encrypt, and share secrets. Its mask expansion is not used: it seeds
NumPy's Mersenne Twister with 32 bits, which a computer can try out in minutes. Masks are ChaCha20 keystreams.
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

from protocols.secure_aggregation.shamir import combine
from protocols.wire.payload import Payload

SHARE_BYTES = 36
"""Bytes of a share of a seed: its number, and two blocks of 16 bytes."""
PUBLIC_BYTES = 33
"""Bytes of a mask's public key: a compressed point."""
DIGEST_BYTES = 32
SEALED_BYTES = 228
"""Bytes of a digest and two shares, encrypted."""
FEWEST_SITES = 3
"""Fewest sites of a sum: of a sum over two, each could compute the other's answer."""
MOST_SITES = 500
"""Most sites of a sum: sharing secrets takes a site quadratic time, some 7 s for this number."""

_SEED_BYTES = 31  # Flower pads a secret to whole blocks of 16 bytes, by one byte at least
_CURVE, _ORDER = ec.SECP256R1(), 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_PURPOSE = b"consilience: masked sums, 1: "


class MaskError(ValueError):
    """Error: a key, a share or a sealed text cannot be used. The message contains no part of it."""


def threshold(holders: int) -> int:
    """Return how many of the holders' shares reconstruct a secret: more than two thirds.

    More than half are necessary: else the fusion center could tell one half of the sites that a site is missing and the
    other half that it answered, and so learn both its secrets. With more than two thirds it cannot even if up to a
    third of the sites collude with it.

    Examples
    --------
    >>> threshold(10)
    7
    """
    return 2 * holders // 3 + 1


def enough(present: int, holders: int) -> bool:
    """Return whether so many holders of shares can reveal a sum.

    Examples
    --------
    >>> enough(7, holders=10), enough(6, holders=10)
    (True, False)
    """
    return present >= max(FEWEST_SITES, threshold(holders))


# -- channels: what one site sends another, through the fusion center -------------------------------------------------


def new_channel() -> tuple[bytes, bytes]:
    """Return a private key and its public key, by which sites encrypt for each other."""
    private, public = generate_key_pairs()
    return private_key_to_bytes(private), public_key_to_bytes(public)


def public_of_channel(private: bytes) -> bytes:
    """Return the public key of a private one."""
    return public_key_to_bytes(bytes_to_private_key(private).public_key())


def is_channel(public: bytes) -> bool:
    """Return whether these bytes are a public key as `new_channel` makes them."""
    try:
        key = bytes_to_public_key(public)
        return isinstance(key.curve, ec.SECP384R1) and public_key_to_bytes(key) == public
    except Exception:  # cryptography has one for each thing that can be wrong with a foreign key
        return False


def channel_key(private: bytes, peer: bytes, secret: bytes = b"") -> bytes:
    """Return the key that two sites alone know.

    Parameters
    ----------
    private : bytes
        Private key of one of them.
    peer : bytes
        Public key of the other, as the fusion center sent it.
    secret : bytes
        Secret that all sites share and the center does not know. With it the center gains nothing by keys of its own,
        or by invented sites. May be empty.

    Raises
    ------
    MaskError
        If `peer` is no public key of this kind.
    """
    if not is_channel(peer):
        raise MaskError("a public key cannot be used")
    common = generate_shared_key(bytes_to_private_key(private), bytes_to_public_key(peer))
    return urlsafe_b64encode(HKDF(SHA256(), 32, salt=secret, info=_PURPOSE + b"channel").derive(common))


def seal(key: bytes, plain: bytes) -> bytes:
    """Encrypt for the other site of a channel.

    Examples
    --------
    >>> (bank, bank_public), (shop, shop_public) = new_channel(), new_channel()
    >>> token = seal(channel_key(bank, shop_public), b"share")
    >>> unseal(channel_key(shop, bank_public), token)
    b'share'
    """
    return encrypt(key, plain)


def unseal(key: bytes, token: bytes) -> bytes:
    """Decrypt a text of `seal`.

    Raises
    ------
    MaskError
        If it was encrypted with another key, or changed.
    """
    try:
        return decrypt(key, token)
    except InvalidToken:
        raise MaskError("a sealed share cannot be opened") from None


# -- seeds: their shares, reconstruction and digests ------------------------------------------------------------------


def new_seed() -> bytes:
    """Return a secret of 248 random bits."""
    return os.urandom(_SEED_BYTES)


def shares_of(seed: bytes, holders: int) -> list[bytes]:
    """Return one share for each holder; `threshold` of them reconstruct the seed, and fewer reveal nothing."""
    return create_shares(seed, threshold(holders), holders)


def seed_of(shares: Sequence[bytes]) -> bytes:
    """Reconstruct a seed from exactly as many shares as are needed.

    Raises
    ------
    MaskError
        If they do not fit together.

    Examples
    --------
    >>> seed = new_seed()
    >>> seed_of(shares_of(seed, holders=4)[1:]) == seed
    True
    """
    try:
        return combine(shares)
    except ValueError:
        raise MaskError("shares do not fit together") from None


def digest(*parts: bytes) -> bytes:
    """Return a digest of 32 bytes; that of a secret as long as a seed reveals nothing of it."""
    hashed = sha256(_PURPOSE)
    for part in parts:
        hashed.update(len(part).to_bytes(8, "little") + part)
    return hashed.digest()


def context(*words: object) -> bytes:
    """Return a digest of the words that name a sum and its sites: keys derived for one sum do not fit another."""
    return digest(*(str(word).encode() for word in words))


def words_of_ask(kind: type[Payload], body: bytes) -> tuple[str, ...]:
    """Return what an ask adds to the context of its masks: its digest, if all sites of the sum get the same ask."""
    return (digest(kind.title().encode(), body).hex(),) if kind.alike else ()


# -- masks ------------------------------------------------------------------------------------------------------------


def public_of(seed: bytes) -> bytes:
    """Return the public key of the masks of a seed: 33 bytes."""
    return _private(seed).public_key().public_bytes(Encoding.X962, PublicFormat.CompressedPoint)


def check_public(public: bytes) -> None:
    """Refuse bytes that are not a public key of masks.

    Raises
    ------
    MaskError
        If they are not.
    """
    try:
        ec.EllipticCurvePublicKey.from_encoded_point(_CURVE, public)
    except ValueError:
        raise MaskError("a public key cannot be used") from None


def pair_mask(seed: bytes, peer: bytes, context: bytes, size: int) -> UInt64[np.ndarray, "w"]:
    """Return a pairwise mask: one site adds it, the other subtracts it.

    Both derive it, each from its own seed and the other's public key.

    Parameters
    ----------
    seed : bytes
        Seed of one site.
    peer : bytes
        Public key of the other, checked.
    context : bytes
        Which sum it is for, and of which sites.
    size : int
        Number of words.

    Examples
    --------
    >>> bank, shop = new_seed(), new_seed()
    >>> one = pair_mask(bank, public_of(shop), context("sum", 1, "bank", "shop"), size=3)
    >>> other = pair_mask(shop, public_of(bank), context("sum", 1, "bank", "shop"), size=3)
    >>> (one - other).tolist()
    [0, 0, 0]
    """
    common = generate_shared_key(_private(seed), ec.EllipticCurvePublicKey.from_encoded_point(_CURVE, peer))
    return _expand(common, b"pair" + context, size)


def own_mask(seed: bytes, context: bytes, size: int) -> UInt64[np.ndarray, "w"]:
    """Return the mask that a site adds on its own."""
    return _expand(seed, b"own" + context, size)


def _private(seed: bytes) -> ec.EllipticCurvePrivateKey:
    # 16 bytes more than the order has: the remainder is as good as uniform.
    number = int.from_bytes(HKDF(SHA256(), 48, salt=None, info=_PURPOSE + b"key").derive(seed), "big")
    return ec.derive_private_key(number % (_ORDER - 1) + 1, _CURVE)


def _expand(secret: bytes, context: bytes, size: int) -> UInt64[np.ndarray, "w"]:
    """Return uniform words: a keystream under a key for each secret and context, so that its nonce may be zero."""
    key = HKDF(SHA256(), 32, salt=None, info=_PURPOSE + context).derive(secret)
    stream = Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor().update(bytes(8 * size))
    return np.frombuffer(stream, "<u8").astype(np.uint64)
