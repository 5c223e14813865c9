"""What tests of coreset share: CSV files of sites that know other patients, whole runs on them, one site to ask."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from flwr.app import ConfigRecord, Context, Message, RecordDict

from clients.dispatch import handler_of
from clients.site import Site
from protocols.coreset.payloads import Summarize
from protocols.wire.faults import Fault, SiteFault
from protocols.wire.message import Answer, Ask, Parcel, write_answer
from protocols.wire.payload import Payload, decode
from server.report.data import Report
from server.results import load
from tests.support.grid import Tamper, config
from tests.support.runs import Nodes, run, run_once
from tests.support.tampering import parcels_of

SITES = ("clinic", "hospital", "practice")
FEATURES = ("age", "income", "score")
"""In the order of their names."""
N = 360

Patients = Mapping[str, pd.DataFrame]


@lru_cache(maxsize=8)
def patients(n: int = N, seed: int = 0, groups: int = 2, equal: bool = True) -> pd.DataFrame:
    """What nobody holds: all patients, in random order. Not to be changed.

    Columns of very different units; sexes (``F``, ``M``, and more where `groups` are more) that differ in where they
    are, so that fairness has a price, as many of each where they are to be `equal`; and ``smoker``, ``no`` or ``yes``.
    """
    rng = np.random.default_rng([seed, n, groups])
    share = np.ones(groups) if equal else 0.6 ** np.arange(groups)
    sex = np.searchsorted(np.cumsum(share / share.sum()), (np.arange(n) + 0.5) / n)
    middle = np.array([[30, 20_000, 0.2], [50, 60_000, 0.3], [70, 30_000, 0.8], [40, 40_000, 0.6]])
    part = rng.choice(4, n, p=[0.3, 0.3, 0.2, 0.2])
    part = np.where(rng.random(n) < 0.5, sex % 4, part)
    x = middle[part] + rng.normal(size=(n, 3)) * [5, 5_000, 0.05]
    frame = pd.DataFrame(x, columns=["age", "income", "score"])
    frame["sex"] = np.array(["F", "M", "X", "Y"])[sex]
    frame["smoker"] = np.where(rng.random(n) < 0.3, "yes", "no")
    frame = frame.iloc[rng.permutation(n)].reset_index(drop=True)
    frame.insert(0, "patient", [f"p{place:04d}" for place in range(n)])
    return frame


def split_over_sites(frame: pd.DataFrame, how: str = "random", names: Sequence[str] = SITES) -> dict[str, pd.DataFrame]:
    """The patients by site: in equal parts, or (``group``) the first site with one sex, the last with another."""
    if how == "group":
        frame = frame.sort_values("sex", kind="stable")
    parts = np.array_split(np.arange(len(frame)), len(names))
    return {name: frame.iloc[part] for name, part in zip(names, parts, strict=True)}


def write_files(folder: Path, parts: Patients) -> Path:
    """A folder with a file for every site; returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, frame in parts.items():
        frame.to_csv(folder / f"{name}.csv", index=False)
    return folder


def write_world(folder: Path, frame: pd.DataFrame | None = None, how: str = "random") -> Path:
    """Three sites' files of `frame`'s patients; returns the folder."""
    return write_files(folder, split_over_sites(patients() if frame is None else frame, how))


def own_data_config(tmp_path: Path, folder: Path, **changes: Any) -> dict[str, Any]:
    """The configuration of a simulated run on the files of `folder`.

    A coarse coreset, whose centers do not move, without comparison with sites alone, unless something else is set.
    """
    settings: dict[str, Any] = {
        **{"sensitive": "sex", "id": "patient", "features": " ".join(FEATURES)},
        **{"coreset__k": 3, "coreset__size": 12, "coreset__refine": 0, "coreset__alone": False},
        **changes,
    }
    return config(tmp_path, protocol="coreset", data=str(folder), **settings)


