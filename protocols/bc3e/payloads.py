"""What crosses the wire in BC3E (docs/bc3e.md, "Who holds what").

``k`` classes, ``k_m`` clusters of clustering m. "Private" instances are those that one site alone holds, "shared" ones
those of which several sites hold labels; a clustering is "common" when several sites hold labels of it, and its beta
then lives at the fusion center, or "own" when one site alone holds it, and its beta never leaves that site.

- Row distribution: all instances private, all clusterings common. Only `EStep` / `Statistics` cross in a round.
- Column distribution: all instances shared, all clusterings own.
- Arbitrary distribution: any mixture of these.
- Prediction, of a run in the row distribution: `Predict` / `Predicted`, one round, and nothing but counts goes up.
- Prediction, of a run in another: `Survey`, then `PredictShared` in the place of `Setup` and `EStep`, `Sweep` until all
  shared instances have settled, `Conclude`. Nothing is learnt, so of `Shares` only the shares themselves go up.

What that reveals: the column sums of `Statistics.mass` are the exact histogram of the site's cluster labels, and `n`
its number of instances (row). Votes plus responsibilities of every shared instance (column, arbitrary) give a site's
labels away when it holds a single model, and a classifier's labels when it is the site's only one: a site with a single
model refuses unless it was allowed to answer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64, UInt64

from protocols.wire.payload import Payload

MOST_INSTANCES = 10**9
"""Instances that a site may say it holds."""
MOST_CLASSES = 100_000
"""Classes that a site may say its labels show: everybody's tables have a row for each."""
LARGEST_TABLE = 2**24
"""Entries of one clustering's beta at most (128 MiB): more is a mistake, or somebody who means harm."""
MOST_BITS = 52
"""Of the grid: as many as float64 has."""
MOST_SWEEPS = 100_000
"""Sweeps of one E-step."""


@dataclass(frozen=True)
class Holdings(Payload):
    """Up, once: what a site holds, by name and size.

    Attributes
    ----------
    instances : int
        Number of instances.
    n_classes : int
        Classes seen in its labels.
    classifiers, clusterings : tuple of str
        Names of its models, in order of name.
    n_clusters : ndarray
        Clusters seen in each clustering's labels.
    keys : ndarray
        Keyed hashes of its instances' names, to find which instances are shared; empty in the row distribution.
    has_truth : bool
        Whether it knows true classes and can count how often a decision is right.
    """

    instances: int
    n_classes: int
    classifiers: tuple[str, ...]
    clusterings: tuple[str, ...]
    n_clusters: Int64[np.ndarray, "m"]
    keys: UInt64[np.ndarray, "n"]
    has_truth: bool


@dataclass(frozen=True)
class Survey(Payload, answer=Holdings):
    """Down, once: the question what the site holds; `salt` goes into the keyed hashes."""

    distribution: str
    salt: str


@dataclass(frozen=True)
class Starts(Payload):
    """Up, once, column and arbitrary: ``votes + r2_n / k`` of every shared instance, on the grid."""

    start: Int64[np.ndarray, "k shared"]


@dataclass(frozen=True)
class Setup(Payload, answer=Starts):
    """Down, once, column and arbitrary: the sizes all agreed on, and which instances are shared.

    Attributes
    ----------
    n_classes, grid_bits : int
        k, and the fineness of the grid.
    clusterings : tuple of str
        Names of all clusterings of this site, and in `n_clusters` their agreed sizes.
    own : ndarray
        Which of them this site alone holds.
    shared : ndarray
        Rows of this site's instances that other sites hold too.
    """

    n_classes: int
    grid_bits: int
    clusterings: tuple[str, ...]
    n_clusters: Int64[np.ndarray, "m"]
    own: Int64[np.ndarray, "o"]
    shared: Int64[np.ndarray, "shared"]


@dataclass(frozen=True)
class Statistics(Payload, summed=True):
    """Up, every round: sums over the site's private instances, on the grid.

    Attributes
    ----------
    n : int
        Number of private instances, ``N_d``.
    mass : tuple of ndarray
        ``T_m`` of every common clustering of the ask, ``(k, k_m)`` each (eq. 7).
    log_theta : ndarray
        ``s_i = sum_n psi(gamma_ni) - psi(sum gamma_n)``, ``(k,)``.
    bound : int
        Their part of the bound (eq. 3).
    """

    n: int
    mass: tuple[Int64[np.ndarray, "k _"], ...]
    log_theta: Int64[np.ndarray, "k"]
    bound: int


