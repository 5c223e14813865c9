"""Residual at its edges: few agents, odd columns, names that do not match, sites in trouble, predictions later."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from server.report.data import Report
from server.report.summary import render_table
from strategies.errors import FusionError
from tests.support.grid import prediction_config
from tests.support.parameters import few
from tests.support.reference_residual import agreed_order
from tests.support.residual_sites import (
    COLUMNS,
    Arrays,
    N,
    customers,
    deployed_sites,
    learn,
    own_data_config,
    same_learning,
    write_world,
)
from tests.support.runs import outcome_of
from tests.support.tampering import silent

ALGORITHMS = ("boosted", "bins", "parallel", "greedy", "sip", "average", "meta-linear", "meta-boosting")
BANK, SHOP, TELECOM = range(3)


pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_world(tmp_path / "files")


def changed(folder: Path, site: str, change: Any) -> Path:
    """The site's file after `change` of its frame."""
    path = folder / f"{site}.csv"
    change(pd.read_csv(path, dtype={"customer": str})).to_csv(path, index=False)
    return folder


# -- agents and columns -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", few(list(ALGORITHMS), 3))
@pytest.mark.parametrize("holder", few(["", "bank"]))
def test_one_agent_alone(tmp_path: Path, algorithm: str, holder: str) -> None:
    folder = write_world(tmp_path / "files", columns={"bank": ("a", "c")}, holder=holder)
    report, arrays, _ = learn(own_data_config(tmp_path, folder, residual__algorithm=algorithm, residual__power="3"), 1)
    assert report.metrics["n_agents"] == 1
    assert report.metrics["train_mse"] < customers()["y"].var()
    assert np.isfinite(arrays["curve_test"]).all()


@pytest.mark.parametrize("algorithm", few(list(ALGORITHMS), 3))
def test_two_agents_with_the_same_column(tmp_path: Path, algorithm: str) -> None:
    folder = write_world(tmp_path / "files", columns={"bank": ("c",), "shop": ("c",), "telecom": ("d",)})
    chosen = {"residual__algorithm": algorithm, "residual__power": "2", "residual__ridge": 0.0}
    report, arrays, _ = learn(own_data_config(tmp_path, folder, **chosen))
    assert np.isfinite(report.metrics["test_mse"])
    assert report.metrics["train_mse"] < 0.7 * customers()["y"].var()
    if algorithm in ("parallel", "meta-linear"):
        np.testing.assert_allclose(arrays["beta"][0], arrays["beta"][1], rtol=1e-6)
    if algorithm == "greedy":
        assert arrays["beta"][1] == 0 or arrays["power"][-1, 0] >= arrays["power"][-1, 1]


@pytest.mark.parametrize("algorithm", few(list(ALGORITHMS), 3))
def test_an_agent_whose_column_is_constant_has_no_part(tmp_path: Path, algorithm: str) -> None:
    people = customers().assign(e=7.0)
    folder = write_world(tmp_path / "files", columns={"bank": ("a",), "shop": ("c",), "telecom": ("e",)}, people=people)
    report, arrays, _ = learn(own_data_config(tmp_path, folder, residual__algorithm=algorithm, residual__power="2"))
    assert arrays["power"][-1, TELECOM] == pytest.approx(0, abs=1e-20)
    assert np.isfinite(report.metrics["test_mse"])
    without = write_world(tmp_path / "fewer", columns={"bank": ("a",), "shop": ("c",)}, people=people)
    if algorithm in ("meta-linear", "greedy"):
        fewer = learn(own_data_config(tmp_path, without, residual__algorithm=algorithm), 2)[0]
        assert report.metrics["test_mse"] == pytest.approx(fewer.metrics["test_mse"], rel=1e-3)


@pytest.mark.parametrize("algorithm", few(list(ALGORITHMS), 3))
@pytest.mark.parametrize("holder", few(["bank", ""]))
def test_an_outcome_that_never_varies(tmp_path: Path, algorithm: str, holder: str) -> None:
    folder = write_world(tmp_path / "files", people=customers().assign(y=4.0), holder=holder)
    for stop in ("rounds", "held-out"):
        chosen = {"residual__algorithm": algorithm, "residual__stop": stop}
        report, arrays, _ = learn(own_data_config(tmp_path, folder, **chosen))
        assert report.metrics["train_mse"] == pytest.approx(0, abs=1e-25)
        assert report.metrics["test_mse"] == pytest.approx(0, abs=1e-25)
        assert np.isfinite(arrays["power"]).all()


