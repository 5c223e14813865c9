"""One site of several lies: what cannot be is refused, the site named, and the result is that of the others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from protocols.bc3e.payloads import Shares, Starts, Statistics
from protocols.gp.payloads import Predictions
from server.results import load
from tests.support.gp_sites import own_data_config, write_world
from tests.support.grid import config
from tests.support.runs import run
from tests.support.tampering import lying, silent

pytestmark = pytest.mark.usefixtures("quick")

LIAR = 1
Change = Callable[[Any], Any]

BC3E_LIES: dict[str, tuple[type, str, Change, str]] = {
    "mass times 100": (Statistics, "mass", lambda mass: 100 * mass, "counts more labels than there are instances"),
    "largest bound": (Statistics, "bound", lambda _: 2**62, "is no bound that labels of"),
    "smallest bound": (Statistics, "bound", lambda _: -(2**62), "is no bound that labels of"),
    "classes that are impossible": (Statistics, "log_theta", lambda sums: 1000 * sums, "is smaller than any labels"),
    "more rows than announced": (Statistics, "n", lambda n: 10 * n, "expected"),
}
SHARED_LIES: dict[str, tuple[type, str, Change, str]] = {
    "votes times 100 at the start": (Starts, "start", lambda votes: 100 * votes, "counts more than one label"),
    "votes times 100": (Shares, "share", lambda votes: 100 * votes, "counts more than one label"),
    "largest bound of a sweep": (Shares, "bound", lambda _: 2**62, "is no bound that labels of"),
    "products beyond distances": (Shares, "products", lambda each: each + 2**61, "are larger than products"),
}


@pytest.mark.parametrize(("payload", "field", "change", "reason"), BC3E_LIES.values(), ids=BC3E_LIES)
def test_impossible_sums_of_bc3e(tmp_path: Path, payload: type, field: str, change: Change, reason: str) -> None:
    settings = config(tmp_path, scenario="bc3e-wine", bc3e__missing="drop")
    report, arrays = load(run(settings, 5, tamper=lying(LIAR, payload, field, change)))
    honest, others = load(run(settings, 5, tamper=silent(LIAR, range(2, 10**3))))
    assert any(reason in line for line in report.missing["site-1"]), report.missing
    assert set(report.missing) == {"site-1"}
    np.testing.assert_array_equal(arrays["alpha"], others["alpha"])
    assert report.metrics == honest.metrics


@pytest.mark.parametrize(("payload", "field", "change", "reason"), SHARED_LIES.values(), ids=SHARED_LIES)
def test_impossible_sums_over_shared_instances(
    tmp_path: Path, payload: type, field: str, change: Change, reason: str
) -> None:
    settings = config(tmp_path, scenario="bc3e-halfmoon", bc3e__distribution="column")
    nodes = 3
    report, _ = load(run(settings, nodes, tamper=lying(LIAR, payload, field, change)))
    assert any(reason in line for line in report.missing["site-1"]), report.missing
    assert set(report.missing) == {"site-1"}


GP_LIES: dict[str, tuple[str, Change, str]] = {
    "explains more than there is": ("explained", lambda each: each + 1e6, "expected variances of at most the prior's"),
    "a mean beyond its outputs": ("mean", lambda each: each + 1000, "is larger than any rows"),
}


@pytest.mark.parametrize(("field", "change", "reason"), GP_LIES.values(), ids=GP_LIES)
def test_impossible_predictions_of_gp(tmp_path: Path, field: str, change: Change, reason: str) -> None:
    settings = own_data_config(tmp_path, write_world(tmp_path / "world", how="random"))
    report, arrays = load(run(settings, 4, tamper=lying(LIAR, Predictions, field, change)))
    honest, others = load(run(settings, 4, tamper=silent(LIAR, [report.rounds - 1, report.rounds])))
    assert any(reason in line for line in report.missing["delta"]), report.missing
    assert set(report.missing) == {"delta"}
    np.testing.assert_array_equal(arrays["mean"], others["mean"])
    assert report.metrics["smse"] == honest.metrics["smse"]
