"""Newcomers of Select-Exchange-Cluster: in the run that clusters, and in later runs that join its clusters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from server.report.data import Report, ResultsError
from server.report.protocol import report_of
from server.results import load
from strategies.errors import FusionError
from tests.support.runs import run
from tests.support.sec_sites import draw_rows, own_data_config, write_files, write_sites

GROUPS = [0, 1, 0, 1, 0]


pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_sites(tmp_path / "labs", GROUPS)


@pytest.fixture
def earlier(tmp_path: Path, folder: Path) -> Path:
    """Results that later runs join."""
    return run(own_data_config(tmp_path, folder), len(GROUPS))


def join(tmp_path: Path, earlier: Path, late: dict[str, pd.DataFrame], **changes: Any) -> Path:
    """A run of these sites that joins an earlier one; returns its results."""
    folder = write_files(tmp_path / f"late {len(list(tmp_path.iterdir()))}", late)
    return run(own_data_config(tmp_path, folder, sec__join=str(earlier), **changes), len(late))


def labels_of(arrays: dict[str, np.ndarray]) -> dict[str, int]:
    return dict(zip(arrays["learners"].tolist(), arrays["labels"].tolist(), strict=True))


def newcomers_of(arrays: dict[str, np.ndarray]) -> list[str]:
    found: list[str] = arrays["learners"][arrays["newcomer"]].tolist()
    return found


def collaborators(path: Path, site: str) -> dict[str, int]:
    """Members of a site's cluster, and how many rows each lends its model."""
    table = pd.read_csv(path / "sites" / site / "collaborators.csv")
    return dict(zip(table["learner"], table["rows"].tolist(), strict=True))


# -- joining an earlier run -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("combine", ["average", "pooled-linear"])
def test_a_later_run_joins_the_clusters_of_an_earlier_one(tmp_path: Path, folder: Path, combine: str) -> None:
    earlier = run(own_data_config(tmp_path, folder, sec__combine=combine), len(GROUPS))
    late = {
        "new-a": draw_rows(1, 30, 51),
        "new-b": draw_rows(0, 30, 50),
        "lab-0": draw_rows(0, 40, 0),  # one of the earlier ones is there again
    }
    report, arrays = load(join(tmp_path, earlier, late, sec__combine=combine))
    former = {f"lab-{place}": group for place, group in enumerate(GROUPS)}
    assert labels_of(arrays) == {**former, "new-a": 1, "new-b": 0}
    assert newcomers_of(arrays) == ["new-a", "new-b"]
    assert not report.missing
    assert report.metrics["mse_cluster"] < report.metrics["mse_all"]
    recommended = dict(zip(arrays["learners"].tolist(), arrays["recommended"].tolist(), strict=True))
    told = {name for name, way in recommended.items() if way}  # newcomers, and nobody who takes no part
    assert told == set(late)
    assert set(recommended.values()) <= {"", "alone", "cluster", *(["personal"] if combine == "average" else [])}
    assert report.verdict["ways"][0]["metric"] == "mse_recommendation"
    # Who was there before and is there again makes the comparison two-sided.
    np.testing.assert_array_equal(arrays["similarity"][:5, :5], load(earlier)[1]["similarity"])


def test_a_name_of_a_former_learner_with_other_data_is_left_out(tmp_path: Path, earlier: Path) -> None:
    """Names such as lab-0 come twice; who joins must not be taken for another."""
    late = {"lab-0": draw_rows(1, 40, 77), "new": draw_rows(1, 40, 78)}
    path = join(tmp_path, earlier, late)
    report, arrays = load(path)
    [told] = report.missing["lab-0"]
    assert told.startswith("left out: a learner of the earlier run has this name and another model; give ")
    assert labels_of(arrays) == {f"lab-{place}": group for place, group in enumerate(GROUPS)} | {"new": 1}
    assert newcomers_of(arrays) == ["new"]
    assert not (path / "sites" / "lab-0" / "collaborators.csv").exists()


