"""Small worlds for the tests of SEC: CSV files of parties that measure one of two relations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

SLOPES = np.array([[1.0, 2.0, -1.0], [-2.0, 0.5, 1.0]])
"""Of the two relations."""


def draw_rows(group: int, n: int, seed: int, noise: float = 0.3) -> pd.DataFrame:
    """Rows of one party: inputs ``a b c`` in an order of its own, outcome ``y``, a column of text."""
    rng = np.random.default_rng([seed, group])
    x = rng.normal(size=(n, 3))
    frame = pd.DataFrame(x, columns=list("abc"))
    frame["y"] = x @ SLOPES[group] + rng.normal(scale=noise, size=n)
    frame["remark"] = "none"
    return frame[rng.permutation(frame.columns)]


def write_parties(folder: Path, groups: Sequence[int], n: int = 40) -> Path:
    """A folder with a file for every party; returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    for place, group in enumerate(groups):
        draw_rows(group, n + place, place).to_csv(folder / f"lab-{place}.csv", index=False)
    return folder
