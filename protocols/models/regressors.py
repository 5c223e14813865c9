"""Models without trees, and what may be around any model: scalers of inputs and outcome."""

from __future__ import annotations

import numpy as np

from protocols.models.contract import (
    DUMMY,
    MOST_WIDTH,
    PIPELINE,
    a_list,
    accepts,
    array,
    check_predictor,
    checked,
    classifiers,
    get,
    inputs,
    integer,
    known,
    number,
    one_of,
    regressors,
    wrong,
)
from protocols.models.parts import Part

_SCALER = "sklearn.preprocessing._data.StandardScaler"
_TRANSFORMED = "sklearn.compose._target.TransformedTargetRegressor"
_LINEAR = "coef_ intercept_ n_features_in_"


@accepts("sklearn.linear_model._base.LinearRegression", fitted=_LINEAR)
@accepts("sklearn.linear_model._ridge.Ridge", fitted=_LINEAR)
@accepts("sklearn.linear_model._coordinate_descent.Lasso", fitted=_LINEAR)
@accepts("sklearn.linear_model._coordinate_descent.ElasticNet", fitted=_LINEAR)
@accepts("sklearn.linear_model._least_angle.Lars", fitted=_LINEAR)
@accepts("sklearn.linear_model._least_angle.LassoLars", fitted=_LINEAR)
def _linear(part: Part) -> int:
    p = inputs(part)
    array(part, "coef_", (p,), "float64 float32")
    number(part, "intercept_")
    return p


@accepts(
    "sklearn.neighbors._regression.KNeighborsRegressor",
    fitted="_fit_X _y _fit_method _tree effective_metric_ effective_metric_params_ n_samples_fit_ n_features_in_",
)
def _neighbors(part: Part) -> int:
    p = neighbors(part)
    array(part, "_y", (get(part, "n_samples_fit_"),))
    return p


def neighbors(part: Part) -> int:
    """Check the rows of a nearest-neighbor model, except their outcomes; return the number of its inputs."""
    p, n = inputs(part), integer(part, "n_samples_fit_", 1, 2**40)
    array(part, "_fit_X", (n, p))
    integer(part, "n_neighbors", 1, min(n, MOST_WIDTH))
    one_of(part, "weights", "uniform", "distance")
    one_of(part, "_fit_method", "brute")
    one_of(part, "_tree", None)
    one_of(part, "effective_metric_", "euclidean", "manhattan", "chebyshev")
    one_of(part, "effective_metric_params_", {})
    return p


@accepts(
    "sklearn.svm._classes.SVR",
    fitted="support_ support_vectors_ _n_support dual_coef_ _dual_coef_ intercept_ _intercept_ _probA _probB _gamma "
    "_sparse n_features_in_",
    blank={"support_": np.zeros_like},  # its length matters; its numbers are row numbers of the sender
)
def _support_vectors(part: Part) -> int:
    """Support vectors, as libsvm reads them: the first of ``_n_support`` is the length of all arrays."""
    p = inputs(part)
    support = get(part, "support_")
    m = support.size if isinstance(support, np.ndarray) else 0
    counts = array(part, "_n_support", (2,), "int32")
    if (counts != m).any():
        raise wrong(part, "_n_support", f"is not {m}, the number of support vectors")
    array(part, "support_", (m,), "int32")
    array(part, "support_vectors_", (m, p))
    for name in ("dual_coef_", "_dual_coef_"):
        array(part, name, (1, m))
    for name in ("intercept_", "_intercept_"):
        array(part, name, (1,))
    for name in ("_probA", "_probB"):
        array(part, name, (0,))
    one_of(part, "_sparse", False)
    one_of(part, "kernel", "linear", "poly", "rbf", "sigmoid")
    integer(part, "degree", 0, 1000)
    for name in ("_gamma", "coef0", "cache_size"):
        number(part, name)
    return p


@accepts(
    "sklearn.neural_network._multilayer_perceptron.MLPRegressor",
    fitted="coefs_ intercepts_ n_layers_ n_outputs_ out_activation_ n_features_in_",
)
def _network(part: Part) -> int:
    one_of(part, "out_activation_", "identity")
    return layers(part, 1)


def layers(part: Part, n_outputs: int) -> int:
    """Check the layers of a network that ends in so many outputs, and return the number of its inputs."""
    p, weights, biases = inputs(part), a_list(part, "coefs_"), a_list(part, "intercepts_")
    integer(part, "n_layers_", len(weights) + 1, len(weights) + 1)
    integer(part, "n_outputs_", n_outputs, n_outputs)
    one_of(part, "activation", "identity", "logistic", "tanh", "relu")
    if len(biases) != len(weights) or any(not isinstance(bias, np.ndarray) for bias in biases):
        raise wrong(part, "intercepts_", f"is not an array for each of the {len(weights)} layers")
    width = p
    for weight, bias in zip(weights, biases, strict=True):
        layer = Part(part.type_name, {"coefs_": weight, "intercepts_": bias})
        array(layer, "coefs_", (width, bias.size), "float64 float32")
        array(layer, "intercepts_", (bias.size,), "float64 float32")
        width = bias.size
        if width > MOST_WIDTH:
            raise wrong(part, "coefs_", f"has a layer of more than {MOST_WIDTH} units")
    if width != n_outputs:
        raise wrong(part, "coefs_", f"ends in {width} outputs, and {n_outputs} is expected")
    return p


@accepts(DUMMY, fitted="constant_ n_outputs_ n_features_in_")
def _constant(part: Part) -> int:
    array(part, "constant_", (1, 1))
    integer(part, "n_outputs_", 1, 1)
    return inputs(part)


@accepts(_SCALER, fitted="mean_ scale_ n_features_in_", predicts=False)
def _scaler(part: Part) -> int:
    p = inputs(part)
    for name, switch in (("mean_", "with_mean"), ("scale_", "with_std")):
        if one_of(part, switch, False, True) or get(part, name) is not None:
            array(part, name, (p,), "float64 float32")
    if part.state["scale_"] is not None and (part.state["scale_"] == 0).any():
        raise wrong(part, "scale_", "holds a zero")
    return p


@accepts(PIPELINE, fitted="steps")
def _pipeline(part: Part) -> int:
    """Scalers, then one regressor or classifier that is no pipeline itself."""
    steps = a_list(part, "steps")
    if any(not isinstance(step, tuple) or len(step) != 2 or not isinstance(step[0], str) for step in steps):
        raise wrong(part, "steps", "is not a list of names and steps")
    inputs = [checked(step, _SCALER) for _, step in steps[:-1]]
    inputs.append(checked(steps[-1][1], *((regressors() | classifiers()) - {PIPELINE, _TRANSFORMED})))
    if len(set(inputs)) > 1:
        raise wrong(part, "steps", "take different numbers of inputs")
    return inputs[0]


@accepts(_TRANSFORMED, fitted="regressor_ transformer_ _training_dim")
def _transformed(part: Part) -> int:
    integer(part, "_training_dim", 1, 1)
    if checked(get(part, "transformer_"), _SCALER) != 1:
        raise wrong(part, "transformer_", "is not for one outcome")
    return check_predictor(known(get(part, "regressor_"), *(regressors() - {_TRANSFORMED})), 0)
