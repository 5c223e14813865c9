"""Trees and ensembles of them: models whose nodes scikit-learn follows without checking."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Bool, Int64

from protocols.models.contract import (
    DECISION_TREE,
    DUMMY,
    KINDS,
    MOST_CLASSES,
    MOST_FEATURES,
    MOST_WIDTH,
    TRAINING_ONLY,
    a_list,
    accepts,
    array,
    checked,
    get,
    inputs,
    integer,
    known,
    number,
    one_of,
    parameters,
    same_inputs,
    wrong,
)
from protocols.models.parts import TREE, Part

_SQUARED_ERROR = "sklearn._loss.loss.HalfSquaredError"
_IDENTITY = "sklearn._loss.link.IdentityLink"
_PREDICTOR = "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"
_BIN_MAPPER = "sklearn.ensemble._hist_gradient_boosting.binning._BinMapper"
_NO_CHILD = -1
_ROUNDING = 1e-6


def unfitted(tree: Any) -> Any:
    """Return a decision tree that was never fitted, with its default settings only."""
    default = type(tree)()
    twin = object.__new__(type(tree))
    settings = parameters(f"{type(tree).__module__}.{type(tree).__qualname__}")
    vars(twin).update({name: TRAINING_ONLY.get(name, getattr(default, name)) for name in settings})
    return twin


def leaves_only(tree: Any) -> Any:
    """Return a compiled tree without the values of its inner nodes.

    A node's value is the mean of its rows: with those of its children it would reveal how many rows went to each.
    """
    state = tree.__getstate__()
    inner = state["nodes"]["left_child"] != _NO_CHILD
    values = np.where(inner[:, np.newaxis, np.newaxis], 0.0, state["values"])
    twin = type(tree)(tree.n_features, tree.n_classes, tree.n_outputs)
    twin.__setstate__({**state, "values": values})
    return twin


def _binary_tree(
    part: Part,
    inner: Bool[np.ndarray, "nodes"],
    left: Int64[np.ndarray, "nodes"],
    right: Int64[np.ndarray, "nodes"],
    feature: Int64[np.ndarray, "nodes"],
    p: int,
) -> Int64[np.ndarray, "nodes"]:
    """Return the depth of each node, after checking that children follow their parents, each with one parent."""
    n = len(inner)
    parents = np.tile(np.flatnonzero(inner), 2)
    children = np.concatenate([left[inner], right[inner]])
    if (children <= parents).any() or (children >= n).any():
        raise wrong(part, "nodes", "has a child that does not come after its parent, or does not exist")
    if len(children) != n - 1 or (np.bincount(children, minlength=n)[1:] != 1).any():
        raise wrong(part, "nodes", "has a node that is not the child of exactly one other")
    split_columns = feature[inner]
    if (split_columns < 0).any() or (split_columns >= p).any():
        raise wrong(part, "nodes", f"asks for an input that is not one of the {p}")
    # Every node adds the depth of an ancestor twice as far away, until all have reached the root.
    above = np.zeros(n, np.int64)
    above[children] = parents
    depth = (np.arange(n) > 0).astype(np.int64)
    while above.any():
        depth += depth[above]
        above = above[above]
    if depth.max() > MOST_WIDTH:
        raise wrong(part, "nodes", f"has a node more than {MOST_WIDTH} levels below the root")
    return depth


@accepts(TREE, fitted="max_depth node_count nodes values", predicts=False, has_parameters=False)
def _tree(part: Part) -> int:
    """``sklearn.tree._tree.Tree``; its constructor reads ``n_classes`` as far as ``n_outputs`` says.

    A regression has one class; the values of a classification are the shares of the classes.
    """
    arguments = part.arguments
    if not isinstance(arguments, tuple) or len(arguments) != 3:
        raise wrong(part, "arguments", "are not three")
    p, n_classes, n_outputs = arguments
    if type(p) is not int or not 1 <= p <= MOST_FEATURES or type(n_outputs) is not int or n_outputs != 1:
        raise wrong(part, "arguments", "are not a number of inputs and one output")
    array(Part(TREE, {"n_classes": n_classes}), "n_classes", (1,), "int64")
    k = int(n_classes[0])
    if not 1 <= k <= MOST_CLASSES:
        raise wrong(part, "arguments", f"are not those of a regression, or of {MOST_CLASSES} classes at most")
    nodes = _nodes(part, "left_child")
    n = integer(part, "node_count", len(nodes), len(nodes))
    values = array(part, "values", (n, 1, k))
    left, right, inner = nodes["left_child"], nodes["right_child"], nodes["left_child"] != _NO_CHILD
    if (right[~inner] != _NO_CHILD).any():
        raise wrong(part, "nodes", "has a leaf with a child")
    if k > 1 and ((values < 0).any() or (np.abs(values[~inner].sum(axis=2) - 1) > _ROUNDING).any()):
        raise wrong(part, "values", "has a leaf whose shares of the classes are not shares")
    depth = _binary_tree(part, inner, left, right, nodes["feature"], p)
    if np.isnan(nodes["threshold"]).any() or (nodes["missing_go_to_left"] > 1).any():
        raise wrong(part, "nodes", "has a threshold that is not a number")
    deepest = int(depth.max())
    integer(part, "max_depth", deepest, deepest)
    if part.state.keys() != {"max_depth", "node_count", "nodes", "values"}:
        raise wrong(part, "state", "holds other things than nodes and their values")
    return p


def _nodes(part: Part, field_name: str) -> np.ndarray:
    nodes = get(part, "nodes")
    names = nodes.dtype.names if isinstance(nodes, np.ndarray) else None
    if names is None or field_name not in names or nodes.ndim != 1 or not len(nodes):
        raise wrong(part, "nodes", "is not a list of one or more nodes")
    return np.asarray(nodes)


@accepts(DECISION_TREE, fitted="tree_ n_outputs_ n_features_in_")
def _decision_tree(part: Part) -> int:
    return single_tree(part, 1)


def single_tree(part: Part, n_classes: int) -> int:
    """Check a decision tree of one outcome, of so many classes (1: of an amount), and return the number of inputs."""
    integer(part, "n_outputs_", 1, 1)
    tree = get(part, "tree_")
    same_inputs(part, checked(tree, TREE))
    if tree.arguments[1][0] != n_classes:
        raise wrong(part, "tree_", f"has {tree.arguments[1][0]} classes, and {n_classes} is expected")
    return inputs(part)


@accepts(
    "sklearn.ensemble._forest.RandomForestRegressor",
    fitted="estimators_ estimator n_outputs_ n_features_in_",
    blank={"estimator": unfitted},  # scikit-learn reads its accepted inputs
)
def _forest(part: Part) -> int:
    for tree in forest_trees(part, DECISION_TREE):
        same_inputs(part, checked(tree, DECISION_TREE))
    return inputs(part)


def forest_trees(part: Part, tree_type: str) -> list[Any]:
    """Return the trees of a forest, after a check of all else."""
    integer(part, "n_outputs_", 1, 1)
    pattern = known(get(part, "estimator"), tree_type)
    if pattern.state.keys() & set(KINDS[tree_type].fitted):
        raise wrong(part, "estimator", "is fitted")
    return a_list(part, "estimators_")


@accepts(
    "sklearn.ensemble._gb.GradientBoostingRegressor",
    fitted="estimators_ init_ _loss n_trees_per_iteration_ n_features_in_",
)
def _gradient_boosting(part: Part) -> int:
    checked(get(part, "_loss"), _SQUARED_ERROR)
    return boosted_trees(part, 1, DUMMY)


def boosted_trees(part: Part, n_columns: int, start: str) -> int:
    """Check boosted trees, `n_columns` in a step, that start from a constant model; return the number of inputs."""
    stages = get(part, "estimators_")
    if not isinstance(stages, np.ndarray) or stages.dtype != object or not len(stages):
        raise wrong(part, "estimators_", "is not a column of trees")
    if stages.ndim != 2 or stages.shape[1] != n_columns:
        raise wrong(part, "estimators_", f"does not have {n_columns} trees in every step")
    integer(part, "n_trees_per_iteration_", n_columns, n_columns)
    number(part, "learning_rate")
    for inner, type_name in [(get(part, "init_"), start), *((tree, DECISION_TREE) for tree in stages.ravel())]:
        same_inputs(part, checked(inner, type_name))
    return inputs(part)


@accepts(
    "sklearn.ensemble._hist_gradient_boosting.gradient_boosting.HistGradientBoostingRegressor",
    fitted="_predictors _baseline_prediction _bin_mapper _loss _preprocessor n_trees_per_iteration_ n_features_in_",
)
def _histogram_boosting(part: Part) -> int:
    checked(get(part, "_loss"), _SQUARED_ERROR)
    return histogram_trees(part, 1)


def histogram_trees(part: Part, n_columns: int) -> int:
    """Check histogram-based boosted trees, `n_columns` in an iteration, and return the number of inputs."""
    p = inputs(part)
    integer(part, "n_trees_per_iteration_", n_columns, n_columns)
    one_of(part, "_preprocessor", None)
    array(part, "_baseline_prediction", (1, n_columns))
    same_inputs(part, checked(get(part, "_bin_mapper"), _BIN_MAPPER))
    for iteration in a_list(part, "_predictors"):
        if not isinstance(iteration, list) or len(iteration) != n_columns:
            raise wrong(part, "_predictors", f"does not have {n_columns} trees for every iteration")
        for tree in iteration:
            checked(tree, _PREDICTOR)
            _predictor_nodes(tree, p)
    return p


@accepts(
    _PREDICTOR,
    fitted="nodes binned_left_cat_bitsets raw_left_cat_bitsets",
    predicts=False,
    has_parameters=False,
)
def _predictor(part: Part) -> int:
    for name in ("binned_left_cat_bitsets", "raw_left_cat_bitsets"):
        array(part, name, (0, 8), "uint32")  # there are no categories, so no node has a set of them
    return 0  # unknown to a predictor; `_predictor_nodes` has it from the model around it


def _predictor_nodes(part: Part, p: int) -> None:
    nodes = _nodes(part, "is_leaf")
    left, right = nodes["left"].astype(np.int64), nodes["right"].astype(np.int64)
    depth = _binary_tree(part, nodes["is_leaf"] == 0, left, right, nodes["feature_idx"], p)
    if nodes["is_categorical"].any() or (nodes["is_leaf"] > 1).any() or (nodes["missing_go_to_left"] > 1).any():
        raise wrong(part, "nodes", "has a node that is neither a leaf nor a threshold")
    if not np.isfinite(nodes["value"]).all() or np.isnan(nodes["num_threshold"]).any():
        raise wrong(part, "nodes", "has a value or a threshold that is not a number")
    if (nodes["depth"] != depth).any():
        raise wrong(part, "nodes", "has a depth that is not the node's")


@accepts(
    _BIN_MAPPER,
    fitted="is_categorical_ bin_thresholds_",
    predicts=False,
    has_parameters=False,
    blank={"bin_thresholds_": lambda _: []},  # quantiles of the sender's rows
)
def _bin_mapper(part: Part) -> int:
    is_categorical = get(part, "is_categorical_")
    p = is_categorical.size if isinstance(is_categorical, np.ndarray) else 0
    if array(part, "is_categorical_", (p,), "uint8").any():
        raise wrong(part, "is_categorical_", "has inputs that are not numbers")
    one_of(part, "bin_thresholds_", [])
    return p


@accepts(_SQUARED_ERROR, fitted="link", predicts=False, has_parameters=False)
def _squared_error(part: Part) -> int:
    return checked(get(part, "link"), _IDENTITY)


@accepts(_IDENTITY, fitted="", predicts=False, has_parameters=False)
def _identity(part: Part) -> int:
    return 0
