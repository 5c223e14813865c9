"""The codec: what it carries unchanged, and that it refuses everything else with one kind of error."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import math
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import Bool, Float, Float32, Float64, Int64, Shaped, UInt8

from protocols.bc3e.payloads import EStep, Holdings, Statistics, Sweep
from protocols.registry import names as protocol_names
from protocols.wire.payload import (
    RAW,
    FieldSpec,
    Payload,
    PayloadError,
    check,
    decode,
    decode_array,
    encode,
    encode_array,
    specs,
)
from tests.support.examples import examples
from tests.support.payloads import CANARY_NUMBER, CANARY_TEXT, CLASSES, example, payloads, same, through_bytes

Records = tuple[ConfigRecord, ArrayRecord]
PROTOCOLS = sorted({cls.title().partition(".")[0] for cls in CLASSES})


def for_every_class(test: Callable[[type[Payload]], None]) -> Callable[[str], None]:
    """One test a protocol that tests each of its payload classes; a failure names the class."""

    def all_classes(protocol: str) -> None:
        for cls in CLASSES:
            if cls.title().partition(".")[0] == protocol:
                try:
                    test(cls)
                except (Exception, pytest.fail.Exception) as error:
                    error.add_note(f"payload class {cls.title()}")
                    raise

    all_classes.__name__ = test.__name__
    return pytest.mark.parametrize("protocol", PROTOCOLS)(all_classes)


def by_title(cls: Any) -> str:
    return cls.title() if isinstance(cls, type) else str(cls)


def arrive(records: Records) -> Records:
    """Both records after Flower's bytes."""
    content = through_bytes(RecordDict({"scalars": records[0], "arrays": records[1]}))
    return content.config_records["scalars"], content.array_records["arrays"]


def refusal(cls: type[Payload], records: Records) -> PayloadError:
    """The error that decoding raises; it names the payload and shows no value."""
    with pytest.raises(PayloadError) as caught:
        decode(cls, *records)
    error = caught.value
    assert error.payload == cls.title()
    assert str(error) == f"payload {error.payload}, field {error.field!r}: {error.problem}"
    assert str(CANARY_NUMBER) not in str(error)
    assert CANARY_TEXT not in str(error)
    return error


# -- what crosses unchanged -------------------------------------------------------------------------------------------


def test_every_protocol_declares_payloads_that_can_cross() -> None:
    assert {cls.title().partition(".")[0] for cls in CLASSES} >= set(protocol_names())
    for cls in CLASSES:
        assert cls.__dataclass_params__.frozen, f"{cls.title()} is not frozen"  # type: ignore[attr-defined]
        assert "parcel" not in specs(cls), "the record's key for lane and title"
        assert cls.answer is None or cls.answer in CLASSES


@pytest.mark.parametrize("cls", CLASSES, ids=by_title)
@examples(25)
@given(data=st.data())
def test_a_payload_arrives_as_it_was_sent(cls: type[Payload], data: st.DataObject) -> None:
    sent = data.draw(payloads(cls))
    assert same(decode(cls, *arrive(encode(sent))), sent)


@for_every_class
def test_empty_arrays_and_tuples_arrive(cls: type[Payload]) -> None:
    def empty(spec: FieldSpec) -> Any:
        return {
            "array": np.zeros([int(dim) if dim.isdigit() else 0 for dim in spec.dims], (*spec.dtypes, "bool")[0]),
            "arrays": (), "strs": (), "str": "", "bool": False, "int": 0, "float": 0.0,
        }[spec.kind]  # fmt: skip

    sent = cls(**{name: empty(spec) for name, spec in specs(cls).items()})
    assert same(decode(cls, *arrive(encode(sent))), sent)


