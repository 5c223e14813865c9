"""Whole runs with masked sums: the same result as without to the last bit, and what crosses on the way."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from flwr.app import Message, RecordDict

import clients.dispatch
import clients.gp.handlers
from clients.site import Site
from common.settings import ConfigError
from consilience.local_engine.grid import node_configs
from numerics.gp.likelihood import Evaluation
from protocols.gp.payloads import Evaluate, Likelihood
from protocols.wire.faults import Fault
from server.report.data import Report
from server.results import load
from strategies.errors import FusionError
from tests.support.coreset_sites import own_data_config as clustering_config
from tests.support.coreset_sites import patients, split_over_sites, write_files
from tests.support.gp_sites import TARGET, own_data_config, write_world
from tests.support.grid import config
from tests.support.parameters import few
from tests.support.runs import make_grid, run, run_over
from tests.support.tampering import silent


@pytest.fixture(autouse=True)
def _own_temporary_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, quick: None) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def bc3e(tmp_path: Path, **changes: Any) -> dict[str, Any]:
    return config(tmp_path, **{"bc3e__max_rounds": 3, "secure_aggregation": True, **changes})


def gp(tmp_path: Path, **changes: Any) -> dict[str, Any]:
    folder = write_world(tmp_path / "world")
    settings: dict[str, Any] = {"gp__gate": "dnn", "gp__gate_rounds": 3, "gp__fit_rounds": 3, "gp__candidates": 3}
    settings |= {"secure_aggregation": True, "gp__queries": str(folder / "_test.csv"), **changes}
    return own_data_config(tmp_path, folder, **settings)


def coreset(tmp_path: Path, **changes: Any) -> dict[str, Any]:
    folder = write_files(tmp_path / "wards", split_over_sites(patients(96), names="abcd"))
    settings = {"coreset__assignment": "exact", "coreset__refine": 2, "coreset__price_rounds": 2, "coreset__k": 2}
    return clustering_config(tmp_path, folder, **{"secure_aggregation": True, **settings, **changes})


def assert_same(path: Path, expected: Path) -> Report:
    """Equal metrics, table and arrays, bit for bit; returns the first's report."""
    (report, arrays), (wanted, wanted_arrays) = load(path), load(expected)
    assert report.metrics == wanted.metrics
    assert report.table == wanted.table
    assert {name: array.tobytes() for name, array in arrays.items()} == {
        name: array.tobytes() for name, array in wanted_arrays.items()
    }
    return report


def labels(folder: Path, n_sites: int) -> Path:
    """Files of class and cluster labels; every site lacks one of the clusterings."""
    rng = np.random.default_rng(3)
    folder.mkdir()
    for place in range(n_sites):
        truth = rng.integers(2, size=30)
        columns = {f"class_{c}": np.where(rng.random(30) < 0.2, 1 - truth, truth) for c in "ab"}
        columns |= {f"cluster_{c}": truth + 2 * rng.integers(2, size=30) for c in "uvw" if "uvw"[place % 3] != c}
        pd.DataFrame(columns).to_csv(folder / f"site{place}.csv", index=False)
    return folder


# -- the same bits ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [{}, {"bc3e__max_rounds": 2, "bc3e__restarts": 2, "repetitions": 2}],
    ids=["one fit", "fits side by side"],
)
def test_bc3e_is_the_same_bit_for_bit(tmp_path: Path, changes: dict[str, Any]) -> None:
    masked = run(bc3e(tmp_path, **changes), 4)
    assert_same(masked, run(bc3e(tmp_path, **changes, secure_aggregation=False), 4))


def test_gp_is_the_same_bit_for_bit(tmp_path: Path) -> None:
    """Hyperparameters and the gate's network are learned in the same rounds, each by sums of its own.

    The sites predict from nearest rows, so that all sums of gp are asked for.
    """
    settings = gp(tmp_path, gp__max_expert_rows=25, gp__local=50)
    assert_same(run(settings, 4), run({**settings, "secure-aggregation": False}, 4))


