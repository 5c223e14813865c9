"""Raw rows of sites, a few of them with a class: what `prepare` makes labels from."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd


def raw_rows(sizes: Mapping[str, int]) -> dict[str, pd.DataFrame]:
    """Draw two columns of three classes; every fifth row has a class, and the site `lone` has one class only."""
    rng = np.random.default_rng(0)
    frames = {}
    for name, n in sizes.items():
        truth = np.zeros(n, int) if name == "lone" else rng.integers(3, size=n)
        x = 3 * np.eye(3)[truth][:, :2] + 0.6 * rng.normal(size=(n, 2))
        known = np.where(np.arange(n) % 5 == 0, truth, np.nan)
        frames[name] = pd.DataFrame({"x0": x[:, 0], "x1": x[:, 1], "kind": known, "truth": truth})
        frames[name].insert(0, "id", [f"{name}{i}" for i in range(n)])
    return frames
