"""End-to-end encryption between sites whose messages the fusion center relays.

X25519 for a key that only two sites know, HKDF-SHA256 to derive from it, ChaCha20-Poly1305 to encrypt. The center hands
the sites each other's public keys and could hand them its own instead; where the sites share a secret
(``align-key-file``) that gains it nothing, because the secret enters the derived key.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from jaxtyping import UInt8

from clients.keys import shared_secret
from clients.site import Site
from protocols.residual.payloads import Order
from protocols.wire.faults import Fault, SiteFault
from protocols.wire.packing import pack, unpack
from protocols.wire.payload import Payload, PayloadError

KEY_BYTES = 32
"""Size of a private or public key."""

NONCE_BYTES, TAG_BYTES = 12, 16
"""Sizes of what `seal` adds before and after the ciphertext."""

_PRIVATE, _NAMES, _KEYS = "private-key", "others", "public-keys"
"""Names in the memory of a site."""

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


# -- keys -------------------------------------------------------------------------------------------------------------


def new_key(site: Site) -> UInt8[np.ndarray, "32"]:
    """Make the site's key pair of this run, and return the public key.

    Raises
    ------
    SiteFault
        If a real site shares no secret with the others: the center could distribute keys of its own, and read all.
    """
    if site.replaying:  # the others know the key that is lost, and seal for it
        raise SiteFault(Fault.STALE_MEMORY, "the keys of the run are lost, and cannot be made anew in its midst")
    if site.has_private_rows and not shared_secret(site.config):
        raise SiteFault(Fault.NO_SECRET)
    private = new_private_key()
    site.memory[_PRIVATE] = np.frombuffer(private, np.uint8)
    return np.frombuffer(public_key_of(private), np.uint8)


def check_order(site: Site, order: Order) -> None:
    """Check that the site takes part in a run of this kind."""
    if not order.names and site.config.get("sealed-only", False):
        raise SiteFault(Fault.SEALED_ONLY)
    if not site.commitments.allows_lane(site.lane):
        raise SiteFault(Fault.MALFORMED_ASK, "a run has one repetition: sums over other rows would tell of single ones")


def remember_keys(site: Site, order: Order) -> None:
    """Store the name of the holder of the outcome, and the others' public keys."""
    if order.names:
        site.memory[_NAMES] = np.frombuffer(json.dumps([order.holder, *order.names]).encode(), np.uint8)
        for place, key in enumerate(order.public_keys):
            site.memory[f"{_KEYS}/{place}"] = key


@dataclass(frozen=True)
class Seals:
    """Encryption between this site and the others of the run.

    Attributes
    ----------
    site : Site
        This site.
    private : bytes
        Its private key.
    secret : bytes
        Secret that the sites share; may be empty.
    holder : str
        The site that holds the outcome; empty: the fusion center.
    peers : Mapping[str, bytes]
        Public key of each site.
    """

    site: Site
    private: bytes
    secret: bytes
    holder: str
    peers: Mapping[str, bytes]

    @classmethod
    def of(cls, site: Site) -> Seals:
        """Read the keys of the run from the site's memory."""
        memory = site.memory
        if _PRIVATE not in memory or _NAMES not in memory:
            raise SiteFault(Fault.STALE_MEMORY, "the keys of the run are not in the memory")
        holder, *names = json.loads(memory[_NAMES].tobytes())
        peers = {name: memory[f"{_KEYS}/{place}"].tobytes() for place, name in enumerate(names)}
        return cls(site, memory[_PRIVATE].tobytes(), shared_secret(site.config), holder, peers)

    def _context(self, sender: str, receiver: str, number: int) -> bytes:
        # The holder is part of it: sites to which the center names different holders cannot open each other's payloads.
        return json.dumps([self.site.session, self.site.lane, number, sender, receiver, self.holder]).encode()

    def _peer(self, name: str) -> bytes:
        if name not in self.peers:
            raise SiteFault(Fault.MALFORMED_ASK, f"there is no key of {name!r}")
        return self.peers[name]

    def close(self, payload: Payload, receiver: str) -> UInt8[np.ndarray, "bytes"]:
        """Seal a payload for one site, which opens it in the next round."""
        context = self._context(self.site.name, receiver, self.site.round)
        try:
            body = seal(
                pack(payload), private=self.private, peer=self._peer(receiver), secret=self.secret, context=context
            )
        except SealError as error:
            raise SiteFault(Fault.BROKEN_SEAL, f"{receiver}: {error}") from error
        return np.frombuffer(body, np.uint8)

    def open(self, body: UInt8[np.ndarray, "bytes"], sender: str, *allowed: type[Payload]) -> Payload:
        """Open a payload of one of these classes that another site sealed for this one in the round before."""
        context = self._context(sender, self.site.name, self.site.round - 1)
        try:
            plain = unseal(
                body.tobytes(), private=self.private, peer=self._peer(sender), secret=self.secret, context=context
            )
            return unpack(plain, *allowed)
        except SealError as error:
            raise SiteFault(Fault.BROKEN_SEAL, f"{sender}: {error}") from error
        except PayloadError as error:
            raise SiteFault(Fault.MALFORMED_ASK, f"{sender}: {error}") from error
