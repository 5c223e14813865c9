"""The algorithm of a run that names none, and settings that do not go together."""

from __future__ import annotations

from pathlib import Path

import pytest

from common.value_ranges import Value
from strategies.errors import FusionError
from strategies.residual import Residual, from_config
from tests.support.grid import config


def strategy(tmp_path: Path, **changes: Value) -> Residual:
    return from_config(config(tmp_path, protocol="residual", **changes))


def test_the_default_is_boosting_and_in_a_ring_taking_turns(tmp_path: Path) -> None:
    assert strategy(tmp_path).rules.algorithm == "boosted"
    assert strategy(tmp_path, residual__topology="ring").rules.algorithm == "sip"
    with pytest.raises(FusionError, match=r"ring is for sip, not for boosted: set residual.algorithm=sip"):
        strategy(tmp_path, residual__topology="ring", residual__algorithm="boosted")


@pytest.mark.parametrize(
    ("key", "value"),
    [("power", "3"), ("powers", "1 2"), ("step", "full"), ("idle_share", 0.1), ("steps", 10), ("robust", True)],
)
def test_a_setting_of_another_algorithm_is_not_passed_over(tmp_path: Path, key: str, value: Value) -> None:
    changes = {f"residual__{key}": value}
    with pytest.raises(FusionError, match=f"residual.{key.replace('_', '-')} is for .*set residual.algorithm, too"):
        strategy(tmp_path, **changes)
    assert strategy(tmp_path, **changes, residual__algorithm="parallel").rules.algorithm == "parallel"
    # A prediction has the settings of its run, and learns nothing.
    strategy(tmp_path, **changes, **{"from": "results"})
