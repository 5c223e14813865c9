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