@pytest.mark.parametrize("algorithm", few(list(ALGORITHMS), 3))
def test_fewer_rows_than_a_leaf(tmp_path: Path, folder: Path, algorithm: str) -> None:
    report, _, _ = learn(own_data_config(tmp_path, folder, residual__algorithm=algorithm, residual__min_leaf=1000))
    y = customers()["y"]
    assert report.metrics["train_mse"] == pytest.approx(y.var(), rel=0.3)
    assert any("no tree can split (residual.min-leaf)" in note for note in report.notes)
    assert "no tree can split" in render_table(report)


def test_few_rows(tmp_path: Path) -> None:
    folder = write_world(tmp_path / "files", people=customers(5))
    report, _, _ = learn(own_data_config(tmp_path, folder))
    assert report.metrics["n_test"] == 1
    two = write_world(tmp_path / "two", people=customers(2))
    told = outcome_of(own_data_config(tmp_path, two, residual__holdout=0.5), 3).refusal
    assert told.startswith("1 of the 2 common entities are left to learn from: too few (residual.holdout, residual.va")
    chosen = {"residual__stop": "held-out", "residual__validation": 0.75}
    told = outcome_of(own_data_config(tmp_path, folder, **chosen), 3).refusal
    assert told.startswith("4 of the 5 common entities are left to learn from, of which 3 are held out: too few")


# -- names that do not match ------------------------------------------------------------------------------------------


def test_an_entity_twice_is_told_by_code(tmp_path: Path, folder: Path) -> None:
    changed(folder, "shop", lambda frame: pd.concat([frame, frame[:1]]))
    assert "[duplicate-entity]" in outcome_of(own_data_config(tmp_path, folder), 3).text


@pytest.mark.usefixtures("unseen_files")
def test_no_id_column_is_told_by_code(tmp_path: Path, folder: Path) -> None:
    changed(folder, "shop", lambda frame: frame.drop(columns="customer"))
    told = outcome_of(own_data_config(tmp_path, folder), 3).text
    assert "shop: " in told
    assert "[missing-column]" in told


def secrets(tmp_path: Path, *texts: str) -> list[str]:
    found = []
    for place, text in enumerate(texts):
        path = tmp_path / f"secret-{place}"
        path.write_text(text)
        found.append(str(path))
    return found


def test_a_site_with_another_secret_is_left_out_by_name(tmp_path: Path, folder: Path) -> None:
    settings, nodes = deployed_sites(tmp_path, folder)
    one, other = secrets(tmp_path, "a secret of the sites", "another one of a site")
    settings["align-key-file"] = nodes[BANK]["align-key-file"] = nodes[SHOP]["align-key-file"] = one
    nodes[TELECOM]["align-key-file"] = other
    report, _, _ = learn(settings, nodes)
    reason = "left out: its align-key-file is not that of the fusion center"
    assert any(reason in line for line in report.missing["telecom"])
    with pytest.raises(FusionError, match=f"2 sites are left to learn, min-sites is 3 .*{reason}"):
        learn({**settings, "min-sites": 3}, nodes)
    nodes[TELECOM]["align-key-file"] = one
    same_learning(learn(settings, nodes)[:2], learn(*deployed_sites(tmp_path, folder))[:2])


def test_names_that_are_numbers_at_some_and_text_at_others(tmp_path: Path) -> None:
    people = customers().assign(customer=np.arange(N))
    folder = write_world(tmp_path / "files", people=people)
    changed(folder, "shop", lambda frame: frame.assign(customer=frame["customer"].replace("149", "X149")))
    report, _, _ = learn(own_data_config(tmp_path, folder))
    assert report.metrics["n_aligned"] == N - 1
    assert report.metrics["n_lost"] == 2
    assert any("numbers at some and by text at others" in note and "shop: text" in note for note in report.notes)


