"""Labels from raw rows: classifiers of the sites, clusterings of all rows, one file a site."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import consilience as cs
from clients.data import DataError
from common.settings import ConfigError
from consilience.cli import app
from tests.support.raw_rows import raw_rows


def test_every_site_gets_a_file_that_a_run_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frames = raw_rows({"a": 60, "b": 50, "lone": 40})
    options = {"target": "kind", "id": "id", "truth": "truth", "classifiers": "logistic tree", "clusters": "1"}
    files = cs.prepare(cs.BC3E(), frames, tmp_path / "labels", **options)
    printed = capsys.readouterr().out
    assert "a: 2 classifiers from 12 labeled rows of 3 classes" in printed
    assert "lone: 8 labeled rows of 1 class, too few for a classifier" in printed
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


def test_few_rows_get_fewer_classifiers_and_clusterings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A discriminant needs more rows than classes, a cluster five rows."""
    frames = raw_rows({"a": 40, "b": 4})
    frames["b"]["kind"] = [0.0, 1.0, 2.0, np.nan]
    cs.prepare(cs.BC3E(), frames, tmp_path, target="kind", features="x*", clusters="1 4")
    printed = capsys.readouterr().out
    assert "b: 3 labeled rows of 3 classes, too few for a classifier" in printed
    assert "clusterings of 44 rows: 1; not of 12 clusters, which take 5 rows each" in printed
    table = pd.read_csv(tmp_path / "b.csv")
    assert len(table) == 1
    assert "cluster_3" in table
    with pytest.raises(DataError, match="more of them than classes"):
        cs.prepare(cs.BC3E(), {"b": frames["b"]}, tmp_path, target="kind", features="x*")


def test_classes_that_are_text_are_numbered_in_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frames = raw_rows({"a": 60, "b": 50})
    classes = ["<= calm", "mild", "wild"]
    texts = {
        name: frame.assign(**{key: frame[key].map(dict(enumerate(classes))) for key in ("kind", "truth")})
        for name, frame in frames.items()
    }
    texts["a"].loc[texts["a"]["kind"] == "wild", "kind"] = None  # a site that lacks a class
    frames["a"].loc[frames["a"]["kind"] == 2, "kind"] = np.nan
    options = {"target": "kind", "features": "x*", "truth": "truth", "classifiers": "logistic", "clusters": "1"}
    numbered = cs.prepare(cs.BC3E(), texts, tmp_path / "texts", **options)
    assert "classes: 0 <= calm, 1 mild, 2 wild" in capsys.readouterr().out
    plain = cs.prepare(cs.BC3E(), frames, tmp_path / "numbers", **options)
    for name in frames:
        pd.testing.assert_frame_equal(pd.read_csv(numbered[name]), pd.read_csv(plain[name]), check_dtype=False)


def test_classes_of_a_site_that_prepares_alone_need_an_order(tmp_path: Path) -> None:
    frame = raw_rows({"a": 150})["a"]
    frame["kind"] = frame["kind"].map(dict(enumerate(["calm", "mild", "wild"])))
    options = {"target": "kind", "features": "x*", "classifiers": "logistic", "clusters": "1"}
    with pytest.raises(DataError, match=r"say which label is 0, 1, ..., as in ordinal='kind=calm<mild<wild'"):
        cs.prepare(cs.BC3E(), {"a": frame}, tmp_path / "labels", models=str(tmp_path / "models"), **options)
    ordered = {**options, "ordinal": {"kind": ["wild", "mild", "calm"]}}
    cs.prepare(cs.BC3E(), {"a": frame}, tmp_path / "labels", models=str(tmp_path / "models"), **ordered)


def test_names_of_columns_may_have_blanks(tmp_path: Path) -> None:
    frames = raw_rows({"a": 60, "b": 50})
    options = {"target": "kind", "classifiers": "tree", "clusters": "1"}
    plain = cs.prepare(cs.BC3E(), frames, tmp_path / "plain", features="x*", **options)
    blank = {name: frame.rename(columns={"x0": "mean x", "x1": "x, worst"}) for name, frame in frames.items()}
    names = cs.prepare(cs.BC3E(), blank, tmp_path / "blank", features=["mean x", "x, worst"], **options)
    assert all(plain[name].read_text() == names[name].read_text() for name in frames)


def test_texts_that_are_too_many_are_no_classes(tmp_path: Path) -> None:
    frame = raw_rows({"a": 150})["a"].assign(kind=lambda rows: rows["id"])
    with pytest.raises(DataError, match=r"'kind': 150 different texts; 100 classes at most"):
        cs.prepare(cs.BC3E(), {"a": frame}, tmp_path, target="kind")


def test_rows_with_empty_cells_and_text_are_prepared_as_in_a_run(tmp_path: Path) -> None:
    frames = raw_rows({"a": 60, "b": 50})
    options = {"target": "kind", "id": "id", "truth": "truth", "classifiers": "logistic", "clusters": "1"}
    plain = cs.prepare(cs.BC3E(), frames, tmp_path / "plain", **options)
    frames = {name: frame.assign(word="up", sex=frame["truth"].map({0: "f", 1: "m"})) for name, frame in frames.items()}
    same = cs.prepare(cs.BC3E(), frames, tmp_path / "text", **options)  # text is no input unless it is named
    assert all(same[name].read_text() == plain[name].read_text() for name in frames)
    frames["a"].loc[3, "x0"] = np.nan
    with pytest.raises(DataError, match=r"a, row 4, column 'x0': is empty; fill it, or set missing=impute"):
        cs.prepare(cs.BC3E(), frames, tmp_path / "refused", **options)
    filled = cs.prepare(cs.BC3E(), frames, tmp_path / "filled", **options, missing="impute", categories="sex=f|m")
    dropped = cs.prepare(cs.BC3E(), frames, tmp_path / "dropped", **options, missing="drop")
    names = pd.read_csv(plain["a"])["id"].tolist()
    assert pd.read_csv(filled["a"])["id"].tolist() == names
    assert pd.read_csv(dropped["a"])["id"].tolist() == [name for name in names if name != "a3"]


