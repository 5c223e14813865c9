"""Models on the wire: what comes back, and what is refused before anything of it is constructed."""

from __future__ import annotations

import io
import json
import pickle
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from sklearn.compose import TransformedTargetRegressor
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import ElasticNet, Lars, Lasso, LassoLars, LinearRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVR, NuSVR
from sklearn.tree import DecisionTreeRegressor

import protocols.models as wire
from common.skops_import import skops_io
from protocols.models import ModelError, archive, check_model, decode_model, decode_models, encode_model, n_features
from protocols.models.archive import unpack

P = 4
Change = Callable[[Any], None]


def _rows(n: int = 120) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(n, P))
    return x, 50 + 10 * (x @ [1.0, 2.0, 0.0, -1.0] + np.abs(x[:, 0]) + 0.3 * rng.normal(size=n))


X, Y = _rows()
MODELS: dict[str, Callable[[], Any]] = {
    "linear": LinearRegression,
    "linear-without-intercept": lambda: LinearRegression(fit_intercept=False),
    "ridge": lambda: Ridge(alpha=np.float64(0.3), random_state=3),
    "lasso": lambda: Lasso(alpha=0.05),
    "elastic-net": lambda: ElasticNet(alpha=0.05),
    "lars": Lars,
    "lasso-lars": lambda: LassoLars(alpha=0.01),
    "tree": lambda: DecisionTreeRegressor(random_state=np.random.RandomState(1)),
    "pruned-tree": lambda: DecisionTreeRegressor(ccp_alpha=2.0, random_state=0),
    "best-first-tree": lambda: DecisionTreeRegressor(max_leaf_nodes=20, random_state=0),
    "stump": lambda: DecisionTreeRegressor(max_depth=1),
    "leaf": lambda: DecisionTreeRegressor(min_samples_split=10_000),
    "forest": lambda: RandomForestRegressor(12, n_jobs=1, random_state=0),
    "gradient-boosting": lambda: GradientBoostingRegressor(n_estimators=15, subsample=0.7, random_state=0),
    "histogram-boosting": lambda: HistGradientBoostingRegressor(max_iter=15, random_state=0),
    "neighbors": lambda: KNeighborsRegressor(algorithm="brute"),
    "neighbors-by-distance": lambda: KNeighborsRegressor(3, algorithm="brute", weights="distance", p=1),
    "support-vectors": lambda: SVR(C=5.0),
    "support-vectors-none": lambda: SVR(epsilon=1e9),
    "support-vectors-poly": lambda: SVR(kernel="poly", degree=2),
    "network": lambda: MLPRegressor(hidden_layer_sizes=(8, 5), max_iter=30, random_state=0, early_stopping=True),
    "constant": DummyRegressor,
    "pipeline": lambda: make_pipeline(StandardScaler(), Lasso(0.01)),
    "pipeline-centered-only": lambda: make_pipeline(StandardScaler(with_std=False), Ridge()),
    "scaled": lambda: TransformedTargetRegressor(make_pipeline(StandardScaler(), SVR()), transformer=StandardScaler()),
    "scaled-forest": lambda: TransformedTargetRegressor(
        RandomForestRegressor(3, random_state=0), transformer=StandardScaler()
    ),
}


