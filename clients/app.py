"""The ClientApp: the only place of a site that knows Flower's messages."""

from __future__ import annotations

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp

from clients.messenger import handle

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Answer the fusion center's ask."""
    return handle(message, context)


@app.query("start")
def start(message: Message, context: Context) -> Message:
    """Return an empty answer: a simulation starts its processes with this message. A real site refuses it."""
    from clients.places import is_simulation

    if not is_simulation(context):
        raise ValueError("a process of a real site is not started by a message of its own")
    return Message(RecordDict(), reply_to=message)
