"""Synthetic worlds of honest sites: unequal sizes and units, heavy tails, constant columns, missing classes.

Every other world runs by the defaults, and in half of these the outcomes of `gp`, `residual` and `sec` are classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float64

CENTER_FILES = ("_labels", "_test")
"""Files of the fusion center, which no site has."""
_NEEDED = ("protocol", "target", "id", "bc3e.distribution", "bc3e.classes", "coreset.k")
"""Settings that a run by the defaults keeps."""


@dataclass(frozen=True)
class World:
    """A run between real sites.

    Attributes
    ----------
    settings : Mapping
        Settings of the run.
    frames : Mapping
        Rows by name of the site; those of `CENTER_FILES` belong to the center.
    node : Mapping
        Keys of every site's own configuration.
    center : Mapping
        Names of the center's files, by key of the run.
    """

    settings: Mapping[str, Any]
    frames: Mapping[str, pd.DataFrame]
    node: Mapping[str, Any]
    center: Mapping[str, str] = field(default_factory=dict)


def draw_world(protocol: str, number: int) -> World:
    """Return a world of a protocol; the same number gives the same one."""
    rng = np.random.default_rng([sorted(WORLDS).index(protocol), number])
    world = WORLDS[protocol](rng)
    if number % 2 == 0:
        return world
    world = replace(world, settings={key: value for key, value in world.settings.items() if key in _NEEDED})
    return _with_classes(rng, world) if number % 4 == 3 and protocol in ("gp", "residual", "sec") else world


def _with_classes(rng: np.random.Generator, world: World) -> World:
    """Return the world with two to four classes in place of the outcomes: ranges of these, of unequal shares."""
    outcomes = pd.concat([frame["y"] for frame in world.frames.values() if "y" in frame])
    ends = outcomes.quantile(np.sort(rng.uniform(0.1, 0.9, rng.integers(1, 4)))).to_numpy()
    frames = {
        name: frame.assign(y=np.array(list("abcd"))[np.searchsorted(ends, frame["y"])]) if "y" in frame else frame
        for name, frame in world.frames.items()
    }
    return replace(world, frames=frames)


def _one_of(rng: np.random.Generator, *words: str) -> str:
    return words[rng.integers(len(words))]


def _columns(rng: np.random.Generator, n: int, d: int) -> Float64[np.ndarray, "n d"]:
    """Return columns with different units: normal, uniform, heavy-tailed, of few values, or constant."""
    columns = []
    for kind in rng.choice(5, d, p=[0.35, 0.25, 0.2, 0.15, 0.05]):
        draws = (
            rng.normal(size=n),
            rng.uniform(-1, 1, n),
            rng.standard_t(2, n),
            rng.integers(0, 4, n).astype(float),
            np.zeros(n),
        )
        unit = 10.0 ** rng.uniform(-6, 6)
        columns.append(unit * (draws[kind] + rng.choice([0.0, 1.0, 1000.0])))
    return np.column_stack(columns)


def _outcome(rng: np.random.Generator, x: Float64[np.ndarray, "n d"]) -> Float64[np.ndarray, "n"]:
    """Return a smooth function of the columns in a random unit, with noise that sometimes has heavy tails."""
    spread = x.std(axis=0)
    z = (x - x.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    clean = np.sin(z @ rng.normal(size=x.shape[1])) + 0.5 * z @ rng.normal(size=x.shape[1])
    noise = rng.standard_t(2, len(x)) if rng.random() < 0.3 else rng.normal(size=len(x))
    return np.asarray(10.0 ** rng.uniform(-6, 6) * (clean + rng.choice([0.05, 0.3, 1.0]) * noise + rng.normal(0, 30)))


def _sizes(rng: np.random.Generator, sites: int, least: int, most: int) -> list[int]:
    """Return log-uniform numbers of rows of the sites."""
    return [int(n) for n in np.exp(rng.uniform(np.log(least), np.log(most), sites))]


def _split(rng: np.random.Generator, frame: pd.DataFrame, sizes: Sequence[int], by: str) -> dict[str, pd.DataFrame]:
    """Return the rows of every site, either at random or in ranges of a column."""
    if rng.random() < 0.5:
        frame = frame.sort_values(by, kind="stable")
    ends = np.cumsum(sizes)
    parts = {f"site-{j}": frame.iloc[end - n : end].copy() for j, (n, end) in enumerate(zip(sizes, ends, strict=True))}
    return {name: part.iloc[rng.permutation(len(part))] for name, part in parts.items()}


def _regression(
    rng: np.random.Generator, sizes: Sequence[int], n_test: int
) -> tuple[dict[str, pd.DataFrame], pd.DataFrame]:
    """Return rows of inputs ``x0 x1 ...`` and an outcome ``y`` by site, and the center's."""
    d = int(rng.integers(1, 5))
    x = _columns(rng, sum(sizes) + n_test, d)
    frame = pd.DataFrame(x, columns=[f"x{j}" for j in range(d)]).assign(y=_outcome(rng, x))
    test, rows = frame.iloc[:n_test], frame.iloc[n_test:]
    parts = _split(rng, rows, sizes, "x0")
    if d > 1 and rng.random() < 0.3:
        parts["site-0"]["x1"] = parts["site-0"]["x1"].iloc[0]
    return parts, test


