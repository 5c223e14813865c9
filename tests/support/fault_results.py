"""What comes of a run in which one site missed some rounds: by the references, as the specifications say it."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from flwr.app import RecordDict

from clients.bc3e.consent import FEWEST_IN_CLUSTER
from clients.residual.agent import FEWEST_EQUAL
from numerics.bc3e.ensemble import Ensemble
from numerics.bc3e.support import without_rare_combinations, without_rare_labels
from numerics.shared.value_groups import ValueGroups
from protocols.sec import payloads as sec
from protocols.wire.message import ENVELOPE
from protocols.wire.payload import Payload
from server.report.data import Report
from tests.support import reference_bc3e, reference_coreset, reference_gp, reference_residual, reference_sec
from tests.support.coreset_sites import ClusteringRun
from tests.support.fault_federations import CUSTOMERS, LABS, Federation
from tests.support.gp_sites import PredictionRun, payloads
from tests.support.residual_sites import COLUMNS, customers

Kind = TypeVar("Kind", bound=Payload)


@dataclass(frozen=True, eq=False)
class EndedRun:
    """A run that has ended: its results, the sites' own directories, and all that crossed."""

    world: Federation
    report: Report
    arrays: Mapping[str, np.ndarray]
    path: Path
    homes: Path
    crossed: Sequence[tuple[str, RecordDict]]

    def heard(self, kind: type[Kind]) -> dict[tuple[int, str], Kind]:
        """What the sites answered, by round and site's name."""
        found: dict[tuple[int, str], Kind] = {}
        for way, content in self.crossed:
            envelope: Any = content.config_records[ENVELOPE]
            if way == "from_site":
                each = [payload for payload in payloads(content) if isinstance(payload, kind)]
                found |= {(int(envelope["round"]), str(envelope["site"])): payload for payload in each}
        return found

    def missed(self, number: int, name: str) -> bool:
        """Whether the report says that a site's answer of this round is missing."""
        return any(line.startswith(f"round {number}: ") for line in self.report.missing.get(name, ()))


def assert_expected(ended: EndedRun) -> None:
    """The result is right for the sites that remain."""
    _RIGHT[ended.world.protocol](ended)


def _bc3e(ended: EndedRun) -> None:
    """Incremental EM: in an E-step that a ward misses, its last sums stand in the M-step for those of all wards."""
    wards = {name: _told(_ensemble(ended.world, name), name) for name in ended.world.names}
    n_steps = ended.report.rounds - 2
    alpha, names, size = np.ones(3), ("cluster_0", "cluster_1"), 4
    beta = {each: np.full((3, size), 1 / size) for each in names}
    gamma = {name: reference_bc3e.cold_gamma(ward, alpha) for name, ward in wards.items()}
    mass: dict[tuple[str, str], np.ndarray] = {}
    for step in range(n_steps):
        if step:
            sums = {each: np.sum([mass[name, each] for name in wards], axis=0) for each in names}
            beta = {each: reference_bc3e.maximize_beta(total) for each, total in sums.items()}
        for name, ward in wards.items():
            if not ended.missed(step + 2, name):
                gamma[name], phi = reference_bc3e.e_step(ward, alpha, beta, gamma[name], tolerance=1e-12)
                for each, labels in ward.clusterings.items():
                    mass[name, each] = reference_bc3e.expected_counts(phi[each], labels, size)
    for place, each in enumerate(names):
        np.testing.assert_allclose(ended.arrays[f"beta_{place}"], beta[each], atol=1e-6)
    for name in set(wards) - set(ended.report.missing):
        ward = _ensemble(ended.world, name)  # a ward classifies its patients by all labels
        gamma, _ = reference_bc3e.e_step(ward, alpha, beta, reference_bc3e.cold_gamma(ward, alpha), tolerance=1e-12)
        [file] = (ended.homes / name).rglob("theta.csv")
        theta = pd.read_csv(file).filter(like="theta_").to_numpy(np.float64)
        np.testing.assert_allclose(theta, gamma / gamma.sum(axis=1, keepdims=True), atol=1e-4)


def _ensemble(world: Federation, name: str) -> Ensemble:
    frame = pd.read_csv(world.folder / f"{name}.csv")
    models = {column: frame[column].to_numpy(np.int64) for column in frame.columns if column != "case"}
    classifiers, clusterings = (
        {each: models[each] for each in models if each.startswith(kind)} for kind in ("class_", "cluster_")
    )
    return Ensemble(len(frame), classifiers, clusterings)