def test_who_joined_earlier_lends_no_model_to_who_joins_later(tmp_path: Path, earlier: Path) -> None:
    early, late = {"zoe": draw_rows(0, 50, 60)}, {"yan": draw_rows(0, 45, 61)}
    second = join(tmp_path, earlier, early)
    third = join(tmp_path, second, {**early, **late})
    _, arrays = load(third)
    assert newcomers_of(arrays) == ["yan", "zoe"]
    assert {name: label for name, label in labels_of(arrays).items() if name in ("yan", "zoe")} == {"yan": 0, "zoe": 0}
    lent = {"lab-0": 40, "lab-2": 42, "lab-4": 44}
    assert collaborators(second, "zoe") == {**lent, "zoe": 0}
    assert collaborators(third, "yan") == collaborators(third, "zoe") == {**lent, "yan": 0, "zoe": 0}
    # As if the second run had not been.
    directly = load(join(tmp_path, earlier, {**early, **late}))
    assert load(third)[0].metrics == directly[0].metrics
    np.testing.assert_array_equal(arrays["similarity"], directly[1]["similarity"])


def test_without_anybody_left_the_reason_is_the_refusal(tmp_path: Path, earlier: Path) -> None:
    stranger = draw_rows(0, 40, 60).rename(columns={"a": "q"})
    wanted = r"no learner is left to ask \(new: left out: it lacks the input 'a' and it has the input 'q', unlike most"
    with pytest.raises(FusionError, match=wanted) as refused:
        join(tmp_path, earlier, {"new": stranger})
    assert "\n" not in str(refused.value)


def test_an_earlier_run_of_other_settings_cannot_be_joined(tmp_path: Path, folder: Path, earlier: Path) -> None:
    settings = own_data_config(tmp_path, folder, sec__join=str(earlier), sec__standardize="none")
    with pytest.raises(ResultsError, match=r"has sec\.standardize='model', this run has 'none'; set the same"):
        report_of("sec").earlier_arrays(settings)


def test_a_default_and_its_name_are_the_same_setting(tmp_path: Path, folder: Path, earlier: Path) -> None:
    settings = own_data_config(
        tmp_path, folder, sec__join=str(earlier), sec__standardize="model", sec__reference="left-out"
    )
    learners = report_of("sec").earlier_arrays(settings)["learners"]
    assert learners.tolist() == [f"lab-{place}" for place in range(len(GROUPS))]


# -- landmarks --------------------------------------------------------------------------------------------------------

UNEVEN = [0] * 23 + [1] * 2
"""Of 8 landmarks among them, none is of the second relation in 45 of 100 draws."""


def in_the_second_cluster(report: Report, arrays: dict[str, np.ndarray]) -> bool:
    labels = labels_of(arrays)
    return labels["new"] == labels["lab-24"] != labels["lab-0"] and report.metrics["mse_cluster"] < 1


def test_newcomers_find_a_small_cluster_without_a_landmark(tmp_path: Path) -> None:
    earlier = run(own_data_config(tmp_path, write_sites(tmp_path / "labs", UNEVEN)), len(UNEVEN))
    for seed in range(4):
        joined = join(
            tmp_path, earlier, {"new": draw_rows(1, 40, 90)}, sec__exchange="landmarks", sec__landmarks=8, seed=seed
        )
        assert in_the_second_cluster(*load(joined)), seed


def test_newcomers_of_the_same_run_try_the_models_of_all_who_are_clustered(tmp_path: Path) -> None:
    folder = write_sites(tmp_path / "labs", UNEVEN)
    write_files(folder, {"new": draw_rows(1, 40, 90)})
    settings = own_data_config(tmp_path, folder, sec__exchange="landmarks", sec__landmarks=8, sec__newcomers="new")
    path = run(settings, len(UNEVEN) + 1)
    lines = [json.loads(line) for line in (path / "ledger.jsonl").read_text().splitlines()]
    sent = {line["site"]: len(line["fields"]["models"]["shape"]) for line in lines if line["payload"] == "sec.Exchange"}
    assert sent == {f"lab-{place}": 8 for place in range(len(UNEVEN))} | {"new": len(UNEVEN)}
    labels = labels_of(load(path)[1])
    assert labels["new"] == labels["lab-24"]
