"""Labels from raw rows: classifiers of the sites, clusterings of all rows, one file a site."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import consilience as cs
from common.settings import ConfigError
from consilience.cli import app


def raw(sizes: dict[str, int]) -> dict[str, pd.DataFrame]:
    """Two columns of three classes; every fifth row has a class, and a site of one class none for a classifier."""
    rng = np.random.default_rng(0)
    frames = {}
    for name, n in sizes.items():
        truth = np.zeros(n, int) if name == "lone" else rng.integers(3, size=n)
        x = 3 * np.eye(3)[truth][:, :2] + 0.6 * rng.normal(size=(n, 2))
        known = np.where(np.arange(n) % 5 == 0, truth, np.nan)
        frames[name] = pd.DataFrame({"x0": x[:, 0], "x1": x[:, 1], "kind": known, "truth": truth})
        frames[name].insert(0, "id", [f"{name}{i}" for i in range(n)])
    return frames


def test_every_site_gets_a_file_that_a_run_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frames = raw({"a": 60, "b": 50, "lone": 40})
    options = {"target": "kind", "id": "id", "truth": "truth", "classifiers": "logistic tree", "clusters": "1"}
    files = cs.prepare(cs.BC3E(), frames, tmp_path / "labels", **options)
    printed = capsys.readouterr().out
    assert "a: 2 classifiers from 12 labeled rows of 3 classes" in printed
    assert "lone: 8 labeled rows of 1 classes, too few for a classifier" in printed
    for name, file in files.items():
        table = pd.read_csv(file)
        unlabeled = frames[name][frames[name]["kind"].isna()]
        assert table["id"].tolist() == unlabeled["id"].tolist()
        classes = {f"class_{site}_{model}" for site in ("a", "b") for model in ("logistic", "tree")}
        assert set(table.columns) == {"id", "truth", "cluster_3", *classes}
        assert (table["class_a_logistic"] == table["truth"]).mean() > 0.8
    data = {name: str(file) for name, file in files.items()}
    run = cs.run(cs.BC3E(max_rounds=10), data=data, id="id", truth="truth", progress=False)
    assert run.metrics["accuracy"] > 0.85


def test_without_exchange_a_site_has_its_own_classifiers_only(tmp_path: Path) -> None:
    frames = raw({"a": 60, "b": 50})
    options = {"target": "kind", "truth": "truth", "classifiers": "tree", "clusters": "1", "exchange": False}
    files = cs.prepare(cs.BC3E(), frames, tmp_path, features="x*", **options)
    assert {name: list(pd.read_csv(file).filter(like="class_")) for name, file in files.items()} == {
        "a": ["class_a_tree"], "b": ["class_b_tree"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "target is not set"),
        ({"target": "kind", "classifiers": "forest"}, "choose among bayes"),
        ({"target": "kind", "clusters": "two"}, "whole numbers from 1 on"),
    ],
)
def test_what_cannot_be_used_is_said(tmp_path: Path, options: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        cs.prepare(cs.BC3E(), raw({"a": 20}), tmp_path, **options)


def test_the_command_says_what_has_nothing_to_prepare(tmp_path: Path) -> None:
    outcome = CliRunner().invoke(app, ["prepare", "gp", str(tmp_path), "--output", str(tmp_path)])
    assert outcome.exit_code != 0
