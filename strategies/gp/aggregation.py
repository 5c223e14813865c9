"""Which experts a point is sent to, and what is made of their answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float64, Int64

from numerics.gp.aggregation import ExpertPredictions, FusedPrediction, aggregate
from numerics.gp.expert import Expert
from numerics.gp.gates import discriminant, nearest
from numerics.gp.gates.network import Network
from numerics.gp.gates.ranking import chosen, ranking
from numerics.gp.kernels import Kernel
from protocols.gp.payloads import Inputs, Rows
from strategies.gp.disclosure import rows_wanted
from strategies.gp.federation import Federation
from strategies.gp.model import Model
from strategies.gp.prediction import Answers, Asking

if TYPE_CHECKING:
    from protocols.gp.settings import Settings

_LANDMARK_SEED = 5


def asking_of(model: Model, settings: Settings, shared: Mapping[str, Rows], seed: int) -> Asking:
    """What is the same in every ask for predictions."""
    federation = model.federation
    given = [shared[site] for site in federation.counts if site in shared]
    wanted = rows_wanted(federation, settings)
    return Asking(
        kernel=model.kernel,
        theta=model.fit.theta,
        max_rows=model.max_rows,
        landmarks=settings.landmarks if settings.sketched else 0,
        seed=int(np.random.default_rng([seed, _LANDMARK_SEED]).integers(2**31)),
        shared_x=np.concatenate([np.zeros((0, len(federation.features))), *(rows.x for rows in given)]),
        shared_y=np.concatenate([np.zeros(0), *(rows.y for rows in given)]),
        shared_rows={site: wanted[site] for site in shared},
    )


def ranked(model: Model, kernel: Kernel, settings: Settings, x: Float64[np.ndarray, "N d"]) -> Int64[np.ndarray, "N M"]:
    """All experts in the order in which each point wants them."""
    experts = model.federation.experts
    if settings.gate == "dnn":
        network = Network(x.shape[1], len(experts.counts))
        return ranking(network.log_probabilities(model.network, x))
    if settings.gate == "gaussian":
        return ranking(discriminant.scores(x, experts, kernel.lengths(model.fit.theta[:-1])))
    return ranking(nearest.scores(x, experts))


def most_important(answers: Answers, K: int) -> Int64[np.ndarray, "N K"]:
    """The same K experts for all points, by the graph of their predictions (Algorithm 1)."""
    # Brings scikit-learn, which no other gate needs.
    from numerics.gp.gates import graphical

    present = np.flatnonzero(answers.there)
    by_expert = np.broadcast_to(present, (len(answers.mean), len(present)))
    best = present[chosen(graphical.scores(answers.taking(by_expert).mean), K)]
    return np.pad(best, ((0, 0), (0, K - best.shape[1])), constant_values=-1)


def told(
    model: Model,
    kernel: Kernel,
    settings: Settings,
    x: Float64[np.ndarray, "N d"],
    answers: Answers,
    inputs: Mapping[str, Inputs],
    asking: Asking,
) -> ExpertPredictions:
    """All that is to be made one prediction at every point (`x`, in the agreed units)."""
    theta = model.fit.theta
    return ExpertPredictions(
        answers.mean,
        answers.explained,
        answers.selected >= 0,
        directions=answers.features if settings.sketched else None,
        covariance=_exact(model.federation, kernel, theta, x, answers.selected, inputs) if settings.disclosed else None,
        common=(
            Expert(kernel, theta, asking.shared_x, asking.shared_y).predict(x)
            if settings.aggregation == "grbcm"
            else None
        ),
    )


def fused(
    model: Model, kernel: Kernel, settings: Settings, x: Float64[np.ndarray, "N d"], said: ExpertPredictions
) -> FusedPrediction:
    """One prediction of the experts' at every point."""
    theta = model.fit.theta
    return aggregate(settings.aggregation, said, kernel.diagonal(theta[:-1], x), float(np.exp(2 * theta[-1])))


def _exact(
    federation: Federation,
    kernel: Kernel,
    theta: Float64[np.ndarray, "p"],
    x: Float64[np.ndarray, "N d"],
    selected: Int64[np.ndarray, "N K"],
    inputs: Mapping[str, Inputs],
) -> Float64[np.ndarray, "N K K"]:
    """Covariances between the selected experts' predictions, from their inputs."""
    from numerics.gp.covariances import covariances

    place = np.full(federation.M + 1, -1)  # the last for "none"
    rows: list[Float64[np.ndarray, "n d"]] = []
    # In the federation's order, which does not depend on what sites are called.
    for site in [each for each in federation.counts if each in inputs]:
        for expert, own in zip(federation.places[site].tolist(), inputs[site].x, strict=True):
            place[expert] = len(rows)
            rows.append(own)
    return covariances(kernel, theta, rows, x, place[selected])
