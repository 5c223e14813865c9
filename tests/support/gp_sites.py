"""What tests of gp share: CSV files of sites that have measured in different places, whole runs, one site to ask."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pytest
from flwr.app import ConfigRecord, Context, Message, RecordDict

from clients.dispatch import handler_of
from clients.site import Site
from protocols.gp.payloads import ExpertAsk, Survey
from protocols.wire.faults import Fault, SiteFault
from protocols.wire.message import ENVELOPE, Answer, Ask, Parcel, write_answer
from protocols.wire.payload import Payload, decode
from server.report.data import Report
from server.results import load
from tests.support import reference_gp as reference
from tests.support.grid import Tamper, config, prediction_config
from tests.support.runs import Nodes, make_grid, run_once, run_over
from tests.support.tampering import parcels_of

SITES = ("coast", "delta", "hills", "plain")
FEATURES = ("depth", "east")
"""In the order of their names."""
TARGET = "grade"
N = 120

Soundings = Mapping[str, pd.DataFrame]
Kind = TypeVar("Kind", bound=Payload)


def soundings(n: int = N, seed: int = 0) -> pd.DataFrame:
    """What nobody holds: all measurements, in random order, of inputs in very different units."""
    rng = np.random.default_rng([seed, n])
    east, depth = rng.uniform(0, 4e4, n), rng.uniform(0, 9, n)
    grade = 300 + 40 * np.sin(east / 5e3) + 5 * depth * np.cos(east / 9e3) + 3 * rng.normal(size=n)
    names = [f"w{seed}{place:04d}" for place in range(n)]
    return pd.DataFrame({"well": names, "east": east, "depth": depth, TARGET: grade})


def points(n: int = 20) -> pd.DataFrame:
    """Other places, for which the center asks."""
    return soundings(n, seed=1)


def split_over_sites(frame: pd.DataFrame, how: str = "place", names: Sequence[str] = SITES) -> dict[str, pd.DataFrame]:
    """The measurements by site, in equal parts: from west to east, or (``random``) anywhere."""
    if how == "place":
        frame = frame.sort_values("east", kind="stable")
    parts = np.array_split(np.arange(len(frame)), len(names))
    return {name: frame.iloc[part] for name, part in zip(names, parts, strict=True)}


def write_files(folder: Path, parts: Soundings, queries: pd.DataFrame | None = None) -> Path:
    """A folder with a file for every site, and ``_test.csv`` of the points asked for; returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, frame in {**parts, "_test": points() if queries is None else queries}.items():
        frame.to_csv(folder / f"{name}.csv", index=False)
    return folder


def write_world(folder: Path, frame: pd.DataFrame | None = None, how: str = "place", **more: Any) -> Path:
    """Four sites' files of `frame`'s measurements; returns the folder."""
    return write_files(folder, split_over_sites(soundings() if frame is None else frame, how), **more)


_KERNEL = "se"
"""Kernel of runs that learn, if nothing else is set."""


def own_data_config(tmp_path: Path, folder: Path, **changes: Any) -> dict[str, Any]:
    """The configuration of a simulated run on the files of `folder`: one gate and kernel, if nothing else is set."""
    settings: dict[str, Any] = {"target": TARGET, "id": "well", "gp__gate": "knn", "gp__kernel": _KERNEL, **changes}
    return config(tmp_path, protocol="gp", data=str(folder), **settings)


def later_config(settings: dict[str, Any], results: Path, **changes: Any) -> dict[str, Any]:
    """The configuration of a run that predicts by the results of one of `settings`, whose kernel it takes."""
    learned = {"gp.kernel": ""} if settings["gp.kernel"] == _KERNEL else {}
    return prediction_config({**settings, **learned}, results, **changes)


