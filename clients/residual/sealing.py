"""End-to-end encryption between sites whose messages the fusion center relays.

X25519 for a key that only two sites know, HKDF-SHA256 to derive from it, ChaCha20-Poly1305 to encrypt. The center hands
the sites each other's public keys and could hand them its own instead; where the sites share a secret
(``align-key-file``) that gains it nothing, because the secret enters the derived key.
"""

from __future__ import annotations

import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

KEY_BYTES = 32
"""Size of a private or public key."""

NONCE_BYTES, TAG_BYTES = 12, 16
"""Sizes of what `seal` adds before and after the ciphertext."""

_PURPOSE = b"consilience: sealed from site to site, 1"


class SealError(ValueError):
    """A payload that cannot be sealed or opened. The message is fixed, and does not tell the cause."""

    def __init__(self) -> None:
        super().__init__("the seal does not fit: other keys, another secret, another context, or changed on its way")


def new_private_key() -> bytes:
    """Return a new X25519 private key: 32 random bytes, for one run."""
    return X25519PrivateKey.generate().private_bytes_raw()


def public_key_of(private: bytes) -> bytes:
    """Return the public key, 32 bytes, by which others seal for the owner of `private`."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def seal(plain: bytes, *, private: bytes, peer: bytes, secret: bytes, context: bytes) -> bytes:
    """Encrypt for one site.

    Parameters
    ----------
    plain : bytes
        Bytes to encrypt.
    private : bytes
        The sender's private key.
    peer : bytes
        The receiver's public key.
    secret : bytes
        Secret that the sites share and the center does not know; may be empty.
    context : bytes
        Session, round, lane, sender and receiver. It is not sent. Bytes sealed in one context cannot be opened in
        another: they can be neither replayed nor delivered to another site.

    Returns
    -------
    bytes
        Nonce, ciphertext and tag: 28 bytes more than `plain`.

    Raises
    ------
    SealError
        If `peer` is no usable public key.

    Examples
    --------
    >>> bank, shop = new_private_key(), new_private_key()
    >>> body = seal(b"residual", private=bank, peer=public_key_of(shop), secret=b"s", context=b"round 1")
    >>> unseal(body, private=shop, peer=public_key_of(bank), secret=b"s", context=b"round 1")
    b'residual'
    """
    key = _derive(private, peer, secret, public_key_of(private) + peer)
    nonce = os.urandom(NONCE_BYTES)
    return nonce + ChaCha20Poly1305(key).encrypt(nonce, plain, context)


def unseal(body: bytes, *, private: bytes, peer: bytes, secret: bytes, context: bytes) -> bytes:
    """Decrypt bytes of `seal`.

    Parameters
    ----------
    body : bytes
        Bytes from `seal`.
    private : bytes
        The receiver's private key.
    peer : bytes
        The sender's public key.
    secret, context
        As of the sender.

    Raises
    ------
    SealError
        If anything differs from what the sender used.
    """
    key = _derive(private, peer, secret, peer + public_key_of(private))
    if len(body) < NONCE_BYTES + TAG_BYTES:
        raise SealError
    try:
        return ChaCha20Poly1305(key).decrypt(body[:NONCE_BYTES], body[NONCE_BYTES:], context)
    except InvalidTag:
        raise SealError from None


def _derive(private: bytes, peer: bytes, secret: bytes, public_keys: bytes) -> bytes:
    """Return the key of one direction; `public_keys`: the sender's, then the receiver's."""
    try:
        common = X25519PrivateKey.from_private_bytes(private).exchange(X25519PublicKey.from_public_bytes(peer))
    except ValueError:  # wrong length, or a point of low order, with which all have the same common key
        raise SealError from None
    return HKDF(SHA256(), KEY_BYTES, salt=secret, info=_PURPOSE + public_keys).derive(common)
