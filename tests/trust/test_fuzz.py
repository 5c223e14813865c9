"""Anything at all in the place of what is expected: it is refused in one way or read as what it says, nothing else."""

from __future__ import annotations

import contextlib
import copy
import json
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable, Iterator
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

import strategies.exchange
from clients.dispatch import handle
from protocols.models import ModelError, decode_model, encode_model
from protocols.wire.faults import Fault
from protocols.wire.message import Answer, Ask, Parcel, read_answer, read_ask, read_envelope, write_answer, write_ask
from protocols.wire.packing import pack, unpack
from protocols.wire.payload import Payload, PayloadError, decode_array, encode_array
from server import app as server_app
from tests.support import coreset_sites, gp_sites, residual_sites
from tests.support.examples import examples
from tests.support.grid import Clock, config
from tests.support.payloads import CLASSES, example, same
from tests.support.runs import make_grid, run_over
from tests.support.sec_sites import deployed_sites, write_sites

ASKS = [cls for cls in CLASSES if cls.answer is not None]
MiB = 2**20
Data = st.DataObject


@contextlib.contextmanager
def in_little_memory(size: int, times: int) -> Iterator[None]:
    """At most so many times what came, and a MiB."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < times * size + MiB, f"{peak} bytes of {size}"


# -- bytes ------------------------------------------------------------------------------------------------------------


def outcome(read: Callable[..., Any], *given: Any) -> Any:
    """What is read, or the one kind of error in which that may end."""
    try:
        return read(*given)
    except (PayloadError, ModelError) as error:
        return error


def is_refusal(found: object) -> bool:
    """Whether it is an error; then its text is short, and can be written wherever text is."""
    if not isinstance(found, PayloadError | ModelError):
        return False
    assert len(str(found)) < 400
    assert str(found).encode()
    return True


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """Bytes of it changed, cut out, doubled, or filled in."""
    data = bytearray(whole)
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.sampled_from([0, 1, 1, 2, 8, 64])))
        data[start:end] = draw(
            st.sampled_from([b"", bytes(data[start:end]) * 2, b"\xff" * (end - start), b"\0" * (end - start)])
            | st.binary(min_size=end - start, max_size=end - start)
        )
    return bytes(data)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.title())
@examples(12)
@given(data=st.data())
def test_packed_bytes_are_refused_or_a_payload(cls: type[Payload], data: Data) -> None:
    packed = data.draw(damaged(pack(example(cls))))
    with in_little_memory(len(packed), 100):
        found = outcome(unpack, packed, cls)
    assert is_refusal(found) or same(unpack(pack(found), cls), found)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.title())
@examples(12)
@given(data=st.data())
def test_records_whose_bytes_are_damaged_are_refused_or_a_message(cls: type[Payload], data: Data) -> None:
    """As they come over the wire; what Flower itself cannot read never reaches us."""
    ask = next((each for each in ASKS if each.answer is cls), None)
    if ask is None:
        content = write_ask(Ask("1", 3, 0, [Parcel("0", example(cls))]))
    else:
        content = write_answer(Answer("a", 3, 0, [Parcel("0", example(cls))]))
    name = data.draw(st.sampled_from(sorted(content)))
    record: Any = content[name]
    try:
        if isinstance(record, ConfigRecord):
            content[name] = ConfigRecord.inflate(data.draw(damaged(record.deflate())))
        elif len(record):
            key = data.draw(st.sampled_from(sorted(record)))
            record[key] = Array.inflate(data.draw(damaged(record[key].deflate())))
    except Exception:
        return
    parcels = [Parcel("0", example(ask))] if ask else []
    with contextlib.suppress(PayloadError), in_little_memory(4096, 100):
        found: Ask | Answer = read_answer(content, parcels) if ask else read_ask(content)
        again = write_answer(found) if isinstance(found, Answer) else write_ask(found)
        assert read_envelope(again) if ask else read_ask(again)


# -- structures -------------------------------------------------------------------------------------------------------

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=6)
    | st.sampled_from(["\ud800", "float64", "object", "raw", 10**400]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)  # fmt: skip


def places_in(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every part of a structure."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [here, *(place for key, part in parts for place in places_in(part, (*here, key)))]


def at(value: Any, place: tuple[Any, ...]) -> Any:
    for key in place:
        value = value[key]
    return value


@st.composite
def rebuilt(draw: st.DrawFn, whole: Any, changes: int = 2) -> Any:
    """Parts of it replaced: by anything, or by another part of it."""
    value = copy.deepcopy(whole)
    for _ in range(draw(st.integers(1, changes))):
        places = places_in(value)
        place, part = draw(st.sampled_from(places)), draw(_JSON | st.sampled_from(places))
        if isinstance(part, tuple):
            part = copy.deepcopy(at(value, part))
        if not place:
            value = part
        elif draw(st.booleans()) or isinstance(at(value, place[:-1]), list):
            at(value, place[:-1])[place[-1]] = part
        else:
            at(value, place[:-1]).pop(place[-1])
    return value


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.title())
@examples(12)
@given(data=st.data())
def test_headers_that_say_anything_are_refused_or_a_payload(cls: type[Payload], data: Data) -> None:
    packed = pack(example(cls))
    end = 4 + int.from_bytes(packed[:4], "little")
    header = json.dumps(data.draw(rebuilt(json.loads(packed[4:end])))).encode()
    forged = len(header).to_bytes(4, "little") + header + packed[end:]
    found = outcome(unpack, forged, cls)
    assert is_refusal(found) or same(unpack(pack(found), cls), found)


# -- models -----------------------------------------------------------------------------------------------------------

MODELS: dict[str, Callable[[], Any]] = {
    "ridge": Ridge,
    "forest": lambda: RandomForestRegressor(2, max_depth=3, random_state=0),
    "histogram": lambda: HistGradientBoostingRegressor(max_iter=2, max_depth=3),
    "vectors": lambda: make_pipeline(StandardScaler(), SVR()),
    "network": lambda: MLPRegressor(hidden_layer_sizes=(2,), max_iter=2, solver="sgd", random_state=0),
}
X = np.random.default_rng(4).normal(size=(50, 3))


@cache
def members_of(name: str) -> dict[str, bytes]:
    model = MODELS[name]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = encode_model(model.fit(X, X[:, 0] * 2))
    with zipfile.ZipFile(BytesIO(data.tobytes())) as file:
        return {each: file.read(each) for each in file.namelist()}


def zipped(members: dict[str, bytes]) -> np.ndarray:
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return np.frombuffer(buffer.getvalue(), np.uint8)


def refused_or_sound(data: np.ndarray) -> None:
    model = outcome(decode_model, data)
    if is_refusal(model):
        return
    x = X.copy()
    with np.errstate(all="ignore"):
        assert model.predict(x).shape == (len(X),)
    assert np.array_equal(x, X)
    again = decode_model(encode_model(model))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize("name", MODELS)
@examples(60, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_schema_that_says_anything_is_refused_or_a_model(name: str, data: Data) -> None:
    members = members_of(name)
    schema = data.draw(rebuilt(json.loads(members["schema.json"])))
    refused_or_sound(zipped({**members, "schema.json": json.dumps(schema).encode()}))


@pytest.mark.parametrize("name", MODELS)
@examples(40)
@given(data=st.data())
def test_arrays_that_hold_anything_are_refused_or_a_model(name: str, data: Data) -> None:
    members = members_of(name)
    place = data.draw(st.sampled_from(sorted(set(members) - {"schema.json"})))
    refused_or_sound(zipped({**members, place: data.draw(damaged(members[place]))}))


# -- a site that is asked anything ------------------------------------------------------------------------------------


Recorded = list[tuple[RecordDict, Context]]
"""What a site was asked in an honest run, and what it remembered then."""


def _bc3e(tmp_path: Path, distribution: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    rng = np.random.default_rng(5)
    nodes = []
    for site in range(3):
        table = np.column_stack([np.arange(30), rng.integers(2, size=(30, 2)), rng.integers(3, size=(30, 2))])
        header = f"case,class_{site},class_{site}b,cluster_{site},cluster_{site}b"
        np.savetxt(tmp_path / f"lab-{site}.csv", table, "%d", ",", header=header, comments="")
        nodes.append({"site": f"lab-{site}", "data": str(tmp_path / f"lab-{site}.csv"), "id": "case"})
        nodes[-1]["allow-shared-instances"] = True
    cut = {"bc3e__max_rounds": 2, "bc3e__sweeps": 2}
    return config(tmp_path, protocol="bc3e", bc3e__distribution=distribution, **cut), nodes


def _sec(tmp_path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    return deployed_sites(tmp_path, write_sites(tmp_path / "labs", [0, 1, 0]), ["lab-0", "lab-1", "lab-2"])


def _residual(tmp_path: Path, holder: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    folder = residual_sites.write_world(tmp_path / "files", holder=holder, people=residual_sites.customers(60))
    return residual_sites.deployed_sites(tmp_path, folder, holder=holder, residual__rounds=2)


def _coreset(tmp_path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    folder = coreset_sites.write_world(tmp_path / "files", coreset_sites.patients(90))
    settings = {"coreset__assignment": "exact", "coreset__size": 6, "coreset__alone": True}
    return coreset_sites.deployed_sites(tmp_path, folder, **settings)


def _gp(tmp_path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    folder = gp_sites.write_world(tmp_path / "files", gp_sites.soundings(60))
    return gp_sites.deployed_sites(tmp_path, folder, gp__gate="dnn", gp__gate_rounds=2)


WORLDS: dict[str, Callable[[Path], tuple[dict[str, Any], list[dict[str, Any]]]]] = {
    "bc3e-row": lambda tmp_path: _bc3e(tmp_path, "row"),
    "bc3e-column": lambda tmp_path: _bc3e(tmp_path, "column"),
    "sec": _sec,
    "residual": lambda tmp_path: _residual(tmp_path, ""),
    "residual-sealed": lambda tmp_path: _residual(tmp_path, "shop"),
    "coreset": _coreset,
    "gp": _gp,
}


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Recorded]:
    """What the first site of a world is asked in an honest run, with the state in which it is asked."""

    @cache
    def record(name: str) -> Recorded:
        run_config, nodes = WORLDS[name](tmp_path_factory.mktemp(name))
        nodes = [{key: value for key, value in node.items() if key != "site-output-dir"} for node in nodes]
        found: Recorded = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(strategies.exchange, "time", Clock())
            patch.setattr(server_app, "figures", lambda report, arrays: [])
            grid = make_grid(run_config, nodes)
            context = grid.contexts[1000]

            def keep(message: Message, at_site: Context) -> Message:
                if at_site is context:
                    found.append((message.content, copy.deepcopy(context)))
                return handle(message, at_site)

            patch.setattr("clients.app.handle", keep)
            run_over(grid, run_config)
        assert found
        return found

    return record


_INTEGERS = st.sampled_from([-1, 0, 1, 2, 7, 10**6, 2**31, 2**53, 2**62, -(2**63)])
_FLOATS = st.sampled_from([0.0, -1.0, 1.0, 1e-300, 1e300, -1e300, float("nan")])
_TEXTS = st.sampled_from(["", "x", "../../x", "\0", "=1+1", "row", "tree", "rbf", "a" * 10_000, "Zoë"])


def _another(value: Any) -> st.SearchStrategy[Any]:
    if isinstance(value, bool):
        return st.booleans()
    if isinstance(value, int):
        return _INTEGERS
    if isinstance(value, float):
        return _FLOATS
    if isinstance(value, str):
        return _TEXTS
    return st.lists(_TEXTS, max_size=3)


def _filled(values: np.ndarray, extreme: Any, everywhere: bool) -> np.ndarray:
    changed = values.copy()
    with np.errstate(all="ignore"):
        fill = np.array(extreme).astype(values.dtype)
    if everywhere or not changed.size:
        changed[...] = fill
    else:
        changed.flat[changed.size // 2] = fill
    return changed


@st.composite
def another_ask(draw: st.DrawFn, content: RecordDict) -> RecordDict:
    """The message with other numbers, texts, shapes, lanes or parcels."""
    forged = copy.deepcopy(content)
    for _ in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from([*sorted(forged), *sorted(each for each in forged if each != "envelope")]))
        record: Any = forged[name]
        if isinstance(record, ArrayRecord) and len(record):
            key = draw(st.sampled_from(sorted(record)))
            values = decode_array(record[key])
            extreme = draw(_INTEGERS if values.dtype.kind in "iu" else _FLOATS)
            kind = draw(st.sampled_from(["all", "one", "twice", "none"]))
            if kind in ("all", "one"):
                with np.errstate(all="ignore"):
                    values = _filled(values, np.int64(extreme) if values.dtype.kind in "iu" else extreme, kind == "all")
            elif values.ndim:
                values = np.concatenate([values, values]) if kind == "twice" else values[:0]
            record[key] = encode_array(values)
        elif isinstance(record, ConfigRecord):
            key = draw(st.sampled_from(sorted(record)))
            record[key] = draw(_another(record[key]))
    return forged


@pytest.mark.parametrize("world", WORLDS)
def test_a_site_that_is_asked_anything_answers_with_a_code(world: str, honest: Callable[[str], Recorded]) -> None:
    recorded = honest(world)

    @examples(60, suppress_health_check=list(HealthCheck), database=None)
    @given(data=st.data())
    def fuzz(data: Data) -> None:
        content, context = data.draw(st.sampled_from(recorded))
        forged = data.draw(another_ask(content))
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = context.run_id, context.node_id, 1
        message = Message(forged, context.node_id, "train", group_id="1")
        tracemalloc.start()
        try:
            reply = handle(message, copy.deepcopy(context))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 200 * MiB
        answer = read_envelope(reply.content)
        assert answer.fault in {0, *Fault}
        if not answer.fault:
            read_answer(reply.content, read_ask(forged).parcels)

    fuzz()
