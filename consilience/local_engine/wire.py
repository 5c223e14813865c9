"""Messages on the wire: packed into bytes and unpacked again, as Flower does."""

from __future__ import annotations

from dataclasses import dataclass

from flwr.app import Message
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, no_object_id_recompute
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents


@dataclass(frozen=True)
class PackedMessage:
    """A message as bytes.

    Attributes
    ----------
    identity : str
        Flower's name of the message as an object.
    objects : dict of bytes
        The message and all its parts, by their names as objects.
    """

    identity: str
    objects: dict[str, bytes]


def pack(message: Message) -> PackedMessage:
    """Take a message apart."""
    with no_object_id_recompute():  # as Flower's own grid; else every part would be taken apart once a level above it
        objects = get_all_nested_objects(message)
        return PackedMessage(message.object_id, {identity: each.deflate() for identity, each in objects.items()})


def unpack(packed: PackedMessage, name: str = "") -> Message:
    """Put a message together; `name`: as the grid calls the ask."""
    with no_object_id_recompute():
        message = inflate_object_from_contents(packed.identity, packed.objects)
    assert isinstance(message, Message)  # noqa: S101 - packed by pack
    if name:
        message.metadata.__dict__["_message_id"] = name
    return message


def over_the_wire(message: Message, name: str = "") -> Message:
    """Return the message as it arrives."""
    return unpack(pack(message), name)
