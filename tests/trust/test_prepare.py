"""Classifiers that sites exchange to label their rows: what a table tells, and what a forged one counts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import consilience as cs
from clients.data import DataError
from consilience.attack.playing import Outcome, play
from tests.support.raw_rows import raw_rows

OPTIONS = {"target": "kind", "features": "x*", "classifiers": "logistic discriminant"}


def tables_of(frame: pd.DataFrame, folder: Path) -> dict[str, bytes]:
    """What a site writes for the others."""
    (folder.parent / "k.csv").write_text("entity,cluster\n" + "".join(f"{row},0\n" for row in range(len(frame))))
    files = {"models": str(folder), "clusterings": str(folder.parent / "k.csv")}
    cs.prepare(cs.BC3E(), {"a": frame}, folder.parent / "labels", **OPTIONS, **files)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_class_of_few_rows_is_in_no_table(tmp_path: Path) -> None:
    """The mean of a class of one row would be the row, and more classes tell more of all."""
    frame = raw_rows({"a": 80})["a"]
    frame["kind"] = np.where(np.arange(80) % 2, np.arange(80) % 4 // 2, np.nan)
    frame.loc[[1, 3, 5, 7], "kind"] = 2
    before = tables_of(frame, tmp_path / "before")
    assert set(before) == {"a_discriminant.csv", "a_logistic.csv"}
    for name in before:
        assert pd.read_csv(tmp_path / "before" / name)["class"].tolist() == [0, 1]
    frame.loc[[1, 3, 5, 7], frame.filter(like="x").columns] += 100.0
    assert tables_of(frame, tmp_path / "after") == before


@pytest.mark.parametrize(
    "row", ["0,1", "0,1,x", "0,1,nan", "0,1,1e300", "0,1,1\n0,2,2", "-1,1,1", "2000,1,1", "0.5,1,1", "0,1,1"]
)
def test_a_table_that_is_none_is_named(tmp_path: Path, row: str) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "b_logistic.csv").write_text(f"class,intercept,x0\n{row}\n1,0,0\n" * (row != "0,1,1"))
    frame = raw_rows({"a": 80})["a"].rename(columns={"x1": "other"})
    with pytest.raises(DataError, match=r"b_logistic\.csv: is no"):
        tables_of(frame, tmp_path / "models")


def count_strips(folder: Path, n: int, n_cuts: int, **keys: int) -> Outcome:
    """Let a site label its rows by forged classifiers, thresholds of one column, and a center count the labels."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x0": rng.normal(size=n), "kind": np.where(np.arange(n) < 20, np.arange(n) % 2, np.nan)})
    models = folder / "models"
    models.mkdir(parents=True)
    for place, cut in enumerate(np.linspace(-2, 2, n_cuts).tolist()):
        (models / f"z{place}.csv").write_text(f"class,intercept,x0\n0,0,0\n1,{-cut},1\n")
    tables_of(frame, models)
    (outcome,) = play("bc3e", folder / "labels" / "a.csv", settings=keys, only="plain em")
    return outcome


def test_forged_classifiers_count_no_few_rows(tmp_path: Path) -> None:
    """Each label says on which side of a threshold a row lies. With consent strips of few rows are counted."""
    open_site = count_strips(tmp_path / "open", 120, 8, **{"min-combination": 1})
    assert open_site.n_true > 0, open_site.lines
    withheld = count_strips(tmp_path / "withheld", 120, 8)
    assert (withheld.rows_out, withheld.groups_out, withheld.n_true) == (0, 0, 0), withheld.lines
