"""Models and asks made to do harm: refused, named, in little memory, and everybody else goes on."""

from __future__ import annotations

import bz2
import io
import json
import lzma
import pickle
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skops.io
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor
from sklearn.tree._tree import NODE_DTYPE

import protocols.models
from clients.dispatch import handle
from consilience.local_engine.wire import over_the_wire
from protocols.bc3e.payloads import MOST_CLASSES, MOST_INSTANCES, Conclude, EStep, Holdings, Setup, Survey, Sweep
from protocols.bc3e.payloads import Predict as PredictRows
from protocols.models import ModelError, check_model, decode_model, decode_models, encode_model
from protocols.models.contract import MOST_WIDTH
from protocols.sec.payloads import Exchange, Losses
from protocols.wire.faults import Fault
from protocols.wire.message import Answer, Ask, Parcel, read_answer, write_ask
from protocols.wire.payload import Payload, decode, encode, encode_array
from server.results import load
from tests.support.grid import Tamper, config
from tests.support.runs import make_grid, run_over
from tests.support.sec_sites import deployed_sites, draw_rows, select_ask, write_files, write_sites

pytestmark = pytest.mark.usefixtures("quick")

P = 3
MiB = 2**20
Json = Any


# -- files ------------------------------------------------------------------------------------------------------------


@cache
def rows() -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(8).normal(size=(60, P))
    return x, x @ [1.0, -2.0, 0.5]


@cache
def sound(kind: str = "ridge") -> np.ndarray:
    """A model as an honest site sends it."""
    regressors = {
        "ridge": Ridge(),
        "tree": DecisionTreeRegressor(max_depth=4, random_state=0),
        "forest": RandomForestRegressor(3, max_depth=3, random_state=0),
        "network": MLPRegressor(hidden_layer_sizes=(2,), solver="lbfgs", max_iter=5, random_state=0),
        "neighbors": KNeighborsRegressor(3, algorithm="brute"),
        "scaled": make_pipeline(StandardScaler(), Ridge()),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return encode_model(regressors[kind].fit(*rows()))


def members_of(data: np.ndarray) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data.tobytes())) as file:
        return {name: file.read(name) for name in file.namelist()}


