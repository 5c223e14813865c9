"""Figures of whole runs of sec: those of the results directory, with their texts on the page."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from server.results import load
from tests.support.figure_checks import alt_text, assert_drawn
from tests.support.grid import config
from tests.support.parameters import few
from tests.support.runs import run_with_grid
from tests.support.sec_sites import write_sites


@pytest.fixture(autouse=True)
def _no_warnings() -> Iterator[None]:
    """A font that lacks a letter, labels that do not fit: matplotlib warns of them."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize(("method", "names"), few([("eigengap", []), ("gap", ["gap"])]))
def test_figures_of_a_run_on_own_data(tmp_path: Path, method: str, names: list[str]) -> None:
    folder = write_sites(tmp_path / "labs", [0, 1, 0, 1, 0])
    settings = config(
        tmp_path, protocol="sec", data=str(folder), target="y", sec__candidates="lr", sec__k_method=method, sec__k_min=2
    )
    path, _ = run_with_grid(settings, 5)
    report, arrays = load(path)
    drawn = assert_drawn(report, arrays, ["similarity", "embedding", "errors", *names, "eigenvalues"])
    assert {file.stem: file.read_bytes() for file in (path / "figures").glob("*.png")} == drawn
    metrics = report.metrics
    assert (
        f"all clusters: alone {metrics['mse_alone']:.3g}, with its cluster {metrics['mse_cluster']:.3g}, "
        f"with all {metrics['mse_all']:.3g}, as recommended {metrics['mse_recommendation']:.3g}; "
        f"cluster 0: alone {report.table[0]['mse_alone']:.3g}, "
    ) in alt_text(report, "errors", arrays)
    assert [figure["name"] for figure in report.figures] == list(drawn)
    page = (path / "report.html").read_text()
    assert all(figure["caption"].replace("'", "&#x27;") in page for figure in report.figures)
    assert page.count("<img ") == len(drawn)
    assert page.count('<img class="shades"') == 1, "a dark page inverts all but the similarities"


def test_figures_and_page_of_a_table(tmp_path: Path) -> None:
    report, arrays = load(
        run_with_grid(config(tmp_path, scenario="sec-fairness", cells="c=1", sec__candidates="lr"), 50)[0]
    )
    assert_drawn(report, arrays, ["similarity", "embedding", "errors", "gap", "eigenvalues"])
    assert np.isnan(arrays["similarity"]).any(), "newcomers are not compared with each other"