def test_memory_layout_does_not_matter() -> None:
    plain = np.arange(24.0).reshape(4, 6)
    active = np.arange(6)
    for values in (
        plain,
        np.asfortranarray(plain),
        plain.astype(">f8"),
        np.repeat(plain, 2, axis=1)[:, ::2],
        plain[::-1][::-1],
    ):
        records = encode(Sweep(active, values))
        assert records[1]["log_weights"].data == plain.astype("<f8").tobytes()
        arrived = decode(Sweep, *arrive(records))
        assert isinstance(arrived, Sweep)
        np.testing.assert_array_equal(arrived.log_weights, plain)
        assert arrived.log_weights.dtype.isnative
        assert arrived.log_weights.flags.writeable


@pytest.mark.parametrize("dtype", ["bool", "uint8", "uint64", "int64", "float32", "float64", ">f8", ">i8", ">u8"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (0, 4), (2, 0, 3), (2, 3)])
def test_arrays_of_every_kind_and_shape(dtype: str, shape: tuple[int, ...]) -> None:
    values = (np.arange(np.prod(shape, dtype=int)).reshape(shape) % 2).astype(dtype)
    encoded = encode_array(values)
    assert encoded.stype == RAW
    assert len(encoded.data) == values.nbytes
    arrived = decode_array(encoded)
    assert (arrived.shape, arrived.dtype.name) == (shape, values.dtype.name)
    np.testing.assert_array_equal(arrived, values)


# -- what a sender may not say ----------------------------------------------------------------------------------------


STATISTICS = Statistics(3, (np.ones((2, 4), np.int64),), np.ones(2, np.int64), 7)


@pytest.mark.parametrize(
    ("changes", "field", "problem"),
    [
        ({"n": 3.0}, "n", "expected int, got float"),
        ({"n": True}, "n", "expected int, got bool"),
        ({"n": np.int64(3)}, "n", "expected int, got int64"),
        ({"bound": 2**63}, "bound", "64 bits"),
        ({"bound": -(2**63) - 1}, "bound", "64 bits"),
        ({"log_theta": [1, 2]}, "log_theta", "got list"),
        ({"log_theta": np.ones(2)}, "log_theta", "expected dtype int64, got float64"),
        ({"log_theta": np.ones(3, np.int64)}, "log_theta", "dimension 'k' has size 3, but 2 in mass[0]"),
        ({"mass": None}, "mass", "expected a tuple of arrays, got NoneType"),
        ({"mass": np.ones((1, 2, 4), np.int64)}, "mass", "expected a tuple of arrays, got ndarray"),
        ({"mass": (np.ones((2, 4)),)}, "mass[0]", "expected dtype int64, got float64"),
    ],
)
def test_a_sender_is_held_to_the_contract(changes: dict[str, Any], field: str, problem: str) -> None:
    with pytest.raises(PayloadError, match=r"bc3e\.Statistics") as caught:
        encode(dataclasses.replace(STATISTICS, **changes))
    assert caught.value.field == field
    assert problem in caught.value.problem


def test_a_numpy_bool_is_not_a_bool() -> None:
    holdings = Holdings(2, 2, (), (), np.zeros(0, np.int64), np.zeros(0, np.uint64), np.True_)  # type: ignore[arg-type]
    with pytest.raises(PayloadError, match="has_truth"):
        encode(holdings)


@dataclass(frozen=True)
class Numbers(Payload):
    """Kinds of fields that no protocol has yet."""

    pixels: UInt8[np.ndarray, "3"]
    mask: Bool[np.ndarray, "h w"]
    single: Float32[np.ndarray, "w"]
    point: Float64[np.ndarray, ""]
    either: Float64[np.ndarray, "w"] | Float32[np.ndarray, "w"]
    some: tuple[Float32[np.ndarray, "_"] | Int64[np.ndarray, "_"], ...]


NUMBERS = Numbers(
    np.array([0, 1, 255], np.uint8),
    np.eye(2, 4, dtype=bool),
    np.ones(4, np.float32),
    np.array(0.5),
    np.ones(4),
    (np.ones(2, np.float32), np.arange(3)),
)