def zipped(members: Mapping[str, bytes] | list[tuple[str, bytes]], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, content in members.items() if isinstance(members, Mapping) else members:
            file.writestr(name, content)
    return buffer.getvalue()


def with_schema(kind: str, change: Callable[[Json], object]) -> bytes:
    members = members_of(sound(kind))
    schema = json.loads(members["schema.json"])
    change(schema)
    return zipped({**members, "schema.json": json.dumps(schema, separators=(",", ":")).encode()})


def with_member(name: str, content: bytes) -> bytes:
    return zipped({**members_of(sound()), name: content})


def attributes(schema: Json) -> Json:
    """The nodes of a model's attributes, by name."""
    return schema["content"]["content"]


def find(node: Json, name: str) -> Json:
    """The first node that is filed under a name."""
    if isinstance(node, dict):
        content = node.get("content")
        if isinstance(content, dict) and name in content:
            return content[name]
    children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return next((found for child in children if (found := find(child, name)) is not None), None)


def number(value: object) -> Json:
    """What skops writes for a number or a text."""
    return {
        **{"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode"},
        **{"content": json.dumps(value), "is_json": True},
    }


def saved(values: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, values)
    return buffer.getvalue()


def swapped(kind: str, attribute: str, values: np.ndarray, change: Callable[[Json], object] = lambda _: None) -> bytes:
    """The model with another array, and whatever else is to be changed of its schema."""
    members = members_of(sound(kind))
    schema = json.loads(members["schema.json"])
    change(schema)
    name = find(schema, attribute)["file"]
    return zipped({**members, name: saved(values), "schema.json": json.dumps(schema).encode()})


# -- what attackers send ----------------------------------------------------------------------------------------------


class Intruder(Ridge):  # type: ignore[misc]
    """Runs code of the sender's at whoever loads it."""

    def __reduce__(self) -> Any:
        return print, ("intruder",)


def forbidden_type() -> bytes:
    """As skops itself writes it."""
    return bytes(skops.io.dumps(Intruder().fit(*rows())))


def forbidden_deep_inside() -> bytes:
    def hide(schema: Json) -> None:
        tree = find(schema, "estimators_")["content"][1]
        find(tree, "max_features").update(
            {"__class__": "partial", "__module__": "functools", "__loader__": "PartialNode", "content": {}}
        )

    return with_schema("forest", hide)


def lying(method: int, packed: Callable[[bytes], bytes]) -> bytes:
    """A member that has a kilobyte if one believes the zip's directory, and becomes 128 MiB."""
    bomb = packed(bytes(128 * MiB))
    return _relabeled(zipped([*members_of(sound()).items(), ("9.npy", bomb)], zipfile.ZIP_STORED), method, 1000)


def _relabeled(data: bytes, method: int, size: int) -> bytes:
    """The zip whose last member says that it is compressed by `method`, and how large it gets."""
    changed = bytearray(data)
    local, entry = data.rindex(b"PK\x03\x04"), data.rindex(b"PK\x01\x02")
    for place, at, width in ((local, 8, 2), (entry, 10, 2)):
        changed[place + at : place + at + width] = method.to_bytes(2, "little")
    for place, at in ((local, 22), (entry, 24)):
        changed[place + at : place + at + 4] = size.to_bytes(4, "little")
    return bytes(changed)


def zip_lzma(content: bytes) -> bytes:
    filters = [{"id": lzma.FILTER_LZMA1, "preset": 6}]
    properties: bytes = lzma._encode_filter_properties(filters[0])  # type: ignore[attr-defined]
    packer = lzma.LZMACompressor(lzma.FORMAT_RAW, filters=filters)
    return b"\x09\x04" + len(properties).to_bytes(2, "little") + properties + packer.compress(content) + packer.flush()


@cache
def honest_about_its_size() -> bytes:
    return with_member("9.npy", bytes(257 * MiB))


def many_mentions_of_one_array() -> bytes:
    """Each mention would be an array of its own once it is loaded."""

    def mention(schema: Json) -> None:
        trees = find(schema, "estimators_")
        trees["content"] = trees["content"][:1] * 200

    return swapped("forest", "values", np.zeros((200_000, 1, 1)), mention)


def wide_network() -> bytes:
    units = 2 * MOST_WIDTH
    layer = iter([np.zeros((P, units)), np.zeros((units, 1)), np.zeros(units), np.zeros(1)])
    members = members_of(sound("network"))
    schema = json.loads(members["schema.json"])
    for each in ("coefs_", "intercepts_"):
        for node in find(schema, each)["content"]:
            members[node["file"]] = saved(next(layer))
    return zipped(members)


def all_are_neighbors() -> bytes:
    """Every row of the receiver's would be given a million neighbors."""
    n = 10**6

    def say(schema: Json) -> None:
        for name in ("n_neighbors", "n_samples_fit_"):
            find(schema, name).update(number(n))

    members = members_of(np.frombuffer(swapped("neighbors", "_fit_X", np.zeros((n, P)), say), np.uint8))
    schema = json.loads(members["schema.json"])
    return zipped({**members, find(schema, "_y")["file"]: saved(np.zeros(n))})


def deep_tree(change: Callable[[np.ndarray], object] = lambda _: None, levels: int = MOST_WIDTH + 1) -> bytes:
    """A tree of one long branch."""
    nodes = np.zeros(2 * levels + 1, NODE_DTYPE)
    inner = np.arange(0, 2 * levels, 2)
    for field in ("left_child", "right_child"):
        nodes[field] = -1
    nodes["left_child"][inner], nodes["right_child"][inner] = inner + 1, inner + 2
    change(nodes)

    def say(schema: Json) -> None:
        find(schema, "node_count").update(number(len(nodes)))
        state = find(schema, "tree_")["content"]
        state["content"]["max_depth"].update(number(levels))

    members = members_of(np.frombuffer(swapped("tree", "nodes", nodes, say), np.uint8))
    schema = json.loads(members["schema.json"])
    return zipped({**members, find(schema, "values")["file"]: saved(np.zeros((len(nodes), 1, 1)))})


def cycle(nodes: np.ndarray) -> None:
    nodes["right_child"][20] = 10


def outside(nodes: np.ndarray) -> None:
    nodes["left_child"][0] = 2**40


def unknown_input(nodes: np.ndarray) -> None:
    nodes["feature"][0] = 2**40


def overlapping() -> bytes:
    """Two members that are the same bytes of the file."""
    members = members_of(sound())
    data = bytearray(zipped([*members.items(), ("8.npy", bytes(9 * MiB)), ("9.npy", b"")]))
    entry, before = data.rindex(b"PK\x01\x02"), data.rindex(b"PK\x01\x02", 0, data.rindex(b"PK\x01\x02"))
    fields = slice(10, 28)  # method to sizes
    data[entry + 10 : entry + 28] = data[before + fields.start : before + fields.stop]
    data[entry + 42 : entry + 46] = data[before + 42 : before + 46]
    return bytes(data)


NOT_A_NUMBER = np.array([1.0, np.nan, 2.0])
ATTACKS: dict[str, tuple[Callable[[], bytes], str]] = {
    "a-type-that-is-on-no-list": (forbidden_type, "holds tests.trust.test_attacks.Intruder, which is not on the list"),
    "one-deep-inside-another": (forbidden_deep_inside, "holds functools.partial, which is not on the list"),
    "a-truncated-file": (lambda: sound().tobytes()[:-100], "does not end as a zip does"),
    "a-file-without-its-beginning": (lambda: sound().tobytes()[100:], "is not a skops file"),
    "a-bomb-that-lies": (
        lambda: _relabeled(honest_about_its_size(), zipfile.ZIP_DEFLATED, 1000),
        "is not a skops file",
    ),
    "a-bomb-that-does-not": (honest_about_its_size, "is too large: it inflates to"),
    "a-bomb-of-bzip2": (lambda: lying(zipfile.ZIP_BZIP2, bz2.compress), "is compressed otherwise than skops does"),
    "a-bomb-of-lzma": (lambda: lying(zipfile.ZIP_LZMA, zip_lzma), "is compressed otherwise than skops does"),
    "a-zip-in-a-zip": (lambda: with_member("9.npy", sound().tobytes()), "holds an array that is not of plain numbers"),
    "overlapping-members": (overlapping, "is not a skops file"),
    "one-array-many-times": (many_mentions_of_one_array, "its arrays take more than"),
    "a-path-out-of-the-folder": (lambda: with_member("../../.ssh/key", b""), "which is neither schema.json nor"),
    "an-absolute-path": (lambda: with_member("/etc/passwd", b""), "which is neither schema.json nor"),
    "a-member-twice": (lambda: zipped([*members_of(sound()).items(), ("schema.json", b"{}")]), "two files of one name"),
    "a-schema-of-empty-lists": (
        lambda: zipped({"schema.json": b'{"protocol":2,"a":[' + b"[]," * (5 * MiB) + b"[]]}"}),
        "its schema.json is not as skops writes it",
    ),
    "a-deep-schema": (lambda: zipped({"schema.json": b'{"a":' * 10**6}), "its schema.json cannot be read"),
    "a-number-of-many-digits": (
        lambda: with_schema("ridge", lambda schema: attributes(schema)["intercept_"].update(number(10**400))),
        "Ridge.intercept_ is not a finite number",
    ),
    "a-pickle-in-an-array": (
        lambda: with_member("0.npy", saved(np.array([pickle.loads], object))),
        "holds an array that is not of plain numbers",
    ),
    "an-array-of-a-huge-shape": (
        lambda: with_member("0.npy", saved(np.zeros(3)).replace(b"(3,), }" + b" " * 9, b"(9999999999,), }")),
        "whose shape is too large",
    ),
    "coefficients-that-are-no-numbers": (lambda: swapped("ridge", "coef_", NOT_A_NUMBER), "coef_ holds NaN"),
    "other-inputs-than-it-says": (lambda: swapped("ridge", "coef_", np.zeros(5)), r"coef_ has shape \(5,\)"),
    "a-cycle-in-a-tree": (lambda: deep_tree(cycle, 50), "has a child that does not come after its parent"),
    "a-child-out-of-range": (lambda: deep_tree(outside, 50), "has a child that does not come after its parent"),
    "an-input-out-of-range": (lambda: deep_tree(unknown_input, 50), "asks for an input that is not one of the 3"),
    "a-tree-too-deep": (deep_tree, f"has a node more than {MOST_WIDTH} levels below the root"),
    "a-layer-too-wide": (wide_network, f"has a layer of more than {MOST_WIDTH} units"),
    "too-many-neighbors": (all_are_neighbors, f"is not a whole number from 1 to {MOST_WIDTH}"),
    "a-scaler-of-others-rows": (
        lambda: with_schema("scaled", lambda schema: find(schema, "copy").update(number(False))),
        "StandardScaler.copy is not a setting that may cross",
    ),
}
"""By the name of the site that sends it: what it sends, and why it is refused."""


@cache
def attack(name: str) -> np.ndarray:
    return np.frombuffer(ATTACKS[name][0](), np.uint8)


@contextmanager
def at_most(size: int) -> Iterator[None]:
    """No more than so many bytes are taken at any time, beyond what there was."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        yield
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert peak < size, f"{peak / MiB:.0f} MiB"


@pytest.mark.parametrize("name", ATTACKS)
def test_it_is_refused_in_little_memory_and_nothing_is_made_of_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = attack(name)
    assert len(data) < MiB
    check_model(sound())  # whatever is imported at first use is there

    def loads(*_: Any, **__: Any) -> None:
        raise AssertionError("something was constructed")

    monkeypatch.setattr(skops.io, "loads", loads)
    with at_most(100 * MiB):
        for refuse in (check_model, decode_model):
            with pytest.raises(ModelError, match=ATTACKS[name][1]) as caught:
                refuse(data)
    assert len(str(caught.value)) < 400
    [found] = decode_models([data])
    assert isinstance(found, ModelError)


def test_what_is_just_within_the_limits_is_a_model() -> None:
    """The files above are refused for what is forged of them, not for how they are made."""
    tree = decode_model(np.frombuffer(deep_tree(levels=2000), np.uint8))
    assert tree.predict(rows()[0]).tolist() == [0.0] * 60
    for kind in ("ridge", "forest", "network", "neighbors", "scaled"):
        forged = zipped(members_of(sound(kind)))
        assert np.isfinite(decode_model(np.frombuffer(forged, np.uint8)).predict(rows()[0])).all()
    stored = zipped(members_of(sound()), zipfile.ZIP_STORED)
    assert check_model(np.frombuffer(stored, np.uint8)) == P


def test_no_model_changes_the_rows_that_it_predicts() -> None:
    scaled = make_pipeline(StandardScaler(copy=False), Ridge()).fit(rows()[0].copy(), rows()[1])
    x = rows()[0].copy()
    decode_model(encode_model(scaled)).predict(x)
    assert np.array_equal(x, rows()[0])


# -- in whole runs ----------------------------------------------------------------------------------------------------


def sends(models: Mapping[int, np.ndarray]) -> Tamper:
    """Some sites, by place, show another model in the first round than they have fitted."""

    def tamper(place: int, round_number: int, reply: Message) -> Message:
        if round_number == 1 and place in models:
            reply.content.array_records["0.arrays"]["model"] = encode_array(models[place])
        return reply

    return tamper


def test_a_run_goes_on_without_all_who_attack_it(tmp_path: Path) -> None:
    honest = ["lab-0", "lab-1", "lab-2", "lab-3"]
    folder = write_sites(tmp_path / "labs", [0, 0, 1, 1])
    write_files(folder, {name: draw_rows(0, 30, 90 + place) for place, name in enumerate(ATTACKS)})
    settings, nodes = deployed_sites(tmp_path, folder, [*honest, *ATTACKS])
    tamper = sends({len(honest) + place: attack(name) for place, name in enumerate(ATTACKS)})
    report, arrays = load(run_over(make_grid(settings, nodes, tamper=tamper), settings))
    assert arrays["learners"].tolist() == honest
    assert len(set(arrays["labels"][:2])) == len(set(arrays["labels"][2:])) == 1
    assert report.missing.keys() == set(ATTACKS)
    for name in ATTACKS:
        [told] = report.missing[name]
        assert told.startswith("round 1: "), told
        assert "sec.FittedModel" in told
        assert "'model'" in told


def asked(context: Context, *asks: Payload, number: int = 1) -> Answer:
    """What a site answers, through Flower's bytes."""
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = context.run_id, context.node_id, 1
    parcels = [Parcel("0", each) for each in asks]
    message = over_the_wire(
        Message(write_ask(Ask("1", number, 0, parcels)), context.node_id, "train", group_id=str(number))
    )
    return read_answer(over_the_wire(handle(message, context)).content, parcels)


def test_a_site_tries_the_sound_models_among_those_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the fusion center has not looked at them."""
    monkeypatch.setattr(protocols.models, "_cache", protocols.models._Cache(0))
    folder = write_sites(tmp_path / "labs", [0])
    settings, [node] = deployed_sites(tmp_path, folder, ["lab-0"])
    context = Context(1, 7, node, RecordDict(), settings)
    assert asked(context, select_ask()).fault == 0
    narrow = encode_model(Ridge().fit(rows()[0][:, :2], rows()[1]))
    models = {"first": sound(), **{name: attack(name) for name in ATTACKS}, "narrow": narrow, "last": sound("forest")}
    answer = asked(context, Exchange(tuple(models), tuple(models.values()), "model", True), number=2)
    [parcel] = answer.parcels
    assert isinstance(parcel.payload, Losses)
    usable = [name for name, finite in zip(models, parcel.payload.finite, strict=True) if finite]
    assert usable == ["first", "last"]
    kept = {path.stem for path in (tmp_path / "home" / "lab-0" / "models").glob("*.skops")}
    assert kept == {"first", "lab-0", "last"}


# -- foreign places and sizes -----------------------------------------------------------------------------------------

N = 20


@pytest.fixture
def labeled(tmp_path: Path) -> Context:
    """A real site with two models' labels of twenty instances, through the honest beginning of a run."""
    path = tmp_path / "labels.csv"
    rng = np.random.default_rng(3)
    table = np.column_stack([np.arange(N), rng.integers(2, size=(N, 2))])
    np.savetxt(path, table, "%d", ",", header="case,class_a,cluster_a", comments="")
    node: dict[str, Any] = {"site": "lab", "data": str(path), "id": "case", "site-output-dir": str(tmp_path / "home")}
    node["allow-shared-instances"] = True
    context = Context(1, 7, node, RecordDict(), config(tmp_path, protocol="bc3e"))
    assert asked(context, SETUP).fault == 0
    assert asked(context, E_STEP, number=2).fault == 0
    return context


SETUP = Setup(2, 30, ("cluster_a",), np.array([2]), np.array([0]), np.arange(5))
E_STEP = EStep(0, True, 0, np.ones(1), np.ones(2), (), (), 30, 1e-9, 20, 0.01)
SWEEP = Sweep(np.arange(5), np.zeros((2, 5)))
CONCLUDE = Conclude(True, np.ones((2, 5)), np.arange(5))
PLACES: list[tuple[Payload, str]] = [
    (SETUP, "own"), (SETUP, "shared"), (SWEEP, "active"), (CONCLUDE, "counted")
]  # fmt: skip


@pytest.mark.parametrize(("ask", "field"), PLACES, ids=lambda value: value if isinstance(value, str) else "")
def test_places_that_are_not_there_are_refused(labeled: Context, ask: Any, field: str) -> None:
    """NumPy would take the negative ones from the end, and the same place twice."""
    assert asked(labeled, SWEEP, number=3).fault == 0
    honest = getattr(ask, field)
    for places in ([-1], [N], [2**62], [-(2**63)], [0, 0]):
        crafted = honest.copy()
        crafted[: len(places)] = np.array(places)[: len(honest)]
        if len(honest) == 1 and len(places) == 2:
            crafted = np.array(places)
        answer = asked(labeled, replace(ask, **{field: crafted}), number=4)
        assert answer.fault == Fault.MALFORMED_ASK, places
    assert asked(labeled, ask, number=5).fault == 0


@pytest.mark.parametrize(
    "ask",
    [
        *(replace(SETUP, n_classes=size) for size in (0, -1, MOST_CLASSES + 1, 2**53)),
        *(replace(SETUP, n_clusters=np.array([size])) for size in (0, -1, 2**40)),
        replace(SETUP, n_clusters=np.array([2, 2]), clusterings=("a", "b")),
        *(replace(SETUP, grid_bits=bits) for bits in (-1, 53, 2**62)),
        *(replace(E_STEP, max_sweeps=sweeps, tolerance=0.0) for sweeps in (-1, 2**62)),
        replace(E_STEP, grid_bits=2**31),
        replace(E_STEP, smoothing=-1.0),
        *(replace(E_STEP, alpha=np.array([1.0, size])) for size in (0.0, 1e-9, 1e300)),
        *(replace(CONCLUDE, alpha=np.array([1.0, size])) for size in (-1.0, 1e300)),
        # Arrays without a number may have any size.
        Sweep(np.arange(0), np.zeros((2**31 - 1, 0))),
        replace(SWEEP, classes=np.zeros((2**31 - 1, 0), np.int64)),
        replace(CONCLUDE, gamma=np.ones((3, 5))),
    ],
    ids=lambda _: "",
)
def test_sizes_that_would_fill_the_site_s_memory_or_time_are_refused(labeled: Context, ask: Payload) -> None:
    with at_most(MiB):
        assert asked(labeled, ask, number=3).fault == Fault.MALFORMED_ASK


@pytest.mark.parametrize("kind", ["fit", "prediction"])
def test_classes_of_many_instances_are_refused_before_they_take_gigabytes(tmp_path: Path, kind: str) -> None:
    """50,000 classes of 3000 instances took 9 GB, for an ask of 16 MB."""
    labels = np.arange(6000).reshape(3000, 2) % 3
    np.savetxt(tmp_path / "own.csv", labels, "%d", ",", header="class_a,class_b", comments="")
    node: dict[str, Any] = {"site": "lab", "data": str(tmp_path / "own.csv"), "allow-shared-instances": True}
    site = Context(1, 7, node, RecordDict(), config(tmp_path, protocol="bc3e"))
    alpha = np.ones(50_000)
    ask = replace(E_STEP, alpha=alpha) if kind == "fit" else PredictRows(alpha, (), (), 1e-8, 50)
    asked(site, Survey("row", "salt"))
    with at_most(4 * MiB):
        assert asked(site, ask, number=2).fault == Fault.MALFORMED_ASK


def test_a_single_model_is_not_asked_for_by_leaving_the_survey_out(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    np.savetxt(path, np.column_stack([np.arange(N), np.arange(N) % 2]), "%d", ",", header="case,class_a", comments="")
    node: dict[str, Any] = {"site": "lab", "data": str(path), "id": "case", "allow-shared-instances": True}
    context = Context(1, 7, node, RecordDict(), config(tmp_path, protocol="bc3e"))
    assert asked(context, Survey("row", "salt")).fault == 0
    setup = replace(SETUP, clusterings=(), n_clusters=np.zeros(0, np.int64), own=np.zeros(0, np.int64))
    assert asked(context, setup, number=2).fault == Fault.TOO_FEW_MODELS


@pytest.mark.parametrize(
    "sizes",
    [
        {"n_classes": MOST_CLASSES + 1},
        {"n_classes": 2**62},
        {"n_classes": -1},
        {"instances": MOST_INSTANCES + 1},
        {"instances": 2**62},
    ],
    ids=str,
)
def test_sizes_that_cannot_be_cost_their_site_and_nobody_else(tmp_path: Path, sizes: dict[str, Any]) -> None:
    settings = config(tmp_path, bc3e__max_rounds=1, bc3e__sweeps=1)

    def tamper(place: int, round_number: int, reply: Message) -> Message:
        if (place, round_number) == (1, 1):
            records = reply.content.config_records["0.scalars"], reply.content.array_records["0.arrays"]
            plain = {key: value for key, value in records[0].items() if key != "parcel"}
            told = decode(Holdings, ConfigRecord(plain), records[1])
            assert isinstance(told, Holdings)
            scalars, _ = encode(replace(told, **sizes))
            records[0].update(scalars)
        return reply

    with at_most(200 * MiB):
        report, _ = load(run_over(make_grid(settings, 3, tamper=tamper), settings))
    [(site, [told])] = report.missing.items()
    assert site == "site-1"
    assert told.startswith("round 1: ")
    assert "bc3e.Holdings" in told