def test_rows_that_somebody_lacks_are_left_out_and_counted(tmp_path: Path) -> None:
    folder = write_world(tmp_path / "files", lose=7)
    report, _, _ = learn(own_data_config(tmp_path, folder))
    files = {site: set(pd.read_csv(folder / f"{site}.csv")["customer"]) for site in COLUMNS}
    common = set.intersection(*files.values())
    assert report.metrics["n_aligned"] == len(common)
    assert report.metrics["n_lost"] == N - len(common)
    assert {row["site"]: row["lost"] for row in report.table} == {
        "(center)": N - len(common),
        **{site: len(names) - len(common) for site, names in files.items()},
    }
    few = customers()[customers()["customer"].isin(common)]
    same = learn(own_data_config(tmp_path, write_world(tmp_path / "few", people=few)))
    assert same[0].metrics["train_mse"] == report.metrics["train_mse"]


def test_without_names_the_rows_are_those_of_the_files(tmp_path: Path) -> None:
    in_order = write_world(tmp_path / "in-order", shuffle=None)
    named = learn(own_data_config(tmp_path, in_order))
    by_row = learn(own_data_config(tmp_path, in_order, residual__align="row-order"))
    same_learning(named[:2], by_row[:2])


def test_names_are_required(tmp_path: Path, folder: Path) -> None:
    settings, nodes = deployed_sites(tmp_path, folder)
    del nodes[SHOP]["id"]
    assert "[no-entities]" in outcome_of({**settings, "residual.align": "id"}, nodes).text


# -- sites that do not answer ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", few(["parallel", "greedy", "sip", "meta-linear"], 2))
@pytest.mark.parametrize("holder", few(["", "bank"]))
def test_an_agent_that_is_not_there_from_the_beginning(tmp_path: Path, algorithm: str, holder: str) -> None:
    folder = write_world(tmp_path / "files", holder=holder)
    chosen: Mapping[str, Any] = {"residual__algorithm": algorithm, "residual__power": "2"}
    report, arrays, _ = learn(own_data_config(tmp_path, folder, **chosen), tamper=silent(TELECOM, range(1, 1000)))
    assert "no answer" in report.missing["node 1014"][0]
    (folder / "telecom.csv").unlink()
    two = learn(own_data_config(tmp_path, folder, **chosen), 2)
    same_learning((report, arrays), two[:2])


def frozen(report: Report, arrays: Arrays, place: int) -> None:
    assert arrays["agents"][place] in report.missing
    assert np.isfinite(arrays["curve_test"]).all()


def test_of_an_agent_that_falls_silent_the_last_prediction_stays_and_its_coefficient_may_change(
    tmp_path: Path, folder: Path
) -> None:
    chosen = {"residual__algorithm": "parallel", "residual__power": "1"}
    whole = learn(own_data_config(tmp_path, folder, **chosen))[1]
    report, arrays, _ = learn(own_data_config(tmp_path, folder, **chosen), tamper=silent(TELECOM, range(4, 1000)))
    frozen(report, arrays, TELECOM)
    np.testing.assert_array_equal(arrays["curve_train"][:2], whole["curve_train"][:2])
    assert arrays["curve_train"][2] != whole["curve_train"][2]
    assert arrays["curve_train"][-1] < arrays["curve_train"][1]
    # Of a prediction that stays, only the coefficient moves its power.
    power = arrays["power"][1:, TELECOM]
    assert len(np.unique(power)) > 1
    assert [line.split(":")[0] for line in report.missing["telecom"][:3]] == ["round 4", "round 5", "round 6"]


def test_a_silent_agent_is_asked_no_more_after_three_rounds(tmp_path: Path, folder: Path) -> None:
    for topology in ("center", "ring"):
        chosen = {"residual__topology": topology, "residual__rounds": 24}
        report, arrays, _ = learn(own_data_config(tmp_path, folder, **chosen), tamper=silent(TELECOM, range(4, 1000)))
        assert arrays["power"][-1, BANK] > 0
        assert len(arrays["curve_train"]) == 25
        asked = [int(line.split(":")[0].removeprefix("round ")) for line in report.missing["telecom"]]
        while_learning = [number for number in asked if number <= report.rounds - 2]
        assert len(while_learning) in (3, 4)  # an order that was not confirmed is one more
        assert asked[len(while_learning) :] == [report.rounds - 1, report.rounds]  # to keep its model, and once more


