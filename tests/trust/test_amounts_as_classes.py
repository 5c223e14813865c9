"""A center that calls an amount a class gets no value of it, and no class of few rows has its number of rows told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from consilience.attack.site import AttackedSite, real_node
from protocols.gp.payloads import Moments, Survey
from protocols.sec.payloads import Select
from protocols.settings import declared
from protocols.wire.payload import Payload

ASKS: dict[str, Callable[[], Payload]] = {
    "gp": lambda: Survey(2000, "se", False),
    "sec": lambda: Select("lr", "k-fold", "model", 5, "left-out", moments=False),
}


def attacked(tmp_path: Path, protocol: str, y: np.ndarray, **node: Any) -> AttackedSite:
    """A real site of one input, whose run calls its outcome a class."""
    x = np.random.default_rng(0).normal(size=len(y))
    pd.DataFrame({"x": x, "y": y}).to_csv(tmp_path / "labs.csv", index=False)
    settings = {**declared(), "protocol": protocol, "task": "classification"}
    configuration = {"protocol": protocol, "target": "y", **node}
    site = AttackedSite(
        real_node(tmp_path / "labs.csv", tmp_path / "out", None, configuration), settings, np.zeros((2, 2)), 10
    )
    site.start_run({})
    return site


def days() -> np.ndarray:
    """Days in hospital: 27 whole numbers, most of few rows."""
    return np.rint(np.exp(1.5 + np.random.default_rng(1).normal(size=300) * 0.8)).astype(int)


@pytest.mark.parametrize("protocol", ASKS)
def test_a_run_does_not_make_classes_of_a_site_s_amounts(tmp_path: Path, protocol: str) -> None:
    site = attacked(tmp_path, protocol, days())
    assert site.ask(ASKS[protocol]()) is None
    assert dict(site.faults) == {"task-not-allowed": 1}


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_the_site_s_own_task_counts(tmp_path: Path, task: str) -> None:
    answer: Any = attacked(tmp_path, "gp", days(), task=task).ask(ASKS["gp"]())
    assert bool(answer.classes) == (task == "classification")


def test_what_the_site_takes_for_classes_is_learned(tmp_path: Path) -> None:
    answer: Any = attacked(tmp_path, "gp", np.repeat(["ill", "well"], 20)).ask(ASKS["gp"]())
    assert answer.classes == ("ill", "well")


def test_no_class_of_few_rows_has_its_number_told(tmp_path: Path) -> None:
    y = np.repeat(["common", "none", "one", "three"], [40, 17, 1, 3])
    answer: Any = attacked(tmp_path, "gp", y).ask(ASKS["gp"]())
    assert isinstance(answer, Moments)
    assert answer.class_counts.tolist() == [[34, 17, 5, 5]]
    assert answer.class_counts.sum() == answer.counts.sum() == 61
