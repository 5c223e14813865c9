"""One site of several lies: what cannot be is refused, the site named, and the result is that of the others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Message

from benchmarks.lies import LIES, Lie
from benchmarks.lying import NOTHING, draw_world, run_lie
from protocols.bc3e.payloads import Holdings, Shares, Starts, Statistics
from protocols.gp.payloads import ErrorsAlone, Likelihood, Moments, Predictions
from server.results import load
from tests.support.gp_sites import forgery, own_data_config, write_world
from tests.support.grid import Tamper, config
from tests.support.parameters import few
from tests.support.runs import outcome_of, run
from tests.support.tampering import lying, silent

pytestmark = pytest.mark.usefixtures("quick")

LIAR = 1
Change = Callable[[Any], Any]

BC3E_LIES: dict[str, tuple[type, str, Change, str]] = {
    "mass times 100": (Statistics, "mass", lambda mass: 100 * mass, "counts more labels than there are instances"),
    "largest bound": (Statistics, "bound", lambda _: 2**62, "is out of the range that labels of"),
    "smallest bound": (Statistics, "bound", lambda _: -(2**62), "is out of the range that labels of"),
    "classes that are impossible": (Statistics, "log_theta", lambda sums: 1000 * sums, "is smaller than labels"),
    "more rows than announced": (Statistics, "n", lambda n: 10 * n, "expected"),
}
SHARED_LIES: dict[str, tuple[type, str, Change, str]] = {
    "votes times 100 at the start": (Starts, "start", lambda votes: 100 * votes, "counts more than one label"),
    "votes times 100": (Shares, "share", lambda votes: 100 * votes, "counts more than one label"),
    "largest bound of a sweep": (Shares, "bound", lambda _: 2**62, "is out of the range that labels of"),
    "products beyond distances": (Shares, "products", lambda each: each + 2**61, "are larger than products"),
}


@pytest.mark.parametrize(("payload", "field", "change", "reason"), BC3E_LIES.values(), ids=BC3E_LIES)
def test_impossible_sums_of_bc3e(tmp_path: Path, payload: type, field: str, change: Change, reason: str) -> None:
    settings = config(tmp_path, scenario="bc3e-wine", bc3e__missing="drop", bc3e__max_rounds=5)
    report, arrays = load(run(settings, 5, tamper=lying(LIAR, payload, field, change)))
    honest, others = load(run(settings, 5, tamper=silent(LIAR, range(2, 10**3))))
    assert any(reason in line for line in report.missing["site-1"]), report.missing
    assert set(report.missing) == {"site-1"}
    np.testing.assert_array_equal(arrays["alpha"], others["alpha"])
    assert report.metrics == honest.metrics


@pytest.mark.parametrize("more", [1, 26, 96])
def test_classes_of_one_site_alone_do_not_count(tmp_path: Path, more: int) -> None:
    settings = config(tmp_path, scenario="bc3e-wine", bc3e__max_rounds=5)
    lie = lying(LIAR, Holdings, "n_classes", lambda n_classes: n_classes + more)
    report, arrays = load(run(settings, 5, tamper=lie))
    _, others = load(run(settings, 5, tamper=silent(LIAR, range(1, 10**3))))
    assert list(report.missing) == ["site-1"]
    assert f"if {3 + more} is right, set bc3e.classes={3 + more}" in report.missing["site-1"][0]
    np.testing.assert_array_equal(arrays["alpha"], others["alpha"])
    if more == 1:
        given, arrays = load(run(settings | {"bc3e.classes": 4}, 5, tamper=lie))
        assert (given.missing, len(arrays["alpha"])) == ({}, 4)
        refusal = outcome_of(settings | {"min-sites": 5}, 5, tamper=lie).refusal
        assert "4 sites are left to learn" in refusal
        assert "set bc3e.classes=4" in refusal


@pytest.mark.parametrize(("payload", "field", "change", "reason"), SHARED_LIES.values(), ids=SHARED_LIES)
def test_impossible_sums_over_shared_instances(
    tmp_path: Path, payload: type, field: str, change: Change, reason: str
) -> None:
    settings = config(tmp_path, scenario="bc3e-halfmoon", bc3e__distribution="column", bc3e__max_rounds=2)
    nodes = 3
    report, _ = load(run(settings, nodes, tamper=lying(LIAR, payload, field, change)))
    assert any(reason in line for line in report.missing["site-1"]), report.missing
    assert set(report.missing) == {"site-1"}


GP_LIES: dict[str, tuple[str, Change, str]] = {
    "explains more than there is": ("explained", lambda each: each + 1e6, "expected variances of at most the prior's"),
    "a mean beyond its outputs": ("mean", lambda each: each + 1000, "is larger than rows"),
}


@pytest.mark.parametrize(("field", "change", "reason"), GP_LIES.values(), ids=GP_LIES)
def test_impossible_predictions_of_gp(tmp_path: Path, field: str, change: Change, reason: str) -> None:
    settings = own_data_config(tmp_path, write_world(tmp_path / "world", how="random"))
    report, arrays = load(run(settings, 4, tamper=lying(LIAR, Predictions, field, change)))
    honest, others = load(run(settings, 4, tamper=silent(LIAR, [report.rounds])))
    assert any(reason in line for line in report.missing["delta"]), report.missing
    assert set(report.missing) == {"delta"}
    np.testing.assert_array_equal(arrays["mean"], others["mean"])
    assert report.metrics["smse"] == honest.metrics["smse"]


# -- what is possible is named where the others contradict it ---------------------------------------------------------

GP_SHIFTS: dict[str, tuple[type, str, Change, str, str]] = {
    "mean + 5": (Predictions, "mean", lambda mean: mean + 5, "delta: its predictions contradict", "its predictions"),
    "y mean = 1e30": (Moments, "y_means", lambda mean: 0 * mean + 1e30, "delta: the outputs lie far", "its outputs"),
}


@pytest.mark.parametrize(("payload", "field", "change", "note", "reason"), GP_SHIFTS.values(), ids=GP_SHIFTS)
def test_shifted_outputs_of_gp_are_named_and_left_out(
    tmp_path: Path, payload: type, field: str, change: Change, note: str, reason: str
) -> None:
    folder, lie = write_world(tmp_path / "world", how="random"), lying(LIAR, payload, field, change)
    named, _ = load(run(own_data_config(tmp_path, folder), 4, tamper=lie))
    assert any(line.startswith(note) for line in named.notes)
    assert named.missing == {}
    robust, arrays = load(run(own_data_config(tmp_path, folder, gp__robust=True), 4, tamper=lie))
    assert list(robust.missing) == ["delta"]
    assert robust.missing["delta"][0].startswith(reason)
    unheard = [named.rounds] if payload is Predictions else [1]
    others, without = load(run(own_data_config(tmp_path, folder), 4, tamper=silent(LIAR, unheard)))
    np.testing.assert_allclose(arrays["mean"], without["mean"], rtol=1e-3)
    assert robust.metrics["smse"] == pytest.approx(others.metrics["smse"], rel=0.05)


def _opposite(answer: Likelihood) -> Likelihood:
    """What fits the site's rows best is called worst, ever so sure; no bound forbids it."""
    return Likelihood(-50 * answer.values - 1e6, -50 * answer.gradients, 50 * answer.informations)


