"""Messages on the wire: written as the bytes of Flower's protocol, and read again."""

from __future__ import annotations

from flwr.app import Message
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.message_pb2 import Message as ProtoMessage


def pack(message: Message) -> bytes:
    """Write a message as bytes, at most 2 GB of them."""
    packed: bytes = message_to_proto(message).SerializeToString()
    return packed


def unpack(packed: bytes, name: str = "") -> Message:
    """Read a message; `name`: as the grid calls the ask."""
    message = message_from_proto(ProtoMessage.FromString(packed))
    if name:
        message.metadata.__dict__["_message_id"] = name
    return message


def over_the_wire(message: Message, name: str = "") -> Message:
    """Return the message as it arrives."""
    return unpack(pack(message), name)
