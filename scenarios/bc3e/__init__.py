"""Scenarios of BC3E: few labeled instances, many to classify, three classifiers and some clusterings.

Each follows section IV of Acharya, Hruschka and Ghosh (2011). A small share of the data keeps its classes and trains a
decision tree, a generalized logistic regression and a linear discriminant; the rest, with the classes removed, is the
target set. The classifiers give it class labels and single link and k-means cluster it. The paper's text leaves these
choices open:

- inputs are standardized with the mean and deviation of all instances, which need no class;
- the labeled set is a random share, drawn again until it has two instances or more of each class;
- the tree is grown until its leaves are pure; the logistic regression is multinomial with an L2 penalty of weight 1
  and an intercept; the discriminant assumes one common covariance and does not shrink it;
- k-means takes the best of 10 starts; cluster numbers are multiples of the number of classes k (`CLUSTERINGS`);
- halfmoon has 400 instances with noise 0.05, drawn anew for each seed.

The paper's Table I is not in the text at hand, so no scenario has published figures. The reference is a measurement
made before this code, on other draws: % correct, mean over 20 repetitions, learned alpha, the default clusterings (in
parentheses ``k`` and ``k-2k-4k-6k``):

========  ========  ==============  ====  ===================
data      labeled  best component  vote  BC3E
========  ========  ==============  ====  ===================
halfmoon  2 %       85.6            83.2  92.8 (87.4, 85.0)
wine      10 %      93.3            89.7  94.2 (92.1, 94.8)
heart     7 %       77.7            74.6  79.5 (77.2, 81.1)
german    10 %      71.8            71.4  70.5 (71.5, 68.9)
pima      2 %       69.0            66.6  65.5 (66.5, 65.1)
========  ========  ==============  ====  ===================
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from numerics.bc3e.ensemble import Ensemble
from numerics.shared.threads import single_threaded
from scenarios import datasets
from scenarios.bc3e.split import split_arbitrary, split_columns, split_rows
from scenarios.registry import Config, Scenario, ScenarioError, register
from scenarios.synthetic import halfmoon

CLUSTERINGS: Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "k": ((1,), (1,)),
    "k-3k-6k": ((1, 3, 6), (1, 3, 6)),
    "k-2k-4k-6k": ((), (1, 2, 4, 6)),
}
"""`bc3e.clusterings`: the numbers of clusters of single link and of k-means, as multiples of the number of classes."""

DISTRIBUTIONS: Mapping[str, Callable[[Ensemble, int, np.random.Generator], list[Ensemble]]] = {
    "row": split_rows,
    "column": split_columns,
    "arbitrary": split_arbitrary,
}
"""`bc3e.distribution`: how the pooled ensemble is split over sites."""

# Each step draws from a stream of its own, so that clusterings and splits are compared on the same labeled set.
_DATA, _LABELED, _TREE, _K_MEANS, _SPLIT = range(5)

_MAX_DRAWS = 1000


@dataclass(frozen=True)
class _World:
    """The share of a scenario's data that is labeled by default, and its data set; empty: synthetic data."""

    labeled: float
    data_set: str = ""

    def locate(self, config: Config) -> Path | None:
        """Return the data set's file, if it is read from a file."""
        return datasets.locate(self.data_set, config) if self.data_set else None

    def load(self, path: Path | None, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return inputs and classes."""
        if not self.data_set:
            return halfmoon(400, 0.05, rng)
        table = datasets.load(self.data_set, path)
        return table.x, table.outcome


_WORLDS: Mapping[str, _World] = {
    "bc3e-wine": _World(0.10, "wine"),
    "bc3e-halfmoon": _World(0.02),
    "bc3e-heart": _World(0.07, "heart"),
    "bc3e-german": _World(0.10, "german"),
    "bc3e-pima": _World(0.02, "pima"),
}


def pooled(name: str, config: Config, seed: int) -> Ensemble:
    """Return all labels of a scenario's target set in one place, as no site ever holds them.

    Parameters
    ----------
    name : str
        ``bc3e-wine``, ``bc3e-halfmoon``, ``bc3e-heart``, ``bc3e-german`` or ``bc3e-pima``.
    config : Config
        Run configuration; used are `bc3e.labeled` (share of labeled instances, 0 for the scenario's own),
        `bc3e.clusterings` (a key of `CLUSTERINGS`) and, for data sets with files, `data`.
    seed : int
        Not negative. The same seed gives the same labels in every process.

    Returns
    -------
    Ensemble
        Hard labels by the classifiers ``tree``, ``logistic`` and ``discriminant`` and by clusterings such as
        ``single-link-3`` and ``k-means-9``; `truth`; and as `entity` the instances' row numbers in the source. It is
        shared between callers, so its arrays are read-only.

    Raises
    ------
    ScenarioError
        If the name or a setting is unknown or out of range, or the data are not available.

    Examples
    --------
    >>> ensemble = pooled("bc3e-halfmoon", {}, 0)
    >>> ensemble.n, list(ensemble.classifiers)
    (392, ['discriminant', 'logistic', 'tree'])
    """
    if name not in _WORLDS:
        raise ScenarioError(f"unknown BC3E scenario {name!r}; there are: {', '.join(_WORLDS)}")
    world = _WORLDS[name]
    share = config.get("bc3e.labeled", 0.0)
    if isinstance(share, bool | str) or not 0 <= share < 1:
        raise ScenarioError(f"bc3e.labeled must lie between 0 and 1 (0: the scenario's own share), not {share!r}")
    clusterings = str(config.get("bc3e.clusterings", "k-3k-6k"))
    if clusterings not in CLUSTERINGS:
        raise ScenarioError(f"bc3e.clusterings must be one of {', '.join(CLUSTERINGS)}, not {clusterings!r}")
    return _build(name, float(share) or world.labeled, clusterings, world.locate(config), seed)


def shards(name: str, config: Config, seed: int, n_sites: int) -> list[Ensemble]:
    """Return the sites' private parts of `pooled`, split as `bc3e.distribution` says.

    Raises
    ------
    ScenarioError
        As `pooled`; if the distribution is unknown; or if there are too few models for so many sites.
    """
    distribution = str(config.get("bc3e.distribution", "row"))
    if distribution not in DISTRIBUTIONS:
        raise ScenarioError(f"bc3e.distribution must be one of {', '.join(DISTRIBUTIONS)}, not {distribution!r}")
    return DISTRIBUTIONS[distribution](pooled(name, config, seed), n_sites, np.random.default_rng([seed, _SPLIT]))


def baselines(name: str, config: Config, seed: int) -> dict[str, float]:
    """Return the accuracies of the pooled classifiers on the target set, without BC3E.

    Returns
    -------
    dict of str to float
        In [0, 1]: ``accuracy_majority`` (most votes, a tie goes to the lowest class), ``accuracy_tree``,
        ``accuracy_logistic``, ``accuracy_discriminant`` and the best of these three, ``accuracy_best_component``.

    Raises
    ------
    ScenarioError
        As `pooled`.
    """
    ensemble = pooled(name, config, seed)
    votes = np.stack(list(ensemble.classifiers.values()), axis=1)
    majority = (votes[:, :, np.newaxis] == np.arange(votes.max() + 1)).sum(axis=1).argmax(axis=1)
    alone = {f"accuracy_{model}": _accuracy(labels, ensemble) for model, labels in ensemble.classifiers.items()}
    return {
        "accuracy_majority": _accuracy(majority, ensemble),
        "accuracy_best_component": max(alone.values()),
        **alone,
    }


def _accuracy(labels: Shaped[np.ndarray, "n"], ensemble: Ensemble) -> float:
    return float(np.mean(labels == ensemble.truth))


@lru_cache(maxsize=1024)  # a world for each of the repetitions that a run may have
def _build(name: str, share: float, clusterings: str, path: Path | None, seed: int) -> Ensemble:
    """Train and cluster; cached, because a simulated site loads its shard for every message."""
    from sklearn.preprocessing import StandardScaler

    inputs, classes = _WORLDS[name].load(path, np.random.default_rng([seed, _DATA]))
    labeled = _draw_labeled(classes, share, name, np.random.default_rng([seed, _LABELED]))
    entity = np.flatnonzero(~labeled)
    standard = StandardScaler().fit_transform(inputs)
    # k-means adds up its means in an order that depends on the number of threads, which differs between processes.
    with single_threaded():
        ensemble = Ensemble(
            n=len(entity),
            classifiers=_classify(standard, classes, labeled, np.random.default_rng([seed, _TREE])),
            clusterings=_cluster(
                standard[entity], int(classes.max()) + 1, clusterings, name, np.random.default_rng([seed, _K_MEANS])
            ),
            truth=classes[entity],
            entity=entity.astype(np.int64),
        )
    for array in (*ensemble.classifiers.values(), *ensemble.clusterings.values(), ensemble.truth, ensemble.entity):
        if array is not None:
            array.setflags(write=False)
    return ensemble


def _draw_labeled(
    classes: Int64[np.ndarray, "n"], share: float, name: str, rng: np.random.Generator
) -> Shaped[np.ndarray, "n"]:
    """Return a mask of a random share of the instances that has at least two of each class."""
    n, k = len(classes), int(classes.max()) + 1
    size = round(share * n)
    if size < 2 * k:
        raise ScenarioError(
            f"{name}: bc3e.labeled={share:g} labels {size} of {n} instances; two of each of the {k} classes take"
            f" at least {2 * k}"
        )
    for _ in range(_MAX_DRAWS):
        chosen = rng.permutation(n)[:size]
        if np.bincount(classes[chosen], minlength=k).min() >= 2:
            return np.isin(np.arange(n), chosen)
    raise ScenarioError(
        f"{name}: no draw of {size} of {n} instances had two of each class; raise bc3e.labeled above {share:g}"
    )


def _classify(
    inputs: Float64[np.ndarray, "n d"],
    classes: Int64[np.ndarray, "n"],
    labeled: Shaped[np.ndarray, "n"],
    rng: np.random.Generator,
) -> dict[str, Int64[np.ndarray, "t"]]:
    """Return class labels of the instances that are not labeled, by models trained on those that are."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.linear_model import LogisticRegression
    from sklearn.tree import DecisionTreeClassifier

    models = {
        "tree": DecisionTreeClassifier(random_state=_int_seed(rng)),
        "logistic": LogisticRegression(max_iter=1000),
        "discriminant": LinearDiscriminantAnalysis(),
    }
    return {
        name: model.fit(inputs[labeled], classes[labeled]).predict(inputs[~labeled]).astype(np.int64)
        for name, model in models.items()
    }


def _cluster(
    inputs: Float64[np.ndarray, "t d"], k: int, clusterings: str, name: str, rng: np.random.Generator
) -> dict[str, Int64[np.ndarray, "t"]]:
    """Return cluster labels of the target set by clustering name."""
    from sklearn.cluster import AgglomerativeClustering, KMeans

    single_link, k_means = CLUSTERINGS[clusterings]
    most = k * max(single_link + k_means)
    if len(inputs) < most:
        raise ScenarioError(
            f"{name}: bc3e.labeled leaves {len(inputs)} instances, too few for the {most} clusters of"
            f" bc3e.clusterings={clusterings!r}"
        )
    models = {f"single-link-{k * c}": AgglomerativeClustering(k * c, linkage="single") for c in single_link}
    models |= {f"k-means-{k * c}": KMeans(k * c, n_init=10, random_state=_int_seed(rng)) for c in k_means}
    return {name: model.fit_predict(inputs).astype(np.int64) for name, model in models.items()}


def _int_seed(rng: np.random.Generator) -> int:
    """Return a seed for scikit-learn, which takes no `Generator`."""
    return int(rng.integers(2**31 - 1))


for _name, _source, _summary in (
    ("bc3e-wine", "scikit-learn", "Wine, 10 % labeled: class probabilities from 3 classifiers and 6 clusterings"),
    ("bc3e-halfmoon", "synthetic", "Two half moons, 2 % labeled: clusters follow the bend that few labels miss"),
    ("bc3e-heart", "file heart.csv or OpenML", "Statlog Heart, 7 % labeled: 3 classifiers and 6 clusterings"),
    (
        "bc3e-german",
        "file german.csv or OpenML",
        "German Credit, 10 % labeled: clusters that do not follow the classes",
    ),
    ("bc3e-pima", "file pima.csv or OpenML", "Pima diabetes, 2 % labeled: clusters that do not follow the classes"),
):
    register(
        Scenario(
            name=_name,
            protocol="bc3e",
            sites=2,
            any_number=True,
            source=_source,
            summary=_summary,
            shards=partial(shards, _name),
            baselines=partial(baselines, _name),
            data_set=_WORLDS[_name].data_set,
        )
    )
