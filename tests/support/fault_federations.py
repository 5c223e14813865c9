"""For every protocol a small federation of real sites, in which trouble strikes where it hurts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from protocols.bc3e import payloads as bc3e
from protocols.coreset import payloads as coreset
from protocols.gp import payloads as gp
from protocols.residual import payloads as residual
from protocols.sec import payloads as sec
from protocols.wire.payload import Payload
from tests.support import coreset_sites, gp_sites, residual_sites, sec_sites
from tests.support.grid import config

Node = dict[str, Any]

WARDS = ("east", "north", "west")
CUSTOMERS = 80
LABS = {"lab-0": 0, "lab-1": 1, "lab-2": 0, "lab-3": 1}
"""The relation that each lab measures."""


@dataclass(frozen=True)
class Federation:
    """A run on the files of a federation.

    Attributes
    ----------
    protocol : str
        Its name.
    settings : dict
        Run configuration; results are in the folder that the world is made for.
    nodes : list of dict
        Node configurations, each with a file, a name and a directory of its own.
    victim : int
        Place of the site that gets into trouble.
    strikes : int
        Round in which it does; some site was asked before, and the victim too.
    asked : type of Payload
        What the victim is asked in that round.
    """

    protocol: str
    settings: dict[str, Any]
    nodes: list[Node]
    victim: int
    strikes: int
    asked: type[Payload]

    @property
    def names(self) -> list[str]:
        return [str(node["site"]) for node in self.nodes]

    @property
    def folder(self) -> Path:
        """Where their files are."""
        return Path(str(self.nodes[0]["data"])).parent

    @property
    def name(self) -> str:
        """The victim's name."""
        return self.names[self.victim]


def _bc3e(folder: Path) -> Federation:
    """Three wards with classifiers and clusterings of their patients: the plain EM, with a fixed prior."""
    rng = np.random.default_rng(0)
    nodes = []
    for name, n in zip(WARDS, (24, 30, 36), strict=True):
        truth = rng.integers(0, 3, n)
        columns: dict[str, Any] = {"case": [f"{name}-{i}" for i in range(n)]}
        columns |= {f"class_{i}": np.where(rng.random(n) < 0.4, rng.integers(0, 3, n), truth) for i in range(3)}
        columns |= {f"cluster_{i}": np.where(rng.random(n) < 0.3, rng.integers(0, 4, n), truth) for i in range(2)}
        (folder / "files").mkdir(parents=True, exist_ok=True)
        pd.DataFrame(columns).to_csv(folder / "files" / f"{name}.csv", index=False)
        nodes.append({"site": name, "data": str(folder / "files" / f"{name}.csv"), "id": "case"})
    settings = config(
        folder, protocol="bc3e", bc3e__max_rounds=5, bc3e__tolerance=1e-9, bc3e__accelerate=False,
        bc3e__learn_alpha=False, bc3e__reliability="none", bc3e__stop="bound",
    )  # fmt: skip
    return Federation("bc3e", settings, nodes, 1, 4, bc3e.EStep)


def _sec(folder: Path) -> Federation:
    """Four labs, two and two of which measure the same: the exchange of models is their second ask."""
    files = sec_sites.write_sites(folder / "files", list(LABS.values()))
    settings, nodes = sec_sites.deployed_sites(folder, files, list(LABS))
    return Federation("sec", settings, nodes, 2, 2, sec.Exchange)


def _residual(folder: Path) -> Federation:
    """Three sites with other columns, fitted side by side: the second time that agents fit is the fourth round."""
    files = residual_sites.write_world(folder / "files", people=residual_sites.customers(CUSTOMERS))
    chosen: dict[str, Any] = {"residual__algorithm": "parallel", "residual__power": "1", "residual__rounds": 4}
    chosen |= {"residual__step": "full", "residual__ridge": 0.0}
    settings, nodes = residual_sites.deployed_sites(folder, files, **chosen)
    return Federation("residual", settings, nodes, 2, 4, residual.Fit)


def _coreset(folder: Path) -> Federation:
    """Three sites' patients: the assignment of their rows is the second ask."""
    files = coreset_sites.write_world(folder / "files", coreset_sites.patients(90))
    settings, nodes = coreset_sites.deployed_sites(folder, files, coreset__size=8, coreset__k=2, coreset__restarts=1)
    return Federation("coreset", settings, nodes, 1, 2, coreset.Assign)


def _gp(folder: Path) -> Federation:
    """Four sites that have measured side by side, two asked for every point: predictions are the last ask."""
    parts = gp_sites.split_over_sites(gp_sites.soundings(48))
    files = gp_sites.write_files(folder / "files", parts, gp_sites.points(12))
    chosen: dict[str, Any] = {"gp__experts": "2", "gp__candidates": 2, "gp__fit_rounds": 1, "gp__covariance": "inputs"}
    settings, nodes = gp_sites.deployed_sites(folder, files, **chosen)
    return Federation("gp", settings, nodes, 1, 3, gp.Predict)


WORLDS: dict[str, Callable[[Path], Federation]] = {
    "bc3e": _bc3e,
    "sec": _sec,
    "residual": _residual,
    "coreset": _coreset,
    "gp": _gp,
}


def at_home(nodes: Sequence[Node], homes: Path) -> list[Node]:
    """The nodes with directories of their own in `homes`."""
    return [{**node, "site-output-dir": str(homes / str(node["site"]))} for node in nodes]
