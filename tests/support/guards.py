"""Guards of real sites for tests, each in a thread of this process."""

from __future__ import annotations

import contextlib
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from clients.guard import Guard
from tests.support.fault_federations import Node


@contextlib.contextmanager
def listening(socket: Path, node: Node) -> Iterator[Guard]:
    """A guard that answers until the block ends."""
    with Guard(socket, node) as guard:
        thread = threading.Thread(target=guard.serve, daemon=True)
        thread.start()
        try:
            yield guard
        finally:
            guard.stop()
            thread.join(30)
            assert not thread.is_alive()


@contextlib.contextmanager
def guarded(nodes: Sequence[Node]) -> Iterator[list[Node]]:
    """The node configurations of SuperNodes whose sites have guards with these configurations."""
    with contextlib.ExitStack() as stack:
        # A path below pytest's own may be longer than a socket's can be.
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="guards-")))
        sockets = {str(node["site"]): folder / f"{place}.sock" for place, node in enumerate(nodes)}
        for node in nodes:
            stack.enter_context(listening(sockets[str(node["site"])], node))
        yield [{"guard": str(socket), "site": name} for name, socket in sockets.items()]
