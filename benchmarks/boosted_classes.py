"""Classes with residual compared with its alternatives: ``python -m benchmarks.boosted_classes FOLDER --draws 10``.

Each site holds other columns of the same rows, of which 70 % are training rows; all run in this process. FOLDER has
``heart``, ``wine``, ``adult`` and ``diabetes130`` as ``.csv.gz``; breast cancer and digits are scikit-learn's. Sites
alone and pooled columns are learned by boosted trees, whose size and number are chosen on a quarter of the training
rows, as in the last step of residual. The best site has the lowest log loss, either on the test rows of each draw,
which favors it, or over all draws.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Float64
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import HistGradientBoostingClassifier

from benchmarks.boosted import METHODS, World, carry_out, site_of
from benchmarks.tables import means_and_errors, table_head, table_row
from numerics.residual.chosen_boosting import choose_boosting
from numerics.shared.classification import SCORES, classification_scores, scores_in

_SHOWN = ("auc", "log_loss", "brier", "calibration_error", "accuracy")
DATA: Mapping[str, tuple[str, int, int]] = {
    "heart": ("class", 3, 10**6),
    "breast cancer": ("target", 3, 10**6),
    "wine": ("class", 3, 10**6),
    "digits": ("target", 4, 10**6),
    "adult": ("income", 4, 6000),
    "diabetes130": ("readmitted", 4, 6000),
}
"""By name: target, number of sites, and maximum number of rows."""


def frame_of(folder: Path, name: str) -> pd.DataFrame:
    """Return a data set; diabetes130 only has the first visit of every patient."""
    if name == "breast cancer":
        return pd.DataFrame(load_breast_cancer(as_frame=True).frame)
    if name == "digits":
        return pd.DataFrame(load_digits(as_frame=True).frame)
    frame = pd.read_csv(folder / f"{name}.csv.gz", keep_default_na=False)
    if "patient_nbr" in frame:
        frame = frame.drop_duplicates("patient_nbr")
    return frame.drop(columns=[each for each in ("encounter_id", "patient_nbr", "split") if each in frame])


def draw(folder: Path, name: str, seed: int) -> tuple[World, int]:
    """Draw the order of the rows and deal the columns to the sites in turn; also return the number of classes."""
    target, n_sites, most = DATA[name]
    frame = frame_of(folder, name)
    frame = frame.iloc[np.random.default_rng(seed).permutation(len(frame))[:most]]
    classes, y = np.unique(frame.pop(target).astype(str).to_numpy(), return_inverse=True)
    for column in frame.select_dtypes(exclude="number"):  # rare values become one category, as at a site
        counts = frame[column].value_counts()
        frame[column] = frame[column].where(frame[column].map(counts) >= max(20, counts.iloc[:50].min()), "other")
    sites = tuple(site_of(frame.iloc[:, j::n_sites]) for j in range(n_sites))
    return World(sites, y.astype(np.float64), int(0.7 * len(y))), len(classes)


def pooled(world: World, k: int) -> dict[str, dict[str, float]]:
    """Return scores of boosting of all columns in one place, chosen as at a site and with scikit-learn's defaults."""
    x, n = np.hstack([each.x for each in world.sites]), world.n_learn
    n_fit = n - round(0.25 * n)
    chosen = choose_boosting(x[:n], world.y[:n], n_fit, n_classes=k).predict(x[n:])
    plain = HistGradientBoostingClassifier(random_state=0).fit(x[:n], world.y[:n])
    p: Float64[np.ndarray, "t k"] = np.zeros((len(x) - n, k))
    p[:, plain.classes_.astype(int)] = plain.predict_proba(x[n:])
    y = world.y[n:].astype(np.int64)
    ways = {"pooled": chosen, "pooled, defaults": p}
    return {
        way: {name: score.value for name, score in classification_scores(each, y).items()} for way, each in ways.items()
    }


def measure(folder: Path, name: str, seed: int) -> tuple[dict[str, dict[str, float]], dict[str, tuple[int, int]]]:
    """Return the scores of every way to predict, and the rounds and bytes of each method."""
    world, k = draw(folder, name, seed)
    ways: dict[str, dict[str, float]] = {}
    costs = {}
    for method in ("boosted", "bins 32"):
        rules, leaves = METHODS[method]
        plan, cost = carry_out(world, replace(rules, n_classes=k), leaves)
        result = plan.result
        assert result is not None
        rows = [{each: score.value for each, score in scores_in(row).items()} for row in result.scores]
        if result.alone is not None and method == "boosted":
            ways["best site by each draw's test rows"] = rows[1 + result.alone.names.index(result.alone.best)]
            ways |= {f"site {name} alone": row for name, row in zip(result.alone.names, rows[1:], strict=True)}
        ways[method] = rows[0]
        costs[method] = cost.rounds, cost.n_bytes
    return ways | pooled(world, k), costs


def main() -> None:
    """Print means and standard errors over the draws, for every data set and way to predict."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.boosted_classes")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0, help="seed of the first draw")
    parser.add_argument("--only", nargs="+", choices=DATA, default=list(DATA))
    options = parser.parse_args()
    print("\n".join(table_head(["data", "prediction", *_SHOWN, "rounds, kB"])), flush=True)
    assert set(_SHOWN) <= set(SCORES)
    for name in options.only:
        drawn = [measure(options.folder, name, seed) for seed in range(options.seed, options.seed + options.draws)]
        sites = [way for way in drawn[0][0] if way.startswith("site ")]
        best = min(sites, key=lambda way: float(np.mean([ways[way]["log_loss"] for ways, _ in drawn])))
        for way in [each for each in drawn[0][0] if each not in sites or each == best]:
            values = np.array([[ways[way][score] for score in _SHOWN] for ways, _ in drawn])
            cost = [costs[way] for _, costs in drawn if way in costs]
            words = f"{np.mean([c[0] for c in cost]):.0f}, {np.mean([c[1] for c in cost]) / 1000:.0f}" if cost else ""
            print(
                table_row([name, "best site over all draws" if way == best else way, *means_and_errors(values), words]),
                flush=True,
            )


if __name__ == "__main__":
    main()