def test_an_agent_that_comes_back_goes_on(tmp_path: Path, folder: Path) -> None:
    for algorithm in ("parallel", "greedy", "sip"):
        chosen = {"residual__algorithm": algorithm, "residual__power": "1", "residual__agent": "lr"}
        whole = learn(own_data_config(tmp_path, folder, **chosen))[0]
        report, arrays, path = learn(own_data_config(tmp_path, folder, **chosen), tamper=silent(SHOP, [3, 4]))
        assert arrays["beta"][SHOP] != 0
        assert report.metrics["train_mse"] == pytest.approx(whole.metrics["train_mse"], rel=0.2)
        again = learn(prediction_config(own_data_config(tmp_path, folder), path))[0]
        assert again.metrics["n_predicted"] == N


@pytest.mark.parametrize("holder", ["", "bank"])
def test_who_does_not_say_how_well_it_predicts_alone_is_named(tmp_path: Path, holder: str) -> None:
    folder = write_world(tmp_path / "files", holder=holder)
    settings = own_data_config(tmp_path, folder, residual__algorithm="average", residual__baselines=True)
    whole, _, _ = learn(settings)
    # Before the end: models are stored in the last round; where a site holds the outcome, it answers in between.
    number = whole.rounds - (3 if holder else 1)
    report, _, _ = learn(settings, tamper=silent(SHOP, range(number, number + 1)))
    assert "shop: no answer about predictions by own columns alone, so no part in the comparison" in report.notes
    alone = {row["site"]: row["alone"] for row in whole.table if "alone" in row}
    assert set(alone) == set(COLUMNS)
    del alone["shop"]
    assert {row["site"]: row["alone"] for row in report.table if "alone" in row} == alone
    assert report.metrics["mse_alone"] == min(alone.values())
    assert report.metrics["test_mse"] == whole.metrics["test_mse"]


def test_an_agent_that_never_predicted_has_no_part_and_is_named(tmp_path: Path, folder: Path) -> None:
    for algorithm in ALGORITHMS:
        chosen = {"residual__algorithm": algorithm, "residual__power": "1"}
        report, arrays, _ = learn(own_data_config(tmp_path, folder, **chosen), tamper=silent(SHOP, range(2, 1000)))
        assert arrays["beta"][SHOP] == 0
        told = "no part in the result, where a prediction adds nothing or did not come"
        [named] = [note.partition(": ")[0] for note in report.notes if note.endswith(told)]
        assert "shop" in named.split(", ")


def test_the_ring_goes_round_a_silent_agent(tmp_path: Path) -> None:
    for holder in ("", "bank"):
        folder = write_world(tmp_path / f"files-{holder}", holder=holder)
        chosen = {"residual__topology": "ring", "residual__rounds": 12}
        report, arrays, _ = learn(own_data_config(tmp_path, folder, **chosen), tamper=silent(SHOP, range(2, 1000)))
        assert arrays["beta"].tolist() == [1, 0, 1]
        assert "shop" in report.missing
        (folder / "shop.csv").unlink()
        two = learn(own_data_config(tmp_path, folder, **chosen), 2)[1]
        np.testing.assert_array_equal(arrays["curve_train"], two["curve_train"])
        np.testing.assert_array_equal(arrays["curve_test"], two["curve_test"])


def test_who_has_the_residual_and_falls_silent_ends_the_ring(tmp_path: Path, folder: Path) -> None:
    """The agent whose turn is next is silent too: nobody else has what is left."""

    def tamper(place: int, number: int, reply: Any) -> Any:
        return None if (place == SHOP and number >= 3) or (place == BANK and number >= 4) else reply

    told = outcome_of(own_data_config(tmp_path, folder, residual__topology="ring"), 3, tamper=tamper).refusal
    assert "bank does not answer, and the residual is with it: the run cannot go on (resume-from)" in told


