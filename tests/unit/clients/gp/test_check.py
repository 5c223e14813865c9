"""What `consilience check` says of a site's rows for gp."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from clients.data import load
from clients.gp.check import describe
from clients.gp.shard import measurements_of


@pytest.mark.parametrize(("n_rare", "named"), [(1, True), (4, True), (5, False)])
def test_a_rare_value_of_a_column_is_named(tmp_path: Path, n_rare: int, named: bool) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=40), "pump": (np.arange(40) >= n_rare) * 1, "y": rng.normal(size=40)})
    frame.to_csv(tmp_path / "wells.csv", index=False)
    config = {"data": str(tmp_path / "wells.csv"), "target": "y", "protocol": "gp"}
    table = load(config)
    text = "\n".join(describe(measurements_of(table, config), table, config))
    assert (f"pump: values that few rows have, in {n_rare} of 40 rows" in text) == named


@pytest.mark.parametrize("classes", [False, True])
def test_what_leaves_about_outputs_is_said_of_classes_and_amounts(tmp_path: Path, classes: bool) -> None:
    x = np.random.default_rng(0).normal(size=60)
    outputs = np.where(x > 0, "ill", "well") if classes else 2 * x
    pd.DataFrame({"x": x, "y": outputs}).to_csv(tmp_path / "ward.csv", index=False)
    config = {"data": str(tmp_path / "ward.csv"), "target": "y", "protocol": "gp"}
    table = load(config)
    text = " ".join(" ".join(describe(measurements_of(table, config), table, config)).split())
    assert ("number of rows of each class" in text) == ("sum of the log losses" in text) == classes
    assert ("mean and variance of the outputs" in text) == ("in 50 steps" in text) != classes
