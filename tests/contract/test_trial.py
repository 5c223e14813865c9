"""`consilience try` goes from a folder to a verdict, and the command that it prints does the same."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from consilience.cli import app


def test_from_a_folder_to_a_verdict_and_the_command_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "labels").mkdir()
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        truth = rng.integers(2, size=60)
        columns = {f"class_{j}": np.where(rng.random(60) < 0.8, truth, 1 - truth) for j in range(3)}
        table = pd.DataFrame({**columns, "cluster_0": truth, "truth": truth})
        table.to_csv(tmp_path / "labels" / f"{name}.csv", index=False)
    tried = CliRunner().invoke(app, ["try", "labels"])
    assert tried.exit_code == 0, tried.output
    assert "fits: bc3e, because all files have columns class_*" in tried.output
    [verdict] = re.findall(r"Should a site join\? .*", tried.output)
    [command] = re.findall(r"to go on: consilience (.*)", tried.output)
    again = CliRunner().invoke(app, [*shlex.split(command), "--quiet"])
    assert verdict in again.output
