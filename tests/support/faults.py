"""Sites in trouble: what can become of one site's asks, answers, memory and disk, over the in-process grid.

An injection is handed every ask to the victim of a `FaultyGrid` and says what arrives of its answer; all other sites
answer as they should. Trouble strikes in one round, or from that round on.
"""

from __future__ import annotations

import builtins
import contextlib
import io
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Context, Error, Message, RecordDict

import clients.dispatch
from protocols.bc3e.payloads import Tally
from protocols.sec.payloads import Losses
from protocols.wire.message import ENVELOPE, Answer, Parcel, write_answer
from protocols.wire.payload import Payload, encode_array
from tests.support.payloads import example
from tests.support.runs import InterruptibleGrid
from tests.support.tampering import CANARY, parcels_of, with_content

MEGABYTE = 10**6
LOST_NODE = 5
"""Flower's error code (`flwr.common.constant.ErrorCode`) for a SuperNode that the SuperLink has lost."""
_SUPERLINK = 1
"""The node id in whose name the SuperLink says so."""


class FaultyGrid(InterruptibleGrid):
    """The in-process grid with some sites in trouble.

    Attributes
    ----------
    victims : tuple of int
        Their places.
    injection : Callable or None
        What arrives of their answers.
    rounds : int
        Number of the newest round.
    held : list of (int, Message)
        Replies that come with those of a later round than this.
    """

    victims: tuple[int, ...] = ()
    injection: Injection | None = None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.held: list[tuple[int, Message]] = []
        self.rounds = 0
        self._asks: Counter[tuple[int, int]] = Counter()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        messages = list(messages)
        self.rounds = max(int(message.metadata.group_id) for message in messages)
        return super().push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        late = [reply for number, reply in self.held if number < self.rounds]
        self.held = [each for each in self.held if each[0] >= self.rounds]
        return [*super().pull_messages(message_ids), *late]

    def answer(self, node: int, asked: Message) -> Message | None:
        place, number = (node - 1000) // 7, int(asked.metadata.group_id)
        if self.injection is None or place not in self.victims:
            return super().answer(node, asked)
        self._asks[place, number] += 1

        def answering() -> Message:
            reply = super(FaultyGrid, self).answer(node, asked)
            assert reply is not None
            return reply

        return self.injection(Delivery(self, node, number, self._asks[place, number], asked, answering))


@dataclass
class Delivery:
    """An ask to a site in trouble.

    Attributes
    ----------
    node : int
        The site's node id.
    round : int
        Of the ask; 0 for a greeting.
    turn : int
        1 for the first ask to the site in this round, 2 for the second.
    message : Message
        As it arrives at the site.
    answer : Callable
        Has the site answer; returns the reply.
    """

    grid: FaultyGrid
    node: int
    round: int
    turn: int
    message: Message
    answer: Callable[[], Message]

    @property
    def context(self) -> Context:
        """What Flower keeps for the site."""
        return self.grid.contexts[self.node]

    @property
    def home(self) -> Path | None:
        """The site's own directory."""
        home = self.context.node_config.get("site-output-dir")
        return None if home is None else Path(str(home))

    def restart(self) -> None:
        """The SuperNode is started anew: under another node id, and with nothing in Flower's context."""
        old = self.grid.contexts.pop(self.node)
        node = self.node + 1
        self.grid.contexts[node] = Context(old.run_id, node, old.node_config, RecordDict(), old.run_config)

    def lost(self) -> Message:
        """What the SuperLink says of the ask when it has lost the SuperNode."""
        reply = Message(Error(code=LOST_NODE, reason=CANARY), reply_to=self.message)
        reply.metadata.__dict__["_src_node_id"] = _SUPERLINK
        return reply


Injection = Callable[[Delivery], Message | None]
"""What arrives of a site's answer; None: nothing does."""
At = Callable[[int], Injection]
"""``at(number)``: the injection of trouble that strikes in round `number`, or from it on."""


def once(trouble: Injection) -> At:
    """Trouble with the first ask of the round in which it strikes."""

    def at(number: int) -> Injection:
        return lambda asked: trouble(asked) if (asked.round, asked.turn) == (number, 1) else asked.answer()

    return at


def ever(trouble: Injection) -> At:
    """Trouble with every ask from the round in which it strikes."""
    return lambda number: lambda asked: trouble(asked) if asked.round >= number else asked.answer()


def after(trouble: Callable[[Delivery], None]) -> At:
    """Trouble between the answer to the round before and the ask of the round in which it strikes."""

    def at(number: int) -> Injection:
        def injection(asked: Delivery) -> Message:
            reply = asked.answer()
            if asked.round == number - 1:
                trouble(asked)
            return reply

        return injection

    return at


