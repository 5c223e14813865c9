"""`consilience try`: which protocol fits a folder, and what is cleaned before it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from clients.data import DataError
from consilience.trial import Trial
from protocols.registry import RegistryError
from server.preflight import preflight


@pytest.fixture
def wards(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    for name, n in (("north", 40), ("south", 60)):
        dose = rng.normal(5, 1, n)
        y = 2 * dose + rng.normal(size=n)
        columns = {
            "patient_id": np.arange(n) // 2,
            "age": [f"{age} y" for age in rng.integers(20, 90, n)],
            "sex": rng.choice(["f", "m"], n),
            "dose": np.where(rng.random(n) < 0.2, np.nan, dose),
            "device": 3,
            "copy": 10 * y,
            "y": y,
        }
        pd.DataFrame(columns).to_csv(tmp_path / f"{name}.csv", index=False, sep=";" if name == "south" else ",")
    return tmp_path


def test_messy_rows_of_the_same_columns(wards: Path) -> None:
    trial = Trial.of(wards)
    assert trial.protocol == "sec"
    assert trial.settings == {
        "target": "y",
        "group": "patient_id",
        "categories": "sex=f|m",
        "missing": "impute",
        "features": "age sex=* dose",
    }
    text = "\n".join(trial.lines)
    for words in (
        "north (40 rows) and south (60 rows)",
        "left out: 'copy' is nearly the target",
        "left out: 'device' is constant",
        "also: coreset",
    ):
        assert words in text


def test_categories_in_other_words_and_all_files_with_gaps_in_the_outcome(wards: Path) -> None:
    for name, words in (("north", {}), ("south", {"f": "female", "m": "male"})):
        path = wards / f"{name}.csv"
        rows = pd.read_csv(path, sep=None, engine="python").replace({"sex": words})
        rows.loc[3, "y"] = np.nan
        rows.to_csv(path, index=False)
    trial = Trial.of(wards)
    assert any("'f' and 'm' at north, 'female' and 'male' at south" in line for line in trial.lines)
    settings = {"protocol": trial.protocol, "data": str(wards), **trial.settings}
    plan = preflight({**settings, "group": "", "features": "age dose copy"})
    assert all("1 of" in note and "cells filled with the median" in note for note in plan.prepared)
    for words in ("copy of the target", "several rows"):
        assert any(words in each for each in plan.cautions)


def test_a_protocol_may_be_named(wards: Path) -> None:
    assert Trial.of(wards, protocol="coreset").settings["sensitive"] == "sex"
    with pytest.raises(RegistryError, match="did you mean"):
        Trial.of(wards, protocol="coresets")


def test_other_columns_of_the_same_entities(tmp_path: Path) -> None:
    ids, rng = np.arange(100), np.random.default_rng(0)
    pd.DataFrame({"client": ids, "income": rng.normal(size=100), "outcome": ids / 7.0}).to_csv(
        tmp_path / "bank.csv", index=False
    )
    pd.DataFrame({"client": ids[::-1], "visits": rng.normal(size=100)}).to_csv(tmp_path / "shop.csv", index=False)
    trial = Trial.of(tmp_path)
    assert (trial.protocol, trial.settings["id"], trial.settings["target"]) == ("residual", "client", "outcome")


def test_labels_of_classifiers(tmp_path: Path) -> None:
    for name in ("a", "b"):
        pd.DataFrame({"class_svm": [0, 1, 1], "cluster_km": [1, 0, 0], "truth": [0, 1, 1]}).to_csv(
            tmp_path / f"{name}.csv", index=False
        )
    assert (Trial.of(tmp_path).protocol, Trial.of(tmp_path).settings) == ("bc3e", {"truth": "truth"})


@pytest.mark.parametrize(("target", "words"), [("", "name the outcome with --target"), ("doze", "did you mean 'dose'")])
def test_what_fits_nothing_is_one_sentence(tmp_path: Path, target: str, words: str) -> None:
    for name in ("a", "b"):
        pd.DataFrame({"age": [1.0, 2.5, 3.5], "dose": [2.0, 1.5, 9.0]}).to_csv(tmp_path / f"{name}.csv", index=False)
    with pytest.raises(DataError, match=words):
        Trial.of(tmp_path, target)


def test_a_value_of_a_category_that_tells_the_outcome(wards: Path) -> None:
    for path in wards.iterdir():
        rows = pd.read_csv(path, sep=None, engine="python")
        rows["y"] = (rows["y"] > rows["y"].median()).astype(int)
        rows = rows.rename(columns={"dose": "daily dose, mg"})
        rows["discharge"] = np.where(rows["y"] == 1, "deceased", np.where(rows["sex"] == "f", "home", "rehab"))
        rows["age"] = rows["age"].where(rows.index % 2 == 0, rows["age"].str.removesuffix(" y"))
        rows["sex"] = rows["sex"].where(rows.index % 3 == 0, rows["sex"].str.upper())
        rows.to_csv(path, index=False)
    trial = Trial.of(wards)
    text = "\n".join(trial.lines)
    assert "left out: 'discharge' tells the target: 'deceased' is nearly the same" in text
    assert "'F' and 'f' differ only in case" in text
    assert "discharge" not in trial.settings["categories"] + trial.settings["features"]
    assert trial.settings["features"].startswith("age ")  # a number, whose unit some cells lack
    settings = {"protocol": trial.protocol, "data": str(wards), **trial.settings}
    assert all("differ only in case" in each for each in preflight(settings).cautions)
    assert "daily?dose??mg" in trial.settings["features"]
    named = {**settings, "categories": "discharge=deceased|home|rehab", "features": "age discharge=*"}
    assert any("'discharge=deceased' is nearly a copy" in each for each in preflight(named).cautions)
    assert not any("nearly a copy" in each for each in preflight({**named, "features": "age discharge=home"}).cautions)


def test_columns_that_a_file_lacks_are_left_out_and_named(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name, column in (("north", "age"), ("south", "Age")):
        columns = {column: rng.normal(size=40), "dose": rng.normal(size=40), "stay": rng.normal(size=40)}
        pd.DataFrame(columns).to_csv(tmp_path / f"{name}.csv", index=False)
    trial = Trial.of(tmp_path, "stay")
    assert trial.settings["features"] == "dose"
    assert "left out: 'age' is not at south, which has 'Age': write them alike" in trial.lines


def test_a_folder_without_a_second_site_or_its_outcome_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "north.csv").write_text("dose,stay\n1.5,2\n2.5,3\n3.5,5\n")
    with pytest.raises(DataError, match=r"^north is the only file, and a file is a site"):
        Trial.of(tmp_path, "stay")
    (tmp_path / "south.csv").write_text("dose,cost\n1.5,2\n2.5,3\n3.5,5\n")
    with pytest.raises(DataError, match=r"there is no outcome 'stay' at south$"):
        Trial.of(tmp_path, "stay")
    (tmp_path / "south.csv").write_text(" dose,stay\n1.5,2\n2.5,3\n3.5,5\n")
    with pytest.raises(DataError, match=r"'dose' is not at south, which has ' dose': write them alike"):
        Trial.of(tmp_path, "stay")
    (tmp_path / "south.csv").write_text("A report of 2024\ndose,stay\n1.5,2\n")
    with pytest.raises(DataError, match=r"the first line is no header: 'A report of 2024'"):
        Trial.of(tmp_path, "stay")
    (tmp_path / "west.xlsx").touch()
    with pytest.raises(DataError, match=r"west\.xlsx: is a spreadsheet; save it as CSV in UTF-8"):
        Trial.of(tmp_path, "stay")


def test_other_columns_with_gaps_and_text_are_used(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    names = [f"c{place}" for place in range(40)]
    bank = pd.DataFrame({"name": names, "income": rng.normal(size=40), "owed": rng.normal(size=40)})
    bank.loc[3, "income"] = np.nan
    bank.to_csv(tmp_path / "bank.csv", index=False)
    plans = pd.DataFrame(
        {"name": names, "plan": ["card", "year"] * 20, "note": [f"a text {place}" for place in range(40)]}
    )
    plans.to_csv(tmp_path / "phone.csv", index=False)
    trial = Trial.of(tmp_path, "owed")
    assert (trial.protocol, trial.settings["missing"]) == ("residual", "impute")
    assert trial.settings["features"] == "income, plan"
    assert "left out: 'note' holds text" in trial.lines
    assert not any("plan" in line for line in trial.lines if line.startswith("look at"))