def test_kinds_that_no_protocol_has_yet_cross_too() -> None:
    assert same(decode(Numbers, *arrive(encode(NUMBERS))), NUMBERS)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_an_array_of_one_of_several_dtypes_arrives_in_its_own(dtype: str) -> None:
    assert specs(Numbers)["either"] == FieldSpec("array", ("float64", "float32"), ("w",))
    scalars, arrays = encode(dataclasses.replace(NUMBERS, either=np.ones(4, dtype)))
    assert len(arrays["either"].data) == 4 * np.dtype(dtype).itemsize
    arrived = decode(Numbers, *arrive((scalars, arrays)))
    assert isinstance(arrived, Numbers)
    assert arrived.either.dtype == dtype


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"pixels": np.zeros(4, np.uint8)}, "dimension '3' has size 4, but 3 in its declaration"),
        ({"single": np.ones(5, np.float32)}, "dimension 'w' has size 5, but 4 in mask"),
        ({"single": np.full(4, np.inf, np.float32)}, "NaN or infinity"),
        ({"point": np.zeros(1)}, "expected 0 dimensions (), got shape (1,)"),
        ({"either": np.ones(4, np.int64)}, "expected dtype float64 or float32, got int64"),
        ({"either": [1.0] * 4}, "expected an array of float64 or float32, got list"),
        ({"either": np.ones(5, np.float32)}, "dimension 'w' has size 5, but 4 in mask"),
        ({"either": np.full(4, np.nan, np.float32)}, "NaN or infinity"),
        ({"some": (np.ones(2),)}, "expected dtype float32 or int64, got float64"),
        ({"some": (np.arange(2), np.full(2, np.inf, np.float32))}, "NaN or infinity"),
    ],
)
def test_fixed_and_shared_sizes(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(PayloadError) as caught:
        check(dataclasses.replace(NUMBERS, **changes))
    assert problem in caught.value.problem


def test_a_bool_array_holds_only_zeros_and_ones() -> None:
    scalars, arrays = encode(NUMBERS)
    arrays["mask"] = Array("bool", (2, 4), RAW, b"\x02" * 8)
    assert refusal(Numbers, (scalars, arrays)).field == "mask"


@pytest.mark.parametrize(
    "annotation",
    [
        dict,
        list[int],
        bytes,
        object,
        np.ndarray,
        int | None,
        tuple[int, ...],
        tuple[str, str],
        tuple[Int64[np.ndarray, "k"], Int64[np.ndarray, "k"]],
        Float[np.ndarray, "k"],
        Shaped[np.ndarray, "k"],
        Float64[np.ndarray, "..."],
        Float64[np.ndarray, "*batch k"],
        Float64[np.ndarray, "k+1"],
        Float64[np.ndarray, "#k"],
        Float64[np.ndarray, "k"] | None,
        Float64[np.ndarray, "k"] | int,
        Float64[np.ndarray, "k"] | Float32[np.ndarray, "k 2"],
        Float64[np.ndarray, "k"] | Float32[np.ndarray, "n"],
        Float64[np.ndarray, "k"] | Float[np.ndarray, "k"],
        tuple[Float64[np.ndarray, "k"] | Float32[np.ndarray, "n"], ...],
    ],
    ids=str,
)
def test_an_annotation_that_cannot_be_checked_is_a_type_error(annotation: Any) -> None:
    with pytest.raises(TypeError, match="cannot cross the wire"):
        FieldSpec.of(annotation)


# -- poison, field by field -------------------------------------------------------------------------------------------


def fields_of(cls: type[Payload], *kinds: str) -> list[str]:
    """Names of the fields of some kinds."""
    return [name for name, spec in specs(cls).items() if spec.kind in kinds]


def keys_of(name: str, spec: FieldSpec) -> str:
    return f"{name}.0" if spec.kind == "arrays" else name


def changed(array: Array, **changes: Any) -> Array:
    parts = {"dtype": array.dtype, "shape": array.shape, "stype": array.stype, "data": array.data, **changes}
    return Array(parts["dtype"], parts["shape"], parts["stype"], parts["data"])


def saved(values: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, values)
    return file.getvalue()


def array_poisons(array: Array, spec: FieldSpec) -> Iterator[tuple[str, Array, list[str]]]:
    """What else could come in place of an array, and what the refusal must say."""
    shape, size = array.shape, len(array.data)
    # Another type of the same size: of another size its bytes would be too few first.
    same_size = {"float64": "int64", "int64": "uint64", "uint64": "int64", "bool": "uint8", "uint8": "bool"}
    if other := same_size.get(array.dtype):
        array = changed(array, data=b"\1" * size) if other == "bool" else array
        yield "dtype", changed(array, dtype=other), [f"expected dtype {' or '.join(spec.dtypes)}, got {other}"]
    else:
        larger = "float64" if array.dtype == "float32" else "float32"
        yield "dtype", changed(array, dtype=larger), [f"takes {2 * size} bytes, got {size}"]
    for foreign in ("object", "complex128", ">f8", "<i8", "int32", "V8", "O", ""):
        yield f"dtype-{foreign}", changed(array, dtype=foreign), [repr(foreign)]
    longer = (*shape, 1)
    yield "dimension", changed(array, shape=longer), [f"expected {len(shape)} dimensions", f"got shape {longer}"]
    if len(shape) > 1:
        yield "one-dimension", changed(array, shape=(math.prod(shape),)), [f"expected {len(shape)} dimensions"]
    yield "flat", changed(array, shape=()), [f"takes {size // math.prod(shape)} bytes, got {size}"]
    yield "short", changed(array, data=array.data[:-1]), [f"takes {size} bytes, got {size - 1}"]
    yield "long", changed(array, data=array.data + b"\0"), [f"takes {size} bytes, got {size + 1}"]
    yield "no-bytes", changed(array, data=b""), [f"takes {size} bytes, got 0"]
    yield "negative", changed(array, shape=(-1,) * len(shape)), ["sizes"]
    yield "negative-pair", changed(array, shape=(-size, -1)), ["sizes"]
    yield "true-size", changed(array, shape=(True, *shape[1:])), ["sizes"]
    yield "huge", changed(array, shape=(2**40, *shape[1:])), [f"got {size}"]
    yield "huge-empty", changed(array, shape=(0, 2**62, 2**62), data=b""), []
    yield "over-64-bits", changed(array, shape=(0, 2**70), data=b""), ["sizes"]
    yield "many-dimensions", changed(array, shape=(1,) * 1000, data=b"\0" * 8), ["sizes"]
    saved_array = saved(decode_array(array))
    yield "npy", changed(array, stype="numpy.ndarray", data=saved_array), ["'numpy.ndarray'", "'raw'"]
    yield "pickle", changed(array, stype="pickle"), ["'pickle'", "'raw'"]
    if array.dtype.startswith("float"):
        for value in (np.nan, np.inf, -np.inf):
            values = decode_array(array)
            values.flat[-1] = value
            yield str(value), encode_array(values), ["NaN or infinity"]


SCALAR_POISONS: dict[str, list[tuple[Any, str]]] = {
    "bool": [(1, "got int"), (1.0, "got float"), ("True", "got str"), (b"1", "got bytes"), ([True], "got list")],
    "int": [(True, "got bool"), (1.0, "got float"), ("1", "got str"), (2**63, "64 bits"), (-(2**63) - 1, "64 bits")],
    "float": [(1, "got int"), (True, "got bool"), ("1", "got str"), (float("nan"), "finite"), (float("inf"), "finite")],
    "str": [(1, "got int"), (b"x", "got bytes"), (["x"], "got list"), ([], "got list")],
    "strs": [("x", "got str"), (1, "got int"), ([1, 2], "strs"), ([b"x"], "strs"), ([True], "strs")],
    "arrays": [(-1, "-1"), (99, "99"), ("2", "str"), (True, "bool"), (2.0, "float"), ([2], "list"), (2**70, "came")],
}


@for_every_class
def test_a_missing_field_is_refused(cls: type[Payload]) -> None:
    for name in specs(cls):
        scalars, arrays = encode(example(cls))
        key = keys_of(name, specs(cls)[name])
        del (arrays if key in arrays else scalars)[key]
        error = refusal(cls, arrive((scalars, arrays)))
        assert error.field in (name, key)
        # Of a tuple, where the payload has no other arrays, the count is what does not fit.
        assert error.problem == "is missing" or "count of up to 1 arrays that came, got 2" in error.problem


@for_every_class
def test_a_field_of_another_name_is_refused(cls: type[Payload]) -> None:
    for name in specs(cls):
        scalars, arrays = encode(example(cls))
        record: Any = arrays if keys_of(name, specs(cls)[name]) in arrays else scalars
        record[f"{name}_"] = record.pop(keys_of(name, specs(cls)[name]))
        assert refusal(cls, (scalars, arrays)).field in (name, keys_of(name, specs(cls)[name]))


@for_every_class
def test_an_extra_field_is_refused(cls: type[Payload]) -> None:
    for change in (extra_scalar, extra_array, extra_long_name):
        scalars, arrays = encode(example(cls))
        change(scalars, arrays)
        error = refusal(cls, arrive((scalars, arrays)))
        assert error.field.startswith("extra")
        assert len(error.field) <= 40
        assert error.problem == "is not a field of this payload"


def extra_scalar(scalars: ConfigRecord, arrays: ArrayRecord) -> None:
    scalars["extra"] = CANARY_NUMBER


def extra_array(scalars: ConfigRecord, arrays: ArrayRecord) -> None:
    arrays["extra"] = encode_array(np.full(1, CANARY_NUMBER))


def extra_long_name(scalars: ConfigRecord, arrays: ArrayRecord) -> None:
    arrays["extra" * 1000] = encode_array(np.zeros(0))


@for_every_class
def test_an_array_in_place_of_a_scalar_and_the_reverse_are_refused(cls: type[Payload]) -> None:
    for name in specs(cls):
        scalars, arrays = encode(example(cls))
        key = keys_of(name, specs(cls)[name])
        if key in arrays:
            del arrays[key]
            scalars[key] = CANARY_NUMBER
        else:
            del scalars[key]
            arrays[key] = encode_array(np.full(1, CANARY_NUMBER))
        assert refusal(cls, arrive((scalars, arrays))).field in (name, key)


@for_every_class
def test_a_poisoned_array_is_refused(cls: type[Payload]) -> None:
    scalars, arrays = encode(example(cls))
    for name in fields_of(cls, "array", "arrays"):
        spec = specs(cls)[name]
        key = keys_of(name, spec)
        sound = arrays[key]
        for label, poison, said in array_poisons(sound, spec):
            arrays[key] = poison
            error = refusal(cls, (scalars, arrays))
            assert error.field in (name, key, f"{name}[0]"), label
            for words in said:
                assert words in error.problem, label
            assert len(str(error)) < 400, label
        arrays[key] = sound
    assert same(decode(cls, scalars, arrays), example(cls))


@for_every_class
def test_a_poisoned_scalar_is_refused(cls: type[Payload]) -> None:
    scalars, arrays = encode(example(cls))
    for name in fields_of(cls, *SCALAR_POISONS):
        sound = scalars[name]
        for poison, said in SCALAR_POISONS[specs(cls)[name].kind]:
            scalars[name] = poison
            error = refusal(cls, (scalars, arrays))
            assert error.field == name
            assert said in error.problem
        scalars[name] = sound
    assert same(decode(cls, scalars, arrays), example(cls))


def shared_dimensions(cls: type[Payload]) -> list[tuple[str, int]]:
    """Every array field with a dimension that another array of its payload (or tuple) has too."""
    counts = Counter(
        dim for spec in specs(cls).values() for dim in set(spec.dims) for _ in range(1 + (spec.kind == "arrays"))
    )
    return [
        (name, axis)
        for name, spec in specs(cls).items()
        for axis, dim in enumerate(spec.dims)
        if dim != "_" and counts[dim] > 1
    ]


@for_every_class
def test_dimensions_of_one_name_have_one_size(cls: type[Payload]) -> None:
    for name, axis in shared_dimensions(cls):
        spec = specs(cls)[name]
        scalars, arrays = encode(example(cls))
        values = decode_array(arrays[keys_of(name, spec)])
        size = values.shape[axis]
        arrays[keys_of(name, spec)] = encode_array(np.concatenate([values, values.take([0], axis)], axis))
        problem = refusal(cls, arrive((scalars, arrays))).problem
        assert f"dimension {spec.dims[axis]!r}" in problem
        assert {str(size), str(size + 1)} <= set(problem.replace(",", "").split())


@for_every_class
def test_too_many_and_too_few_arrays_of_a_tuple_are_refused(cls: type[Payload]) -> None:
    for name in fields_of(cls, "arrays"):
        scalars, arrays = encode(example(cls))
        arrays[f"{name}.2"] = arrays[f"{name}.0"]
        assert refusal(cls, arrive((scalars, arrays))).field == f"{name}.2"

        scalars, arrays = encode(example(cls))
        del arrays[f"{name}.1"]
        assert refusal(cls, arrive((scalars, arrays))).field in (name, f"{name}.1")


def test_a_claimed_size_is_not_allocated() -> None:
    scalars, arrays = encode(example(EStep))
    arrays["weights"] = Array("float64", (2**40,), RAW, b"\0" * 8)
    tracemalloc.start()
    try:
        refusal(EStep, (scalars, arrays))
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


# -- anything at all --------------------------------------------------------------------------------------------------


def anything() -> st.SearchStrategy[Any]:
    """Any value that a ConfigRecord takes."""
    kinds: list[st.SearchStrategy[Any]] = [
        st.integers(), st.floats(), st.booleans(), st.text(max_size=5), st.binary(max_size=5),
    ]  # fmt: skip
    return st.one_of(*kinds, *(st.lists(kind, max_size=3) for kind in kinds))


def any_array() -> st.SearchStrategy[Array]:
    """Any Flower Array, however wrong."""
    dtypes = st.sampled_from(["bool", "uint8", "uint64", "int64", "float32", "float64", "object"]) | st.text(max_size=4)
    sizes = st.integers(0, 3) | st.integers() | st.booleans()
    shapes = st.lists(sizes, max_size=4).map(tuple)
    stypes = st.sampled_from([RAW, RAW, "numpy.ndarray"]) | st.text(max_size=4)
    data = st.binary(max_size=20) | st.integers(0, 9).map(lambda count: bytes(8 * count))
    return st.builds(Array, dtypes, shapes, stypes, data)


Edit = Callable[[ConfigRecord, ArrayRecord], None]


@st.composite
def edits(draw: st.DrawFn, cls: type[Payload]) -> Edit:
    """A change of one entry of either record, at a name of the payload or any other."""
    names = [*specs(cls), *(f"{name}.{place}" for name in specs(cls) for place in (0, 1))]
    texts = st.text(max_size=5)
    name = draw(st.sampled_from(names) | texts if names else texts)
    action = draw(st.sampled_from(["scalar", "array", "drop"]))
    value = draw(anything() if action == "scalar" else any_array())

    def edit(scalars: ConfigRecord, arrays: ArrayRecord) -> None:
        if action == "scalar":
            scalars[name] = value
        elif action == "array":
            arrays[name] = value
        else:
            scalars.pop(name, None)
            arrays.pop(name, None)

    return edit


@examples(300)
@given(data=st.data())
def test_whatever_comes_is_decoded_or_refused(data: st.DataObject) -> None:
    cls = data.draw(st.sampled_from(CLASSES))
    scalars, arrays = encode(data.draw(payloads(cls)))
    for edit in data.draw(st.lists(edits(cls), max_size=3)):
        edit(scalars, arrays)
    decoded: Payload | None = None
    with contextlib.suppress(PayloadError):
        decoded = decode(cls, scalars, arrays)
    if decoded is None:
        assert len(str(refusal(cls, (scalars, arrays)))) < 400
        return
    again = encode(decoded)
    assert dict(again[0]) == dict(scalars)
    assert {name: (a.dtype, a.shape, a.data) for name, a in again[1].items()} == {
        name: (a.dtype, a.shape, a.data) for name, a in arrays.items()
    }
