"""Classifiers. Their classes are numbered from 0; the numbers' meaning crosses beside the model, not in it."""

from __future__ import annotations

import numpy as np

from protocols.models.contract import (
    MOST_CLASSES,
    accepts,
    array,
    checked,
    get,
    inputs,
    integer,
    one_of,
    same_inputs,
    wrong,
)
from protocols.models.parts import Part
from protocols.models.regressors import layers, neighbors
from protocols.models.trees import boosted_trees, forest_trees, histogram_trees, single_tree, unfitted

_TREE = "sklearn.tree._classes.DecisionTreeClassifier"
_PRIOR = "sklearn.dummy.DummyClassifier"
_BINOMIAL = "sklearn._loss.loss.HalfBinomialLoss"
_MULTINOMIAL = "sklearn._loss.loss.HalfMultinomialLoss"
_LOGIT = "sklearn._loss.link.LogitLink"
_MULTINOMIAL_LOGIT = "sklearn._loss.link.MultinomialLogit"
_ROUNDING = 1e-6


def _n_classes(part: Part, least: int = 2) -> int:
    """Return the number of classes of a classifier, after a check that they are 0, 1, ..."""
    classes = get(part, "classes_")
    k = classes.size if isinstance(classes, np.ndarray) else 0
    if not least <= k <= MOST_CLASSES:
        raise wrong(part, "classes_", f"is not an array of {least} to {MOST_CLASSES} classes")
    array(part, "classes_", (k,), "int64 float64")
    if (classes != np.arange(k)).any():
        raise wrong(part, "classes_", "are not numbers from 0 on")
    return int(k)


def _boosted(part: Part) -> int:
    """Check the loss of boosted trees, and return how many trees are in a step."""
    k = _n_classes(part)
    checked(get(part, "_loss"), _BINOMIAL if k == 2 else _MULTINOMIAL)
    return 1 if k == 2 else k


@accepts(
    "sklearn.linear_model._logistic.LogisticRegression",
    fitted="coef_ intercept_ classes_ n_features_in_",
    classifies=True,
)
def _logistic(part: Part) -> int:
    p, k = inputs(part), _n_classes(part)
    n_functions = 1 if k == 2 else k
    array(part, "coef_", (n_functions, p))
    array(part, "intercept_", (n_functions,))
    one_of(part, "solver", "lbfgs")
    return p


@accepts(_TREE, fitted="tree_ classes_ n_classes_ n_outputs_ n_features_in_", classifies=True)
def _decision_tree(part: Part) -> int:
    k = _n_classes(part)
    integer(part, "n_classes_", k, k)
    return single_tree(part, k)


@accepts(
    "sklearn.ensemble._forest.RandomForestClassifier",
    fitted="estimators_ estimator classes_ n_classes_ n_outputs_ n_features_in_",
    blank={"estimator": unfitted},  # scikit-learn reads its accepted inputs
    classifies=True,
)
def _forest(part: Part) -> int:
    k = _n_classes(part)
    integer(part, "n_classes_", k, k)
    for tree in forest_trees(part, _TREE):
        same_inputs(part, checked(tree, _TREE))
        integer(tree, "n_classes_", k, k)
    return inputs(part)


@accepts(
    "sklearn.ensemble._gb.GradientBoostingClassifier",
    fitted="estimators_ init_ _loss classes_ n_classes_ n_trees_per_iteration_ n_features_in_",
    classifies=True,
)
def _gradient_boosting(part: Part) -> int:
    k = _n_classes(part)
    integer(part, "n_classes_", k, k)
    p = boosted_trees(part, _boosted(part), _PRIOR)
    integer(get(part, "init_"), "n_classes_", k, k)
    return p


@accepts(
    "sklearn.ensemble._hist_gradient_boosting.gradient_boosting.HistGradientBoostingClassifier",
    fitted="_predictors _baseline_prediction _bin_mapper _loss _preprocessor classes_ n_trees_per_iteration_ "
    "n_features_in_",
    classifies=True,
)
def _histogram_boosting(part: Part) -> int:
    return histogram_trees(part, _boosted(part))


@accepts(
    "sklearn.neighbors._classification.KNeighborsClassifier",
    fitted="_fit_X _y _fit_method _tree effective_metric_ effective_metric_params_ n_samples_fit_ classes_ outputs_2d_ "
    "n_features_in_",
    classifies=True,
)
def _neighbors(part: Part) -> int:
    p, k = neighbors(part), _n_classes(part)
    one_of(part, "outputs_2d_", False)
    places = array(part, "_y", (get(part, "n_samples_fit_"),), "int64")
    if (places < 0).any() or (places >= k).any():
        raise wrong(part, "_y", f"has a class that is not one of the {k}")
    return p


@accepts(
    "sklearn.neural_network._multilayer_perceptron.MLPClassifier",
    fitted="coefs_ intercepts_ n_layers_ n_outputs_ out_activation_ classes_ n_features_in_",
    classifies=True,
)
def _network(part: Part) -> int:
    k = _n_classes(part)
    one_of(part, "out_activation_", "logistic" if k == 2 else "softmax")
    return layers(part, 1 if k == 2 else k)


@accepts(
    _PRIOR,
    fitted="class_prior_ classes_ n_classes_ n_outputs_ sparse_output_ _strategy n_features_in_",
    classifies=True,
)
def _prior(part: Part) -> int:
    k = _n_classes(part, least=1)
    integer(part, "n_classes_", k, k)
    integer(part, "n_outputs_", 1, 1)
    one_of(part, "_strategy", "prior")
    one_of(part, "strategy", "prior")
    one_of(part, "sparse_output_", False)
    shares = array(part, "class_prior_", (k,))
    if (shares < 0).any() or abs(shares.sum() - 1) > _ROUNDING:
        raise wrong(part, "class_prior_", "are not shares")
    return inputs(part)


@accepts(_BINOMIAL, fitted="link", predicts=False, has_parameters=False)
def _binomial(part: Part) -> int:
    return checked(get(part, "link"), _LOGIT)


@accepts(_MULTINOMIAL, fitted="link", predicts=False, has_parameters=False)
def _multinomial(part: Part) -> int:
    return checked(get(part, "link"), _MULTINOMIAL_LOGIT)


@accepts(_LOGIT, fitted="", predicts=False, has_parameters=False)
@accepts(_MULTINOMIAL_LOGIT, fitted="", predicts=False, has_parameters=False)
def _link(part: Part) -> int:
    return 0