def test_coreset_is_the_same_bit_for_bit(tmp_path: Path) -> None:
    """Every row is in the same cluster, too, although the center sees points and no other numbers of a site."""
    settings = coreset(tmp_path)
    masked, titles = crossed(settings)
    assert not set(titles) & {"coreset.Masses", "coreset.Moments", "coreset.ClusterCosts"}
    assert {"coreset.Summary", "secure_aggregation.MaskedAnswer"} <= set(titles)
    plain = run({**settings, "secure-aggregation": False}, 4)
    assert_same(masked, plain)
    for site in "abcd":
        own = Path("sites") / site / "clusters.csv"
        assert (masked / own).read_bytes() == (plain / own).read_bytes()


def test_sites_may_hold_different_clusterings(tmp_path: Path) -> None:
    settings = bc3e(tmp_path, protocol="bc3e", data=str(labels(tmp_path / "files", 3)))
    assert_same(run(settings, 3), run({**settings, "secure-aggregation": False}, 3))


# -- what crosses -----------------------------------------------------------------------------------------------------


def crossed(settings: dict[str, Any]) -> tuple[Path, list[str]]:
    """Results of a run, and titles of the payloads that left a site."""
    grid = make_grid(settings, 4)
    path = run_over(grid, settings)
    titles = []
    for direction, content in grid.crossed:
        scalars = [content[name] for name in content if name.endswith(".scalars")]
        titles += [str(each["parcel"][1]) for each in scalars if direction == "from_site"]  # type: ignore[index]
    return path, titles


def test_no_single_statistics_cross(tmp_path: Path) -> None:
    assert set(crossed(bc3e(tmp_path))[1]) == {
        *("bc3e.Holdings", "bc3e.Tally"),
        *(
            "secure_aggregation.Keys",
            "secure_aggregation.Shares",
            "secure_aggregation.MaskedAnswer",
            "secure_aggregation.SecretShares",
        ),
    }


def test_a_number_of_instances_crosses_as_a_power_of_four(tmp_path: Path) -> None:
    """How many instances the sites have together is in the masked sums, and nowhere else how many one has."""
    settings = bc3e(tmp_path, bc3e__abstain=0.9)
    grid = make_grid(settings, 4)
    masked, _ = load(run_over(grid, settings))
    told = [
        dict(content)[name]["instances"]
        for direction, content in grid.crossed
        for name in content
        if direction == "from_site" and name.endswith(".scalars") and "instances" in dict(content)[name]
    ]
    assert told == [256] * 4
    plain, _ = load(run({**settings, "secure-aggregation": False}, 4))
    assert masked.metrics == plain.metrics


def test_no_single_likelihood_or_slope_crosses(tmp_path: Path) -> None:
    titles = set(crossed(gp(tmp_path))[1])
    assert not titles & {"gp.Errors", "gp.Likelihood", "gp.Residuals", "gp.Slope"}
    assert {"gp.Moments", "gp.Predictions", "secure_aggregation.MaskedAnswer"} <= titles


# -- sites in trouble -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", few([4, 5, 6]), ids=["hide", "show", "next"])
def test_site_that_falls_silent_is_left_out(tmp_path: Path, first: int) -> None:
    report, arrays = load(run(bc3e(tmp_path), 4, tamper=silent(2, range(first, 1000))))
    assert any(line.startswith(f"round {first}: no answer") for lines in report.missing.values() for line in lines)
    assert np.isfinite(arrays["alpha"]).all()
    assert report.metrics["rounds_to_converge"] == 3


def test_rows_of_a_site_that_falls_silent_are_in_no_later_sum(tmp_path: Path) -> None:
    """Neither where centers move nor where rows are assigned; the answer that it has masked is of use to nobody."""
    for first in (6, 12):
        report, arrays = load(run(coreset(tmp_path), 4, tamper=silent(2, range(first, 1000))))
        assert any(line.startswith(f"round {first}: no answer") for lines in report.missing.values() for line in lines)
        assert arrays["counts"].sum() == 72


def test_gp_goes_on_without_a_site_that_falls_silent(tmp_path: Path) -> None:
    """Values of the sum over four sites and over three are not compared; the others' experts predict."""
    report, arrays = load(run(gp(tmp_path), 4, tamper=silent(2, range(6, 1000))))
    assert list(report.missing) == ["hills"]
    assert np.isfinite(arrays["theta"]).all()
    assert np.isfinite(report.metrics["log_likelihood"])


