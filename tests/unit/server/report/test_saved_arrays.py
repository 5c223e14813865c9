"""Which arrays of an earlier run are used, and which are refused."""

from collections.abc import Callable

import numpy as np
import pytest

from server.report.data import ResultsError
from server.report.saved_arrays import check_saved, read_results
from server.results import ResultsDirectory
from tests.support.sample_report import ARRAYS, LINES, make

SOUND = {
    "coreset": {
        "features": np.array(["x", "y", "z"]),
        "scale": np.ones(3),
        "centers": np.zeros((2, 3)),
        "balance": np.array(1.0),
        "groups": np.array(["a", "b"]),
        "points": np.zeros((4, 3)),
        "point_groups": np.array([0, 1, 0, 1]),
        "point_clusters": np.array([0, 1, 1, 0]),
    },
    "sec": {
        "learners": np.array(["a", "b"]),
        "methods": np.array(["lr", "lr"]),
        "features": np.array(["x"]),
        "labels": np.array([1, -1]),
        "recommended": np.array(["personal", ""]),
        "newcomer": np.array([False, True]),
        "n": np.array([1, 7]),
        "weights": np.array([1.0, 7.0]),
        "errors": np.array([0.5, np.inf]),
        **{f"mean_{place}": np.zeros(2) for place in range(2)},
        **{f"scatter_{place}": np.zeros((2, 2)) for place in range(2)},
        **{f"model_{place}": np.zeros(9 + place, np.uint8) for place in range(2)},
    },
}


@pytest.mark.parametrize("protocol", SOUND)
def test_arrays_as_a_run_writes_them_are_used(protocol: str) -> None:
    check_saved("results/1", protocol, {**SOUND[protocol], "of a later version": np.zeros(1)})


@pytest.mark.parametrize(
    ("protocol", "name", "change"),
    [
        ("coreset", "scale", lambda scale: scale * [1, 1, 0]),
        ("coreset", "scale", lambda scale: scale[:2]),
        ("coreset", "centers", lambda centers: centers.astype(np.float32)),
        ("coreset", "centers", lambda centers: centers + np.nan),
        ("coreset", "centers", lambda centers: centers[0]),
        ("coreset", "balance", lambda balance: balance * 0),
        ("coreset", "balance", lambda balance: balance + 1e-9),
        ("coreset", "groups", lambda groups: groups[[0, 0]]),
        ("coreset", "point_groups", lambda places: places + 1),
        ("coreset", "point_clusters", lambda places: places - 1),
        ("coreset", "point_clusters", lambda places: places + 1),
        ("coreset", "point_clusters", lambda places: places[:3]),
        ("sec", "labels", lambda labels: labels - 1),
        ("sec", "labels", lambda labels: labels + 1),
        ("sec", "n", lambda n: n - 1),
        ("sec", "newcomer", lambda newcomer: newcomer.astype(int)),
        ("sec", "scatter_1", lambda scatter: scatter[:1]),
        ("sec", "model_0", lambda model: model.astype(np.int64)),
    ],
)
def test_arrays_that_no_run_writes_are_refused_by_name(
    protocol: str, name: str, change: Callable[[np.ndarray], np.ndarray]
) -> None:
    arrays = {**SOUND[protocol], name: change(SOUND[protocol][name])}
    with pytest.raises(ResultsError, match=f"^results/1: {name} in arrays.npz is not what this version of {protocol}"):
        check_saved("results/1", protocol, arrays)


@pytest.mark.parametrize(("protocol", "name"), [("coreset", "points"), ("sec", "model_1")])
def test_arrays_that_are_missing_are_named(protocol: str, name: str) -> None:
    arrays = {key: array for key, array in SOUND[protocol].items() if key != name}
    with pytest.raises(ResultsError, match=f"{name} in arrays.npz"):
        check_saved("results/1", protocol, arrays)


def test_results_are_used_by_a_run_of_their_own_protocol_only(tmp_path):
    path = ResultsDirectory.open(tmp_path, "runs", "1").finish(make(protocol="sec"), ARRAYS, LINES, {})
    report, arrays = read_results(str(path), "sec.join", "sec")
    assert report == make(protocol="sec")
    np.testing.assert_array_equal(arrays["bounds"], ARRAYS["bounds"])
    with pytest.raises(ResultsError, match=rf"^sec\.join: {path} are results of sec, not of gp$"):
        read_results(str(path), "sec.join", "gp")