def _fitted(name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return MODELS[name]().fit(X, Y)


@cache
def _encoded(name: str) -> np.ndarray:
    """A fitted model's bytes, which nobody can change."""
    data = encode_model(_fitted(name))
    data.setflags(write=False)
    return data


@pytest.mark.parametrize("name", MODELS)
def test_a_model_comes_back_predicting_bit_for_bit_the_same(name: str) -> None:
    model = _fitted(name)
    data = encode_model(model)
    fresh = np.random.default_rng(1).normal(size=(500, P)) * 2
    back = decode_model(data)
    assert data.dtype == np.uint8
    assert np.array_equal(back.predict(fresh), model.predict(fresh))
    assert n_features(back) == check_model(data) == P
    assert type(back) is type(model)
    assert repr(back)
    assert np.array_equal(encode_model(back), data)


def test_encoding_leaves_the_model_as_it_was() -> None:
    model = _fitted("forest")
    before = pickle.dumps(model)
    encode_model(model)
    assert pickle.dumps(model) == before


def test_a_decoded_model_can_be_fitted_again() -> None:
    back = decode_model(_encoded("scaled"))
    x, y = _rows(40)
    assert isinstance(back.fit(x, y).regressor_[-1], SVR)


def test_what_only_training_needs_stays_with_the_sender() -> None:
    forest = decode_model(_encoded("forest"))
    assert forest.random_state is None
    for tree in forest.estimators_:
        assert tree.random_state is None
        assert not tree.tree_.n_node_samples.any()
        assert not tree.tree_.impurity.any()
        assert not tree.tree_.value[tree.tree_.children_left >= 0].any()
    network = vars(decode_model(_encoded("network")))
    assert not {"_optimizer", "_random_state", "loss_curve_", "_best_coefs"} & set(network)
    boosted = decode_model(_encoded("histogram-boosting"))
    assert boosted._bin_mapper.bin_thresholds_ == []
    nodes = np.concatenate([stage[0].nodes for stage in boosted._predictors])
    assert not any(nodes[field].any() for field in ("count", "gain", "bin_threshold"))
    assert not nodes["value"][nodes["is_leaf"] == 0].any()
    assert not decode_model(_encoded("support-vectors")).support_.any()


def test_many_models_are_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    files = [_encoded(name) for name in ("linear", "lasso")]
    bad = np.frombuffer(b"nothing", np.uint8)
    monkeypatch.setattr(wire, "_cache", wire._Cache(10**6))
    first = decode_models([*files, bad, files[0]])
    assert isinstance(first[2], ModelError)
    assert first[0] is first[3]
    assert first[1].predict(X[:1]).shape == (1,)
    _forbid_loading(monkeypatch)
    assert decode_models(files)[0] is first[0]


def test_the_least_recently_used_models_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    files = [encode_model(Ridge(alpha).fit(X, Y)) for alpha in (1.0, 2.0, 3.0)]
    size = unpack(files[0].tobytes()).size
    monkeypatch.setattr(wire, "_cache", wire._Cache(2 * size + size // 2))
    one, two = decode_models(files[:2])
    assert decode_models(files[:1])[0] is one
    decode_models(files[2:])
    assert decode_models(files[:1])[0] is one
    assert decode_models(files[1:2])[0] is not two


# -- what is not encoded --------------------------------------------------------------------------


def _double(values: np.ndarray) -> np.ndarray:
    return 2 * values


class Disguised(Ridge):
    """A subclass from elsewhere."""


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (NuSVR(), "holds sklearn.svm._classes.NuSVR, which is not on the list of models that are accepted"),
        (Disguised(), "holds tests.unit.protocols.test_models.Disguised, which is not on the list"),
        (make_pipeline(MinMaxScaler(), Ridge()), "holds sklearn.preprocessing._data.MinMaxScaler, which is not on"),
        (KNeighborsRegressor(algorithm="kd_tree"), "holds sklearn.neighbors._kd_tree.KDTree, which is not on the list"),
        (KNeighborsRegressor(algorithm="brute", weights=_double), "a KNeighborsRegressor.weights that is not a number"),
        (GradientBoostingRegressor(loss="huber", n_estimators=2), "holds sklearn._loss.loss.HuberLoss, which is not"),
        (TransformedTargetRegressor(Ridge(), func=np.log, inverse_func=np.exp), "TransformedTargetRegressor.func that"),
        (make_pipeline(make_pipeline(StandardScaler(), Ridge())), "holds Pipeline where it should hold a regressor"),
    ],
)
def test_a_model_that_is_not_on_the_list_is_not_sent(model: Any, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        encode_model(model.fit(X, Y))


def test_models_that_do_not_predict_one_outcome_are_not_sent() -> None:
    with pytest.raises(ModelError, match=r"LinearRegression.coef_ has shape \(2, 4\), and \(4,\) is expected"):
        encode_model(LinearRegression().fit(X, np.column_stack([Y, Y])))
    with pytest.raises(ModelError, match="is not fitted: its Ridge has no coef_") as caught:
        encode_model(Ridge())
    assert caught.value.type_name == "sklearn.linear_model._ridge.Ridge"
    with pytest.raises(ModelError, match="is a StandardScaler, which is not a regressor"):
        encode_model(StandardScaler().fit(X))


# -- forged files ---------------------------------------------------------------------------------


def _forbid_loading(monkeypatch: pytest.MonkeyPatch) -> None:
    def loads(*_: Any, **__: Any) -> None:
        raise AssertionError("something was constructed")

    monkeypatch.setattr(skops_io(), "loads", loads)


def _read(data: np.ndarray) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data.tobytes())) as file:
        return {name: file.read(name) for name in file.namelist()}