def test_site_that_restarted_is_back_in_the_next_sum(tmp_path: Path) -> None:
    settings = bc3e(tmp_path, bc3e__max_rounds=60)
    grid = make_grid(settings, 4)

    def restart(place: int, number: int, reply: Message) -> Message:
        if (place, number) == (2, 5):
            grid.contexts[1000 + 7 * place].state = RecordDict()
        return reply

    grid.tamper = restart
    (report, arrays), (whole, wanted) = load(run_over(grid, settings)), load(run(settings, 4))
    [(_, [line])] = report.missing.items()
    assert line == f"round 6: {Fault.NO_MASK_KEYS.message} [{Fault.NO_MASK_KEYS.slug}]"
    assert report.metrics["bound"] == pytest.approx(whole.metrics["bound"], rel=1e-5)
    assert arrays["alpha"] == pytest.approx(wanted["alpha"], rel=1e-2)


def test_site_that_lost_its_memory_too_goes_through_its_rounds_again(tmp_path: Path) -> None:
    """First it makes new keys, then it says that it does not remember, and is told what it was asked under masks."""
    folder = labels(tmp_path / "files", 4)
    nodes = [{"site": f"s{place}", "data": str(folder / f"site{place}.csv")} for place in range(4)]
    settings = bc3e(tmp_path, protocol="bc3e", bc3e__max_rounds=4, min_sites=3)
    grid = make_grid(settings, nodes)

    def restart(place: int, number: int, reply: Message) -> Message:
        if (place, number) == (2, 5):
            grid.contexts[1000 + 7 * place].state = RecordDict()
        return reply

    grid.tamper = restart
    report = load(run_over(grid, settings))[0]
    assert list(report.missing) == ["s2"]
    assert [line.partition(":")[0] for line in report.missing["s2"]] == ["round 6"]
    assert any("s2 lost its memory, and rebuilt it" in note for note in report.notes)


@pytest.mark.parametrize("before", few([5, 6]), ids=["show", "hide"])
def test_resumed_run_makes_new_keys_and_has_the_same_result(tmp_path: Path, before: int) -> None:
    settings = bc3e(tmp_path, bc3e__accelerate=False)
    grid = make_grid(settings, 4)
    grid.stop_before, grid.stop = before, KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt):
        run_over(grid, settings)
    [partial] = Path(settings["output-dir"]).glob("*/.*.partial")
    interrupted = partial.parent / partial.name.strip(".").removesuffix(".partial")
    report = assert_same(run({**settings, "resume-from": str(interrupted)}, 4), run(settings, 4))
    assert all(Fault.NO_MASK_KEYS.slug in lines[0] for lines in report.missing.values())


@pytest.mark.parametrize("before", few([7, 9, 11]))
def test_step_asked_once_more_starts_from_where_it_started(tmp_path: Path, before: int) -> None:
    """Interrupted before the sum is seen: the statistics of a later step are asked for again, under new keys."""
    settings = bc3e(tmp_path, bc3e__max_rounds=5)
    grid = make_grid(settings, 4)
    grid.stop_before, grid.stop = before, KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt):
        run_over(grid, settings)
    [partial] = Path(settings["output-dir"]).glob("*/.*.partial")
    interrupted = partial.parent / partial.name.strip(".").removesuffix(".partial")
    assert_same(run({**settings, "resume-from": str(interrupted)}, 4), run(settings, 4))


