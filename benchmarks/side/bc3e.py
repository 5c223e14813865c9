"""bc3e beside its equations on labels in one place, the vote, Dawid and Skene's model of voters, single classifiers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Int64

from benchmarks.driver import config_of
from benchmarks.side import Case, Method, Metric, Ran, Side, data_setting
from benchmarks.side.protocol import played, ran
from numerics.bc3e.ensemble import Ensemble, n_values
from scenarios import bc3e as scenario
from tests.support.reference_bc3e import fit

N_SITES = 5
TOLERANCE = 1e-6
"""Relative change of the bound at which a fit ends, ours and the centralized one."""
MOST_ROUNDS = 10_000
PLAIN = {"bc3e__accelerate": False}
_NOTES = f"""
Ours adds up what {N_SITES} sites say of their own rows, accelerated as it comes, and as plain EM. "The same equations,
centralized" is plain EM again, written from the paper without our code: the evidence bound it ends at is that of our
plain EM up to the tolerance of {TOLERANCE:g}; accelerated steps may end at another, higher or lower. Dawid-Skene is
crowd-kit's, as it comes; like the vote it has a place for class labels only: clusterings cannot help it. Every site can
take the vote of its own rows, and nothing crosses. Nobody knows beforehand which classifier is the best: "a single
classifier" is the mean of the three.
"""

Labels = Int64[np.ndarray, "n"]


@dataclass(frozen=True, eq=False)
class World:
    """Labels of instances by all models, each instance at one of several sites.

    Attributes
    ----------
    shards : sequence of Ensemble
        The sites'.
    pooled : Ensemble
        All of them, as no site ever holds them.
    """

    shards: Sequence[Ensemble]
    pooled: Ensemble

    @property
    def k(self) -> int:
        """Number of classes."""
        return max(map(n_values, self.pooled.classifiers.values()))

    @property
    def votes(self) -> Int64[np.ndarray, "n classifiers"]:
        """Class labels."""
        return np.stack(list(self.pooled.classifiers.values()), axis=1)

    def right(self, labels: Labels) -> float:
        """Percent of the instances whose class this is."""
        return 100 * float(np.mean(labels == self.pooled.truth))


def dealt(name: str, seed: int) -> World:
    """A scenario's draw, its instances dealt out at random."""
    config = config_of(name, seed, data=data_setting())
    return World(scenario.shards(name, config, seed, N_SITES), scenario.pooled(name, config, seed))


# -- methods ----------------------------------------------------------------------------------------------------------


def ours(settings: Mapping[str, Any], data: World, seed: int) -> Ran:
    """The protocol, over rows."""
    fitted = {"bc3e__tolerance": TOLERANCE, "bc3e__max_rounds": MOST_ROUNDS, **settings}
    driven = played("bc3e", data.shards, seed, fitted)
    return ran(driven, lambda: {"right": 100 * driven.metrics["accuracy"], "bound": driven.metrics["bound"]})


def centralized(data: World, seed: int) -> Ran:
    """The paper's equations on all labels in one place, written as plainly as possible, in double precision."""
    sizes = {name: n_values(labels) for name, labels in data.pooled.clusterings.items()}
    found = fit(data.pooled, data.k, sizes, tolerance=TOLERANCE, max_rounds=MOST_ROUNDS)

    def score() -> dict[str, float]:
        return {"right": data.right(found.theta.argmax(axis=1)), "bound": found.bounds[-1]}

    models = [*data.pooled.classifiers.values(), *data.pooled.clusterings.values()]
    return Ran(score, from_sites=sum(labels.nbytes for labels in models))


def vote(data: World, seed: int) -> Ran:
    """The class that most classifiers name, at each site by itself; of several the lowest."""
    labels = (data.votes[:, :, np.newaxis] == np.arange(data.k)).sum(axis=1).argmax(axis=1)
    return Ran(lambda: {"right": data.right(labels)})


def dawid_skene(data: World, seed: int) -> Ran:
    """Voters with confusion matrices of their own, which are learnt with the classes (crowd-kit)."""
    from crowdkit.aggregation import DawidSkene

    votes = data.votes
    n, voters = votes.shape
    said = pd.DataFrame(
        {"task": np.repeat(np.arange(n), voters), "worker": np.tile(np.arange(voters), n), "label": votes.ravel()}
    )
    labels = DawidSkene().fit_predict(said).loc[np.arange(n)].to_numpy(np.int64)
    return Ran(lambda: {"right": data.right(labels)}, from_sites=votes.nbytes)


def single(pick: Callable[[list[float]], float], data: World, seed: int) -> Ran:
    """One classifier for all instances."""
    alone = [data.right(labels) for labels in data.votes.T]
    return Ran(lambda: {"right": pick(alone)})


# -- what is compared -------------------------------------------------------------------------------------------------


def side(quick: bool) -> Side:
    """Wine and half moons, three classifiers of few labelled rows and six clusterings."""
    seeds = 3 if quick else 20
    about = (
        "{}; 3 classifiers of the labelled {} %, 6 clusterings of the others; labels of these at " + f"{N_SITES} sites"
    )
    return Side(
        protocol="bc3e",
        task="Name the class of every instance, from what three classifiers and six clusterings say.",
        metrics=(
            Metric("right", "% right", "higher", 3),
            Metric("bound", "evidence bound", "higher", 6),
        ),
        cases=(
            Case("wine", about.format("178 rows", 10), partial(dealt, "bc3e-wine"), seeds),
            Case("halfmoon", about.format("made: 400 rows", 2), partial(dealt, "bc3e-halfmoon"), seeds),
        ),
        methods=(
            Method("consilience", partial(ours, {}), "sums", ours=True),
            Method("consilience, plain EM", partial(ours, PLAIN), "sums", ours=True),
            Method("the same equations, centralized", centralized, "labels"),
            Method("majority vote", vote, "nothing"),
            Method("Dawid-Skene", dawid_skene, "class labels", needs=("crowdkit",), package="crowd-kit"),
            Method("a single classifier", partial(single, lambda every: float(np.mean(every))), "nothing"),
            Method("the best classifier", partial(single, max), "nothing"),
        ),
        small=partial(dealt, "bc3e-halfmoon", 1000),
        notes=" ".join(_NOTES.split()),
    )