def _write(members: dict[str, bytes]) -> np.ndarray:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return np.frombuffer(buffer.getvalue(), np.uint8)


def _with_schema(data: np.ndarray, change: Change) -> np.ndarray:
    members = _read(data)
    schema = json.loads(members["schema.json"])
    change(schema)
    return _write({**members, "schema.json": json.dumps(schema).encode()})


def _with_array(data: np.ndarray, attribute: str, change: Callable[[np.ndarray], Any]) -> np.ndarray:
    """The file with the array of the first attribute of that name changed in place, or replaced."""
    members = _read(data)
    name = _find(json.loads(members["schema.json"]), attribute)["file"]
    array = np.load(io.BytesIO(members[name]))
    changed = change(array)
    buffer = io.BytesIO()
    np.save(buffer, array if changed is None else changed)
    return _write({**members, name: buffer.getvalue()})


def _find(node: Any, attribute: str) -> Any:
    """The first node that is filed under this name."""
    if isinstance(node, dict):
        content = node.get("content")
        if isinstance(content, dict) and attribute in content:
            return content[attribute]
    children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return next((found for child in children if (found := _find(child, attribute)) is not None), None)


def _refused(data: np.ndarray, words: str, monkeypatch: pytest.MonkeyPatch) -> ModelError:
    """Refused by both ways in, with nothing constructed."""
    _forbid_loading(monkeypatch)
    with pytest.raises(ModelError, match=words):
        check_model(data)
    with pytest.raises(ModelError, match=words) as caught:
        decode_model(data)
    assert str(caught.value) == f"the model {caught.value.problem}"
    assert str(caught.value).isascii()
    assert len(str(caught.value)) < 400
    return caught.value


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "does not end as a zip does"),
        (pickle.dumps(Ridge().fit(X, Y)), "does not end as a zip does"),
        (b"PK\x05\x06" + bytes(18), "it has no schema.json"),
        (b"PK\x05\x06" + struct.pack("<4H2LH", 0, 0, 0, 60000, 5_000_000, 0, 0), "more than 20000 members"),
        (b"PK\x06\x07" + bytes(16) + b"PK\x05\x06" + bytes(18), "64-bit form"),
        (b"PK\x05\x06" + struct.pack("<4H2LH", 0, 0, 1, 1, 50, 0, 0), "cannot be read"),
    ],
)
def test_bytes_that_are_no_skops_file_are_refused(data: bytes, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _refused(np.frombuffer(data, np.uint8), words, monkeypatch)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        (
            "payload.pkl",
            b"cos\nsystem\n",
            "holds a file payload.pkl, which is neither schema.json nor a numbered array",
        ),
        ("../0.npy", b"", r"holds a file \.\./0.npy, which"),
        ("7.npy\u202egpj\x1b[2J", b"", "holds a file 7.npy"),
        ("schema.json", b"[" * 100_000, "its schema.json cannot be read"),
        ("schema.json", b"nothing", "its schema.json cannot be read"),
        ("schema.json", b"[]", "is not a skops file of protocol 2"),
        ("schema.json", b'{"protocol": 0}', "is not a skops file of protocol 2"),
        ("schema.json", b'{"protocol": true}', "is not a skops file of protocol 2"),
        ("schema.json", b" " * (17 * 2**20), "its schema.json takes more than"),
        ("9.npy", b"", "holds an array that is not of plain numbers"),
    ],
)
def test_files_with_wrong_members_are_refused(
    name: str, content: bytes, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = _read(_encoded("linear"))
    _refused(_write({**members, name: content}), words, monkeypatch)


def test_two_members_of_one_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    members = _read(_encoded("linear"))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in [*members, "schema.json"]:
            file.writestr(name, members[name])
    _refused(np.frombuffer(buffer.getvalue(), np.uint8), "two files of one name", monkeypatch)


def test_an_array_that_nothing_uses_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    members = _read(_encoded("linear"))
    _refused(_write({**members, "1.npy": members["0.npy"]}), "holds an array that no part of it uses", monkeypatch)


def test_zip_bombs_are_refused_without_being_inflated(monkeypatch: pytest.MonkeyPatch) -> None:
    members = _read(_encoded("linear"))
    assert archive.MOST_BYTES == 268435456
    with monkeypatch.context() as small:
        small.setattr(archive, "MOST_BYTES", 2**20)
        honest = _write({**members, "1.npy": bytes(2 * 2**20)})
        assert honest.size < 10**4
        _refused(honest, "inflates to .* bytes, and 1048576 are accepted", small)

    # One that claims to be small: the size and the check sum of the first bytes, in both headers.
    bomb = bytes(4 * 2**20)
    data = bytearray(_write({**members, "1.npy": bomb}).tobytes())
    for marker, offset in ((b"PK\x03\x04", 14), (b"PK\x01\x02", 16)):
        place = data.rindex(marker)
        data[place + offset : place + offset + 4] = struct.pack("<L", zlib.crc32(bomb[:100]))
        data[place + offset + 8 : place + offset + 12] = struct.pack("<L", 100)
    inflated: list[int] = []

    class Counted:
        """What zipfile inflates with."""

        def __init__(self, _: int) -> None:
            self._inflate = zlib.decompressobj(-15)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inflate, name)

        def decompress(self, data: bytes, most: int = 0) -> bytes:
            part = self._inflate.decompress(data, most)
            inflated.append(len(part))
            return part

    monkeypatch.setattr(zipfile, "_get_decompressor", Counted)
    _refused(np.frombuffer(bytes(data), np.uint8), "holds an array that is not of plain numbers", monkeypatch)
    assert 0 < sum(inflated) < 10**5


