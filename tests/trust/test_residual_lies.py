"""One agent of several lies: what cannot be is refused, and an agent that raises the error is left out by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clients.residual.agent import Agent
from protocols.residual.payloads import AgentPredictions, FittedValues, Holdings, NextResidual, TrialFit
from server.results import load
from tests.support.grid import prediction_config
from tests.support.residual_sites import customers, own_data_config, same_learning, write_world
from tests.support.runs import outcome_of, run
from tests.support.tampering import lying, silent

pytestmark = pytest.mark.usefixtures("quick")

LIAR, NAME = 1, "shop"


def settings_of(tmp_path: Path, algorithm: str, **changes: Any) -> dict[str, Any]:
    folder = write_world(tmp_path / "files", people=customers(600))
    changes = {"residual__powers": "1", "residual__rounds": 4, "residual__min_leaf": 20, **changes}
    return own_data_config(tmp_path, folder, residual__algorithm=algorithm, **changes)


@pytest.mark.parametrize("algorithm", ["boosted", "parallel", "sip", "meta-linear"])
@pytest.mark.parametrize("field", ["fitted", "held"])
def test_predictions_that_cannot_be_are_those_of_a_silent_site(tmp_path: Path, algorithm: str, field: str) -> None:
    settings = settings_of(tmp_path, algorithm)
    report, arrays = load(run(settings, 3, tamper=lying(LIAR, FittedValues, field, lambda each: 1000 * each)))
    honest = load(run(settings, 3, tamper=silent(LIAR, range(2, report.rounds))))
    assert any("beyond 10 ranges of the outcome" in line for line in report.missing[NAME]), report.missing
    assert set(report.missing) == {NAME}
    same_learning((report, arrays), honest)


def test_an_error_that_cannot_be_wins_nothing(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, "greedy")
    report, arrays = load(run(settings, 3, tamper=lying(LIAR, TrialFit, "error", lambda each: each / 1000)))
    assert any("another error" in line or "expected shape" in line for line in report.missing[NAME]), report.missing
    assert float(arrays["beta"][arrays["agents"].tolist().index(NAME)]) == 0.0


@pytest.mark.parametrize("algorithm", ["parallel", "sip", "meta-linear"])
def test_a_sign_flipped_is_named_and_with_robust_left_out(tmp_path: Path, algorithm: str) -> None:
    settings = settings_of(tmp_path, algorithm, residual__robust=True)
    lie = lying(LIAR, FittedValues, "held", lambda each: -each)
    report = load(run(settings, 3, tamper=lie))[0]
    others = load(run(settings, 3, tamper=silent(LIAR, range(2, 10**3))))[0]
    assert any("residual.robust" in line for line in report.missing[NAME]), report.missing
    assert report.metrics["test_mse"] <= 1.05 * others.metrics["test_mse"]
    plain = load(run({**settings, "residual.robust": False}, 3, tamper=lie))[0]
    assert plain.metrics["test_mse"] > 1.05 * report.metrics["test_mse"]
    assert any(note.startswith(f"{NAME}: without it the error would be") for note in plain.notes), plain.notes


def test_the_holder_of_the_outcome_leaves_out_by_name_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Agent.fit

    def flipped(agent: Agent, targets: np.ndarray) -> np.ndarray:
        predicted = honest(agent, targets)
        if agent.site.name == NAME:
            predicted[len(targets) :] *= -1
        return predicted

    monkeypatch.setattr(Agent, "fit", flipped)
    missing = []
    for holder in ("", "bank"):
        folder = write_world(tmp_path / f"of-{holder}", people=customers(600), holder=holder, shuffle=None)
        changes = {"residual__algorithm": "parallel", "residual__powers": "1", "residual__rounds": 3}
        settings = own_data_config(tmp_path, folder, residual__robust=True, **changes)
        missing.append(load(run(settings, 3))[0].missing)
    assert set(missing[0]) == {NAME}
    assert missing[0] == missing[1]


@pytest.mark.parametrize("share", [0.9, 0.5])
def test_a_site_that_hides_entities_is_named_with_what_the_others_lose(tmp_path: Path, share: float) -> None:
    """Its hashes are of nobody; the rows lost are those of all others, and no other is blamed."""

    def hidden(keys: np.ndarray) -> np.ndarray:
        return np.where(np.arange(len(keys))[:, None] < share * len(keys), keys, keys[:, ::-1])

    settings = settings_of(tmp_path, "boosted")
    [note] = load(run(settings, 3, tamper=lying(LIAR, Holdings, "keys", hidden)))[0].notes[:1]
    n = round(600 * share)
    assert note.startswith(f"{2 * (600 - n)} of {1200 - n} entities are not known everywhere")
    told = f"{600 - n} of them only {NAME} does not know: without {NAME}, 600 are common in place of {n}"
    assert (told in note) == (share < 0.8), "few lost rows are a fact, and no alarm"
    assert not any(other in note for other in ("bank", "telecom", "fusion center"))


def test_in_a_ring_nobody_can_tell(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, "sip", residual__topology="ring", residual__robust=True)
    assert "in a ring no site sees them" in outcome_of(settings, 3).refusal


RING_LIES: dict[str, tuple[str, float, str]] = {
    "a step beyond the outcome": ("step", 1e9, "beyond 10 ranges of the outcome"),
    "a sum beyond its steps": ("total", 1e9, "more than the agent's steps add up to"),
    "an error that no step leaves": ("train", 1e9, "is not what its step leaves of the residual"),
}


@pytest.mark.parametrize("algorithm", ["boosted", "parallel", "sip", "meta-linear"])
def test_a_later_prediction_beyond_those_of_the_run_is_named(tmp_path: Path, algorithm: str) -> None:
    """Its error could be a hundred thousand times as large, within ten ranges of the outcome in every step."""
    settings = settings_of(tmp_path, algorithm, residual__rounds=8)
    again = prediction_config(settings, run(settings, 3))
    assert not load(run(again, 3))[0].notes
    for lie in (lambda part: 10 * part, lambda part: part + 20.0):
        report = load(run(again, 3, tamper=lying(LIAR, AgentPredictions, "part", lie)))[0]
        [note] = report.notes
        assert note.startswith(f"{NAME}: its part alone moves "), note
        assert not report.missing


@pytest.mark.parametrize("holder", ["", "bank"])
@pytest.mark.parametrize(("field", "factor", "reason"), RING_LIES.values(), ids=RING_LIES)
def test_sums_that_cannot_be_are_refused_in_a_ring(
    tmp_path: Path, holder: str, field: str, factor: float, reason: str
) -> None:
    folder = write_world(tmp_path / "files", people=customers(200), holder=holder)
    changes: dict[str, Any] = {"residual__topology": "ring", "align_key_file": str(tmp_path / "secret")}
    (tmp_path / "secret").write_text("a secret of the sites alone")
    settings = own_data_config(tmp_path, folder, residual__rounds=4, **changes)
    honest = load(run(settings, 3))[0]
    assert not honest.missing
    report = load(run(settings, 3, tamper=lying(LIAR, NextResidual, field, lambda each: factor * each)))[0]
    assert any(reason in line for line in report.missing[NAME]), report.missing


def test_a_prediction_that_cannot_be_is_no_part(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, "parallel")
    again = prediction_config(settings, run(settings, 3))
    report = load(run(again, 3, tamper=lying(LIAR, AgentPredictions, "part", lambda part: 1e6 * part)))[0]
    honest = load(run(again, 3, tamper=silent(LIAR, [1])))[0]
    assert any("goes beyond 10 ranges" in line for line in report.missing[NAME]), report.missing
    assert report.metrics == honest.metrics
    assert not load(run(again, 3))[0].missing
