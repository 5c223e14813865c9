"""The contract of every strategy, kept by coreset: with the assignment of points, and with that of all rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Message, RecordDict

from server.results import load
from tests.support.contract import Recording, StrategyContract
from tests.support.coreset_sites import SITES, own_data_config, patients, write_world
from tests.support.runs import Nodes, run
from tests.support.tampering import silent, with_content


class Contract(StrategyContract):
    protocol = "coreset"
    outputs: tuple[str, ...] = ("clusters.csv",)
    victim = 1
    settings: dict[str, Any] = {}  # noqa: RUF012  (a setting of the class)

    def run_config(self, tmp_path: Path) -> dict[str, Any]:
        folder = write_world(tmp_path / "files", patients(60, groups=3, equal=False))
        return own_data_config(tmp_path, folder, coreset__size=6, coreset__k=2, coreset__restarts=1, **self.settings)

    def nodes(self) -> Nodes:
        return len(SITES)

    def test_names_of_the_sites_do_not_matter(self, tmp_path: Path, whole: Path) -> None:
        """Nor does their order, in which the points stand that are clustered."""
        expected, wanted = load(whole)
        for names in (("ada", "bob", "eve"), ("zoe", "kim", "amy")):
            settings = self.run_config(tmp_path / names[0])
            for old, new in zip(SITES, names, strict=True):
                (Path(settings["data"]) / f"{old}.csv").rename(Path(settings["data"]) / f"{new}.csv")
            path = run(settings, self.nodes())
            report, arrays = load(path)
            assert report.sites == sorted(names)
            assert report.metrics == expected.metrics
            assert report.table == expected.table
            assert arrays.keys() == wanted.keys()
            for name, array in wanted.items():
                np.testing.assert_array_equal(arrays[name], array, err_msg=name)
            for old, new in zip(SITES, names, strict=True):
                for name in self.outputs:
                    kept = [home / "sites" / site / name for home, site in ((path, new), (whole, old))]
                    assert kept[0].read_bytes() == kept[1].read_bytes()

    def test_a_late_answer_is_ignored(self, tmp_path: Path, recording: Recording) -> None:
        """The coreset once more instead of the counts is no more than silence; with two asks there is no later one."""
        first: list[RecordDict] = []
        asked = recording.victim_rounds

        def replay(place: int, number: int, reply: Message) -> Message:
            if place == self.victim and number == asked[0]:
                first.append(reply.content)
            return with_content(reply, first[0]) if (place, number) == (self.victim, asked[1]) else reply

        config = self.run_config(tmp_path)
        replayed = run(config, self.nodes(), tamper=replay)
        self.assert_same(replayed, run(config, self.nodes(), tamper=silent(self.victim, asked[1:2])))
        assert load(replayed)[0].missing


class TestPoints(Contract):
    """Of which the center makes fewer before it clusters them."""

    settings = {"coreset__center_size": 9, "coreset__balance": 0.8, "coreset__alone": True}  # noqa: RUF012


@pytest.mark.slow
class TestRows(Contract):
    settings = {"coreset__assignment": "exact", "coreset__refine": 2, "coreset__price_rounds": 2}  # noqa: RUF012