def deployed_sites(
    tmp_path: Path, folder: Path, names: Sequence[str] = SITES, **changes: Any
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Run configuration and nodes of a deployment: each has its file of `folder`, and consents to what is asked."""
    settings = own_data_config(tmp_path, folder, gp__queries=str(folder / "_test.csv"), **changes)
    consent = {
        "allow-inputs": settings["gp.covariance"] == "inputs",
        "allow-rows": settings["gp.aggregation"] == "grbcm",
        "allow-gate-training": settings["gp.gate"] == "dnn",
    }
    nodes = [
        {"site": name, "data": str(folder / f"{name}.csv"), "target": TARGET, "id": "well", **consent} for name in names
    ]
    return {**settings, "data": ""}, nodes


def gate_settings(gate: str, rounds: int = 2) -> dict[str, Any]:
    """Settings of a gate; one that is a network is trained in so many rounds."""
    return {"gp__gate": gate, **({"gp__gate_rounds": rounds} if gate == "dnn" else {})}


# -- whole runs -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SentPayload:
    """A payload that a site was asked or has answered, in which round, and of an answer the site's name."""

    site: str
    round: int
    payload: Any


@dataclass(frozen=True, eq=False)
class PredictionRun:
    """A run that has ended, all that crossed, and the files that it was about."""

    report: Report
    arrays: Mapping[str, np.ndarray]
    path: Path
    settings: Mapping[str, Any]
    crossed: Sequence[tuple[str, RecordDict]]

    @property
    def metrics(self) -> Mapping[str, float]:
        return self.report.metrics

    @property
    def theta(self) -> np.ndarray:
        return self.arrays["theta"]

    @property
    def predictions(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance in standardized units."""
        mean = (self.arrays["mean"] - self.arrays["output_mean"]) / self.arrays["output_scale"]
        return np.asarray(mean), np.asarray((self.arrays["std"] / self.arrays["output_scale"]) ** 2)

    @property
    def queries(self) -> np.ndarray:
        """In standardized units."""
        return np.asarray((self.arrays["queries"] - self.arrays["input_mean"]) / self.arrays["input_scale"])

    def experts(self, folder: Path | None = None) -> list[reference.Rows]:
        """Rows of every site that takes part, in the order of the experts' numbers and in standardized units."""
        folder = folder or Path(str(self.settings["data"]))
        raw = [rows_of(pd.read_csv(folder / f"{site}.csv")) for site in self.arrays["expert_site"].tolist()]
        return [reference.units(raw).of(rows) for rows in raw]

    def said(self, kind: type[Kind]) -> list[Kind]:
        """Every payload of this class that crossed, in order."""
        return [each.payload for each in self.heard(kind)]

    def heard(self, kind: type[Payload]) -> list[SentPayload]:
        """The same with round and site."""
        found = []
        for _, content in self.crossed:
            envelope: Any = content.config_records[ENVELOPE]
            about = str(envelope.get("site", "")), int(envelope["round"])
            found += [SentPayload(*about, payload) for payload in payloads(content) if isinstance(payload, kind)]
        return found


def rows_of(frame: pd.DataFrame) -> reference.Rows:
    """Inputs and outputs of a file."""
    return frame[list(FEATURES)].to_numpy(np.float64), frame[TARGET].to_numpy(np.float64)


def payloads(content: RecordDict) -> list[Payload]:
    """All that a message holds."""
    found = []
    for place, payload in enumerate(parcels_of(content)):
        scalars: Any = content.config_records[f"{place}.scalars"]
        own_fields = ConfigRecord({name: value for name, value in scalars.items() if name != "parcel"})
        found.append(decode(payload, own_fields, content.array_records[f"{place}.arrays"]))
    return found


def predict(settings: Mapping[str, Any], nodes: Nodes = 4, **options: Any) -> PredictionRun:
    """A whole run."""
    if options:
        grid = make_grid(settings, nodes, **options)
        path = run_over(grid, settings)
    else:
        path, grid = run_once(settings, nodes)
    report, arrays = load(path)
    return PredictionRun(report, arrays, path, report.config, grid.crossed)


# -- answers that are changed -----------------------------------------------------------------------------------------


def forgery(place: int, kind: type[Kind], change: Callable[[Kind], Payload], rounds: Iterable[int] = ()) -> Tamper:
    """One site's answers of this kind after `change`, in these rounds (all)."""
    chosen = set(rounds)

    def tamper(at: int, now: int, reply: Message) -> Message:
        found = payloads(reply.content) if at == place and (not chosen or now in chosen) else []
        if any(isinstance(payload, kind) for payload in found):
            lanes = [reply.content.config_records[f"{i}.scalars"]["parcel"] for i in range(len(found))]
            told = [change(payload) if isinstance(payload, kind) else payload for payload in found]
            parcels = [Parcel(str(lane[0]), each) for lane, each in zip(lanes, told, strict=True)]  # type: ignore[index]
            said = write_answer(Answer("", now, 0, parcels))
            for name in set(said) - {ENVELOPE}:
                reply.content[name] = said[name]
        return reply

    return tamper


# -- one site, asked by anybody ---------------------------------------------------------------------------------------


def context_of(tmp_path: Path, **node: Any) -> Context:
    """What Flower knows of the first of the sites, a real one; its file is written where it is missing."""
    folder = tmp_path / "files"
    if not folder.exists():
        write_world(folder)
    settings, [configured] = deployed_sites(tmp_path, folder, SITES[:1])
    return Context(9, 5, {**configured, **node}, RecordDict(), settings)


def site_at(context: Context, session: str = "x", lane: str = "0") -> Site:
    """The site as its handlers see it."""
    first = Parcel(lane, Survey(2000, "se", fit=False))
    return Site.open(str(context.node_config["site"]), context, Ask(session, 1, 0, [first])).in_lane(lane)


def site_of(tmp_path: Path, **node: Any) -> Site:
    """A real site that has not been asked anything."""
    return site_at(context_of(tmp_path, **node))


def agreed_fields(**changes: Any) -> dict[str, Any]:
    """What an honest center would begin its asks to the first site with, if that were all there is."""
    raw = rows_of(split_over_sites(soundings())[SITES[0]])
    found = reference.units([raw])
    honest = ExpertAsk(2000, np.array([len(raw[1])]), found.mean, found.scale, found.y_mean, found.y_scale)
    return {field.name: getattr(honest, field.name) for field in fields(ExpertAsk)} | changes


def ask(site: Site, payload: Payload) -> Any:
    """The site's answer."""
    return handler_of(type(payload))(payload, site)


def assert_refused(site: Site, payload: Payload, fault: Fault = Fault.MALFORMED_ASK) -> None:
    """It answers with this fault."""
    with pytest.raises(SiteFault) as told:
        ask(site, payload)
    assert told.value.fault is fault