def test_one_array_mentioned_many_times_counts_many_times(monkeypatch: pytest.MonkeyPatch) -> None:
    big = np.zeros(2**20)
    members = _read(_encoded("network"))
    schema = json.loads(members["schema.json"])
    weights = _find(schema, "coefs_")["content"]
    buffer = io.BytesIO()
    np.save(buffer, big)
    members[weights[0]["file"]] = buffer.getvalue()
    _find(schema, "coefs_")["content"] = weights[:1] * 40 + weights[1:]
    data = _write({**members, "schema.json": json.dumps(schema).encode()})
    _refused(data, "its arrays take more than 268435456 bytes", monkeypatch)


def _head(loader: str, module: str, name: str, **rest: Any) -> dict[str, Any]:
    return {"__loader__": loader, "__module__": module, "__class__": name, **rest}


def _text(value: Any) -> dict[str, Any]:
    return _head("JsonNode", "builtins", "str", content=json.dumps(value), is_json=True)


def _tuple(*values: Any) -> dict[str, Any]:
    return _head("TupleNode", "builtins", "tuple", content=list(values))


FORGED = {
    "os.system": _head("FunctionNode", "os", "system"),
    "posix.system": _head("TypeNode", "posix", "system"),
    "functools.partial": _head(
        "PartialNode",
        "functools",
        "partial",
        content={"func": _head("FunctionNode", "os", "system"), "args": _tuple(), "kwds": None, "namespace": None},
    ),
    "numpy.load": _head("FunctionNode", "numpy", "load"),
    "builtins.eval": _head("ConstructorFromReduceNode", "builtins", "eval", content=_tuple(_text("1"))),
    "operator.methodcaller": _head("OperatorFuncNode", "operator", "methodcaller", attrs=_tuple(_text("fit"))),
    "builtins.map": _head("TypeNode", "builtins", "map"),
    "collections.OrderedDict": _head("DictNode", "collections", "OrderedDict", content={}, key_types=[]),
    "numpy.random._generator.Generator": _head("RandomGeneratorNode", "numpy.random._generator", "Generator"),
    "numpy.dtype": _head("DTypeNode", "numpy", "dtype"),
    "sklearn.svm._classes.NuSVR": _head("ObjectNode", "sklearn.svm._classes", "NuSVR", content=_text(None)),
    "tests.unit.protocols.test_models.Disguised": _head(
        "ObjectNode", "tests.unit.protocols.test_models", "Disguised", content=_text(None)
    ),
    "os.system.Ridge": _head("ObjectNode", "os.system", "Ridge", content=_text(None)),
}


