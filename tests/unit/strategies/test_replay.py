"""Whether an ask of a resumed run is that of the interrupted one, and from which round on sites are asked anew."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from flwr.app import RecordDict

from protocols.bc3e.payloads import EStep, Holdings, Survey
from protocols.secure_aggregation.payloads import Hide
from protocols.wire.message import Answer, Ask, Parcel, write_answer, write_ask
from protocols.wire.packing import pack
from protocols.wire.payload import Payload
from strategies.checkpoint import Checkpoint, SavedRound
from strategies.conversation import Broadcast, Conversation
from strategies.replay import same_ask
from strategies.run import ConversationRun
from tests.support.payloads import example

DIGIT = 1 + 1e-13
STEP = replace(example(EStep), alpha=np.array([1.0, 1e-9, 0.5]), tolerance=1e-6)
CLOSE = [
    replace(STEP, alpha=STEP.alpha * DIGIT),
    replace(STEP, alpha=STEP.alpha + np.array([0, 1e-14, 0])),
    replace(STEP, tolerance=STEP.tolerance * DIGIT),
]
FAR = [
    replace(STEP, alpha=STEP.alpha * (1 + 1e-8)),
    replace(STEP, weights=np.append(STEP.weights, 0.0)),
    replace(STEP, max_sweeps=STEP.max_sweeps + 1),
    replace(STEP, clusterings=(*STEP.clusterings, "z")),
]


def ask(payload: Payload, lane: str = "0") -> RecordDict:
    return write_ask(Ask("s", 2, 0, [Parcel(lane, payload)]))


def hidden(payload: Payload) -> Hide:
    return replace(example(Hide), inner=payload.title(), ask=np.frombuffer(pack(payload), np.uint8))


@pytest.mark.parametrize("wrap", [ask, lambda payload: ask(hidden(payload))], ids=["plain", "masked"])
def test_rounding_is_no_other_ask(wrap: Callable[[Payload], RecordDict]) -> None:
    assert same_ask(wrap(STEP), wrap(replace(STEP)))
    assert all(same_ask(wrap(STEP), wrap(close)) for close in CLOSE)
    assert not any(same_ask(wrap(STEP), wrap(far)) for far in FAR)
    assert not same_ask(ask(STEP), ask(STEP, lane="1"))
    assert not same_ask(ask(STEP), ask(Survey("row", "salt")))


def test_bytes_that_are_no_payload_are_equal_or_others() -> None:
    one = example(Hide)
    other = replace(one, ask=np.append(one.ask, np.uint8(0)))
    assert same_ask(ask(one), ask(replace(one)))
    assert not same_ask(ask(one), ask(other))


def begin(salts: list[str], folder: Path) -> ConversationRun:
    def conversation() -> Conversation[dict[str, int]]:
        for salt in salts:
            yield Broadcast(Survey("row", salt))
        return {"rounds": len(salts)}

    return ConversationRun(conversation(), session="s", seed=0, min_sites=1, checkpoint=Checkpoint(folder, {}, "s"))


def test_sites_are_asked_anew_from_the_first_other_ask_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its answer, and what followed from it, belong to another run."""
    checkpoint = Checkpoint(tmp_path, {}, "s")
    for number, salt in enumerate("abcd", 1):
        sent = write_ask(Ask("s", number, 0, [Parcel("", Survey("row", salt))]))
        answer = write_answer(Answer("east", number, 0, [Parcel("", example(Holdings))]))
        checkpoint.save(SavedRound(number, {"east": sent}, {"east": answer}))
    with caplog.at_level(logging.INFO, "flwr"):
        assert begin(list("abc"), tmp_path).replay() == 3
        assert "asked anew" not in caplog.text
        assert begin(list("abxd"), tmp_path).replay() == 2
    assert "round 3: the asks are not those of the interrupted run" in caplog.text
    assert [saved.number for saved in checkpoint.rounds()] == [1, 2]
