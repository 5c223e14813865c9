"""The contract of every strategy, kept by residual: with the outcome at the center, at a site, and around a ring."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from server.results import load
from tests.support.contract import Recording, StrategyContract
from tests.support.grid import prediction_config
from tests.support.parameters import few
from tests.support.residual_sites import COLUMNS, customers, own_data_config, write_world
from tests.support.runs import Nodes, make_grid, outcome_of, run, run_over
from tests.support.tampering import silent


class Contract(StrategyContract):
    protocol = "residual"
    victim = 1
    holder = ""
    settings: dict[str, Any] = {}  # noqa: RUF012  (a setting of the class)

    def run_config(self, tmp_path: Path) -> dict[str, Any]:
        folder = write_world(tmp_path / "files", holder=self.holder, people=customers(60))
        return own_data_config(tmp_path, folder, residual__rounds=3, **self.settings)

    def nodes(self) -> Nodes:
        return len(COLUMNS)

    def test_names_of_the_sites_do_not_matter(self, tmp_path: Path, whole: Path) -> None:
        """Their order is that of the ring and decides between equals; apart from that, nothing depends on them."""
        expected, wanted = load(whole)
        names = dict(zip(COLUMNS, ("ada", "bob", "eve"), strict=True))
        settings = self.run_config(tmp_path)
        for old, new in names.items():
            (Path(settings["data"]) / f"{old}.csv").rename(Path(settings["data"]) / f"{new}.csv")
        report, arrays = load(run(settings, self.nodes()))
        assert arrays["agents"].tolist() == report.sites == list(names.values())
        assert report.metrics == expected.metrics
        assert str(arrays["holder"]) == names.get(self.holder, "")
        if "own_site" in wanted:
            assert str(arrays["own_site"]) == names[str(wanted["own_site"])]
        for name in wanted.keys() - {"agents", "holder", "own_site"}:
            np.testing.assert_array_equal(arrays[name], wanted[name], err_msg=name)


class TestParallel(Contract):
    settings = {  # noqa: RUF012
        "residual__algorithm": "parallel", "residual__powers": "1 3", "residual__stop": "held-out",
        "residual__agent": "lr",
    }  # fmt: skip


class TestBoosted(Contract):
    settings = {  # noqa: RUF012
        "residual__algorithm": "boosted", "residual__stop": "held-out", "residual__baselines": True,
    }  # fmt: skip


@pytest.mark.slow
class TestGreedy(Contract):
    settings = {"residual__algorithm": "greedy", "residual__steps": 2, "residual__shrinkage": 0.5}  # noqa: RUF012


@pytest.mark.slow
class TestMetaBoosting(Contract):
    settings = {"residual__algorithm": "meta-boosting"}  # noqa: RUF012


class Sealed(Contract):
    """What crosses is other bytes in every run; what comes out is the same."""

    @pytest.mark.parametrize("kind", few(["finite", "name", "dtype"]))
    def test_poisoned_answers_are_refused(self, tmp_path: Path, recording: Recording, kind: str, extent: str) -> None:
        """The shapes of what is sealed are for who opens it to check (tests/trust/test_residual_sealed.py)."""
        super().test_poisoned_answers_are_refused(tmp_path, recording, kind, extent)


@pytest.mark.slow
class TestHolder(Sealed):
    holder = "bank"
    settings = {"residual__algorithm": "parallel", "residual__power": "2"}  # noqa: RUF012


@pytest.mark.slow
class TestHolderBoosted(Sealed):
    holder = "bank"
    settings = {"residual__algorithm": "boosted", "residual__baselines": True}  # noqa: RUF012


@pytest.mark.slow
class TestHolderGreedy(Sealed):
    holder = "telecom"
    settings = {"residual__algorithm": "greedy", "residual__shrinkage": 0.5}  # noqa: RUF012


@pytest.mark.slow
class TestRing(Sealed):
    settings = {"residual__topology": "ring"}  # noqa: RUF012


class TestRingFromASite(Sealed):
    holder = "telecom"
    settings = {"residual__topology": "ring", "residual__stop": "held-out"}  # noqa: RUF012


@pytest.mark.parametrize("contract", few([TestHolder, TestRing, TestRingFromASite]))
def test_sealed_bodies_are_other_bytes_in_every_run(tmp_path: Path, contract: type[Contract]) -> None:
    bodies = []
    for turn in ("first", "second"):
        config = contract().run_config(tmp_path / turn)
        grid = make_grid(config, contract().nodes())
        run_over(grid, config)
        bodies.append(
            {
                array.data
                for _, content in grid.crossed
                for records in content.array_records.values()
                for name, array in records.items()
                if name.startswith(("body", "bodies")) and array.data
            }
        )
    assert bodies[0]
    # What the center itself hands to the ring is in the clear: the outcome that it holds.
    assert len(bodies[0] & bodies[1]) <= (contract is TestRing)


@pytest.mark.parametrize("contract", [TestHolder, TestRingFromASite])
def test_the_holder_of_the_outcome_falls_silent(tmp_path: Path, contract: type[Contract]) -> None:
    config = contract().run_config(tmp_path)
    place = list(COLUMNS).index(contract.holder)
    told = outcome_of({**config, "round-timeout": 0.2}, 3, tamper=silent(place, range(2, 1000))).text
    assert f"{contract.holder}, which holds the outcome, gave no answer that could be used" in told


def test_predictions_are_interrupted_and_resumed(tmp_path: Path) -> None:
    settings = TestHolder().run_config(tmp_path)
    path = run(settings, 3)
    again = prediction_config(settings, path)
    whole = run(again, 3)
    grid = make_grid(again, 3)
    grid.stop_before = 2
    grid.stop = SystemExit
    with pytest.raises(SystemExit):
        run_over(grid, again)
    run_id = next(iter(grid.contexts.values())).run_id
    resumed = run({**again, "resume-from": str(whole.parent / str(run_id))}, 3)
    assert load(resumed)[0].metrics == load(whole)[0].metrics
    before, after = (pd.read_csv(each / "sites" / "bank" / "predictions.csv") for each in (whole, resumed))
    pd.testing.assert_frame_equal(before, after)