@pytest.mark.parametrize("place", ["alpha", "coef_", "_sklearn_version", "extra"])
@pytest.mark.parametrize("type_name", FORGED)
def test_types_that_are_not_on_the_list_are_refused_and_named(
    type_name: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forge(schema: Any) -> None:
        attributes = schema["content"]
        if place not in attributes["content"]:
            attributes["key_types"]["content"].append(attributes["key_types"]["content"][0])
        attributes["content"][place] = FORGED[type_name]

    data = _with_schema(_encoded("ridge"), forge)
    words = f"holds {type_name}, which is not on the list of models that are accepted"
    assert _refused(data, words, monkeypatch).type_name == type_name


def _rename(module: str, name: str, loader: str = "ObjectNode") -> Change:
    return lambda schema: schema.update(__module__=module, __class__=name, __loader__=loader)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_rename("sklearn.linear_model._ridge", "Ridge", "TypeNode"), "under the loader TypeNode, and only ObjectNode"),
        (_rename("sklearn.linear_model._ridge", "Ridge", "MethodNode"), "under the loader MethodNode"),
        (_rename("builtins", "str", "ObjectNode"), "holds builtins.str under the loader ObjectNode"),
        (_rename("sklearn", "linear_model._ridge.Ridge"), "holds sklearn.linear_model._ridge.Ridge, which is not on"),
        (_rename("os\x1b[31m", "\u202esystem" * 50), r"holds os\?\[31m.\?system.*\.\.\., which is not on the list"),
        (_rename("sklearn.tree._tree", "Tree"), "under the loader ObjectNode, and only TreeNode"),
        (lambda schema: schema.update(__id__=7), "its ObjectNode is not as skops writes it"),
        (lambda schema: schema["content"].update(key_types=FORGED["os.system"]), "its DictNode is not as skops writes"),
        (lambda schema: schema.update(content=_text([1])), "its JsonNode is not as skops writes it"),
        (lambda schema: schema.update(content=_tuple()), "its ObjectNode is not as skops writes it"),
        (lambda schema: _find(schema, "coef_").update(file="5.npy"), "names an array that the file does not hold"),
        (lambda schema: _find(schema, "coef_").update(file="../../etc"), "names an array that the file does not hold"),
        (lambda schema: _find(schema, "coef_").update(type="other"), "its NdArrayNode is not as skops writes it"),
        (lambda schema: schema["content"]["content"].update(alpha=_nested(50)), "is nested too deeply"),
        (lambda schema: schema["content"]["content"].update(alpha=_tuple(_tuple())), "Ridge.alpha is not a setting"),
        (lambda schema: schema["content"]["content"].update(random_state=_text(1)), "Ridge.random_state is not a sett"),
        (lambda schema: schema["content"]["content"].update(intercept_=_text(float("nan"))), "intercept_ is not a fin"),
        (lambda schema: schema["content"]["content"].update(n_features_in_=_text(3)), r"shape \(4,\), and \(3,\) is"),
        (lambda schema: schema["content"]["content"].update(n_features_in_=_text(True)), "is not a whole number from"),
    ],
)
def test_forged_schemas_are_refused(change: Change, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _refused(_with_schema(_encoded("ridge"), change), words, monkeypatch)


def _nested(depth: int) -> dict[str, Any]:
    node = _text(1)
    for _ in range(depth):
        node = _tuple(node)
    return node


@pytest.mark.parametrize("name", ["predict", "__class__", "get_params", "_secret", "a b"])
def test_an_attribute_that_is_not_of_the_model_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def forge(schema: Any) -> None:
        attributes = schema["content"]
        attributes["content"][name] = _text(1)
        attributes["key_types"]["content"].append(attributes["key_types"]["content"][0])

    words = f"Ridge.{name} is not known here"
    _refused(_with_schema(_encoded("ridge"), forge), words, monkeypatch)


def _npy(descr: str, shape: str = "(4,)", payload: bytes = bytes(32)) -> bytes:
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + payload


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (_npy("'|O'", payload=pickle.dumps([1, 2, 3, 4])), "not of plain numbers or tree nodes"),
        (_npy("'<U4'"), "not of plain numbers or tree nodes"),
        (_npy("'<f8'", "(__import__('os').getpid(),)"), "not of plain numbers or tree nodes"),
        (_npy("'<f8'", "(99999999999,)"), "whose shape is too large"),
        (_npy("'<f8'", "(0, 999999999999, 999999999999)", b""), "whose shape is too large"),
        (_npy("'<f8'", payload=bytes(31)), "bytes are not as many as its shape says"),
        (_npy("'<f8'", payload=np.array([1, 2, np.nan, 4]).tobytes()), "coef_ holds NaN or infinity"),
        (_npy("'<i8'"), "coef_ is not an array of float64"),
        (_npy("'<f8'", "(2, 2)"), r"coef_ has shape \(2, 2\)"),
    ],
)
def test_forged_arrays_are_refused(content: bytes, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    members = _read(_encoded("ridge"))
    _refused(_write({**members, "0.npy": content}), words, monkeypatch)


def _set(field: str, where: int, value: Any) -> Callable[[np.ndarray], None]:
    def change(array: np.ndarray) -> None:
        (array[field] if field else array)[where] = value

    return change


@pytest.mark.parametrize("name", ["tree", "forest", "gradient-boosting"])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_set("left_child", 0, 10**6), "child that does not come after its parent, or does not exist"),
        (_set("left_child", 0, -7), "child that does not come after its parent"),
        (_set("right_child", 0, 0), "child that does not come after its parent"),
        (_set("right_child", 0, 1), "not the child of exactly one other"),
        (_set("left_child", 0, -1), "has a leaf with a child"),
        (_set("feature", 0, P), "asks for an input that is not one of the 4"),
        (_set("feature", 0, -2), "asks for an input that is not one of the 4"),
        (_set("threshold", 0, np.nan), "threshold that is not a number"),
        (lambda nodes: nodes[:-1], "node_count is not"),
        (lambda nodes: nodes[:0], "not a list of one or more nodes"),
        (lambda nodes: nodes["threshold"].copy(), "not a list of one or more nodes"),
    ],
)
def test_forged_trees_are_refused(name: str, change: Any, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    error = _refused(_with_array(_encoded(name), "nodes", change), words, monkeypatch)
    assert error.type_name == "sklearn.tree._tree.Tree"


def _bend_tree(field: str, value: float) -> Change:
    """Change the root of a forest's fourth tree."""

    def bend(model: Any) -> None:
        tree = model.estimators_[3].tree_
        state = tree.__getstate__()
        nodes = state["nodes"].copy()
        nodes[field][0] = value
        tree.__setstate__({**state, "nodes": nodes})

    return bend


def _bend_histogram(field: str, value: float) -> Change:
    """Change the root of a boosted model's third tree."""

    def bend(model: Any) -> None:
        model._predictors[2][0].nodes[field][0] = value

    return bend


def _cut_weights(model: Any) -> None:
    model._dual_coef_ = model._dual_coef_[:, :3]


@pytest.mark.parametrize(
    ("name", "bend", "words"),
    [
        ("forest", _bend_tree("left_child", 10_000), "child that does not come after its parent, or does not exist"),
        ("forest", _bend_tree("right_child", 0), "child that does not come after its parent"),
        ("forest", _bend_tree("right_child", 1), "not the child of exactly one other"),
        ("forest", _bend_tree("feature", P), "asks for an input that is not one of the 4"),
        ("forest", _bend_tree("feature", -7), "asks for an input that is not one of the 4"),
        ("forest", _bend_tree("threshold", np.nan), "threshold that is not a number"),
        ("histogram-boosting", _bend_histogram("left", 0), "child that does not come after its parent"),
        ("histogram-boosting", _bend_histogram("feature_idx", 99), "asks for an input that is not one of the 4"),
        ("support-vectors", _cut_weights, r"_dual_coef_ has shape \(1, 3\)"),
    ],
)
def test_one_unsound_part_among_sound_ones_is_found_by_sender_and_receiver(
    name: str, bend: Change, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = _fitted(name)
    bend(model)
    with pytest.raises(ModelError, match=words):
        encode_model(model)
    with monkeypatch.context() as careless:
        careless.setattr(wire, "check_predictor", lambda *_: P)
        data = encode_model(model)
    _refused(data, words, monkeypatch)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda tree: tree["__reduce__"]["args"]["content"].__setitem__(0, _text(9)), "but a part of it takes 9 input"),
        (lambda tree: tree["__reduce__"]["args"]["content"].__setitem__(2, _text(10**6)), "and one output"),
        (lambda tree: tree["__reduce__"]["args"]["content"].pop(), "Tree.arguments are not three"),
        (lambda tree: tree["content"]["content"].update(node_count=_text(10**6)), "Tree.node_count is not"),
        (lambda tree: tree["content"]["content"].update(max_depth=_text(1)), "Tree.max_depth is not"),
        (lambda tree: tree["content"]["content"].update(values=_text(1)), "an array that no part of it uses"),
    ],
)
def test_forged_constructors_of_trees_are_refused(change: Change, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = _with_schema(_encoded("tree"), lambda schema: change(_find(schema, "tree_")))
    _refused(data, words, monkeypatch)


def test_no_unsound_tree_hides_where_none_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def hide(schema: Any) -> None:
        tree, pattern = _find(schema, "tree_"), _find(schema, "estimator")["content"]
        pattern["content"]["tree_"] = tree
        pattern["key_types"]["content"].append(pattern["key_types"]["content"][0])

    data = _encoded("forest")
    _refused(_with_schema(data, hide), "RandomForestRegressor.estimator is fitted", monkeypatch)

    def put(schema: Any) -> None:
        schema["content"]["content"]["_sklearn_version"] = _find(schema, "tree_")

    _refused(_with_schema(data, put), "RandomForestRegressor._sklearn_version is not known here", monkeypatch)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_set("left", 0, 10**6), "child that does not come after its parent"),
        (_set("right", 0, 0), "child that does not come after its parent"),
        (_set("feature_idx", 0, P), "asks for an input that is not one of the 4"),
        (_set("feature_idx", 0, -1), "asks for an input that is not one of the 4"),
        (_set("is_categorical", 0, 1), "neither a leaf nor a threshold"),
        (_set("is_leaf", 0, 1), "not the child of exactly one other"),
        (_set("value", 0, np.inf), "value or a threshold that is not a number"),
        (_set("depth", 1, 5), "depth that is not the node's"),
        (lambda nodes: nodes[:0], "not a list of one or more nodes"),
    ],
)
def test_forged_histogram_trees_are_refused(change: Any, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = _with_array(_encoded("histogram-boosting"), "nodes", change)
    error = _refused(data, words, monkeypatch)
    assert error.type_name.endswith("TreePredictor")


def test_histogram_models_with_categories_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = _encoded("histogram-boosting")
    flagged = _with_array(data, "is_categorical_", _set("", 0, 1))
    _refused(flagged, "_BinMapper.is_categorical_ has inputs that are not numbers", monkeypatch)


@pytest.mark.parametrize(
    ("attribute", "change", "words"),
    [
        ("support_", lambda old: np.zeros(len(old) + 50, old.dtype), "_n_support is not"),
        ("support_vectors_", lambda old: old[:-1], "support_vectors_ has shape"),
        ("support_vectors_", lambda old: old[:, :-1], "support_vectors_ has shape"),
        ("_n_support", lambda old: old + 1, "_n_support is not"),
        ("_n_support", lambda old: old[:1], "_n_support has shape"),
        ("_dual_coef_", lambda old: old[:, :-1], "dual_coef_ has shape"),
        ("_intercept_", lambda old: old[:0], "intercept_ has shape"),
        ("_probA", lambda _: np.zeros(3), "_probA has shape"),
    ],
)
def test_forged_support_vectors_are_refused(
    attribute: str, change: Any, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _refused(_with_array(_encoded("support-vectors"), attribute, change), words, monkeypatch)


@pytest.mark.parametrize(
    ("name", "attribute", "value", "words"),
    [
        ("neighbors", "n_neighbors", 121, "n_neighbors is not a whole number from 1 to 120"),
        ("neighbors", "n_samples_fit_", 119, r"_fit_X has shape \(120, 4\)"),
        ("neighbors", "_fit_method", "kd_tree", "_fit_method is not 'brute'"),
        ("neighbors", "effective_metric_", "haversine", "effective_metric_ is not 'euclidean'"),
        ("support-vectors", "kernel", "precomputed", "kernel is not 'linear'"),
        ("support-vectors", "degree", -3, "degree is not a whole number from 0"),
        ("support-vectors", "_sparse", True, "_sparse is not False"),
        ("network", "n_layers_", 9, "n_layers_ is not 4"),
        ("network", "out_activation_", "softmax", "out_activation_ is not 'identity'"),
        ("histogram-boosting", "_preprocessor", 1, "_preprocessor is not None"),
        ("gradient-boosting", "learning_rate", float("inf"), "learning_rate is not a finite number"),
        ("constant", "n_outputs_", 2, "n_outputs_ is not 1"),
        ("scaled", "_training_dim", 2, "_training_dim is not 1"),
    ],
)
def test_forged_attributes_are_refused(
    name: str, attribute: str, value: Any, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forge(schema: Any) -> None:
        _find(schema, attribute).update(_text(value))

    _refused(_with_schema(_encoded(name), forge), words, monkeypatch)


def test_the_parts_of_a_model_fit_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Pipeline([("scale", StandardScaler().fit(X)), ("fit", Ridge().fit(X[:, :3], Y))])
    with pytest.raises(ModelError, match=r"Pipeline\.steps take different numbers of inputs"):
        encode_model(model)
    zero = _with_array(_encoded("pipeline"), "scale_", _set("", 0, 0.0))
    _refused(zero, "StandardScaler.scale_ holds a zero", monkeypatch)


def test_a_model_that_cannot_predict_is_refused_in_words_of_ours() -> None:
    def forge(schema: Any) -> None:
        _find(schema, "n_estimators").update(_text("a text of theirs"))

    with pytest.raises(
        ModelError, match="cannot be loaded, or does not predict, with the scikit-learn of this"
    ) as caught:
        decode_model(_with_schema(_encoded("forest"), forge))
    assert "theirs" not in str(caught.value)
    broken = Ridge().fit(X, Y)
    broken.coef_, broken.intercept_ = np.full(P, 1e308), 1e308
    huge = make_pipeline(StandardScaler(), broken)
    huge[0].fit(X + 1e3)
    with pytest.raises(ModelError, match="does not predict one finite number for a row of zeros"):
        decode_model(encode_model(huge))


@pytest.mark.parametrize(
    "name", ["linear", "tree", "histogram-boosting", "neighbors", "support-vectors", "network", "scaled"]
)
def test_damaged_files_are_models_or_refused(name: str) -> None:
    """Bits flipped in the file as it crosses (its check sums find that), and inside members whose sums are right."""
    rng = np.random.default_rng(7)
    data = _encoded(name)
    members = _read(data)
    refused = 0
    for trial in range(60):
        if trial % 3 == 0:
            damaged = data.copy()
            damaged[rng.integers(len(data), size=rng.integers(1, 4))] ^= np.uint8(1 << rng.integers(8))
        else:
            picked = str(rng.choice(list(members)))
            content = np.frombuffer(members[picked], np.uint8).copy()
            content[rng.integers(len(content), size=rng.integers(1, 4))] ^= np.uint8(1 << rng.integers(8))
            damaged = _write({**members, picked: content.tobytes()})
        try:
            predictions = decode_model(damaged).predict(X)
        except ModelError:
            refused += 1
        else:
            assert predictions.shape == (len(X),)
    assert refused