def test_invented_likelihoods_of_gp_are_named_and_left_out(tmp_path: Path) -> None:
    folder, lie = write_world(tmp_path / "world", how="random"), forgery(LIAR, Likelihood, _opposite)
    named, _ = load(run(own_data_config(tmp_path, folder), 4, tamper=lie))
    pulling = [line.split(":")[0] for line in named.notes if "other hyperparameters would fit" in line]
    assert pulling == ["delta"]
    honest, _ = load(run(own_data_config(tmp_path, folder), 4))
    assert not any("other hyperparameters would fit" in line for line in honest.notes)
    robust, _ = load(run(own_data_config(tmp_path, folder, gp__robust=True), 4, tamper=lie))
    assert list(robust.missing) == ["delta"]
    assert robust.missing["delta"][0].startswith("its likelihoods pull the hyperparameters off")
    assert named.metrics["smse"] > 1.5 * honest.metrics["smse"]
    assert robust.metrics["smse"] < 1.1 * honest.metrics["smse"]


@pytest.mark.parametrize("share", [1e-9, 0.1])
def test_an_error_alone_of_gp_that_the_site_s_answers_do_not_confirm_is_named(tmp_path: Path, share: float) -> None:
    folder = write_world(tmp_path / "world", how="random")
    lie = lying(LIAR, ErrorsAlone, "squares", lambda squares: share * squares)
    named, _ = load(run(own_data_config(tmp_path, folder), 4, tamper=lie))
    notes = [line for line in named.notes if "by its own word" in line]
    assert len(notes) == 1
    assert notes[0].startswith("delta predicts better alone")
    assert notes[0].endswith("which does not confirm it")
    honest, _ = load(run(own_data_config(tmp_path, folder), 4))
    assert not any("does not confirm it" in line for line in honest.notes)