# -- predictions later ------------------------------------------------------------------------------------------------


def predictions_of(path: Path, arrays: Any, holder: str) -> dict[str, float]:
    if not holder:
        return dict(zip(arrays["entity"].tolist(), arrays["prediction"].tolist(), strict=True))
    told = pd.read_csv(path / "sites" / holder / "predictions.csv")
    return dict(zip(told["entity"].tolist(), told["prediction"].tolist(), strict=True))


@pytest.mark.parametrize("algorithm", [*ALGORITHMS, "ring"])
@pytest.mark.parametrize("holder", few(["bank", ""]))
def test_predictions_later_are_those_of_the_training_run(tmp_path: Path, algorithm: str, holder: str) -> None:
    """Of the run's own rows: their errors are the run's own, on the rows learned from and on test rows."""
    kind = {"residual__algorithm": "sip", "residual__topology": "ring"} if algorithm == "ring" else {
        "residual__algorithm": algorithm
    }  # fmt: skip
    chosen: dict[str, Any] = {
        **kind, "residual__power": "2", "residual__steps": 2, "residual__shrinkage": 0.5,
        "residual__stop": "held-out", "residual__rounds": 6,
    }  # fmt: skip
    folder = write_world(tmp_path / "files", holder=holder)
    report, _, path = learn(own_data_config(tmp_path, folder, **chosen))
    again, arrays, where = learn(prediction_config(own_data_config(tmp_path, folder, **chosen), path))
    said = predictions_of(where, arrays, holder)
    assert len(said) == again.metrics["n_predicted"] == N
    people = customers()
    order, n_learn = agreed_order(N, 0.2)
    left = (people["y"] - people["customer"].map(said)).to_numpy()[order]
    n_fit = n_learn - (
        round(0.25 * n_learn) if algorithm in ("boosted", "bins") else 0
    )  # the others learn again from all
    assert report.metrics["train_mse"] == pytest.approx(np.mean(left[:n_fit] ** 2), rel=1e-9)
    assert report.metrics["test_mse"] == pytest.approx(np.mean(left[n_learn:] ** 2), rel=1e-9)