@dataclass(frozen=True)
class EStep(Payload, answer=Statistics):
    """Down, every round: the parameters; do the E-step on your private instances, to convergence.

    Attributes
    ----------
    step : int
        Number of E-steps of this fit so far; at 0 an instance starts cold.
    accepted : bool
        Whether the previous E-step counts; if not, go back to the state before it.
    start : int
        How own clusterings' beta starts at step 0: 0 uniform, else the seed of random rows.
    weights : ndarray
        How own clusterings combine their last EM steps (numerics/bc3e/anderson.py); one weight: the plain step.
    alpha : ndarray
        ``(k,)``.
    clusterings : tuple of str
        Names of the common clusterings of this site, and in `beta` their tables ``(k, k_m)``; where answers are masked,
        of all sites: a site has zeros of one that it does not hold.
    grid_bits, tolerance, max_sweeps, smoothing :
        Settings of E-step and M-step (numerics/bc3e/e_step.py, numerics/bc3e/m_step.py).
    """

    step: int
    accepted: bool
    start: int
    weights: Float64[np.ndarray, "h"]
    alpha: Float64[np.ndarray, "k"]
    clusterings: tuple[str, ...]
    beta: tuple[Float64[np.ndarray, "k _"], ...]
    grid_bits: int
    tolerance: float
    max_sweeps: int
    smoothing: float


@dataclass(frozen=True)
class Shares(Payload):
    """Up, every sweep, column and arbitrary.

    Attributes
    ----------
    share : ndarray
        ``g_n`` = votes + sum of the site's responsibilities, of the active shared instances, on the grid (eq. 6).
    mass : tuple of ndarray
        ``T_m`` of every common clustering, over all shared instances.
    bound : int
        The site's cluster part of the bound, over all shared instances, and its own clusterings' prior.
    products : ndarray
        Inner products of the newest step of its own clusterings with their earlier ones (numerics/bc3e/anderson.py).
    """

    share: Int64[np.ndarray, "k active"]
    mass: tuple[Int64[np.ndarray, "k _"], ...]
    bound: int
    products: Int64[np.ndarray, "h"]


@dataclass(frozen=True)
class Sweep(Payload, answer=Shares):
    """Down, every sweep, column and arbitrary: ``psi(gamma_n)`` of the shared instances that still move.

    `active` counts within the site's shared instances, in the order of `Setup.shared`.
    """

    active: Int64[np.ndarray, "active"]
    log_weights: Float64[np.ndarray, "k active"]


@dataclass(frozen=True)
class Tally(Payload):
    """Up, once: how often decisions were right, where the site knows the truth; zeros where it does not.

    `methods` are ``bc3e``, ``vote`` (private instances only: shared ones' votes are known to no one) and the site's
    classifiers.
    """

    methods: tuple[str, ...]
    correct: Int64[np.ndarray, "methods"]
    total: Int64[np.ndarray, "methods"]


@dataclass(frozen=True)
class Predicted(Payload):
    """Up, once, in a run that predicts: how many instances were told their class; the rest as in `Tally`."""

    instances: int
    methods: tuple[str, ...]
    correct: Int64[np.ndarray, "methods"]
    total: Int64[np.ndarray, "methods"]


@dataclass(frozen=True)
class Predict(Payload, answer=Predicted):
    """Down, once, in a run that predicts: tell new instances their class by what an earlier run has learnt.

    Attributes
    ----------
    alpha : ndarray
        ``(k,)``.
    clusterings : tuple of str
        Names of all clusterings of that run, and in `beta` their tables ``(k, k_m)``.
    tolerance, max_sweeps :
        Of the E-step, as in `EStep`.
    """

    alpha: Float64[np.ndarray, "k"]
    clusterings: tuple[str, ...]
    beta: tuple[Float64[np.ndarray, "k _"], ...]
    tolerance: float
    max_sweeps: int


@dataclass(frozen=True)
class PredictShared(Payload, answer=Starts):
    """Down, once, in a run that predicts where instances are shared: use what an earlier run has learnt.

    Attributes
    ----------
    alpha, clusterings, beta :
        As in `Predict`; clusterings whose beta is not here are the sites' own.
    session : str
        The run that has learnt: a site has the tables of its own clusterings in ``models/SESSION.npz``.
    shared : ndarray
        As in `Setup`.
    grid_bits, tolerance, max_sweeps :
        Settings of the E-step.
    """

    alpha: Float64[np.ndarray, "k"]
    clusterings: tuple[str, ...]
    beta: tuple[Float64[np.ndarray, "k _"], ...]
    session: str
    shared: Int64[np.ndarray, "shared"]
    grid_bits: int
    tolerance: float
    max_sweeps: int


@dataclass(frozen=True)
class Conclude(Payload, answer=Tally):
    """Down, once: write your instances' class probabilities to your own file, and count.

    Attributes
    ----------
    accepted : bool
        Whether the last E-step counts (as in `EStep`).
    gamma : ndarray
        Final gamma of the site's shared instances, ``(k, shared)``.
    counted : ndarray
        Which of the shared instances this site counts, so that each is counted once.
    """

    accepted: bool
    gamma: Float64[np.ndarray, "k shared"]
    counted: Int64[np.ndarray, "c"]
