"""The guard: a process of the site that answers asks in place of the code that a run brings.

Its operator starts it from the installed consilience, under a user of its own, who alone can read the data file. The
guard has the node configuration, and with it data, policy, commitments, budget, memory, models and ledger. A run's
ClientApp is only its messenger (`clients.messenger`) and reaches it by a Unix socket: the run's code can do no more
than ask.

One ask is answered at a time; others wait in the socket's queue.
"""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import socket
import stat
import struct
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from flwr.app import Context, RecordDict

from clients.commitments import MOST_RUNS
from clients.dispatch import answer_content
from clients.guard_wire import AskTooLargeError, GuardAsk, MalformedAskError, receive_ask, send_answer
from clients.policy import policy_of
from clients.shards import forget_shards
from common.files import lock
from protocols.wire.faults import Fault, SiteFault, usable_name
from protocols.wire.message import Answer, write_answer

logger = logging.getLogger("flwr")

NEEDED = ("site", "data", "site-output-dir")
"""Keys without which a guard does not start."""
_MEGABYTE = 10**6
_OVERHEAD = 1.05
"""Serialized records may exceed the size that ``max-ask-mb`` counts by this factor, and by a megabyte."""
_ASK_SECONDS = 60.0
"""Seconds for an ask to arrive, and for its answer to leave. Both ends are on this machine."""
_QUEUE = 128
_CREDENTIALS = struct.Struct("iII")
_PEER_GROUPS = 59
"""Linux's ``SO_PEERGROUPS``, for which Python has no name."""
_MOST_GROUP_BYTES = 1024


class GuardError(RuntimeError):
    """Error: a guard cannot start. The message is one line: why, and what to do."""


class Guard:
    """The guard of one site, a context manager: it listens while the block runs.

    Parameters
    ----------
    path : Path
        Path of the socket.
    node : Mapping
        The site's configuration, with the keys of `NEEDED`.
    group : int or None
        Number of a group whose processes may ask, besides those of the guard's own user.

    Raises
    ------
    GuardError
        If the configuration cannot be used, or another guard is up.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with Guard(folder / "socket", {"site": "north", "data": "ward.csv", "site-output-dir": str(folder)}) as guard:
    ...     guard.name
    'north'
    """

    def __init__(self, path: Path, node: Mapping[str, Any], group: int | None = None) -> None:
        self.path, self._node, self._group = path.expanduser().absolute(), dict(node), group
        self._states: OrderedDict[int, RecordDict] = OrderedDict()
        self._ends = contextlib.ExitStack()
        self._wake, self._woken = socket.socketpair()
        self._newest: tuple[int, dict[str, Any]] = (0, {})

    def __enter__(self) -> Self:
        with self._ends:
            self._check()
            self._ends.enter_context(_alone_in(self.directory))
            self._listener = _listen(self.path, self._group)
            self._ends.callback(self.path.unlink, missing_ok=True)
            self._ends.callback(self._listener.close)
            self._ends = self._ends.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()
        self._wake.close()
        self._woken.close()

    @property
    def name(self) -> str:
        """The site's name."""
        return str(self._node["site"])

    @property
    def directory(self) -> Path:
        """The site's own directory."""
        return Path(str(self._node["site-output-dir"])).expanduser().absolute()

    @property
    def exposed(self) -> list[str]:
        """Files and directories of the site that the guard does not protect, because other users can read them."""
        places = [str(self._node.get(key, "")) for key in ("data", "site-output-dir", "align-key-file")]
        paths = [Path(place).expanduser().absolute() for place in places if place]
        return [str(path) for path in paths if path.exists() and _is_open_to_others(path)]

    def stop(self) -> None:
        """Let `serve` return after the current ask."""
        self._wake.send(b"\0")

    def serve(self) -> None:
        """Answer asks until stopped."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while True:
                ready = [key.fileobj for key, _ in selector.select()]
                if self._woken in ready:
                    return
                self._serve_next()

    def _check(self) -> None:
        if not hasattr(socket, "AF_UNIX"):
            raise GuardError("guard: this system has no Unix sockets in Python; a guard needs Linux or macOS")
        for key in NEEDED:
            if not self._node.get(key):
                raise GuardError(f"guard: {key} is not set in --node-config; add {key}='...'")
        if not usable_name(self.name):
            raise GuardError(f"guard: site must have A-Z, a-z, digits, dot, hyphen and underscore, not {self.name!r}")
        try:
            policy_of(self._node, simulated=False)
        except SiteFault as error:
            raise GuardError(str(error)) from None

    # -- one ask ------------------------------------------------------------------------------------------------------

    def _serve_next(self) -> None:
        """Accept the next connection and answer its ask. No ask and no broken connection ends the guard."""
        try:
            connection, _ = self._listener.accept()
        except OSError as error:  # the messenger has left already, or too many files are open
            logger.error("guard of %s: %s", self.name, error)
            return
        with connection:
            try:
                if stranger := _stranger(connection, self._group):
                    logger.error("guard of %s: refused to hear %s", self.name, stranger)
                    return
                content = self._answer(connection)
                if content is not None:
                    connection.settimeout(_ASK_SECONDS)
                    send_answer(connection, content)
            except OSError as error:
                logger.error("guard of %s: the messenger is gone or silent: %s", self.name, error)
            except Exception:  # out of memory, for example
                logger.exception("guard of %s: an ask was lost", self.name)

    def _answer(self, connection: socket.socket) -> RecordDict | None:
        """Receive an ask and return its answer; None if the messenger has left."""
        try:
            limit = policy_of(self._node, simulated=False).max_ask_mb * _MEGABYTE
            ask = receive_ask(connection, limit * _OVERHEAD + _MEGABYTE, _ASK_SECONDS)
        except MalformedAskError as error:
            return self._refusal(Fault.MALFORMED_ASK, error)
        except AskTooLargeError as error:
            return self._refusal(Fault.ASK_TOO_LARGE, error)
        except SiteFault as error:  # the policy file has changed, and cannot be used now
            return self._refusal(error.fault, error)
        if ask is None or _is_closed(connection):
            return None
        return answer_content(ask.content, self._context(ask))

    def _refusal(self, fault: Fault, error: Exception) -> RecordDict:
        logger.error("guard of %s: %s: %s", self.name, fault.slug, error)
        return write_answer(Answer(self.name, 0, fault, ()))

    def _context(self, ask: GuardAsk) -> Context:
        """Return the guard's own context of a run; drop data read for another run, or memory would grow."""
        if (ask.run, ask.config) != self._newest:
            forget_shards()
            self._newest = (ask.run, ask.config)
        state = self._states.setdefault(ask.run, RecordDict())
        self._states.move_to_end(ask.run)
        while len(self._states) > MOST_RUNS:
            self._states.popitem(last=False)
        return Context(ask.run, 0, dict(self._node), state, ask.config)