def gate(tmp_path: Path, willing: int, **changes: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Four sites, some of which consent to the gate's training."""
    settings = gp(tmp_path, gp__fit_rounds=1, gp__gate_rounds=2, **changes)
    files = sorted(each for each in Path(settings["data"]).iterdir() if not each.name.startswith("_"))[:4]
    nodes = [
        {"site": f"s{place}", "data": str(file), "target": TARGET, "allow-gate-training": place < willing}
        for place, file in enumerate(files)
    ]
    return {**settings, "data": ""}, nodes


def test_gate_is_trained_by_those_who_consent(tmp_path: Path) -> None:
    """`min-sites` is of the run: a sum over those whom it asks can be of no more than they are."""
    settings, nodes = gate(tmp_path, 3, min_sites=4)
    assert_same(run(settings, nodes), run({**settings, "secure-aggregation": False}, nodes))


def test_two_who_consent_to_train_the_gate_are_named(tmp_path: Path) -> None:
    settings, nodes = gate(tmp_path, 2)
    with pytest.raises(
        FusionError, match=r"^gp.gate=dnn: only s0, s1 set allow-gate-training=true .* 3 sites or more must"
    ):
        run(settings, nodes)


def test_site_whose_likelihood_has_no_value_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is unmasked; what the sum would be with it, nobody could tell."""
    answer = clients.gp.handlers.evaluate

    def evaluate(ask: Evaluate, site: Site) -> Likelihood:
        size = ask.thetas.shape[1]
        none = Evaluation(-np.inf, np.zeros(size), np.zeros((size, size)))
        with monkeypatch.context() as patch:
            if site.name == "hills":
                patch.setattr(clients.gp.handlers, "likelihood_of", lambda rows, kernel, theta: none)
            told = answer(ask, site)
        assert isinstance(told, Likelihood)
        return told

    monkeypatch.setitem(clients.dispatch._HANDLERS, Evaluate, evaluate)
    settings = gp(tmp_path, gp__gate="knn", gp__gate_rounds=10)
    report = assert_same(run(settings, 4), run({**settings, "secure-aggregation": False}, 4))
    [line] = {line.partition(": ")[2] for line in report.missing["hills"]}
    assert Fault.NO_LIKELIHOOD.slug in line


def test_too_few_sites_are_named(tmp_path: Path) -> None:
    with pytest.raises(FusionError, match="needs 3 to 500 sites, there are 2"):
        run(bc3e(tmp_path), 2)
    with pytest.raises(FusionError, match=r"round \d+: 3 of 4 sites answered, min-sites is 4 \(site-2: no answer"):
        run(bc3e(tmp_path, min_sites=4), 4, tamper=silent(2, range(4, 1000)))


def test_too_few_answers_are_named(tmp_path: Path) -> None:
    def tamper(place: int, number: int, reply: Message) -> Message | None:
        return None if place in (1, 2) and number > 3 else reply

    with pytest.raises(FusionError, match=r"too few sites answered .* of 4 3 are needed \(no answer: .*site-1.*site-2"):
        run(bc3e(tmp_path), 4, tamper=tamper)


def test_site_masks_only_what_its_policy_allows(tmp_path: Path) -> None:
    """A policy that lets no answer leave but in a sum is met; one that names other payloads is not."""
    strict, other = tmp_path / "strict.toml", tmp_path / "other.toml"
    strict.write_text("secure-aggregation = true\n")
    other.write_text('payloads = ["bc3e.Survey"]\n')
    nodes = [{**node, "policy": str(strict)} for node in node_configs(4)]
    assert not load(run(bc3e(tmp_path), nodes))[0].missing
    nodes[1]["policy"] = str(other)
    missing = load(run(bc3e(tmp_path), nodes))[0].missing
    assert any(Fault.PAYLOAD_NOT_ALLOWED.slug in line for lines in missing.values() for line in lines)


# -- configuration ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["residual", "sec"])
def test_protocols_that_do_not_sum_are_refused(tmp_path: Path, protocol: str) -> None:
    settings = config(tmp_path, protocol=protocol, data=str(tmp_path), target=TARGET, secure_aggregation=True)
    with pytest.raises(ConfigError, match=r"secure-aggregation=true is for bc3e \(bc3e\.distribution=row\), coreset"):
        run(settings, 3)


def test_points_are_no_sums(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"points, which are no sums: set coreset\.assignment=exact"):
        run(coreset(tmp_path, coreset__assignment="coreset"), 4)


@pytest.mark.parametrize("distribution", ["column", "arbitrary"])
def test_other_distributions_are_refused(tmp_path: Path, distribution: str) -> None:
    with pytest.raises(ConfigError, match=r"needs bc3e\.distribution=row"):
        run(bc3e(tmp_path, bc3e__distribution=distribution), 3)
