"""Classes as outcomes: whole runs against the plain calculation, with masks, without a class somewhere, and later."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from common.value_ranges import Value
from numerics.gp.dirichlet import class_probabilities, latent_units
from protocols.gp.payloads import Errors, Losses, Moments, PredictAlone, Predictions, Sharpen, Validate
from server.figures.gp import figures
from strategies.errors import FusionError
from tests.support.gp_sites import PredictionRun, own_data_config, predict, write_files
from tests.support.grid import config

pytestmark = pytest.mark.usefixtures("quick")

CLASSES = ("clay", "ore", "sand")
SHORT: dict[str, Any] = {"target": "rock", "gp__fit_rounds": 2, "gp__candidates": 2}


@lru_cache(maxsize=4)
def rocks(n: int = 96, seed: int = 0) -> pd.DataFrame:
    """Rows whose class depends on the place, with an error now and then. Not to be changed."""
    rng = np.random.default_rng([seed, n])
    east, depth = rng.uniform(0, 4, n), rng.uniform(0, 2, n)
    place = np.where(east + 0.4 * rng.normal(size=n) < 2, 0, np.where(depth + 0.3 * rng.normal(size=n) < 1, 1, 2))
    return pd.DataFrame(
        {"well": [f"w{i}" for i in range(n)], "east": east, "depth": depth, "rock": np.array(CLASSES)[place]}
    )


def write_rocks(folder: Path, names: tuple[str, ...] = ("coast", "delta", "hills")) -> Path:
    """Sites from west to east: the first ones have one class or two."""
    frame = rocks().sort_values("east", kind="stable")
    parts = np.array_split(np.arange(len(frame)), len(names))
    files = {name: frame.iloc[part] for name, part in zip(names, parts, strict=True)}
    return write_files(folder, files, rocks(40, 1))


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> PredictionRun:
    folder = tmp_path_factory.mktemp("rocks")
    return predict(own_data_config(folder, write_rocks(folder / "files"), **SHORT), 3)


def test_sites_agree_on_the_classes_of_all_and_one_that_lacks_some_goes_on(found: PredictionRun) -> None:
    told = {each.site: each.payload for each in found.heard(Moments)}
    assert any(len(answer.classes) < 3 for answer in told.values())
    assert found.arrays["classes"].tolist() == list(CLASSES)
    assert found.arrays["class_counts"].sum() == len(rocks())
    np.testing.assert_allclose(found.arrays["probabilities"].sum(axis=1), 1.0)
    assert found.metrics["log_loss"] < found.metrics["log_loss_alone"]
    assert found.metrics["accuracy"] > 0.7
    written = pd.read_csv(found.path / "predictions.csv")
    assert written.columns.tolist() == ["query", "class", *(f"probability_{c}" for c in CLASSES), "experts", "measured"]
    assert (written["class"] == np.array(CLASSES)[found.arrays["probabilities"].argmax(axis=1)]).all()
    counts = found.arrays["confusion"]
    assert counts.sum(axis=1).tolist() == [int((written["measured"] == c).sum()) for c in CLASSES]


def test_one_answer_a_class_and_one_question_of_each_kind(found: PredictionRun) -> None:
    n = sum(len(each) for answer in found.said(Predictions) for each in answer.mean)
    assert n == 3 * int((found.arrays["selected"] >= 0).sum())
    assert len(found.said(Losses)) == len(found.said(Sharpen)) == len(found.said(PredictAlone)) == 3


def test_of_likely_hyperparameters_those_with_the_least_log_loss_are_taken(found: PredictionRun) -> None:
    asks, answers = found.said(Validate), found.said(Errors)
    assert len(asks) == len(answers) == 3
    losses = np.sum([answer.squares for answer in answers], axis=0)
    assert len(losses) > 1
    np.testing.assert_array_equal(found.theta, asks[0].thetas[losses.argmin()])


@pytest.mark.usefixtures("influence")
def test_scores_are_those_at_points_with_a_class(found: PredictionRun, tmp_path: Path) -> None:
    folder, known = Path(str(found.settings["data"])), np.arange(40) % 3 != 1
    partly = rocks(40, 1).assign(rock=rocks(40, 1)["rock"].where(known))
    partly.to_csv(tmp_path / "points.csv", index=False)
    run = predict(own_data_config(tmp_path, folder, **SHORT, gp__queries=str(tmp_path / "points.csv")), 3)
    np.testing.assert_array_equal(run.arrays["probabilities"], found.arrays["probabilities"])
    places = [CLASSES.index(each) for each in partly["rock"][known]]
    losses = -np.log(run.arrays["probabilities"][known, places])
    assert run.metrics["log_loss"] == pytest.approx(losses.mean())
    assert run.report.influence["with_all"] == pytest.approx(losses.mean())
    assert run.metrics["n_measured"] == run.arrays["confusion"].sum() == known.sum()
    written = pd.read_csv(run.path / "predictions.csv")["measured"]
    assert written.isna().tolist() == (~known).tolist()


def test_the_page_has_reliability_and_confusion(found: PredictionRun) -> None:
    drawn = [each.name for each in figures(found.report, found.arrays)]
    assert drawn[:2] == ["reliability", "confusion"]


def test_one_site_gives_the_plain_process_of_its_rows(tmp_path: Path) -> None:
    folder = write_rocks(tmp_path / "files", ("coast",))
    run = predict(own_data_config(tmp_path, folder, **SHORT, gp__experts="1"), 1)
    frame = pd.read_csv(folder / "coast.csv")
    x, y = frame[["depth", "east"]].to_numpy(), np.array([CLASSES.index(each) for each in frame["rock"]])
    x = (x - run.arrays["input_mean"]) / run.arrays["input_scale"]
    units = latent_units(np.bincount(y))
    alpha = np.eye(3)[y] + 0.2 / 3
    noise = np.log(1 / alpha + 1)
    outputs = (np.log(alpha) - noise / 2 - units.means) / units.scale
    lengths, scale, sigma = np.exp(run.theta[:2]), np.exp(run.theta[2]), np.exp(run.theta[3])

    def kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.asarray(scale**2 * np.exp(-0.5 * np.sum(((a[:, None] - b[None]) / lengths) ** 2, axis=2)))

    cross, mean, variance = kernel(run.queries, x), [], []
    for c in range(3):
        z = kernel(x, x) + np.diag(noise[:, c] / units.scale**2 + sigma**2)
        mean.append(cross @ np.linalg.solve(z, outputs[:, c]))
        variance.append(scale**2 - np.einsum("qn,nq->q", cross, np.linalg.solve(z, cross.T)))
    plain = class_probabilities(np.column_stack(mean), np.column_stack(variance), units, float(run.arrays["sharpness"]))
    # A site rounds its answers.
    np.testing.assert_allclose(run.arrays["probabilities"], plain, atol=0.03)


def test_masks_change_no_bit(found: PredictionRun, tmp_path: Path) -> None:
    folder = Path(str(found.settings["data"]))
    masked = predict(own_data_config(tmp_path, folder, **SHORT, secure_aggregation=True, min_sites=3), 3)
    assert not masked.said(Losses)
    for name in ("theta", "sharpness", "probabilities"):
        np.testing.assert_array_equal(masked.arrays[name], found.arrays[name])


def test_a_later_run_predicts_the_same_probabilities(found: PredictionRun, tmp_path: Path) -> None:
    folder = Path(str(found.settings["data"]))
    later: dict[str, Value] = {"scenario": "predict", "from": str(found.path), "data": str(folder / "_test.csv")}
    again = predict(config(tmp_path, **later), 3)
    np.testing.assert_array_equal(again.arrays["probabilities"], found.arrays["probabilities"])
    assert again.report.rounds == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gp__noise": "site"}, "gp.noise=site is for amounts, and rock has classes: leave it out"),
        ({"gp__aggregation": "grbcm"}, "gp.aggregation=grbcm is for amounts, and rock has classes: leave it out"),
    ],
)
def test_settings_of_amounts_are_refused(
    found: PredictionRun, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    folder = Path(str(found.settings["data"]))
    with pytest.raises(FusionError, match=message):
        predict(own_data_config(tmp_path, folder, **SHORT, **changes), 3)