def _gp(rng: np.random.Generator) -> World:
    parts, test = _regression(rng, _sizes(rng, int(rng.integers(2, 7)), 12, 80), 30)
    settings = {
        "gp.gate": _one_of(rng, "gaussian", "knn", "ggm", "all"),
        "gp.aggregation": _one_of(rng, "npae", "rbcm", "gpoe", "poe", "bcm"),
        "gp.fit-rounds": int(rng.integers(2, 6)),
        "gp.robust": bool(rng.random() < 0.5),
    }
    return World({"protocol": "gp", **settings}, {**parts, "_test": test}, {"target": "y"}, {"gp.queries": "_test"})


def _sec(rng: np.random.Generator) -> World:
    parts, _ = _regression(rng, _sizes(rng, int(rng.integers(3, 8)), 20, 150), 0)
    if rng.random() < 0.5:  # two relations
        for name in list(parts)[::2]:
            parts[name]["y"] = 2 * parts[name]["y"].mean() - parts[name]["y"]
    settings = {
        "sec.candidates": _one_of(
            rng, "lr", "tree", "lasso", "lr tree", "lr ridge", "rf(n_estimators=20) lr", "gb hgb"
        ),
        "sec.standardize": _one_of(rng, "model", "learner", "none"),
        "sec.combine": _one_of(rng, "average", "pooled-linear"),
    }
    if settings["sec.combine"] == "pooled-linear":
        settings["sec.candidates"] = "lr"
    return World({"protocol": "sec", **settings}, parts, {"target": "y"})


def _residual(rng: np.random.Generator) -> World:
    n, sites = int(rng.integers(80, 400)), int(rng.integers(2, 6))
    widths = rng.integers(1, 3, sites)
    x = _columns(rng, n, int(widths.sum()))
    names = [f"e{place}" for place in range(n)]
    ends = np.cumsum(widths)
    frames = {
        f"site-{j}": pd.DataFrame(x[:, end - d : end], columns=[f"x{c}" for c in range(end - d, end)]).assign(id=names)
        for j, (d, end) in enumerate(zip(widths.tolist(), ends.tolist(), strict=True))
    }
    frames = {site: frame.iloc[rng.permutation(n)] for site, frame in frames.items()}
    frames["_labels"] = pd.DataFrame({"id": names, "y": _outcome(rng, x)})
    settings = {
        "residual.algorithm": _one_of(
            rng, "boosted", "parallel", "greedy", "sip", "average", "meta-linear", "meta-boosting"
        ),
        "residual.agent": _one_of(rng, "tree", "tree", "hgb(max_iter=10)", "lr", "ridge", "gb(n_estimators=10)"),
        "residual.rounds": int(rng.integers(2, 8)),
        "residual.robust": bool(rng.random() < 0.4),
    }
    if settings["residual.algorithm"] in ("average", "boosted"):
        settings["residual.robust"] = False
    run = {"protocol": "residual", "target": "y", "id": "id", **settings}
    return World(run, frames, {"id": "id"}, {"labels": "_labels"})


def _coreset(rng: np.random.Generator) -> World:
    sizes, d, groups = _sizes(rng, int(rng.integers(2, 7)), 30, 500), int(rng.integers(1, 5)), int(rng.integers(2, 5))
    x = _columns(rng, sum(sizes), d)
    while np.ptp(x, axis=0).max() == 0:  # a run on identical rows is rightly refused
        x = _columns(rng, sum(sizes), d)
    frame = pd.DataFrame(x, columns=[f"x{j}" for j in range(d)])
    frame["sex"] = np.array(list("FMXY"))[rng.choice(groups, len(frame), p=rng.dirichlet(np.full(groups, 3.0)))]
    parts = _split(rng, frame, sizes, "x0")
    if len(parts) > 2 and rng.random() < 0.5:  # a site of one group
        parts["site-0"]["sex"] = "F"
    settings = {
        "coreset.k": int(rng.integers(2, 5)),
        "coreset.size": int(rng.integers(5, 80)),
        "coreset.construction": _one_of(rng, "bico", "kmeans"),
        "coreset.scale": _one_of(rng, "variance", "none"),
        "coreset.algorithm": _one_of(rng, "fair-kmeans++", "fair-lloyd"),
        "coreset.balance": float(rng.choice([1.0, 0.8, 0.5])),
    }
    exact = bool(rng.random() < 0.3)
    settings |= {"coreset.assignment": "exact", "coreset.price-rounds": 4} if exact else {}
    return World({"protocol": "coreset", **settings}, parts, {"sensitive": "sex", "allow-prices": exact})