# -- answers that do not come -----------------------------------------------------------------------------------------


def no_ask(asked: Delivery) -> None:
    """The ask does not reach the site."""


def no_answer(asked: Delivery) -> None:
    """The site answers, and the answer is lost."""
    asked.answer()


def late(asked: Delivery) -> None:
    """The answer comes with those of the next round."""
    asked.grid.held.append((asked.round, asked.answer()))


def earlier(number: int) -> Injection:
    """In round `number`, the site's answer to the ask before comes once more."""
    said: list[RecordDict] = []

    def injection(asked: Delivery) -> Message:
        reply = asked.answer()
        if asked.round == number:
            return with_content(reply, said[-1])
        said.append(reply.content)
        return reply

    return injection


# -- sites that end ---------------------------------------------------------------------------------------------------


def dies_before(asked: Delivery) -> Message:
    """It is killed when it has done nothing of the ask yet, and started again."""
    asked.restart()
    return asked.lost()


def dies_behind(asked: Delivery) -> Message:
    """It is killed when it has done everything but answer, and started again."""
    asked.answer()
    asked.restart()
    return asked.lost()


def raises(asked: Delivery) -> Message:
    """An exception whose text must not travel."""

    def handler_of(ask: type[Payload]) -> clients.dispatch.Handler:
        def handler(payload: Any, at: Any) -> Payload:
            raise RuntimeError(CANARY)

        return handler

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clients.dispatch, "handler_of", handler_of)
        return asked.answer()


def forgets(asked: Delivery) -> None:
    """It is started anew, on a machine with an empty disk."""
    if asked.home is not None:
        shutil.rmtree(asked.home, ignore_errors=True)
    asked.restart()


def newcomer(asked: Delivery) -> None:
    """Another site is connected, with the same rows."""
    old, node = asked.context, 1 + max(asked.grid.contexts)
    config = {**old.node_config, "site": "newcomer"}
    asked.grid.contexts[node] = Context(old.run_id, node, config, RecordDict(), old.run_config)


def full(asked: Delivery) -> Message:
    """The disk of its own directory is full."""
    assert asked.home is not None
    with full_disk(asked.home):
        return asked.answer()


@contextlib.contextmanager
def full_disk(folder: Path) -> Iterator[None]:
    """Files in `folder` can be made and read, and not be written: what is written goes to ``/dev/full``.

    The operating system itself then says that no space is left, when it would: at the first flush.
    """
    really = io.open

    def opened(file: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
        found = really(file, mode, *args, **options)
        # A lock is opened and never written. As /dev/full, all locks of a machine would be one.
        written = isinstance(file, str | Path) and set(mode) & set("wax+") and Path(file).name != "lock"
        if written and Path(file).absolute().is_relative_to(folder.absolute()):
            no_space = os.open("/dev/full", os.O_WRONLY)
            os.dup2(no_space, found.fileno())
            os.close(no_space)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(io, "open", opened)
        patch.setattr(builtins, "open", opened)
        yield


# -- answers that are wrong -------------------------------------------------------------------------------------------


def not_a_number(asked: Delivery) -> Message:
    """All numbers of the answer's first array are NaN, also where its payload has whole numbers."""
    reply = asked.answer()
    arrays: Any = reply.content.array_records["0.arrays"]
    name = next(iter(arrays))
    arrays[name] = encode_array(np.full(arrays[name].shape, np.nan))
    return reply


def foreign(asked: Delivery) -> Message:
    """A well-formed answer of another protocol."""
    reply = asked.answer()
    envelope: Any = reply.content.config_records[ENVELOPE]
    answered = parcels_of(reply.content)
    other = example(Tally if answered[0].title().startswith("sec.") else Losses)
    answer = Answer(envelope["site"], envelope["round"], 0, [Parcel("0", other) for _ in answered])
    return with_content(reply, write_answer(answer))


def huge(asked: Delivery) -> Message:
    """A field that nobody asked for, of two megabytes."""
    reply = asked.answer()
    reply.content.array_records["0.arrays"]["more"] = encode_array(np.zeros(2 * MEGABYTE, np.uint8))
    return reply


def no_envelope(asked: Delivery) -> Message:
    """The answer does not say whose it is, nor to what."""
    reply = asked.answer()
    del reply.content[ENVELOPE]
    return reply


def renamed(asked: Delivery) -> Message:
    """It calls itself as no site does."""
    asked.context.node_config["site"] = "nobody"
    return asked.answer()


def impostor(asked: Delivery) -> Message:
    """It calls itself as another site does."""
    others = [context for node, context in asked.grid.contexts.items() if node != asked.node]
    asked.context.node_config["site"] = others[0].node_config["site"]
    return asked.answer()