@contextlib.contextmanager
def _alone_in(directory: Path) -> Iterator[None]:
    """Lock the site's own directory, in which one guard works at a time."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = (directory / "guard.lock").open("ab")
    except OSError as error:
        raise GuardError(f"guard: {directory} cannot be written to ({error.strerror})") from None
    with file:
        try:
            lock(file, wait=False)
        except BlockingIOError:
            raise GuardError(f"guard: another guard works in {directory}; end it first") from None
        yield


def _listen(path: Path, group: int | None) -> socket.socket:
    """Return a listening socket. The socket file that a killed guard has left is replaced."""
    if path.exists() or path.is_symlink():
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise GuardError(f"guard: {path} exists and is not a socket; give another path")
        if _has_listener(path):
            raise GuardError(f"guard: another guard listens at {path}; end it first, or give another path")
        path.unlink()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)  # nobody else connects before the group is set
    try:
        listener.bind(str(path))
        if group is not None:
            os.chown(path, -1, group)
            path.chmod(0o660)
        listener.listen(_QUEUE)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise GuardError(f"guard: cannot listen at {path}: {error.strerror or error}") from None
    finally:
        os.umask(before)
    return listener


def _has_listener(path: Path) -> bool:
    """Whether a process listens at a socket. A full queue counts, too."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True
        return True


def _is_open_to_others(path: Path) -> bool:
    """Whether other users than the owner can reach and read a file or directory."""
    return bool(path.stat().st_mode & 0o044) and all(folder.stat().st_mode & 0o011 for folder in path.parents)


def _stranger(connection: socket.socket, group: int | None) -> str:
    """Describe a process at the other end that is neither of this user nor in the group; else return an empty text.

    The socket's permissions keep such a process out, but may be changed by accident. Some systems do not tell the user.
    """
    if not hasattr(socket, "SO_PEERCRED"):
        return ""
    _, user, own_group = _CREDENTIALS.unpack(
        connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    )
    if user == os.getuid() or (group is not None and group in (own_group, *_peer_groups(connection))):
        return ""
    return f"a process of user {user}, who is neither this guard's user nor in its group"


def _peer_groups(connection: socket.socket) -> tuple[int, ...]:
    """Return the supplementary groups of the process at the other end."""
    try:
        data = connection.getsockopt(socket.SOL_SOCKET, _PEER_GROUPS, _MOST_GROUP_BYTES)
    except OSError:  # not Linux, or more than 256 groups
        return ()
    return struct.unpack(f"{len(data) // 4}I", data)


def _is_closed(connection: socket.socket) -> bool:
    """Whether the messenger has left while it waited."""
    connection.setblocking(False)
    try:
        return connection.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