@pytest.mark.usefixtures("influence")
def test_the_influence_on_predictions_of_gp(tmp_path: Path) -> None:
    lie = lying(LIAR, Predictions, "mean", lambda mean: mean + 5)
    settings = own_data_config(tmp_path, write_world(tmp_path / "world", how="random"), gp__gate="all")
    honest, liar = load(run(settings, 4))[0], load(run(settings, 4, tamper=lie))[0]
    assert set(honest.influence["without"]) == {"coast", "delta", "hills", "plain"}
    assert honest.influence["with_all"] == honest.metrics["smse"]
    assert liar.influence["without"]["delta"] == pytest.approx(honest.influence["without"]["delta"])
    assert min(liar.influence["without"], key=liar.influence["without"].__getitem__) == "delta"
    raised = [note for note in liar.notes if "without it the squared error" in note]
    assert [note.split(":")[0] for note in raised] == ["delta"]
    assert not any("without it the squared error" in note for note in honest.notes)


# -- what is possible is named by its influence ------------------------------------------------------------------------


def swapped(place: int) -> Tamper:
    """A site says of every class what it knows of the opposite one; its sums are those of possible labels."""
    lies = [lying(place, Statistics, field, lambda sums: sums[::-1]) for field in ("mass", "log_theta")]

    def tamper(at: int, number: int, reply: Message) -> Message | None:
        for lie in lies:
            reply = lie(at, number, reply)  # type: ignore[assignment]
        return reply

    return tamper


@pytest.mark.usefixtures("influence")
@pytest.mark.parametrize("scenario", few(["bc3e-wine", "bc3e-halfmoon"]))
def test_swapped_classes_are_named(tmp_path: Path, scenario: str) -> None:
    honest = load(run(config(tmp_path, scenario=scenario), 5))[0].influence
    report = load(run(config(tmp_path, scenario=scenario), 5, tamper=swapped(LIAR)))[0]
    assert report.influence["most"] == f"site-{LIAR}"
    others = [change for site, change in report.influence["without"].items() if site != f"site-{LIAR}"]
    assert report.influence["change"] > 2 * max(others)
    assert report.influence["change"] > 3 * honest["change"]


@pytest.mark.parametrize("scenario", few(["bc3e-wine", "bc3e-halfmoon"]))
def test_swapped_classes_are_left_out_where_the_run_is_robust(tmp_path: Path, scenario: str) -> None:
    settings = config(tmp_path, scenario=scenario, bc3e__robust=True)
    honest = load(run(settings, 5))[0]
    report = load(run(settings, 5, tamper=swapped(LIAR)))[0]
    assert honest.missing == {}
    assert any("bc3e.robust" in line for line in report.missing[f"site-{LIAR}"]), report.missing
    assert set(report.missing) == {f"site-{LIAR}"}
    assert report.metrics["accuracy"] > 0.95 * honest.metrics["accuracy"]


@pytest.mark.parametrize("changes", [{"secure_aggregation": True}, {"bc3e__distribution": "column"}])
def test_who_contradicts_cannot_be_told_without_each_site_s_sums(tmp_path: Path, changes: dict[str, Any]) -> None:
    settings = config(tmp_path, scenario="bc3e-halfmoon", bc3e__robust=True, **changes)
    assert "bc3e.robust needs the sums of each site" in outcome_of(settings, 3).refusal


@pytest.mark.usefixtures("influence")
def test_the_influence_in_masked_sums_is_unknown(tmp_path: Path) -> None:
    settings = config(tmp_path, scenario="bc3e-wine", secure_aggregation=True, bc3e__max_rounds=2)
    assert "masked" in load(run(settings, 3))[0].influence["unknown"]


@pytest.mark.usefixtures("influence")
def test_shared_instances_are_judged_by_their_labels(tmp_path: Path) -> None:
    settings = config(tmp_path, scenario="bc3e-halfmoon", bc3e__distribution="column", bc3e__max_rounds=3)
    assert set(load(run(settings, 3))[0].influence["without"]) == {"site-0", "site-1", "site-2"}


# -- errors of sec that nobody else can check --------------------------------------------------------------------------


@pytest.mark.parametrize("lie", [each for each in LIES["sec"] if "losses" in each.name], ids=lambda each: each.name)
def test_errors_of_nothing_get_a_model_of_sec_no_weight_that_its_losses_elsewhere_deny(lie: Lie) -> None:
    """With weights of rows over errors as they were said, such a liar made the others up to 1.8 times worse."""
    for draw in range(2):
        world = draw_world("sec", draw)
        without = run_lie(world, NOTHING, robust=False, absent=1).measure
        assert run_lie(world, lie, robust=False).measure < 1.25 * without
