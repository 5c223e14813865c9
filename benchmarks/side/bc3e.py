"""bc3e compared with its equations on pooled labels, majority vote, Dawid and Skene's model, single classifiers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Int64

from benchmarks import rater_methods
from benchmarks.driver import config_of
from benchmarks.side import Case, Method, Metric, Result, Side, data_setting
from benchmarks.side.protocol import result_of, run_protocol
from numerics.bc3e.ensemble import Ensemble, n_values
from scenarios import bc3e as scenario
from tests.support.reference_bc3e import fit

N_SITES = 5
TOLERANCE = 1e-6
"""Relative change of the bound at which a federated or centralized fit ends."""
MOST_ROUNDS = 10_000
PLAIN = {"bc3e__accelerate": False}
_NOTES = f"""
"The same equations, centralized" is plain EM, written from the paper without the project's code: its bound agrees up
to the tolerance of {TOLERANCE:g}. Dawid-Skene is crowd-kit's; like the vote it uses class labels only. The best
classifier is not known in advance: "a single classifier" is the mean of the three.
"""

Labels = Int64[np.ndarray, "n"]


@dataclass(frozen=True, eq=False)
class World:
    """Labels of instances by all models; each instance is at one site.

    Attributes
    ----------
    shards : sequence of Ensemble
        Labels at the sites.
    pooled : Ensemble
        All labels in one place.
    """

    shards: Sequence[Ensemble]
    pooled: Ensemble

    @property
    def k(self) -> int:
        """Number of classes."""
        return max(map(n_values, self.pooled.classifiers.values()))

    @property
    def votes(self) -> Int64[np.ndarray, "n classifiers"]:
        """Class labels of the classifiers."""
        return np.stack(list(self.pooled.classifiers.values()), axis=1)

    def accuracy(self, labels: Labels) -> float:
        """Return the percentage of correct labels."""
        return 100 * float(np.mean(labels == self.pooled.truth))


def draw(name: str, seed: int) -> World:
    """Draw a scenario, with its instances split at random."""
    config = config_of(name, seed, data=data_setting())
    return World(scenario.shards(name, config, seed, N_SITES), scenario.pooled(name, config, seed))


# -- methods ----------------------------------------------------------------------------------------------------------


def consilience(settings: Mapping[str, Any], data: World, seed: int) -> Result:
    """Run the protocol with instances split among sites."""
    fitted = {"bc3e__tolerance": TOLERANCE, "bc3e__max_rounds": MOST_ROUNDS, **settings}
    transcript = run_protocol("bc3e", data.shards, seed, fitted)
    return result_of(
        transcript, lambda: {"right": 100 * transcript.metrics["accuracy"], "bound": transcript.metrics["bound"]}
    )


def centralized(data: World, seed: int) -> Result:
    """Fit the paper's equations to pooled labels, by plain NumPy in double precision."""
    sizes = {name: n_values(labels) for name, labels in data.pooled.clusterings.items()}
    model = fit(data.pooled, data.k, sizes, tolerance=TOLERANCE, max_rounds=MOST_ROUNDS)

    def score() -> dict[str, float]:
        return {"right": data.accuracy(model.theta.argmax(axis=1)), "bound": model.bounds[-1]}

    models = [*data.pooled.classifiers.values(), *data.pooled.clusterings.values()]
    return Result(score, from_sites=sum(labels.nbytes for labels in models))


def vote(data: World, seed: int) -> Result:
    """Take the class of most classifiers, separately at each site; in a tie the lowest class."""
    labels = (data.votes[:, :, np.newaxis] == np.arange(data.k)).sum(axis=1).argmax(axis=1)
    return Result(lambda: {"right": data.accuracy(labels)})


def dawid_skene(data: World, seed: int) -> Result:
    """Fit a confusion matrix for every classifier (crowd-kit)."""
    labels = rater_methods.crowd_kit("DawidSkene", rater_methods.Labels.of(data.pooled)).argmax(axis=1)
    return Result(lambda: {"right": data.accuracy(labels)}, from_sites=data.votes.nbytes)


def single(pick: Callable[[list[float]], float], data: World, seed: int) -> Result:
    """Take one classifier for all instances."""
    alone = [data.accuracy(labels) for labels in data.votes.T]
    return Result(lambda: {"right": pick(alone)})


# -- the comparison ---------------------------------------------------------------------------------------------------


def side(quick: bool) -> Side:
    """Compare on wine and half moons: three classifiers of few labeled rows, six clusterings."""
    seeds = 3 if quick else 20
    about = "{}; 3 classifiers of the labeled {} %, 6 clusterings of the others, at " + f"{N_SITES} sites"
    return Side(
        protocol="bc3e",
        task="Classify every instance from the labels of three classifiers and six clusterings.",
        metrics=(
            Metric("right", "% right", "higher", 3),
            Metric("bound", "evidence bound", "higher", 6),
        ),
        cases=(
            Case("wine", about.format("178 rows", 10), partial(draw, "bc3e-wine"), seeds),
            Case("halfmoon", about.format("synthetic: 400 rows", 2), partial(draw, "bc3e-halfmoon"), seeds),
        ),
        methods=(
            Method("consilience", partial(consilience, {}), "sums", ours=True),
            Method("consilience, plain EM", partial(consilience, PLAIN), "sums", ours=True),
            Method("the same equations, centralized", centralized, "labels"),
            Method("majority vote", vote, "nothing"),
            Method("Dawid-Skene", dawid_skene, "class labels", needs=("crowdkit",), package="crowd-kit"),
            Method("a single classifier", partial(single, lambda every: float(np.mean(every))), "nothing"),
            Method("the best classifier", partial(single, max), "nothing"),
        ),
        small=partial(draw, "bc3e-halfmoon", 1000),
        notes=" ".join(_NOTES.split()),
    )
