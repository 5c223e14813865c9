"""Payloads as bytes: what was packed comes out unchanged, and everything else is one kind of error."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import Float64, UInt8

from protocols.residual.payloads import FittedValues, Ready, Residual
from protocols.wire.packing import PACKED, pack, unpack
from protocols.wire.payload import Payload, PayloadError
from tests.support.examples import examples
from tests.support.payloads import CANARY_NUMBER, CANARY_TEXT, CLASSES, example, payloads, same


@dataclass(frozen=True)
class Mixed(Payload):
    """A payload with a field of every kind."""

    text: str
    count: int
    share: float
    flag: bool
    names: tuple[str, ...]
    values: Float64[np.ndarray, "n"]
    parts: tuple[UInt8[np.ndarray, "_"], ...]


MIXED = Mixed(
    'Zoë\0"\\\n',
    -(2**63),
    0.25,
    False,
    ("", "ü"),
    np.array([5e-324, -0.0]),
    (np.zeros(0, np.uint8), np.ones(3, np.uint8)),
)


def raw(header: Any, numbers: bytes = b"") -> bytes:
    """Packed bytes with any header."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(4, "little") + text + numbers


def refusal(data: bytes, *allowed: type[Payload]) -> PayloadError:
    with pytest.raises(PayloadError) as caught:
        unpack(data, *allowed or (Residual,))
    assert str(CANARY_NUMBER) not in str(caught.value)
    assert CANARY_TEXT not in str(caught.value)
    return caught.value


# -- what comes out unchanged -----------------------------------------------------------------------------------------


@examples(300)
@given(cls=st.sampled_from(CLASSES), data=st.data())
def test_what_was_packed_comes_out(cls: type[Payload], data: st.DataObject) -> None:
    sent = data.draw(payloads(cls))
    assert same(unpack(pack(sent), Ready, cls), sent)


def test_the_same_payload_is_the_same_bytes_whatever_its_memory_layout() -> None:
    plain = np.arange(12.0).reshape(4, 3)
    held = np.zeros((0, 3))
    packed = {pack(FittedValues(values, held)) for values in (plain, np.asfortranarray(plain), plain.astype(">f8"))}
    assert len(packed) == 1
    assert packed.pop().endswith(plain.astype("<f8").tobytes())


def test_bytes_are_the_numbers_and_a_small_header() -> None:
    assert len(pack(Residual(np.zeros(1000)))) < 8 * 1000 + 100


@pytest.mark.parametrize("share", [5e-324, -0.0, 1.7976931348623157e308, 0.1, 3.0, 1e22])
def test_scalars_come_out_bit_for_bit(share: float) -> None:
    sent = replace(MIXED, share=share)
    assert same(unpack(pack(sent), Mixed), sent)


# -- what is refused --------------------------------------------------------------------------------------------------


def test_only_what_is_allowed() -> None:
    error = refusal(pack(Ready()), Residual, FittedValues)
    assert (error.payload, error.field) == ("residual.Ready", "title")
    assert "residual.Residual or residual.FittedValues" in error.problem


def test_what_breaks_its_contract_is_not_packed() -> None:
    for bad in (Residual(np.array([np.nan])), Residual(np.zeros((1, 1))), Residual(np.zeros(1, np.int64))):
        with pytest.raises(PayloadError, match=r"residual\.Residual, field 'residual'"):
            pack(bad)


def test_a_header_too_long_is_neither_packed_nor_read() -> None:
    with pytest.raises(PayloadError, match="header"):
        pack(replace(MIXED, text="x" * (1 << 20)))
    error = refusal(raw(["residual.Ready", {}, [], " " * (1 << 20)]), Ready)
    assert (error.payload, error.field) == (PACKED, "header")


def test_every_cut_and_every_addition_is_noticed() -> None:
    data = pack(example(FittedValues))
    for length in range(len(data)):
        refusal(data[:length], FittedValues)
    assert "1 bytes before" in refusal(data + b"\0", FittedValues).problem