def _labels(rng: np.random.Generator, truth: np.ndarray, size: int, noise: float, missing: float) -> np.ndarray:
    """Return labels that follow the truth except for a share `noise`; missing ones are NaN."""
    labels = np.where(rng.random(len(truth)) < noise, rng.integers(size, size=len(truth)), truth % size).astype(float)
    labels[rng.random(len(truth)) < missing] = np.nan
    return labels


def _bc3e(rng: np.random.Generator) -> World:
    k, sites = int(rng.integers(2, 6)), int(rng.integers(2, 6))
    distribution = _one_of(rng, "row", "row", "column", "arbitrary")
    missing, noise = float(rng.choice([0.0, 0.1, 0.5])), float(rng.uniform(0.05, 0.6))

    def frame_of(names: Sequence[str], truth: np.ndarray) -> pd.DataFrame:
        columns: dict[str, Any] = {"id": names, "truth": truth}
        columns |= {f"class_{j}": _labels(rng, truth, k, noise, missing) for j in range(int(rng.integers(2, 4)))}
        split = truth + k * rng.integers(3, size=len(truth))
        columns |= {f"cluster_{j}": _labels(rng, split, k * (j + 1), noise, missing) for j in range(2)}
        return pd.DataFrame(columns)

    if distribution == "row":
        frames = {}
        for j, n in enumerate(_sizes(rng, sites, 8, 300)):
            truth = rng.integers(1 if j == 0 and k > 2 else 0, k, n)  # a site without the first class
            frames[f"site-{j}"] = frame_of([f"s{j}-{place}" for place in range(n)], truth)
        width = min(frame.filter(like="class_").shape[1] for frame in frames.values())
        frames = {site: _first_classifiers(frame, width) for site, frame in frames.items()}
    else:
        frames = _shared_frames(rng, sites, k, distribution == "column", frame_of)
    settings = {
        "bc3e.distribution": distribution,
        "bc3e.classes": k,
        "bc3e.smoothing": float(rng.choice([0.0, 0.1])),
        "bc3e.max-rounds": int(rng.integers(3, 40 if distribution == "row" else 8)),
        "bc3e.sweeps": 0 if distribution == "row" else 4,
        "bc3e.accelerate": bool(rng.random() < 0.7),
        "bc3e.robust": bool(distribution == "row" and rng.random() < 0.5),
    }
    return World(
        {"protocol": "bc3e", **settings}, frames, {"id": "id", "truth": "truth", "allow-shared-instances": True}
    )


def _shared_frames(
    rng: np.random.Generator,
    sites: int,
    k: int,
    all_shared: bool,
    frame_of: Callable[[Sequence[str], Any], pd.DataFrame],
) -> dict[str, pd.DataFrame]:
    """Return labels of shared instances by site; unless `all_shared`, the first site also has a dozen of its own."""
    n, own = int(rng.integers(20, 80)), 0 if all_shared else 12
    names, truth = np.array([f"e{place}" for place in range(n + own)]), rng.integers(k, size=n + own)
    frames = {}
    for j in range(sites):
        n_here = n if all_shared or j < 2 else max(10, int(rng.uniform(0.4, 1) * n))
        here = np.r_[np.sort(rng.permutation(n)[:n_here]), np.arange(n, n + own if j == 0 else n)]
        frame = frame_of(names[here].tolist(), truth[here])
        renamed = {name: f"{name}_of{j}" for name in map(str, frame) if "_" in name}
        frames[f"site-{j}"] = frame.rename(columns=renamed).iloc[rng.permutation(len(here))]
    return frames


def _first_classifiers(frame: pd.DataFrame, width: int) -> pd.DataFrame:
    """Return rows with the first `width` classifiers: in a split by rows, all sites need the same ones."""
    return frame.drop(
        columns=[name for name in map(str, frame) if name.startswith("class_") and int(name[6:]) >= width]
    )


WORLDS: Mapping[str, Callable[[np.random.Generator], World]] = {
    "bc3e": _bc3e,
    "coreset": _coreset,
    "gp": _gp,
    "residual": _residual,
    "sec": _sec,
}
"""Functions that draw a world, by protocol."""
