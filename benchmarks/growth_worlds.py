"""Synthetic data of any number of sites and rows, for benchmarks/growth.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from benchmarks.side.synthetic import CLUSTER_COLUMNS, SURFACE_INPUTS, fair_clusters, neighbors, stream, surface
from numerics.bc3e.ensemble import Ensemble
from numerics.residual.columns_and_outcomes import Columns, Outcomes
from numerics.shared.regression_rows import RegressionRows

_CLASSES, _CLASSIFIERS, _CLUSTERINGS, _CLUSTERS = 3, 3, 3, 9
_ERROR = 0.3
"""Share of random labels."""
_K = 10
_QUERIES = 100
_INPUTS = 5
_TEST_SHARE = 0.2
_COLUMNS, _COLUMNS_A_SITE = 200, 2
_RELEVANT = 5
_POWER, _ROUNDS = "2", 5


@dataclass(frozen=True)
class World:
    """Data and settings of a conversation.

    Attributes
    ----------
    shards : sequence
        One shard for each site.
    settings : Mapping
        Keys of the run configuration that differ from their defaults.
    parts : Mapping
        Data of the center, as in `benchmarks.driver.world`.
    """

    shards: Sequence[Any]
    settings: Mapping[str, Any] = field(default_factory=dict)
    parts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class GrowthWorld:
    """How a protocol's data grow.

    Attributes
    ----------
    make : Callable
        ``make(sites, rows, shared)``; `shared`: sites share a fixed number of rows (residual: of columns).
    about : str
        The data and the settings, in Markdown.
    rows : int
        Number of shared rows.
    rows_a_site : int
        Rows of each site that has its own; 0: sites have columns of the same rows.
    sites : int
        Number of sites when rows grow.
    """

    make: Callable[[int, int, bool], World]
    about: str
    rows: int
    rows_a_site: int
    sites: int = 5

    def together(self, sites: int) -> int:
        """Return the number of rows of all sites, if each has its own."""
        return sites * self.rows_a_site if self.rows_a_site else self.rows


def _bc3e(sites: int, rows: int, shared: bool) -> World:
    rng = stream(0, 2)
    truth = rng.integers(0, _CLASSES, rows)

    def labels(classes: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return labels that depend on the class, with errors."""
        each = classes // _CLASSES
        own = truth * each + rng.integers(0, each, rows)
        return np.where(rng.random(rows) < _ERROR, rng.integers(0, classes, rows), own)

    classifiers = {f"class_{i}": labels(_CLASSES) for i in range(_CLASSIFIERS)}
    clusterings = {f"cluster_{i}": labels(_CLUSTERS) for i in range(_CLUSTERINGS)}
    parts = np.array_split(np.arange(rows), sites)
    return World(
        [
            Ensemble(
                n=len(part),
                classifiers={name: each[part] for name, each in classifiers.items()},
                clusterings={name: each[part] for name, each in clusterings.items()},
                entity=part.astype(np.int64),
            )
            for part in parts
        ]
    )


def _sec(sites: int, rows: int, shared: bool) -> World:
    rng = stream(0, 3)
    betas = rng.standard_normal((2, _INPUTS))
    features = tuple(f"x{j}" for j in range(_INPUTS))

    def learner(place: int, n: int) -> RegressionRows:
        x = rng.standard_normal((n, _INPUTS))
        y = x @ betas[place % 2] + rng.standard_normal(n)
        n_test = max(1, round(_TEST_SHARE * n))
        return RegressionRows(x[n_test:], y[n_test:], x[:n_test], y[:n_test], features)

    counts = [len(part) for part in np.array_split(np.arange(rows), sites)]
    return World([learner(place, n) for place, n in enumerate(counts)], {"sec__candidates": "lr tree"})


def _residual(sites: int, rows: int, shared: bool) -> World:
    rng, columns = stream(0, 4), max(_COLUMNS, sites) if shared else _COLUMNS_A_SITE * sites
    x = rng.standard_normal((rows, columns))
    effects = x[:, : min(_RELEVANT, columns)]
    y = np.sin(effects).sum(axis=1) + 0.3 * rng.standard_normal(rows)
    outcomes = Outcomes(y, n_test=round(_TEST_SHARE * rows))
    parts = np.array_split(np.arange(columns), sites)
    return World(
        [Columns(np.ascontiguousarray(x[:, part]), tuple(f"x{j}" for j in part)) for part in parts],
        # All settings are fixed: chosen by held-out rows, the number of rounds would differ between sizes.
        {
            "residual__algorithm": "parallel",
            "residual__agent": "tree",
            "residual__power": _POWER,
            "residual__rounds": _ROUNDS,
            "residual__refit": False,
        },
        {"outcome": lambda config, seed: outcomes},
    )


def _coreset(sites: int, rows: int, shared: bool) -> World:
    return World(fair_clusters(rows, _K, sites, 0), {"coreset__k": _K})


def _gp(sites: int, rows: int, shared: bool) -> World:
    data, queries = surface(rows, _QUERIES, 0)
    return World(neighbors(data, sites, 0), parts={"queries": lambda config, seed: queries})


WORLDS: Mapping[str, GrowthWorld] = MappingProxyType(
    {
        "bc3e": GrowthWorld(
            _bc3e,
            f"{_CLASSES} classes, {_CLASSIFIERS} classifiers and {_CLUSTERINGS} clusterings of {_CLUSTERS} clusters,"
            f" {_ERROR:.0%} of the labels at random; instances split at random",
            20_000,
            1_000,
        ),
        "sec": GrowthWorld(_sec, f"two groups of learners, {_INPUTS} inputs, `sec.candidates=lr tree`", 20_000, 100),
        "residual": GrowthWorld(
            _residual,
            f"the outcome depends on {_RELEVANT} columns; sites that share have {_COLUMNS} columns between them, others"
            f" {_COLUMNS_A_SITE} each; every site has all rows; `parallel`, trees, `residual.power={_POWER}`,"
            f" `residual.rounds={_ROUNDS}`, `residual.refit=false`",
            1_000,
            0,
        ),
        "coreset": GrowthWorld(_coreset, f"{CLUSTER_COLUMNS} columns, 2 groups, `coreset.k={_K}`", 20_000, 1_000),
        "gp": GrowthWorld(
            _gp, f"{SURFACE_INPUTS} inputs, {_QUERIES} query points; sites hold neighboring rows", 2_000, 100
        ),
    }
)
