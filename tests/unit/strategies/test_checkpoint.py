"""Checkpoints: what was received comes back as it came, or the run is told in one line why it cannot go on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from hypothesis import given
from hypothesis import strategies as st

import strategies.checkpoint
from common.files import replacing
from protocols.bc3e.payloads import EStep, Statistics
from protocols.wire.message import Answer, Ask, Parcel, read_answer, write_answer, write_ask
from protocols.wire.payload import RAW, Payload
from strategies.checkpoint import Checkpoint, CheckpointError, SavedRound
from tests.support.examples import examples
from tests.support.payloads import CLASSES, example, payloads, same

IDENTITY = {"scenario": "bc3e-wine", "seed": 3, "bc3e.tolerance": 1e-6, "bc3e.accelerate": True, "sites": 2}


def opened(folder: Path, session: str = "1", **changes: Any) -> Checkpoint:
    return Checkpoint(folder, {**IDENTITY, **changes}, session)


def answer(number: int, *payloads: Payload, site: str = "a") -> RecordDict:
    return write_answer(Answer(site, number, 0, [Parcel("0", payload) for payload in payloads]))


def asks(*sites: str) -> dict[str, RecordDict]:
    """The same ask of every site."""
    return dict.fromkeys(sites, write_ask(Ask("1", 1, 0, [Parcel("0", example(EStep))])))


def statistics(value: int) -> Statistics:
    return Statistics(value, (np.full((2, 3), value),), np.full(2, value), value)


def with_rounds(folder: Path, count: int) -> Checkpoint:
    checkpoint = opened(folder)
    for number in range(1, count + 1):
        checkpoint.save(SavedRound(number, asks("a"), {"a": answer(number, statistics(number))}))
    return checkpoint


def numbers(checkpoint: Checkpoint) -> list[int]:
    return [saved.number for saved in checkpoint.rounds()]


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def plain(content: RecordDict) -> dict[str, Any]:
    """Every record of a message with all that it holds."""
    return {
        name: [(key, each.dtype, each.shape, each.stype, each.data) for key, each in record.items()]
        if isinstance(record, ArrayRecord)
        else (type(record), record.deflate())
        for name, record in content.items()
    }


# -- there and back ---------------------------------------------------------------------------------------------------


@examples(30)
@given(data=st.data())
def test_answers_come_back_bit_for_bit(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("run") / "checkpoint"
    names = data.draw(st.lists(st.from_regex(r"\A[A-Za-z0-9._-]{1,64}\Z"), unique=True, max_size=3))
    sent = {site: data.draw(payloads(data.draw(st.sampled_from(CLASSES)))) for site in names}
    failures = data.draw(st.dictionaries(st.text(max_size=5), st.text(max_size=20), max_size=2))
    contents = {site: answer(1, payload, site=site) for site, payload in sent.items()}
    saved = SavedRound(1, asks(*names), contents, failures)
    opened(folder).save(saved)

    (back,) = opened(folder, session="2").rounds()
    assert (back.number, list(back.asks), back.failures) == (1, list(saved.asks), saved.failures)
    assert list(back.contents) == list(contents), "their order is that of the first time"
    for site, content in back.contents.items():
        assert plain(content) == plain(contents[site])


def test_asks_come_back_and_equal_ones_are_one(tmp_path: Path) -> None:
    sent = {**asks("a", "b"), **asks("node 1007")}
    opened(tmp_path).save(SavedRound(1, sent))
    (back,) = opened(tmp_path).rounds()
    assert [plain(content) for content in back.asks.values()] == [plain(content) for content in sent.values()]
    assert list(back.asks) == list(sent)
    assert back.asks["a"] is back.asks["b"]
    assert back.asks["a"] is not back.asks["node 1007"]


def test_empty_arrays_and_a_replayed_answer(tmp_path: Path) -> None:
    sent = Statistics(0, (np.zeros((2, 0), np.int64), np.zeros((2, 3), np.int64)), np.zeros(2, np.int64), 0)
    opened(tmp_path).save(SavedRound(1, asks("a"), {"a": answer(1, sent)}))
    (back,) = opened(tmp_path).rounds()
    (parcel,) = read_answer(back.contents["a"], [Parcel("0", example(EStep))]).parcels
    assert same(parcel.payload, sent)


def test_a_round_that_nobody_answered(tmp_path: Path) -> None:
    failures = {"a": "no answer within 5 s", "node 1007": "its node failed (Flower error code 1)"}
    opened(tmp_path).save(SavedRound(1, asks("a"), {}, failures))
    (back,) = opened(tmp_path).rounds()
    assert back == SavedRound(1, asks("a"), {}, failures)


def test_an_answer_that_was_refused_comes_back_to_be_refused_again(tmp_path: Path) -> None:
    """Whatever a site sends: it is kept as it came, and neither stops the run nor passes the second time."""
    content = RecordDict(
        {
            "envelope": ConfigRecord({"site": "a", "round": 1, "fault": 0, "bytes": b"\0\xff", "list": [b"x", b""]}),
            "0.scalars": ConfigRecord({"nan": float("nan"), "large": -(2**63), "none": [], "\0": True}),
            "0.arrays": ArrayRecord(
                {
                    "a/b": Array("float64", (1,), "numpy.ndarray", b"\0" * 8),
                    "a": Array("object", (-1, 2), RAW, b"x"),
                    "a.npy": Array("float64", (0,), RAW, b""),
                    "\0/../x": Array("int64", (2,), RAW, bytes(range(16))),
                }
            ),
            "metrics": MetricRecord({"loss": 0.5, "steps": [1, 2]}),
            "about": ConfigRecord(),
            "a": ArrayRecord(),
        }
    )
    opened(tmp_path).save(SavedRound(1, asks("a", "b"), {"a": content, "b/b": answer(1, statistics(7))}))
    (back,) = opened(tmp_path).rounds()
    assert plain(back.contents["a"]) == plain(content)
    assert plain(back.contents["b/b"]) == plain(answer(1, statistics(7)))


def test_rounds_come_in_order_and_a_missing_one_ends_them(tmp_path: Path) -> None:
    checkpoint = with_rounds(tmp_path, 12)
    assert numbers(checkpoint) == list(range(1, 13))
    (tmp_path / "round-00005.zip").unlink()
    assert numbers(opened(tmp_path)) == [1, 2, 3, 4]
    (tmp_path / "round-00001.zip").unlink()
    assert numbers(opened(tmp_path)) == []


def test_a_round_saved_again_replaces_the_first(tmp_path: Path) -> None:
    checkpoint = with_rounds(tmp_path, 2)
    checkpoint.save(SavedRound(2, asks("a"), {}, {"a": "no answer"}))
    assert [bool(saved.contents) for saved in checkpoint.rounds()] == [True, False]


def test_discarded_rounds_are_gone(tmp_path: Path) -> None:
    checkpoint = with_rounds(tmp_path, 5)
    checkpoint.discard(3)
    assert numbers(opened(tmp_path)) == [1, 2]
    assert files(tmp_path) == ["round-00001.zip", "round-00002.zip", "run.json"]


# -- whose run it is --------------------------------------------------------------------------------------------------


def test_a_resumed_run_takes_over_the_session(tmp_path: Path) -> None:
    assert opened(tmp_path / "new" / "folder", session="1").session == "1"
    assert opened(tmp_path / "new" / "folder", session="2").session == "1"
    assert opened(tmp_path / "new" / "folder", session="3").session == "1"


def test_another_run_is_refused_with_all_that_differs(tmp_path: Path) -> None:
    with_rounds(tmp_path, 1)
    with pytest.raises(CheckpointError) as caught:
        opened(tmp_path, seed=4, **{"bc3e.tolerance": 1e-3, "new": "x"})
    assert str(caught.value) == (
        "the interrupted run was another one: bc3e.tolerance was 1e-06, is 0.001; new was None, is 'x'; "
        "seed was 3, is 4"
    )
    assert numbers(opened(tmp_path)) == [1], "and is left as it was"


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"identity": {}}', '{"identity": 3, "session": "1"}', "\udcff"])
def test_a_damaged_run_file_is_one_clear_line(tmp_path: Path, text: str) -> None:
    with_rounds(tmp_path, 1)
    (tmp_path / "run.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(CheckpointError, match=r"run\.json cannot be read .*; start the run anew") as caught:
        opened(tmp_path)
    assert "\n" not in str(caught.value)


def test_the_run_file_is_readable(tmp_path: Path) -> None:
    opened(tmp_path)
    assert json.loads((tmp_path / "run.json").read_text()) == {"session": "1", "identity": IDENTITY}


# -- damage and interruption ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", [0.0, 0.02, 0.5, 0.9, 0.999])
def test_a_truncated_round_is_one_clear_line(tmp_path: Path, part: float) -> None:
    checkpoint = with_rounds(tmp_path, 3)
    path = tmp_path / "round-00002.zip"
    data = path.read_bytes()
    path.write_bytes(data[: int(part * len(data))])
    replay = checkpoint.rounds()
    assert next(replay).number == 1
    with pytest.raises(CheckpointError) as caught:
        next(replay)
    assert str(caught.value).startswith(f"{path} cannot be read (")
    assert str(caught.value).endswith("; delete it to resume from the round before")
    assert "\n" not in str(caught.value)
    path.unlink()
    assert numbers(opened(tmp_path)) == [1]


@examples(60)
@given(place=st.integers(0, 10_000), value=st.integers(0, 255))
def test_a_flipped_byte_is_noticed_or_does_not_matter(
    place: int, value: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("run")
    checkpoint = with_rounds(folder, 1)
    path = folder / "round-00001.zip"
    data = bytearray(path.read_bytes())
    data[place % len(data)] = value
    path.write_bytes(data)
    try:
        (back,) = checkpoint.rounds()
    except CheckpointError:
        return
    assert plain(back.contents["a"]) == plain(answer(1, statistics(1)))


@pytest.mark.parametrize("moment", ["write", "rename"])
def test_an_interruption_leaves_the_rounds_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    checkpoint = with_rounds(tmp_path, 2)
    before = files(tmp_path)

    def interrupt(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(
            *((strategies.checkpoint, "write_records") if moment == "write" else (Path, "replace")), interrupt
        )
        for number in (2, 3):
            with pytest.raises(KeyboardInterrupt):
                checkpoint.save(SavedRound(number, asks("b"), {"b": answer(number, statistics(99))}))
    assert files(tmp_path) == before, "neither a new round nor what it was being written to"
    assert [list(saved.asks) for saved in opened(tmp_path).rounds()] == [["a"], ["a"]]


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def interrupt(self: Path, target: Path) -> Path:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", interrupt)
        with pytest.raises(KeyboardInterrupt), replacing(path) as temporary:
            temporary.write_bytes(b"new")
    assert (path.read_bytes(), files(tmp_path)) == (b"old", ["file"])
    with replacing(path) as temporary:
        temporary.write_bytes(b"new")
    assert (path.read_bytes(), files(tmp_path)) == (b"new", ["file"])