def test_without_exchange_a_site_has_its_own_classifiers_only(tmp_path: Path) -> None:
    frames = raw_rows({"a": 60, "b": 50})
    options = {"target": "kind", "truth": "truth", "classifiers": "tree", "clusters": "1", "exchange": False}
    files = cs.prepare(cs.BC3E(), frames, tmp_path, features="x*", **options)
    assert {name: list(pd.read_csv(file).filter(like="class_")) for name, file in files.items()} == {
        "a": ["class_a_tree"], "b": ["class_b_tree"],
    }  # fmt: skip


def test_sites_prepare_their_own_rows_with_files_of_coreset_and_of_classifiers(tmp_path: Path) -> None:
    """The commands of docs/bc3e.md: no site's rows leave it. The labels are those of all rows in one place."""
    frames = {name: frame.assign(all="all") for name, frame in raw_rows({"a": 150, "b": 120}).items()}
    for name, frame in frames.items():
        (tmp_path / name).mkdir()
        frame.to_csv(tmp_path / name / f"{name}.csv", index=False)

    def type_in(*words: object) -> str:
        outcome = CliRunner().invoke(app, [str(word) for word in words])
        assert outcome.exit_code == 0, outcome.output
        return outcome.output

    data = tmp_path / "rows"
    data.mkdir()
    for name in frames:
        (data / f"{name}.csv").symlink_to(tmp_path / name / f"{name}.csv")
    options = {"data": data, "sensitive": "all", "features": "x*", "id": "id", "coreset.k": 3}
    sets = [word for key, value in options.items() if key != "data" for word in ("--set", f"{key}={value}")]
    type_in("run", "--protocol", "coreset", "--data", data, "--set", f"output-dir={tmp_path / 'runs'}", *sets)
    for name in frames:
        (clusters,) = tmp_path.glob(f"runs/*/*/sites/{name}/clusters.csv")
        clusters.rename(clusters.with_name("k3.csv"))

    def prepare(name: str) -> str:
        given = {"target": "kind", "id": "id", "truth": "truth", "features": "x*", "classifiers": "logistic"}
        (clusters,) = tmp_path.glob(f"runs/*/*/sites/{name}/k3.csv")
        given |= {"models": tmp_path / "models", "clusterings": clusters}
        words = [word for key, value in given.items() for word in ("--set", f"{key}={value}")]
        return type_in("prepare", "bc3e", tmp_path / name, "--output", tmp_path / "labels", *words)

    assert "1 classifiers, 1 of them from here" in prepare("a")
    prepare("b")
    assert "2 classifiers, 1 of them from here" in prepare("a")
    together = cs.prepare(
        cs.BC3E(),
        frames,
        tmp_path / "together",
        target="kind",
        id="id",
        features="x*",
        classifiers="logistic",
        clusters="1",
    )
    for name in frames:
        table, expected = pd.read_csv(tmp_path / "labels" / f"{name}.csv"), pd.read_csv(together[name])
        for column in ("id", "class_a_logistic", "class_b_logistic"):
            assert table[column].tolist() == expected[column].tolist()
        assert len(table.filter(like="cluster_").columns) == 1
    report = type_in(
        "run", "--protocol", "bc3e", "--data", tmp_path / "labels", "--set", "id=id", "--set", "truth=truth"
    )
    assert "% correct" in report


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("models/c_logistic.csv", "is no classifier that prepare wrote"),
        ("k3.csv", "is no file of clusters"),
        ("k4.csv", "does not name the 20 rows"),
    ],
)
def test_files_of_other_sites_are_checked(tmp_path: Path, file: str, words: str) -> None:
    (tmp_path / "models").mkdir()
    path = tmp_path / file
    path.write_text("entity,cluster\n0,1\n" if file == "k4.csv" else "nothing")
    options = (
        {"models": str(tmp_path / "models"), "classifiers": "logistic"}
        if "models" in file
        else {"clusterings": str(path)}
    )
    with pytest.raises(DataError, match=words):
        cs.prepare(cs.BC3E(), raw_rows({"a": 20}), tmp_path / "labels", target="kind", features="x*", **options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "target is not set"),
        ({"target": "kind", "classifiers": "forest"}, "choose among bayes"),
        ({"target": "kind", "clusters": "two"}, "whole numbers from 1 on"),
        ({"target": "kind", "models": "models"}, "choose among discriminant, logistic"),
        ({"target": "kind", "features": "x*", "clusterings": "k3.csv"}, "prepare each site by itself"),
    ],
)
def test_what_cannot_be_used_is_said(tmp_path: Path, options: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        cs.prepare(cs.BC3E(), raw_rows({"a": 20, "b": 20}), tmp_path, **options)


def test_the_command_says_what_has_nothing_to_prepare(tmp_path: Path) -> None:
    outcome = CliRunner().invoke(app, ["prepare", "gp", str(tmp_path), "--output", str(tmp_path)])
    assert outcome.exit_code != 0
