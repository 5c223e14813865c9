"""Messages as they cross: made bytes and read back, as Flower's own serialization does."""

from __future__ import annotations

from flwr.app import Message
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.message_pb2 import Message as ProtoMessage


def pack(message: Message) -> bytes:
    """Return a message as bytes."""
    packed: bytes = message_to_proto(message).SerializeToString()
    return packed


def unpack(packed: bytes, name: str = "") -> Message:
    """Return the message of some bytes; `name`: as the grid calls the ask."""
    message = message_from_proto(ProtoMessage.FromString(packed))
    if name:
        message.metadata.__dict__["_message_id"] = name
    return message


def over_the_wire(message: Message, name: str = "") -> Message:
    """Return the message as it arrives."""
    return unpack(pack(message), name)
