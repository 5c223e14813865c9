"""bc3e from raw tables of three sites, in which few rows have a class; `consilience prepare` labels the others.

    python -m benchmarks.preparation [--draws 5]

Each site fits classifiers to its own labeled rows. The classifiers of all sites label all other rows, and runs of
coreset cluster them. The table compares ways to combine these labels, and one classifier of all sites' labeled rows in
one place.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import consilience as cs
from benchmarks.rater_methods import Labels, bc3e, best_rater, dawid_skene, vote
from benchmarks.rater_worlds import Rows, cancer, heart, iris, wine
from benchmarks.tables import standard_error, table_head, table_row
from numerics.bc3e.ensemble import Ensemble

SITES = ("east", "north", "south")
TABLES: Mapping[str, tuple[Callable[[np.random.Generator], Rows], float]] = {
    "wine": (wine, 0.1),
    "iris": (iris, 0.15),
    "breast cancer": (cancer, 0.04),
    "heart": (heart, 0.1),
}
"""By name: function that returns inputs and classes, and the share of rows with a class."""


def frames_of(rows: Rows, share: float, rng: np.random.Generator) -> dict[str, pd.DataFrame]:
    """Split rows among sites; the column `truth` has all classes, and `kind` the few known ones, each at least once."""
    x, y = rows
    site = rng.integers(len(SITES), size=len(y))
    known = np.zeros(len(y), bool)
    for place in range(len(SITES)):
        for i in range(int(y.max()) + 1):
            of_class = np.flatnonzero((site == place) & (y == i))
            known[rng.choice(of_class, max(1, round(share * len(of_class))), replace=False)] = True
    frame = pd.DataFrame(x, columns=[f"x{j:02}" for j in range(x.shape[1])])
    frame = frame.assign(kind=np.where(known, y, np.nan), truth=y)
    return {name: frame[site == place].reset_index(drop=True) for place, name in enumerate(SITES)}


def prepared(frames: Mapping[str, pd.DataFrame]) -> Labels:
    """Label the rows without a class, and pool the sites' labels."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        files = cs.prepare(cs.BC3E(), frames, Path(folder), target="kind", truth="truth", features="x*")
        table = pd.concat([pd.read_csv(file) for file in files.values()])
    labels = {str(name): table[name].to_numpy(np.int64) for name in table if name != "truth"}
    classes = {name: column for name, column in labels.items() if name.startswith("class_")}
    clusters = {name: column for name, column in labels.items() if name.startswith("cluster_")}
    return Labels.of(Ensemble(len(table), classes, clusters, table["truth"].to_numpy(np.int64)))


def pooled_classifier(frames: Mapping[str, pd.DataFrame]) -> float:
    """Return the accuracy, in percent, of one logistic regression of all labeled rows."""
    frame = pd.concat(frames.values())
    known, inputs = frame["kind"].notna(), frame.filter(like="x")
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    model.fit(inputs[known], frame.loc[known, "kind"])
    return 100 * float(np.mean(model.predict(inputs[~known]) == frame.loc[~known, "truth"]))


def main() -> None:
    """Print the table in Markdown."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--draws", type=int, default=5)
    asked = parser.parse_args()
    methods = {"vote": vote, "best classifier": best_rater, "Dawid-Skene": dawid_skene}
    methods |= {"bc3e, none": lambda labels: bc3e(labels, 0)[0], "bc3e": lambda labels: bc3e(labels)[0]}
    print("\n".join(table_head(["table, rows with a class", *methods, "bc3e - vote", "pooled classifier"])))
    for name, (load, share) in TABLES.items():
        right = []
        for seed in range(asked.draws):
            rng = np.random.default_rng([seed, 3])
            frames = frames_of(load(rng), share, rng)
            labels = prepared(frames)
            right.append([*(labels.right(fit(labels)) for fit in methods.values()), pooled_classifier(frames)])
        *means, pooled = np.mean(right, axis=0)
        gain = np.array(right)[:, -2] - np.array(right)[:, 0]
        cells = [f"{name}, {100 * share:g} %", *(f"{mean:.1f}" for mean in means)]
        print(table_row([*cells, f"{gain.mean():+.1f} ± {standard_error(gain):.1f}", f"{pooled:.1f}"]), flush=True)


if __name__ == "__main__":
    main()