def deployed_sites(
    tmp_path: Path, folder: Path, names: Sequence[str] = SITES, **changes: Any
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Run configuration and nodes of a deployment: each has its file of `folder` and its directory ``home/NAME``."""
    settings = own_data_config(tmp_path, folder, **changes)
    columns = {key: settings[key] for key in ("sensitive", "id", "features")}
    consent = {"allow-prices": True} if settings["coreset.assignment"] == "exact" else {}
    nodes = [
        {
            "site": name,
            "data": str(folder / f"{name}.csv"),
            "site-output-dir": str(tmp_path / "home" / name),
            **columns,
            **consent,
        }
        for name in names
    ]
    return {**settings, "data": ""}, nodes


# -- whole runs -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ClusteringRun:
    """A run that has ended, and the files that it was about."""

    report: Report
    arrays: Mapping[str, np.ndarray]
    path: Path
    settings: Mapping[str, Any]

    @property
    def metrics(self) -> Mapping[str, float]:
        return self.report.metrics

    def rows(self, *names: str, homes: Path | None = None) -> pd.DataFrame:
        """Every row of these sites (all) as it is in the site's file, with ``group`` and with its ``cluster``."""
        folder, homes = Path(str(self.settings["data"])), homes or self.path / "sites"
        return pd.concat(
            [
                clusters_of(pd.read_csv(folder / f"{name}.csv", keep_default_na=False), homes / name, self.settings)
                for name in names or self.report.sites
            ],
            ignore_index=True,
        )

    def in_units(self, frame: pd.DataFrame) -> np.ndarray:
        """Rows as distances are between them."""
        return np.asarray((frame[self.arrays["features"].tolist()] - self.arrays["mean"]) / self.arrays["scale"])

    @property
    def centers(self) -> np.ndarray:
        """In the same units."""
        return np.asarray((self.arrays["centers"] - self.arrays["mean"]) / self.arrays["scale"])

    @property
    def points(self) -> np.ndarray:
        """In the same units."""
        return np.asarray((self.arrays["points"] - self.arrays["mean"]) / self.arrays["scale"])

    def group_numbers(self, frame: pd.DataFrame) -> np.ndarray:
        """Every row's group as a place in ``groups``."""
        return np.asarray(frame["group"].map({name: h for h, name in enumerate(self.arrays["groups"].tolist())}))

    def counts(self, frame: pd.DataFrame) -> np.ndarray:
        """``(k, H)`` rows of each group in each cluster."""
        counts = np.zeros_like(self.arrays["counts"])
        np.add.at(counts, (frame["cluster"].to_numpy(), self.group_numbers(frame)), 1)
        return counts


def clusters_of(frame: pd.DataFrame, home: Path, settings: Mapping[str, Any]) -> pd.DataFrame:
    """A site's rows with the clusters that it has kept in its own directory."""
    kept = pd.read_csv(home / "clusters.csv", dtype={"entity": str})
    entities = frame[settings["id"]].astype(str) if settings["id"] else pd.Series(range(len(frame))).astype(str)
    assert kept["entity"].tolist() == entities.tolist()
    sensitive = sorted(settings["sensitive"].split())
    if len(sensitive) == 1:
        group = frame[sensitive[0]].astype(str)
    else:
        parts = [name + "=" + frame[name].astype(str) for name in sensitive]
        group = parts[0].str.cat(parts[1:], sep=", ")
    return frame.assign(group=group, cluster=kept["cluster"].to_numpy())


def cluster(settings: Mapping[str, Any], nodes: Nodes = 3, **options: Any) -> ClusteringRun:
    """A whole run."""
    path = run(settings, nodes, **options) if options else run_once(settings, nodes)[0]
    return ClusteringRun(*load(path), path, settings)


# -- answers that are changed, and what happens between two asks ------------------------------------------------------


def forgery(place: int, rounds: Iterable[int], change: Callable[[Any], Payload]) -> Tamper:
    """One site's answers of these rounds after `change`, which is made of the payload that they hold."""
    chosen = set(rounds)

    def tamper(at: int, now: int, reply: Message) -> Message:
        if at == place and now in chosen:
            scalars: Any = reply.content.config_records["0.scalars"]
            fields = ConfigRecord({name: value for name, value in scalars.items() if name != "parcel"})
            honest = decode(parcels_of(reply.content)[0], fields, reply.content.array_records["0.arrays"])
            said = write_answer(Answer("", now, 0, [Parcel(str(scalars["parcel"][0]), change(honest))]))
            for part in ("0.scalars", "0.arrays"):
                reply.content[part] = said[part]
        return reply

    return tamper


def interference(number: int, happens: Callable[[], None], last: int = len(SITES) - 1) -> Tamper:
    """What happens when the last site has answered in this round."""

    def tamper(at: int, now: int, reply: Message) -> Message:
        if (at, now) == (last, number):
            happens()
        return reply

    return tamper


# -- one site, asked by anybody ---------------------------------------------------------------------------------------


def context_of(tmp_path: Path, name: str = SITES[0], **node: Any) -> Context:
    """What Flower knows of a real site; its file is written where it is missing."""
    folder = tmp_path / "files"
    if not folder.exists():
        write_world(folder)
    settings, [configured] = deployed_sites(tmp_path, folder, [name])
    return Context(9, 5, {**configured, **node}, RecordDict(), settings)


def site_at(context: Context, session: str = "x", lane: str = "0", seed: int = 0) -> Site:
    """The site as its handlers see it."""
    first = Parcel(lane, Summarize(12, "bico", 0, 5, True))
    return Site.open(str(context.node_config["site"]), context, Ask(session, 1, seed, [first])).in_lane(lane)


def site_of(tmp_path: Path, **node: Any) -> Site:
    """A real site that has not been asked anything."""
    return site_at(context_of(tmp_path, **node))


def ask(site: Site, payload: Payload, number: int = 1) -> Any:
    """The site's answer, in this round."""
    site.round = number
    return handler_of(type(payload))(payload, site)


def assert_refused(site: Site, payload: Payload, fault: Fault = Fault.MALFORMED_ASK) -> None:
    """It answers with this fault."""
    with pytest.raises(SiteFault) as told:
        ask(site, payload)
    assert told.value.fault is fault
