"""The ClientApp: the only place of a site that knows Flower's messages."""

from __future__ import annotations

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from clients.dispatch import handle

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Answer the fusion center's ask."""
    return handle(message, context)
