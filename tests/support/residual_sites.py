"""What tests of residual share: CSV files of sites that know other columns of the same customers; a site to ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from flwr.app import Context, RecordDict

from clients.dispatch import handler_of
from clients.site import Site
from protocols.residual.payloads import Enrol, Order
from protocols.wire.faults import Fault, SiteFault
from protocols.wire.message import Ask, Parcel
from protocols.wire.payload import Payload
from server.report.data import Report
from server.results import load
from tests.support.grid import config
from tests.support.runs import Nodes, run, run_once

Arrays = Mapping[str, np.ndarray]

COLUMNS: Mapping[str, tuple[str, ...]] = {"bank": ("a", "b"), "shop": ("c",), "telecom": ("d", "e")}
"""Whose columns are whose."""
N = 150


@lru_cache(maxsize=8)
def customers(n: int = N, seed: int = 0) -> pd.DataFrame:
    """What nobody holds: name, inputs ``a`` to ``f`` and outcome ``y`` of every customer. Not to be changed."""
    rng = np.random.default_rng([seed, n])
    x = rng.normal(size=(n, 6))
    y = np.sin(2 * x[:, 0]) + x[:, 2] + 0.5 * x[:, 3] ** 2 + 0.5 * x[:, 1] * x[:, 2] + 0.2 * rng.normal(size=n) + 3
    frame = pd.DataFrame(x, columns=list("abcdef"))
    frame.insert(0, "customer", [f"c{place:04d}" for place in range(n)])
    frame["y"] = y
    return frame


def write_world(
    folder: Path,
    *,
    columns: Mapping[str, Sequence[str]] = COLUMNS,
    holder: str = "",
    people: pd.DataFrame | None = None,
    n_test: int = 0,
    shuffle: int | None = 0,
    lose: int = 0,
) -> Path:
    """A folder with a file for every site; returns it.

    Parameters
    ----------
    folder : Path
        Is made.
    columns : Mapping
        By site, its columns.
    holder : str
        The site that holds the outcome; empty: the fusion center, in ``_labels.csv``.
    people : DataFrame or None
        The customers, in the order in which the holder of the outcome has them.
    n_test : int
        The last so many are in ``_test.csv`` instead.
    shuffle : int or None
        Every other site has its rows in an order of its own, drawn by this seed; None: in the same order.
    lose : int
        The j-th site lacks ``j * lose`` customers.
    """
    people = customers() if people is None else people
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(shuffle or 0)
    for place, (site, own) in enumerate(columns.items()):
        rows = people[["customer", *own, *(["y"] if site == holder else [])]]
        if lose:
            rows = rows.drop(rng.permutation(rows.index)[: place * lose])
        if shuffle is not None and site != holder:
            rows = rows.iloc[rng.permutation(len(rows))]
        rows.to_csv(folder / f"{site}.csv", index=False)
    if not holder:
        outcomes = people[["customer", "y"]]
        outcomes[: len(people) - n_test].to_csv(folder / "_labels.csv", index=False)
        if n_test:
            outcomes[len(people) - n_test :].to_csv(folder / "_test.csv", index=False)
    return folder


def own_data_config(tmp_path: Path, folder: Path, **changes: Any) -> dict[str, Any]:
    """The configuration of a simulated run on the files of `folder`: ten rounds of sip unless something else is set."""
    settings: dict[str, Any] = {
        "residual__algorithm": "sip",
        "residual__rounds": 10,
        "residual__stop": "rounds",
        "residual__min_leaf": 8,
        "residual__baselines": False,
        **changes,
    }
    return config(tmp_path, protocol="residual", data=str(folder), target="y", id="customer", **settings)


def deployed_sites(
    tmp_path: Path, folder: Path, sites: Sequence[str] = tuple(COLUMNS), holder: str = "", **changes: Any
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Run configuration and nodes of a deployment: each has its file of `folder` and its directory ``home/NAME``."""
    settings = {
        **own_data_config(tmp_path, folder, **changes),
        "data": "",
        "labels": "" if holder else str(folder / "_labels.csv"),
    }
    secret = {}
    if holder or settings["residual.topology"] == "ring":  # what is sealed needs a secret
        tmp_path.mkdir(parents=True, exist_ok=True)
        (tmp_path / "secret").write_text("a secret of the sites alone")
        secret = {"align-key-file": str(tmp_path / "secret")}
        settings |= secret
    nodes = [
        {
            "site": site,
            "data": str(folder / f"{site}.csv"),
            "id": "customer",
            "site-output-dir": str(tmp_path / "home" / site),
            **({"target": "y"} if site == holder else {}),
            **secret,
        }
        for site in sites
    ]
    return settings, nodes


def learn(
    settings: Mapping[str, Any], nodes: Nodes = 3, *, fresh: bool = False, **options: Any
) -> tuple[Report, Arrays, Path]:
    """A whole run: its report, its arrays, and where they are; a fresh one where the test has patched the product."""
    path = run(settings, nodes, **options) if fresh or options else run_once(settings, nodes)[0]
    return *load(path), path


COSTS = ("asks_per_iteration", "numbers_down", "numbers_up")
"""Metrics that say how a run was carried out, and not what was learned."""


def same_learning(first: tuple[Report, Arrays], second: tuple[Report, Arrays], *, but: Sequence[str] = ()) -> None:
    """Equal metrics and arrays, bit for bit, but for those named and for what was sent."""
    metrics, others = first[0].metrics, second[0].metrics
    for name in (metrics.keys() | others.keys()) - {*COSTS, *but}:
        assert metrics.get(name) == others.get(name), name
    assert set(first[1]) - set(but) == set(second[1]) - set(but)
    for name in set(first[1]) - set(but):
        np.testing.assert_array_equal(first[1][name], second[1][name], err_msg=name)


# -- one site, asked by anybody ---------------------------------------------------------------------------------------


def enrolled_sites(tmp_path: Path, holder: str, *, ordered: bool = True, **node: Any) -> dict[str, Site]:
    """The three sites of a deployment after the honest beginning of a sealed run.

    Parameters
    ----------
    tmp_path : Path
        Of the test.
    holder : str
        Who holds the outcome; empty: the fusion center, which gives it to the first of a ring.
    ordered : bool
        Whether they have been told the order of the rows.
    **node
        What every node says of itself beside.
    """
    folder = write_world(tmp_path / "files", holder=holder, shuffle=None)
    settings, nodes = deployed_sites(tmp_path, folder, holder=holder, residual__topology="center" if holder else "ring")
    enrol = Enrol("salt", "", True)
    found = {}
    for place, each in enumerate(nodes):
        context = Context(9, 5 + place, {**each, **node}, RecordDict(), settings)
        found[each["site"]] = Site.open(each["site"], context, Ask("x", 1, 0, [Parcel("0", enrol)])).in_lane("0")
    keys = tuple(ask(site, enrol).public_key for site in found.values())
    if ordered:
        for site in found.values():
            ask(site, Order(np.arange(N), "tree", 8, holder, tuple(found), keys))
    return found


def ask(site: Site, payload: Payload, number: int = 1) -> Any:
    """The site's answer, in this round."""
    site.round = number
    return handler_of(type(payload))(payload, site)


def assert_refused(site: Site, payload: Payload, number: int = 1, fault: Fault = Fault.MALFORMED_ASK) -> None:
    """It answers with this fault."""
    with pytest.raises(SiteFault) as told:
        ask(site, payload, number)
    assert told.value.fault is fault