def _told(ward: Ensemble, name: str) -> Ensemble:
    """The labels that enter sums of a real site: neither those of rare clusters nor those of rare combinations."""
    common = without_rare_labels(ward, FEWEST_IN_CLUSTER)
    return without_rare_combinations(common, FEWEST_IN_CLUSTER, seed=zlib.crc32(name.encode()))


def _sec(ended: EndedRun) -> None:
    """Eq. 3, twice the other direction where a lab did not say how the others' models do; clustered all the same."""
    names = ended.arrays["learners"].tolist()
    errors = np.array([ended.heard(sec.FittedModel)[1, name].error for name in names])
    losses = np.full((len(names), len(names)), np.nan)
    for (number, name), told in ended.heard(sec.Losses).items():
        if not ended.missed(number, name):
            losses[:, names.index(name)] = told.losses
    expected = reference_sec.dissimilarity(losses, errors)
    np.testing.assert_allclose(ended.arrays["dissimilarity"], expected, rtol=1e-12)
    assert ended.arrays["labels"].tolist() == [LABS[name] for name in names]


def _residual(ended: EndedRun) -> None:
    """Algorithm 3 with agents whose last prediction stays in the iterations that they miss."""
    people = customers(CUSTOMERS)
    order, n_learn = reference_residual.agreed_order(CUSTOMERS, 0.2)
    agents = [
        _missing(ended, name, reference_residual.tree(_grouped(people[list(columns)].to_numpy()[order]), 8))
        for name, columns in COLUMNS.items()
    ]
    world = reference_residual.World(agents, people["y"].to_numpy()[order], n_learn)
    course = reference_residual.parallel(world, p=1, rounds=4, full=True)
    curve = np.array(course.curve)
    for kind, place in (("train", 0), ("test", 2)):
        np.testing.assert_allclose(ended.arrays[f"curve_{kind}"], curve[:, place], rtol=1e-8)
    chosen = int(ended.report.metrics["iterations"])
    np.testing.assert_allclose(ended.arrays["beta"], course.beta[chosen], rtol=1e-6)


def _grouped(x: np.ndarray) -> np.ndarray:
    """A real site tells no values of fewer rows apart."""
    return ValueGroups.of(x, FEWEST_EQUAL).apply(x)


def _missing(
    ended: EndedRun, name: str, agent: Callable[[np.ndarray], np.ndarray]
) -> Callable[[np.ndarray], np.ndarray]:
    """An agent that is asked first in round 2, and then once a round."""
    given: list[np.ndarray] = []

    def predict(target: np.ndarray) -> np.ndarray:
        given.append(given[-1] if ended.missed(len(given) + 2, name) else agent(target))
        return given[-1]

    return predict


def _coreset(ended: EndedRun) -> None:
    """Who does not say where its rows went is not in counts, totals and cost; its points have found the centers."""
    there = [name for name in ended.world.names if not ended.missed(2, name)]
    settings = {**ended.world.settings, "data": str(ended.world.folder)}
    found = ClusteringRun(ended.report, ended.arrays, ended.path, settings)
    rows = found.rows(*there, homes=ended.homes)
    np.testing.assert_array_equal(found.counts(rows), ended.arrays["counts"])
    cost = reference_coreset.cost_of(found.in_units(rows), rows["cluster"].to_numpy(), found.centers)
    assert cost <= ended.report.metrics["cost"] * (1 + 1e-9) <= ended.report.metrics["cost_bound"] * (1 + 1e-8)
    lost = set(ended.world.names) - set(there)
    assert all(any(note.startswith(f"{name}: ") for note in ended.report.notes) for name in lost)


def _gp(ended: EndedRun) -> None:
    """The experts of a site that does not predict are dropped: as if they had never been in a point's ranking."""
    sites = ended.arrays["expert_site"].tolist()
    lost = [sites.index(name) for name in ended.world.names if ended.missed(3, name)]
    found = PredictionRun(ended.report, ended.arrays, ended.path, ended.world.settings, ended.crossed)
    experts = found.experts(ended.world.folder)
    order = reference_gp.nearest(found.queries, experts)
    left = order[~np.isin(order, lost)].reshape(len(order), -1)[:, :2]
    np.testing.assert_array_equal(ended.arrays["selected"], left)
    expected = reference_gp.npae(found.theta, experts, found.queries, left)
    for told, true in zip(found.predictions, expected, strict=True):
        np.testing.assert_allclose(told, true, atol=1e-8)
    assert ended.report.metrics["n_dropped"] == len(lost)


_RIGHT: Mapping[str, Callable[[EndedRun], None]] = {
    "bc3e": _bc3e,
    "sec": _sec,
    "residual": _residual,
    "coreset": _coreset,
    "gp": _gp,
}
