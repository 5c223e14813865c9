"""The contract of every strategy, kept by gp: by features of predictions, and with a network and disclosed inputs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from numerics.gp.gates import network
from server.results import load
from tests.support.contract import StrategyContract
from tests.support.gp_sites import SITES, own_data_config, points, soundings, split_over_sites, write_files
from tests.support.runs import Nodes, run

NAMES = SITES[:3]


class Contract(StrategyContract):
    protocol = "gp"
    victim = 1
    settings: dict[str, Any] = {}  # noqa: RUF012  (a setting of the class)

    def run_config(self, tmp_path: Path) -> dict[str, Any]:
        parts = split_over_sites(soundings(36), "random", NAMES)
        folder = write_files(tmp_path / "files", parts, points(6))
        return own_data_config(tmp_path, folder, gp__experts="2", gp__candidates=2, **self.settings)

    def nodes(self) -> Nodes:
        return len(NAMES)

    def test_names_of_the_sites_do_not_matter(self, tmp_path: Path, whole: Path) -> None:
        """Nor does their order: sums over sites and landmarks follow from what they hold."""
        expected, wanted = load(whole)
        for names in (("ada", "bob", "eve"), ("zoe", "kim", "amy")):
            settings = self.run_config(tmp_path / names[0])
            called = dict(zip(NAMES, names, strict=True))
            for old, new in called.items():
                (Path(settings["data"]) / f"{old}.csv").rename(Path(settings["data"]) / f"{new}.csv")
            report, arrays = load(run(settings, self.nodes()))
            assert report.sites == sorted(names)
            assert report.metrics == expected.metrics
            assert report.table == [{**row, "site": called[row["site"]]} for row in expected.table]
            assert arrays.keys() == wanted.keys()
            for name in wanted.keys() - {"expert_site"}:
                np.testing.assert_array_equal(arrays[name], wanted[name], err_msg=name)
            assert arrays["expert_site"].tolist() == [called[site] for site in wanted["expert_site"].tolist()]


class TestFeatures(Contract):
    settings = {"gp__gate": "gaussian", "gp__answers": 5, "gp__fit_rounds": 2}  # noqa: RUF012


@pytest.mark.slow
class TestNetworkAndInputs(Contract):
    settings = {  # noqa: RUF012
        "gp__gate": "dnn", "gp__covariance": "inputs", "gp__fit_rounds": 1, "gp__gate_rounds": 2,
    }  # fmt: skip

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def hardly_rehearsed(cls) -> Iterator[None]:
        """What the center teaches the network before the sites do takes longer than all the rest."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(network, "_REHEARSALS", 1)
            yield
