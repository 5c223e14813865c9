"""Class labels by several raters for benchmarks/raters.py: synthetic crowds, and classifiers of unequal quality."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from jaxtyping import Float64, Int64
from sklearn.cluster import KMeans
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from benchmarks.driver import config_of
from benchmarks.side import data_setting
from numerics.bc3e.ensemble import Ensemble
from scenarios import bc3e, datasets
from scenarios.synthetic import halfmoon

Rows = tuple[Float64[np.ndarray, "n p"], Int64[np.ndarray, "n"]]


# -- drawn crowds -----------------------------------------------------------------------------------------------------


def crowd(
    n: int,
    k: int,
    right: Sequence[float] | int,
    rng: np.random.Generator,
    *,
    missing: float = 0.0,
    clusterings: int = 0,
    wrong: float = 0.3,
    classes: Sequence[float] | None = None,
    swapped: int = 0,
) -> Ensemble:
    """Draw raters whose errors are uniform over the other classes, and clusterings that split the classes.

    Parameters
    ----------
    n, k : int
        Numbers of instances and classes.
    right : sequence of float or int
        Each rater's share of right labels; or the number of raters, whose shares are even from .45 to .95.
    rng : numpy.random.Generator
        Generator of all random numbers.
    missing : float
        Share of labels that a rater does not give.
    clusterings : int
        Number of clusterings, of 2 k, 3 k, ... clusters.
    wrong : float
        Share of the instances whose cluster is random.
    classes : sequence of float or None
        Shares of the classes; None: equal.
    swapped : int
        Number of raters, the first ones, that swap classes 0 and 1.
    """
    shares = rng.uniform(0.45, 0.95, right) if isinstance(right, int) else right
    truth = rng.choice(k, n, p=classes)
    labels = {}
    for place, share in enumerate(shares):
        given = np.where(rng.random(n) < share, truth, (truth + rng.integers(1, k, n)) % k)
        if place < swapped:
            given = np.where(given < 2, 1 - given, given)
        labels[f"rater_{place:02}"] = np.where(rng.random(n) < missing, -1, given)
    clusters = {}
    for place in range(clusterings):
        parts = truth + k * rng.integers(place + 2, size=n)
        clusters[f"cluster_{place}"] = np.where(rng.random(n) < wrong, rng.integers((place + 2) * k, size=n), parts)
    return Ensemble(n, labels, clusters, truth)


def unrelated(right: Sequence[float], k: int, sizes: Sequence[int], rng: np.random.Generator) -> Ensemble:
    """Draw raters as `crowd` does, and clusterings, of `sizes` clusters, that do not depend on the classes."""
    clusters = {f"cluster_{place}": rng.integers(size, size=600) for place, size in enumerate(sizes)}
    return replace(crowd(600, k, right, rng), clusterings=clusters)


def mixed(n: int, k: int, related: int, sizes: Sequence[int], rng: np.random.Generator) -> Ensemble:
    """Draw four raters and clusterings as `crowd` does, and other clusterings that do not depend on the classes."""
    ensemble = crowd(n, k, 4, rng, clusterings=related)
    others = {f"other_{place}": rng.integers(size, size=n) for place, size in enumerate(sizes)}
    return replace(ensemble, clusterings={**ensemble.clusterings, **others})


def biased(rng: np.random.Generator) -> Ensemble:
    """Draw five raters of four classes, two of whom mostly call class 1 class 2."""
    truth, labels = rng.integers(4, size=500), {}
    for place in range(5):
        table = np.full((4, 4), 0.0625) + 0.75 * np.eye(4)
        if place < 2:
            table[1] = 0.025 + 0.9 * np.eye(4)[2]
        table /= table.sum(axis=1, keepdims=True)
        labels[f"rater_{place}"] = (rng.random(500)[:, np.newaxis] > table.cumsum(axis=1)[truth]).sum(axis=1)
    return Ensemble(500, labels, {}, truth)


# -- classifiers on real data -----------------------------------------------------------------------------------------


def classified(
    load: Callable[[np.random.Generator], Rows],
    labeled: float,
    rng: np.random.Generator,
    *,
    missing: float = 0.0,
    clustered: bool = True,
) -> Ensemble:
    """Label rows by k-means, and by seven classifiers fitted to some columns of a few labeled rows.

    Parameters
    ----------
    load : Callable
        Returns inputs and classes.
    labeled : float
        Share of the rows of each class that is labeled; at least two rows are.
    rng : numpy.random.Generator
        Generator of all random numbers.
    missing : float
        Share of labels that a classifier does not give.
    clustered : bool
        Whether there are clusterings, of k, 2 k and 4 k clusters.
    """
    x, y = load(rng)
    x, k = StandardScaler().fit_transform(x), int(y.max()) + 1
    known = np.zeros(len(y), bool)
    for i in range(k):
        of_class = np.flatnonzero(y == i)
        known[rng.choice(of_class, max(2, round(labeled * len(of_class))), replace=False)] = True
    models = [
        LogisticRegression(max_iter=500), LinearDiscriminantAnalysis(), GaussianNB(var_smoothing=1e-2),
        KNeighborsClassifier(3), *(DecisionTreeClassifier(max_depth=d, random_state=0) for d in (1, 2, None)),
    ]  # fmt: skip
    labels, n = {}, int((~known).sum())
    for place, model in enumerate(models):
        width = int(np.ceil(x.shape[1] * rng.choice([0.15, 0.4, 1.0])))
        columns = rng.permutation(x.shape[1])[:width]
        given = model.fit(x[known][:, columns], y[known]).predict(x[~known][:, columns])
        labels[f"classifier_{place}"] = np.where(rng.random(n) < missing, -1, given)
    seed = int(rng.integers(2**31))
    sizes = (k, 2 * k, 4 * k) if clustered else ()
    clusters = {f"k-means-{c:02}": KMeans(c, n_init=2, random_state=seed).fit_predict(x[~known]) for c in sizes}
    return Ensemble(n, labels, clusters, y[~known])


def _bundled(load: Callable[..., Rows]) -> Callable[[np.random.Generator], Rows]:
    """Return a function of the generator that returns a data set of scikit-learn."""
    return lambda rng: load(return_X_y=True)


wine, cancer, iris = _bundled(load_wine), _bundled(load_breast_cancer), _bundled(load_iris)


def heart(rng: np.random.Generator) -> Rows:
    """Return the data set Statlog Heart from its file."""
    table = datasets.load("heart", datasets.locate("heart", {"data": data_setting()}))
    return table.x, table.outcome


def _digits(rng: np.random.Generator) -> Rows:
    x, y = load_digits(return_X_y=True)
    rows = rng.permutation(len(x))[:700]
    return x[rows], y[rows]


def _halves(name: str, rng: np.random.Generator) -> Rows:
    """Return 600 rows of a regression data set; the class is whether the outcome exceeds its median."""
    table = datasets.load(name, datasets.locate(name, {"data": data_setting()}))
    rows = rng.permutation(len(table.x))[:600]
    return table.x[rows], (table.outcome[rows] > np.median(table.outcome)).astype(np.int64)


def _halfmoon(rng: np.random.Generator) -> Rows:
    return halfmoon(400, 0.15, rng)


def _scenario(name: str, rng: np.random.Generator) -> Ensemble:
    return bc3e.pooled(name, config_of(name, data=data_setting()), int(rng.integers(10_000)))


WORLDS: Mapping[str, Callable[[np.random.Generator], Ensemble]] = {
    "2 raters of .9, 9 of .45; k = 3": lambda rng: crowd(1000, 3, [0.9] * 2 + [0.45] * 9, rng),
    "3 raters; k = 2": lambda rng: crowd(300, 2, 3, rng),
    "5 raters; k = 2": lambda rng: crowd(500, 2, 5, rng),
    "5 raters, 30 % missing; k = 3": lambda rng: crowd(500, 3, 5, rng, missing=0.3),
    "20 raters, 70 % missing; k = 5": lambda rng: crowd(500, 5, 20, rng, missing=0.7),
    "5 equal raters of .7; k = 3": lambda rng: crowd(500, 3, [0.7] * 5, rng),
    "5 equal raters of .7, 100 instances; k = 2": lambda rng: crowd(100, 2, [0.7] * 5, rng),
    "6 raters, classes of 60 to 5 %; k = 4": lambda rng: crowd(
        400, 4, 6, rng, missing=0.2, classes=[0.6, 0.2, 0.15, 0.05]
    ),
    "5 raters, 2 confuse classes; k = 4": biased,
    "5 raters, one swaps classes, 2 clusterings; k = 3": lambda rng: crowd(
        400, 3, [0.8, 0.75, 0.7, 0.65, 0.8], rng, clusterings=2, swapped=1
    ),
    "7 raters, 3 clusterings; k = 3": lambda rng: crowd(400, 3, 7, rng, missing=0.2, clusterings=3),
    "3 raters, 3 clusterings; k = 3": lambda rng: crowd(200, 3, 3, rng, clusterings=3),
    "3 raters, 1 clustering; k = 3": lambda rng: crowd(400, 3, 3, rng, clusterings=1),
    "3 raters, 3 unrelated clusterings; k = 3": partial(unrelated, [0.53, 0.76, 0.53], 3, (6, 9, 12)),
    "4 raters, 6 unrelated clusterings; k = 2": partial(unrelated, [0.8, 0.75, 0.7, 0.8], 2, (2, 4, 8, 2, 6, 12)),
    "3 raters, 3 weakly related clusterings; k = 3": lambda rng: crowd(400, 3, 3, rng, clusterings=3, wrong=0.7),
    "4 raters, 2 clusterings and 3 unrelated; k = 3": partial(mixed, 400, 3, 2, (6, 9, 12)),
    "4 raters, 1 clustering and 4 unrelated; k = 2": partial(mixed, 300, 2, 1, (2, 4, 6, 8)),
    "wine": partial(classified, wine, 0.1),
    "wine, 40 % missing": partial(classified, wine, 0.1, missing=0.4),
    "iris": partial(classified, iris, 0.08),
    "digits": partial(classified, _digits, 0.04),
    "breast cancer": partial(classified, cancer, 0.03),
    "breast cancer, 40 % missing, no clusterings": partial(classified, cancer, 0.03, missing=0.4, clustered=False),
    "heart": partial(classified, heart, 0.07),
    "concrete, halves": partial(classified, partial(_halves, "concrete"), 0.04),
    "airfoil, halves": partial(classified, partial(_halves, "airfoil"), 0.04),
    "grid stability, halves": partial(classified, partial(_halves, "grid"), 0.04),
    "protein, halves": partial(classified, partial(_halves, "protein"), 0.04),
    "pumadyn, halves": partial(classified, partial(_halves, "pumadyn"), 0.04),
    "half moons": partial(classified, _halfmoon, 0.03),
    "bc3e-wine": partial(_scenario, "bc3e-wine"),
    "bc3e-halfmoon": partial(_scenario, "bc3e-halfmoon"),
    "bc3e-heart": partial(_scenario, "bc3e-heart"),
    "bc3e-german": partial(_scenario, "bc3e-german"),
    "bc3e-pima": partial(_scenario, "bc3e-pima"),
}
"""Functions that draw labels by raters and by clusterings, by name."""
