"""Small worlds for the tests of SEC: CSV files of sites that measure one of two relations, and runs on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from flwr.app import Message

from protocols.sec.payloads import Select
from protocols.wire.payload import encode_array
from tests.support.grid import Tamper, config

SLOPES = np.array([[1.0, 2.0, -1.0], [-2.0, 0.5, 1.0]])
"""Of the two relations."""


def draw_rows(group: int, n: int, seed: int, noise: float = 0.3) -> pd.DataFrame:
    """Rows of one site: inputs ``a b c`` in an order of its own, outcome ``y``, a column of text."""
    rng = np.random.default_rng([seed, group])
    x = rng.normal(size=(n, 3))
    frame = pd.DataFrame(x, columns=list("abc"))
    frame["y"] = x @ SLOPES[group] + rng.normal(scale=noise, size=n)
    frame["remark"] = "none"
    return frame[rng.permutation(frame.columns)]


def write_files(folder: Path, frames: Mapping[str, pd.DataFrame]) -> Path:
    """A folder with a file for every site, by its name; returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in frames.items():
        rows.to_csv(folder / f"{name}.csv", index=False)
    return folder


def write_sites(folder: Path, groups: Sequence[int], n: int = 40) -> Path:
    """A folder with a file for every site, ``lab-0`` and so on; returns it."""
    return write_files(folder, {f"lab-{i}": draw_rows(group, n + i, i) for i, group in enumerate(groups)})


def own_data_config(tmp_path: Path, folder: Path, **changes: Any) -> dict[str, Any]:
    """The configuration of a simulated run on the files of `folder`."""
    settings = {"protocol": "sec", "data": str(folder), "target": "y", "sec__candidates": "lr", **changes}
    return config(tmp_path, **settings)


def deployed_sites(
    tmp_path: Path, folder: Path, names: Sequence[str], **changes: Any
) -> tuple[dict[str, Any], list[Any]]:
    """Run configuration and nodes of a deployment: each has its file of `folder` and its directory ``home/NAME``."""
    settings = {**own_data_config(tmp_path, folder, **changes), "data": ""}
    nodes = [
        {
            "site": name,
            "data": str(folder / f"{name}.csv"),
            "target": "y",
            "site-output-dir": str(tmp_path / "home" / name),
        }
        for name in names
    ]
    return settings, nodes


def select_ask(**changes: Any) -> Select:
    """The first ask of a run, for a linear regression."""
    settings = {"candidates": "lr", "selection": "k-fold", "standardize": "model", "min_leaf": 5}
    settings |= {"reference": "left-out", "moments": False}
    return Select(**{**settings, **changes})


def forgery(place: int, number: int, field: str, value: np.ndarray) -> Tamper:
    """A site's answer of a round with another value of a field, in the first lane."""

    def tamper(at: int, now: int, reply: Message) -> Message:
        if (at, now) == (place, number):
            reply.content.array_records["0.arrays"][field] = encode_array(value)
        return reply

    return tamper