@pytest.mark.parametrize(("holder", "share"), few([("", 0.5), ("bank", 0.5), ("", 1.0)]))
def test_a_share_of_a_site_alone_predicts_later(
    tmp_path: Path, holder: str, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("protocols.residual.boosted.best_share", lambda losses, gate, sure: share)
    chosen = {
        "residual__algorithm": "boosted", "residual__rounds": 2, "residual__stop": "held-out",
        "residual__baselines": True,
    }  # fmt: skip
    folder = write_world(tmp_path / "files", holder=holder)
    report, before, path = learn(own_data_config(tmp_path, folder, **chosen), fresh=True)
    own = "is the result" if share == 1 else "counts a half of it"
    assert any(f"its own prediction by its columns alone {own}" in note for note in report.notes)
    assert float(before["own_share"]) == share
    _, arrays, where = learn(prediction_config(own_data_config(tmp_path, folder, **chosen), path))
    order, n_learn = agreed_order(N, 0.2)
    people = customers()
    left = (people["y"] - people["customer"].map(predictions_of(where, arrays, holder))).to_numpy()[order]
    assert report.metrics["test_mse"] == pytest.approx(np.mean(left[n_learn:] ** 2), rel=1e-9)
    n_fit = n_learn - round(0.25 * n_learn)
    assert report.metrics["train_mse"] == pytest.approx(np.mean(left[:n_fit] ** 2), rel=1e-9)
    if share == 1:
        alone = {row["site"]: row["alone"] for row in report.table if "alone" in row}
        assert report.metrics["test_mse"] == pytest.approx(alone[str(before["own_site"])], rel=1e-9)


@pytest.mark.parametrize("holder", few(["", "bank"]))
def test_new_rows_in_another_order_with_unknown_categories_and_fewer_entities(tmp_path: Path, holder: str) -> None:
    people = customers().assign(city=np.where(customers()["c"] > 0, "Paris", "Rome"))
    columns = {"bank": ("a", "b"), "shop": ("city",), "telecom": ("d", "e")}
    folder = write_world(tmp_path / "files", columns=columns, people=people, holder=holder)
    settings, nodes = deployed_sites(tmp_path, folder, holder=holder, residual__algorithm="greedy")
    nodes[1]["features"] = "city"
    path = learn(settings, nodes)[2]
    before = prediction_config(settings, path)
    _, arrays, _ = learn(before, nodes)

    def said(arrays: Any) -> dict[str, float]:
        if not holder:
            return dict(zip(arrays["entity"].tolist(), arrays["prediction"].tolist(), strict=True))
        told = pd.read_csv(tmp_path / "home" / holder / "predictions.csv")
        return dict(zip(told["entity"].tolist(), told["prediction"].tolist(), strict=True))

    first = said(arrays)
    few = people[::-3].copy()
    few.loc[few.index[:4], "city"] = "Oslo"
    write_world(tmp_path / "files", columns=columns, people=few, holder=holder, shuffle=9)
    report, arrays, _ = learn(before, nodes)
    second = said(arrays)
    assert set(second) == set(few["customer"])
    assert report.metrics["n_predicted"] == len(few)
    for name in few["customer"].iloc[4:]:
        assert second[name] == first[name]
    assert all(np.isfinite(second[name]) for name in few["customer"].iloc[:4])


@pytest.mark.parametrize("holder", few(["", "bank"]))
def test_a_site_that_gives_no_bins_goes_on_as_an_agent(tmp_path: Path, holder: str) -> None:
    """Beside the others' bins, of which one's are randomized; its steps and their bins predict later."""
    folder = write_world(tmp_path / "files", holder=holder)
    chosen = {"residual__algorithm": "bins", "residual__rounds": 3, "residual__bins": 16}
    settings, nodes = deployed_sites(tmp_path, folder, holder=holder, **chosen)
    nodes[BANK]["allow-bins"] = True
    nodes[TELECOM] |= {"allow-bins": True, "bins-epsilon": 3.0}
    home = Path(str(nodes[TELECOM]["site-output-dir"]))
    home.mkdir(parents=True)
    (home / "secret").write_bytes(bytes(32))  # the same draws in each run of this test
    report, arrays, path = learn(settings, nodes)
    again = prediction_config(settings, path)
    _, later, _ = learn(again, nodes)
    if holder:
        told = pd.read_csv(tmp_path / "home" / holder / "predictions.csv")
        said = dict(zip(told["entity"], told["prediction"], strict=True))
    else:
        said = dict(zip(later["entity"].tolist(), later["prediction"].tolist(), strict=True))
        levels = arrays["levels"]
        assert [row["agent"] for row in report.table[1:]] == [f"{levels[0]} bins", "tree(max_leaf_nodes=8)", "15 bins"]
        assert report.ledger["by_payload"]["residual.Fit"]["messages"] == 3, "to the shop alone"
        [note] = [note for note in report.notes if "of its bins are not the true ones" in note]
        assert note.startswith("telecom: 41% of its bins")
    order, n_learn = agreed_order(N, 0.2)
    left = (customers()["y"] - customers()["customer"].map(said)).to_numpy()[order]
    assert report.metrics["test_mse"] == pytest.approx(np.mean(left[n_learn:] ** 2), rel=1e-9)
    del nodes[BANK]["allow-bins"]
    gone, _, _ = learn(again, nodes)
    absent = any(note.startswith("bank: gave no part of the prediction") for note in gone.notes)
    assert absent != (holder == "bank"), "they do not leave the site that predicts"


@pytest.mark.parametrize("holder", ["", "bank"])
def test_an_agent_that_is_missing_at_prediction_is_named(tmp_path: Path, holder: str) -> None:
    folder = write_world(tmp_path / "files", holder=holder)
    settings = own_data_config(tmp_path, folder)
    path = learn(settings)[2]
    report, _, _ = learn(prediction_config(settings, path), tamper=silent(2, range(1, 100)))
    assert any(note.startswith("telecom: gave no part of the prediction") for note in report.notes)
    assert report.metrics["n_predicted"] == N
