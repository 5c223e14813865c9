"""Splits of one pooled ensemble over sites: by instances, by models, or label by label."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Int64, Shaped

from numerics.bc3e.ensemble import Ensemble, Labels, present
from scenarios.registry import ScenarioError

PRIVATE_SHARE = 0.6
"""`split_arbitrary`: share of the instances that have all labels at one site."""
BY_MODEL_SHARE = 0.2
"""`split_arbitrary`: share of the instances that have each label at the site of its model."""


def split_rows(ensemble: Ensemble, n_sites: int, rng: np.random.Generator) -> list[Ensemble]:
    """Split by instances: every site holds all labels of some of them.

    Parameters
    ----------
    ensemble : Ensemble
        The pooled labels.
    n_sites : int
        Number of sites. With more sites than instances some sites are empty.
    rng : numpy.random.Generator
        Draws the permutation that is cut into parts, whose sizes differ by at most one.

    Returns
    -------
    list of Ensemble
        One for each site; instances keep their order within a site.

    Raises
    ------
    ScenarioError
        If `n_sites` is below 1.
    """
    _check_sites(n_sites)
    named = _name_labels(ensemble)
    return [named.rows(np.sort(part)) for part in np.array_split(rng.permutation(named.n), n_sites)]


def split_columns(ensemble: Ensemble, n_sites: int, rng: np.random.Generator) -> list[Ensemble]:
    """Split by models: every site holds some classifiers and clusterings, with their labels of all instances.

    The models are shuffled and split into parts whose sizes differ by at most one, so every site holds two or more
    wherever there are two for each. With ``n_sites > n_models // 2`` some sites hold a single one, which a run must
    allow (`bc3e.allow-single-model`). Parameters and result are those of `split_rows`.

    Raises
    ------
    ScenarioError
        If `n_sites` is below 1 or above the number of models.
    """
    _check_sites(n_sites)
    models = [*ensemble.classifiers, *ensemble.clusterings]
    if n_sites > len(models):
        raise ScenarioError(
            f"{n_sites} sites cannot each hold a model: the ensemble has {len(models)}"
            f" ({len(ensemble.classifiers)} classifiers, {len(ensemble.clusterings)} clusterings);"
            f" use at most {len(models)} sites, or {len(models) // 2} to give each two"
        )
    named = _name_labels(ensemble)
    n_classifiers = len(ensemble.classifiers)
    return [
        replace(
            named,
            # By position: a classifier and a clustering may share a name.
            classifiers=_pick(named.classifiers, part[part < n_classifiers]),
            clusterings=_pick(named.clusterings, part[part >= n_classifiers] - n_classifiers),
        )
        for part in map(np.sort, np.array_split(rng.permutation(len(models)), n_sites))
    ]


def split_arbitrary(ensemble: Ensemble, n_sites: int, rng: np.random.Generator) -> list[Ensemble]:
    """Split label by label: every (instance, model) label lies at one site, in a pattern that mixes all three splits.

    A share `PRIVATE_SHARE` of the instances, drawn at random, is private to one random site each. A share
    `BY_MODEL_SHARE` has each label at the site of its model (one random site a model). The labels of the rest lie at
    independent random sites. A site's ensemble holds the instances and the models of which it has at least one label,
    and "none" (-1, or a row of zeros if soft) where another site has the label. An instance without any label lies at
    one random site, so that none is lost. Parameters and result are those of `split_rows`.

    Raises
    ------
    ScenarioError
        If `n_sites` is below 1.
    """
    _check_sites(n_sites)
    named = _name_labels(ensemble)
    labels = [*named.classifiers.values(), *named.clusterings.values()]
    available = np.column_stack([np.zeros((named.n, 0), dtype=bool), *map(present, labels)])
    home = rng.integers(n_sites, size=named.n)
    owner = _owners(home, len(labels), n_sites, rng)
    unlabeled = ~available.any(axis=1)
    return [_part(named, available & (owner == site), unlabeled & (home == site)) for site in range(n_sites)]


def _owners(
    home: Int64[np.ndarray, "n"], n_models: int, n_sites: int, rng: np.random.Generator
) -> Int64[np.ndarray, "n m"]:
    """Return the site that holds each label; `home`: the site that holds an instance if it is private."""
    n = len(home)
    owner = rng.integers(n_sites, size=(n, n_models))
    shuffled = rng.permutation(n)
    private, by_model, _ = np.split(shuffled, [round(PRIVATE_SHARE * n), round((PRIVATE_SHARE + BY_MODEL_SHARE) * n)])
    owner[private] = home[private, np.newaxis]
    owner[by_model] = rng.integers(n_sites, size=n_models)
    return owner


def _part(ensemble: Ensemble, owned: Bool[np.ndarray, "n m"], unlabeled: Bool[np.ndarray, "n"]) -> Ensemble:
    """Return the part of an ensemble with one site's own labels, and its instances without any label."""
    rows = owned.any(axis=1) | unlabeled
    labels, n_classifiers = owned[rows], len(ensemble.classifiers)
    part = ensemble.rows(rows)
    return replace(
        part,
        classifiers=_masked(part.classifiers, labels[:, :n_classifiers]),
        clusterings=_masked(part.clusterings, labels[:, n_classifiers:]),
    )


def _masked(models: Mapping[str, Labels], owned: Bool[np.ndarray, "n m"]) -> dict[str, Labels]:
    return {
        name: np.where(mask, labels, -1) if labels.ndim == 1 else np.where(mask[:, np.newaxis], labels, 0.0)
        for (name, labels), mask in zip(models.items(), owned.T, strict=True)
        if mask.any()
    }


def _pick(models: Mapping[str, Labels], index: Int64[np.ndarray, "i"]) -> dict[str, Labels]:
    names = list(models)
    return {names[i]: models[names[i]] for i in index}


def _name_labels(ensemble: Ensemble) -> Ensemble:
    """Return the ensemble with names of its instances: row numbers unless they have names."""
    entity: Shaped[np.ndarray, "n"] = np.arange(ensemble.n) if ensemble.entity is None else ensemble.entity
    return replace(ensemble, entity=entity)


def _check_sites(n_sites: int) -> None:
    if n_sites < 1:
        raise ScenarioError(f"an ensemble cannot be split over {n_sites} sites: use at least 1")
