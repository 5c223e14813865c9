"""Settings that do not go together, which are refused before a run starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from common.settings import ConfigError
from common.value_ranges import Value
from protocols import registry
from protocols.residual.settings import Settings as Residual
from protocols.settings import checked, declared

OWN = {"data": "wards"}
SCENARIO = {"protocol": "", "scenario": "wine"}
OTHER_ALGORITHM = {
    "power": "3",
    "powers": "1 2",
    "step": "full",
    "idle-share": 0.1,
    "steps": 10,
    "robust": True,
}


def check(protocol: str, changes: Mapping[str, Value], *files: str) -> None:
    config = {**declared(), **checked({**declared(), "protocol": protocol, **OWN}), **changes}
    registry.room(protocol, "settings").Settings.of(config).check_together(config, files)


@pytest.mark.parametrize(
    ("protocol", "changes", "message"),
    [
        ("bc3e", {"secure-aggregation": True, "bc3e.distribution": "column"}, "needs bc3e.distribution=row"),
        ("bc3e", {"bc3e.robust": True, "secure-aggregation": True}, "bc3e.robust needs the sums of each site"),
        ("sec", {"sec.k-method": "held-out", "sec.reference": "fitted"}, "needs errors on rows left out of the fit"),
        ("sec", {"sec.combine": "pooled-rows", "sec.standardize": "learner"}, "cannot be pooled"),
        ("sec", {"sec.combine": "pooled-rows", "sec.join": "results"}, "do not go together"),
        ("coreset", {"coreset.algorithm": "cklv", "coreset.balance": 0.5}, "set coreset.balance=1"),
        ("coreset", {"coreset.assignment": "exact", "coreset.k": 101}, "prices 100 clusters at most, not 101"),
        ("coreset", {"secure-aggregation": True}, "masks the sums of coreset.assignment=exact"),
        ("coreset", {"repetitions": 2}, "leave repetitions out"),
        ("gp", {"gp.communication": 0.25, "gp.aggregation": "npae"}, "gp.communication is for gp.aggregation=grbcm"),
        ("gp", {"gp.covariance": "inputs", "gp.aggregation": "poe"}, "gp.covariance is for gp.aggregation=npae"),
        ("gp", {"gp.covariance": "inputs", "gp.landmarks": 8}, "gp.landmarks is for .* with gp.covariance=sketch"),
        ("gp", {"gp.gate": "all", "gp.experts": "2"}, "gp.experts is for a gate that chooses: leave it out"),
        ("gp", {"gp.gate-rounds": 2}, "gp.gate-rounds is for gp.gate=dnn: leave it out"),
        ("gp", {"gp.kernel": "matern52", "from": "results"}, "gp.kernel is for a run that learns"),
        ("gp", {"gp.suggest": True, "gp.answers": 1}, "gp.suggest needs answers about landmarks"),
        ("gp", {"gp.fit-rounds": 1000, "gp.candidates": 64}, "gp.fit-rounds times gp.candidates is more than"),
        ("gp", {"repetitions": 2}, "leave repetitions out"),
        ("residual", {"residual.topology": "ring", "residual.algorithm": "boosted"}, "set residual.algorithm=sip"),
        ("residual", {"residual.topology": "ring", "residual.robust": True}, "in a ring no site sees them"),
        ("residual", {"residual.topology": "ring", "residual.precision": "float32"}, "leave residual.precision out"),
        ("residual", {"residual.algorithm": "boosted", "residual.robust": True}, "is not for boosted"),
        *[
            ("residual", {f"residual.{key}": value}, f"residual.{key} is for .*: set residual.algorithm, too")
            for key, value in OTHER_ALGORITHM.items()
        ],
    ],
)
def test_what_does_not_go_together(protocol: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check(protocol, changes)


def test_rows_of_the_centers_own_file_need_models_that_standardize() -> None:
    check("sec", {"sec.standardize": "learner"})
    with pytest.raises(ConfigError, match="remove the test file"):
        check("sec", {"sec.standardize": "learner"}, "test")


@pytest.mark.parametrize("changes", [{}, SCENARIO])
@pytest.mark.parametrize("protocol", ["bc3e", "coreset", "gp", "residual", "sec"])
def test_defaults_go_together(protocol: str, changes: dict[str, Any]) -> None:
    check(protocol, changes)


def test_keys_of_a_named_algorithm_and_of_a_prediction_are_not_refused() -> None:
    for key, value in OTHER_ALGORITHM.items():
        algorithm = "greedy" if key == "steps" else "parallel"
        check("residual", {f"residual.{key}": value, "residual.algorithm": algorithm})
        check("residual", {f"residual.{key}": value, "from": "results"})  # it has the settings of its run


def test_a_ring_takes_turns() -> None:
    assert Residual.of({}).algorithm == "boosted"
    assert Residual.of({"residual.topology": "ring"}).algorithm == "sip"
