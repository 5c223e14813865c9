"""Messages: envelope and parcels come back as they went, and nothing else gets in."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from hypothesis import given
from hypothesis import strategies as st

from protocols.bc3e.payloads import Conclude, EStep, Setup, Starts, Statistics, Survey, Sweep, Tally
from protocols.residual.payloads import FittedValues
from protocols.wire.message import (
    ENVELOPE,
    Answer,
    Ask,
    Parcel,
    encoded_bytes,
    find,
    ledger_lines,
    read_answer,
    read_ask,
    read_envelope,
    write_answer,
    write_ask,
)
from protocols.wire.payload import RAW, Payload, PayloadError, encode, specs
from tests.support.examples import examples
from tests.support.payloads import CLASSES, example, payloads, same, through_bytes

ASKS = [cls for cls in CLASSES if cls.answer is not None]
LANES = st.from_regex(r"\A[0-9]{1,3}(\.[0-9]{1,3}){0,2}\Z")
ROUNDS = st.integers(0, 2**63 - 1)
SESSIONS = st.from_regex(r"\A[A-Za-z0-9_-]{0,64}\Z")
NAMES = st.from_regex(r"\A[A-Za-z0-9._-]{1,64}\Z")


def asked(*lanes: str, ask: type[Payload] = EStep) -> list[Parcel]:
    return [Parcel(lane, example(ask)) for lane in lanes]


def answered(*lanes: str, answer: type[Payload] = Statistics) -> RecordDict:
    return through_bytes(write_answer(Answer("a", 3, 0, [Parcel(lane, example(answer)) for lane in lanes])))


def refused(read: Callable[[], Any]) -> PayloadError:
    with pytest.raises(PayloadError) as caught:
        read()
    assert len(str(caught.value)) < 400
    return caught.value


# -- there and back ---------------------------------------------------------------------------------------------------


@examples(40)
@given(data=st.data())
def test_an_ask_and_its_answer_come_back(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.tuples(LANES, st.sampled_from(ASKS)), max_size=4))
    parcels = [Parcel(lane, data.draw(payloads(cls))) for lane, cls in kinds]
    ask = Ask(data.draw(SESSIONS), data.draw(ROUNDS), data.draw(ROUNDS), parcels)
    arrived = read_ask(through_bytes(write_ask(ask)))
    assert (arrived.session, arrived.round, arrived.seed) == (ask.session, ask.round, ask.seed)
    assert_same(arrived.parcels, parcels)

    replies = [Parcel(p.lane, data.draw(payloads(p.payload.answer))) for p in parcels if p.payload.answer]
    reply = Answer(data.draw(NAMES), ask.round, 0, replies)
    content = through_bytes(write_answer(reply))
    assert read_envelope(content) == dataclasses.replace(reply, parcels=())
    back = read_answer(content, arrived.parcels)
    assert (back.site, back.round, back.fault) == (reply.site, reply.round, 0)
    assert_same(back.parcels, replies)


def assert_same(got: Sequence[Parcel], sent: Sequence[Parcel]) -> None:
    assert [parcel.lane for parcel in got] == [parcel.lane for parcel in sent]
    assert all(same(one.payload, other.payload) for one, other in zip(got, sent, strict=True))


def test_more_than_ten_parcels_keep_their_order() -> None:
    lanes = [str(place) for place in range(12)]
    assert [
        parcel.lane for parcel in read_ask(through_bytes(write_ask(Ask("1", 1, 0, asked(*lanes))))).parcels
    ] == lanes


def test_a_fault_needs_no_parcels() -> None:
    content = through_bytes(write_answer(Answer("a", 3, 9999, ())))
    assert read_answer(content, asked("0", "1")) == Answer("a", 3, 9999, ())


# -- an answer to something else --------------------------------------------------------------------------------------


def test_an_answer_to_another_ask_is_refused() -> None:
    error = refused(lambda: read_answer(answered("0"), asked("0", ask=Setup)))
    assert error.payload == "bc3e.Statistics"
    assert "not the answer to bc3e.Setup" in error.problem


@pytest.mark.parametrize("got", ["1", "0.0", "", "00"])
def test_an_answer_in_another_lane_is_refused(got: str) -> None:
    error = refused(lambda: read_answer(answered(got), asked("0")))
    assert error.field == "lane"
    assert repr(got) in error.problem
    assert "'0'" in error.problem


def test_lanes_that_changed_places_are_refused() -> None:
    assert refused(lambda: read_answer(answered("1", "0"), asked("0", "1"))).field == "lane"


def test_missing_and_extra_parcels_are_refused() -> None:
    error = refused(lambda: read_answer(answered("0"), asked("0", "1")))
    assert error.problem == "expected 2, got 1"
    error = refused(lambda: read_answer(answered("0", "1"), asked("0")))
    assert "nothing that was asked" in error.problem
    error = refused(lambda: read_answer(answered(), asked("0")))
    assert error.problem == "expected 1, got 0"


def test_an_ask_is_not_an_answer_and_the_reverse() -> None:
    ask = through_bytes(write_ask(Ask("1", 3, 0, asked("0"))))
    assert refused(lambda: read_answer(ask, asked("0"))).payload == ENVELOPE
    assert refused(lambda: read_ask(answered("0"))).payload == ENVELOPE


@pytest.mark.parametrize("title", ["bc3e.Tally", "bc3e.EStep", "bc3e.Nothing", "Statistics", "", "os.path", "x" * 1000])
def test_a_forged_title_is_refused(title: str) -> None:
    content = answered("0")
    content.config_records["0.scalars"]["parcel"] = ["0", title]
    error = refused(lambda: read_answer(through_bytes(content), asked("0")))
    assert error.payload == title[: len(error.payload)] or error.payload.endswith("...")
    assert "not the answer to bc3e.EStep" in error.problem


def test_a_payload_under_the_name_of_another_is_refused() -> None:
    content = answered("0", answer=Tally)
    content.config_records["0.scalars"]["parcel"] = ["0", Statistics.title()]
    assert refused(lambda: read_answer(through_bytes(content), asked("0"))).payload == Statistics.title()


# -- the envelope and the records -------------------------------------------------------------------------------------

ENVELOPE_POISONS: list[tuple[str, Any]] = [
    ("round", None), ("round", 1.0), ("round", True), ("round", "1"), ("round", [1]),
    ("session", None), ("session", 1), ("session", b"1"), ("session", ["1"]),
    ("seed", None), ("seed", 0.5), ("seed", False),
    ("site", None), ("site", 1), ("site", b"a"), ("site", ["a"]),
    ("fault", None), ("fault", False), ("fault", "0"), ("fault", 0.0),
    ("extra", 1), ("extra" * 100, "x"),
]  # fmt: skip


@pytest.mark.parametrize(("key", "value"), ENVELOPE_POISONS)
def test_a_poisoned_envelope_is_refused(key: str, value: Any) -> None:
    ask, answer = write_ask(Ask("1", 3, 0, asked("0"))), answered("0")
    touched = 0
    for content, read in (
        (ask, read_ask),
        (answer, read_envelope),
        (answer, lambda content: read_answer(content, asked("0"))),
    ):
        envelope = content.config_records[ENVELOPE]
        if key not in envelope and not key.startswith("extra") and value is not None:
            continue
        touched += 1
        kept = dict(envelope)
        envelope.pop(key, None)
        if value is not None:
            envelope[key] = value
        if value is None and key not in kept:
            read(through_bytes(content))  # a key of the other direction is not missed
            continue
        error = refused(lambda read=read, content=content: read(through_bytes(content)))  # type: ignore[misc]
        assert error.payload == ENVELOPE
        assert error.field == key or error.field.endswith("...")
        content[ENVELOPE] = ConfigRecord(kept)
    assert touched


def without_envelope(content: RecordDict) -> None:
    del content[ENVELOPE]


def envelope_of_metrics(content: RecordDict) -> None:
    content[ENVELOPE] = MetricRecord({"round": 3})


def extra_record(content: RecordDict) -> None:
    content["extra"] = ConfigRecord()


def two_extra_records(content: RecordDict) -> None:
    content["extra.scalars"], content["extra.arrays"] = ConfigRecord(), ArrayRecord()


def extra_metrics(content: RecordDict) -> None:
    content["metrics"] = MetricRecord({"loss": 0.5})


def metrics_for_scalars(content: RecordDict) -> None:
    content["0.scalars"] = MetricRecord({"n": 1})


def scalars_for_arrays(content: RecordDict) -> None:
    content["0.arrays"] = ConfigRecord({"n": 1})


def arrays_for_scalars(content: RecordDict) -> None:
    content["0.scalars"] = ArrayRecord()


def without_arrays(content: RecordDict) -> None:
    del content["0.arrays"]


def without_scalars(content: RecordDict) -> None:
    del content["0.scalars"]


def gap(content: RecordDict) -> None:
    content["2.scalars"], content["2.arrays"] = content.pop("0.scalars"), content.pop("0.arrays")


def without_label(content: RecordDict) -> None:
    del content.config_records["0.scalars"]["parcel"]


def short_label(content: RecordDict) -> None:
    content.config_records["0.scalars"]["parcel"] = ["0"]


def long_label(content: RecordDict) -> None:
    content.config_records["0.scalars"]["parcel"] = ["0", Statistics.title(), ""]


def label_of_text(content: RecordDict) -> None:
    content.config_records["0.scalars"]["parcel"] = "0"


def label_of_numbers(content: RecordDict) -> None:
    content.config_records["0.scalars"]["parcel"] = [0, 1]


@pytest.mark.parametrize(
    "change",
    [
        without_envelope, envelope_of_metrics, extra_record, two_extra_records, extra_metrics, metrics_for_scalars,
        scalars_for_arrays, arrays_for_scalars, without_arrays, without_scalars, gap, without_label, short_label,
        long_label, label_of_text, label_of_numbers,
    ],
    ids=lambda change: change.__name__,
)  # fmt: skip
def test_records_that_are_not_a_message_are_refused(change: Callable[[RecordDict], None]) -> None:
    answer, ask = answered("0"), write_ask(Ask("1", 3, 0, asked("0")))
    change(answer)
    change(ask)
    refused(lambda: read_answer(through_bytes(answer), asked("0")))
    refused(lambda: read_ask(through_bytes(ask)))


# -- what an ask may not make a site do -------------------------------------------------------------------------------


@pytest.mark.parametrize("session", ["../x", "/tmp/x", "a/b", "..", "a" * 65, "a\0", "a\n", "\\x", "é"])
def test_a_session_that_is_no_file_name_is_refused(session: str) -> None:
    """Sites keep their memory in a folder of this name."""
    error = refused(lambda: read_ask(through_bytes(write_ask(Ask(session, 1, 0, ())))))
    assert (error.payload, error.field) == (ENVELOPE, "session")


@pytest.mark.parametrize("lane", ["", "a", "0/x", "-1", "0..1", ".0", "0.", "1_0", "٣", "0\n", "1" * 100])
def test_a_lane_that_is_not_numbers_is_refused(lane: str) -> None:
    error = refused(lambda: read_ask(through_bytes(write_ask(Ask("1", 1, 0, asked(lane))))))
    assert error.field == "lane"


@pytest.mark.parametrize(("round_number", "seed", "field"), [(-1, 0, "round"), (0, -1, "seed")])
def test_rounds_and_seeds_are_not_negative(round_number: int, seed: int, field: str) -> None:
    error = refused(lambda: read_ask(through_bytes(write_ask(Ask("1", round_number, seed, ())))))
    assert (error.payload, error.field) == (ENVELOPE, field)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.title())
def test_every_payload_is_found_by_its_title(cls: type[Payload]) -> None:
    assert find(cls.title()) is cls


@pytest.mark.parametrize(
    "title",
    [
        "os.path", "payload.Payload", "bc3e.Payload", "bc3e.np", "bc3e.dataclass", "bc3e.annotations", "bc3e.__doc__",
        "bc3e.EStep.answer", "bc3e.", ".EStep", "EStep", "bc3e", "", "../x", "bc3e/EStep", "bc3e.EStep ", "BC3E.EStep",
        "message.Ask", "faults.Fault", "protocols.bc3e.EStep", "antigravity.x", "bc3e.Estep", "bc3e.\0", "x" * 10_000,
    ],
)  # fmt: skip
def test_nothing_else_is_found(title: str) -> None:
    before = set(sys.modules)
    error = refused(lambda: find(title))
    assert "not a payload of any protocol" in error.problem
    assert set(sys.modules) == before


@given(title=st.text(max_size=20) | st.text(max_size=10).map("bc3e.".__add__))
def test_no_text_finds_anything_but_a_payload(title: str) -> None:
    with contextlib.suppress(PayloadError):
        assert find(title) in CLASSES


# -- the ledger -------------------------------------------------------------------------------------------------------


@examples(40)
@given(data=st.data())
def test_the_ledger_counts_every_byte_of_the_records(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.tuples(LANES, st.sampled_from(CLASSES)), max_size=3))
    parcels = [Parcel(lane, data.draw(payloads(cls))) for lane, cls in kinds]
    content = through_bytes(write_ask(Ask("1", 3, 0, parcels)))
    lines = list(ledger_lines(content, parcels, round_number=3, direction="to_site", site="a"))

    independent = sum(
        len(record.deflate()) if isinstance(record, ConfigRecord) else sum(len(array.data) for array in record.values())
        for record in content.values()
        if isinstance(record, ConfigRecord | ArrayRecord)
    )
    assert sum(line["bytes"] for line in lines) == encoded_bytes(content) == independent
    assert [(line["lane"], line["payload"]) for line in lines] == [
        ("", ENVELOPE),
        *((parcel.lane, parcel.payload.title()) for parcel in parcels),
    ]
    for line, parcel in zip(lines[1:], parcels, strict=True):
        assert (line["round"], line["direction"], line["site"]) == (3, "to_site", "a")
        assert list(line["fields"]) == list(specs(type(parcel.payload)))
        assert sum(field["bytes"] for field in line["fields"].values()) >= sum(
            len(array.data) for array in encode(parcel.payload)[1].values()
        )


def test_a_ledger_line_says_what_each_field_is() -> None:
    payload = Statistics(3, (np.ones((2, 4), np.int64), np.ones((2, 0), np.int64)), np.ones(2, np.int64), 7)
    parcels = [Parcel("1.0", payload)]
    content = write_answer(Answer("a", 5, 0, parcels))
    _, line = ledger_lines(content, parcels, round_number=5, direction="from_site", site="a")
    assert line["fields"] == {
        "n": {"shape": [], "dtype": "int", "bytes": 8},
        "mass": {"shape": [[2, 4], [2, 0]], "dtype": "int64", "bytes": 64},
        "log_theta": {"shape": [2], "dtype": "int64", "bytes": 16},
        "bound": {"shape": [], "dtype": "int", "bytes": 8},
        "changed": {"shape": [], "dtype": "int", "bytes": 8},
        "squares": {"shape": [0], "dtype": "int64", "bytes": 0},
    }


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_ledger_line_shows_the_dtype_that_crossed(dtype: str) -> None:
    parcels = [Parcel("0", FittedValues(np.ones((3, 2), dtype), np.ones((0, 2))))]
    content = write_answer(Answer("a", 1, 0, parcels))
    _, line = ledger_lines(content, parcels, round_number=1, direction="from_site", site="a")
    assert line["fields"] == {
        "fitted": {"shape": [3, 2], "dtype": dtype, "bytes": 6 * np.dtype(dtype).itemsize},
        "held": {"shape": [0, 2], "dtype": "float64", "bytes": 0},
    }


# -- anything at all --------------------------------------------------------------------------------------------------

_VALUES = st.one_of(
    st.integers(-(2**63), 2**63 - 1), st.floats(), st.booleans(), st.text(max_size=8), st.binary(max_size=4),
    st.lists(st.text(max_size=8), max_size=3), st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3),
)  # fmt: skip
_KEYS = st.sampled_from(["session", "round", "seed", "site", "fault", "parcel", "n", "step", "start", "share"])
_CONFIGS = st.dictionaries(_KEYS | st.text(max_size=4), _VALUES, max_size=4).map(ConfigRecord)
_ARRAYS = st.dictionaries(
    _KEYS | st.text(max_size=4),
    st.builds(Array, st.sampled_from(["int64", "float64", "x"]), st.lists(st.integers(-1, 3), max_size=3).map(tuple),
              st.sampled_from([RAW, "x"]), st.integers(0, 3).map(lambda count: bytes(8 * count))),
    max_size=3,
).map(ArrayRecord)  # fmt: skip
_METRICS = st.dictionaries(st.text(max_size=4), st.floats(), max_size=2).map(MetricRecord)
_RECORD_NAMES = st.sampled_from([ENVELOPE, "0.scalars", "0.arrays", "1.scalars", "1.arrays"]) | st.text(max_size=4)
_READERS = (read_ask, read_envelope, lambda content: read_answer(content, asked("0", ask=Sweep)))


@examples(200)
@given(records=st.dictionaries(_RECORD_NAMES, _CONFIGS | _ARRAYS | _METRICS, max_size=5))
def test_whatever_records_come_are_read_or_refused(records: dict[str, Any]) -> None:
    content = RecordDict(records)
    for read in _READERS:
        with contextlib.suppress(PayloadError):
            read(content)


@examples(200)
@given(data=st.data())
def test_a_message_with_anything_changed_is_read_or_refused(data: st.DataObject) -> None:
    ask, reply = data.draw(st.sampled_from([(EStep, Statistics), (Setup, Starts), (Survey, None), (Conclude, Tally)]))
    answer = reply or ask.answer
    assert answer is not None
    for content, read in (
        (write_ask(Ask("1", 3, 0, [Parcel("0", data.draw(payloads(ask)))])), read_ask),
        (write_answer(Answer("a", 3, 0, [Parcel("0", data.draw(payloads(answer)))])), read_envelope),
        (
            write_answer(Answer("a", 3, 0, [Parcel("0", data.draw(payloads(answer)))])),
            lambda content: read_answer(content, asked("0", ask=ask)),
        ),
    ):
        record = content[data.draw(st.sampled_from(sorted(content)))]
        name = data.draw(st.sampled_from([*sorted(record), "more"]))
        if isinstance(record, ArrayRecord):
            record[name] = next(iter(data.draw(_ARRAYS.filter(len)).values()))
        elif data.draw(st.booleans()):
            record[name] = data.draw(_VALUES)  # type: ignore[assignment]
        else:
            record.pop(name, None)  # type: ignore[call-overload]
        with contextlib.suppress(PayloadError):
            read(content)