VECTOR = ["residual", "float64", [2], 16]
NUMBERS = np.ones(2).tobytes()
NO_HEADERS: list[Any] = [None, 7, {}, [], ["residual.Residual"], ["residual.Residual", [], {}]]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\0\0",
        b"\0\0\0\0",
        b"\xff\xff\xff\xff",
        raw(b"not JSON"),
        raw(b"\xff\xfe\xfd"),
        raw(b"[" * 100_000),
        raw(b"9" * 5000),
        *map(raw, NO_HEADERS),
        raw([["residual.Residual"], {}, [VECTOR]], NUMBERS),
        raw(["other", {}, [VECTOR]], NUMBERS),
        raw(["residual.Residual", {}, []]),
        raw(["residual.Residual", {}, []], NUMBERS),
        raw(["residual.Residual", {}, [VECTOR, VECTOR]], NUMBERS + NUMBERS),
        raw(["residual.Residual", {}, [VECTOR, ["other", *VECTOR[1:]]]], NUMBERS + NUMBERS),
        raw(["residual.Residual", {"other": CANARY_NUMBER}, [VECTOR]], NUMBERS),
        raw(["residual.Residual", {"a": None}, [VECTOR]], NUMBERS),
        raw(["residual.Residual", {"a": {}}, [VECTOR]], NUMBERS),
        raw(["residual.Residual", {"a": [1, CANARY_TEXT]}, [VECTOR]], NUMBERS),
        raw(["residual.Residual", {"a": [[]]}, [VECTOR]], NUMBERS),
        *(
            raw(["residual.Residual", {}, [[*VECTOR[:place], wrong, *VECTOR[place + 1 :]]]], NUMBERS)
            for place, wrongs in enumerate(
                [
                    (None, 7, [], "resid"),
                    (None, 7, "float32", "object", "O", "<f8", ""),
                    (None, 2, [2.0], [True, 2], [-2], [3], [1], [2, 1], [], [[2]], [2**62, 2**62], [10**30]),
                    (None, 16.0, True, -1, 0, 15, 17, 10**30, "16"),
                ]
            )
            for wrong in wrongs
        ),
        raw(["residual.Residual", {}, [VECTOR]], np.array([1, np.nan]).tobytes()),
        raw(["residual.Residual", {}, [VECTOR[:3]]], NUMBERS),
        raw(["residual.Residual", {}, [7]], NUMBERS),
    ],
)
def test_malformed_bytes_are_a_payload_error(data: bytes) -> None:
    refusal(data)


@pytest.mark.parametrize("value", [b"NaN", b"-Infinity", b"1e999", b"1", b"true", b'"1"', b"null", b"[]", b"[0.25]"])
def test_a_scalar_of_another_kind_is_refused(value: bytes) -> None:
    data = pack(MIXED)
    length = int.from_bytes(data[:4], "little")
    header, numbers = data[4 : 4 + length], data[4 + length :]
    assert same(unpack(raw(header, numbers), Mixed), MIXED)
    assert b'"share":0.25' in header
    assert refusal(raw(header.replace(b'"share":0.25', b'"share":' + value), numbers), Mixed).payload == Mixed.title()


@examples(300)
@given(data=st.data())
def test_no_change_of_the_bytes_is_another_error(data: st.DataObject) -> None:
    packed = bytearray(pack(example(FittedValues)))
    for _ in range(data.draw(st.integers(1, 4))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = unpack(bytes(packed), FittedValues)
    except PayloadError:
        return
    assert isinstance(found, FittedValues)


@given(data=st.binary(max_size=200))
def test_no_bytes_are_another_error(data: bytes) -> None:
    refusal(data)


def test_a_shape_that_promises_more_than_came_allocates_nothing() -> None:
    size = 2**40
    data = raw(["residual.Residual", {}, [["residual", "float64", [size], 8 * size]]], NUMBERS)
    short = raw(["residual.Residual", {}, [["residual", "float64", [size], 16]]], NUMBERS)
    tracemalloc.start()
    try:
        refusal(data)
        refusal(short)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
