"""Payloads of BC3E: what crosses the wire (Acharya, Hruschka and Ghosh 2011; docs/bc3e.md, "Who holds what").

``k`` classes; clustering m has ``k_m`` clusters. *Private* instances are held by one site alone, *shared* instances by
several. A clustering is *common* if several sites hold labels of it; its beta is then at the fusion center. It is
*own* if one site alone holds it; its beta never leaves that site.

- Row distribution: all instances are private, all clusterings common. A round is `EStep` and `Statistics` only.
- Column distribution: all instances are shared, all clusterings own.
- Arbitrary distribution: any mixture of these.
- Confusion matrices of classifiers (``bc3e.reliability``) are tables like those of the clusterings, common or own, with
  k columns and the names ``confusion:NAME``.
- Prediction after a run in the row distribution: `Predict` and `PredictionTally`, one round. Only counts reach the
  center.
- Prediction after a run in another distribution: `Survey`; `PredictShared` in place of `Setup` and `EStep`; `Sweep`
  until all shared instances have converged; `Conclude`. Nothing is learned, so only `Shares.share` is used.

What that reveals: in the row distribution, the sums of about five rounds determine the joint counts of all labels of
the site (of all sites together if masked), except for combinations of few instances, of which the site withholds
labels (`numerics.bc3e.support`). The mass of a confusion matrix reveals the number of instances of each label of a
classifier. In the other distributions, votes plus responsibilities of a shared instance reveal the labels of a site's
only model, and those of its only classifier. A site with a single model therefore refuses unless its own configuration
allows it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float64, Int64, UInt64

from protocols.budget import MODELS
from protocols.wire.payload import Payload

MOST_INSTANCES = 10**9
"""Largest number of instances of a site."""
MOST_CLASSES = 100_000
"""Largest number of classes in a site's labels: all tables have a row for each class."""
LARGEST_TABLE = 2**24
"""Largest number of entries of one clustering's beta (128 MiB): more is a mistake or an attack."""
FEW_CLASSES = 100
"""Number of classes of any number of instances; of more, `LARGEST_TABLE` also limits classes times instances."""
MOST_BITS = 52
"""Bits of the grid: as many as float64 has."""
MOST_SWEEPS = 100_000
"""Largest number of sweeps of one E-step."""
LEVELS = (0.0, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95)
"""Thresholds of the class probability: sites count the decisions at or above each."""
MOST_DRAWS = 100
"""Largest weight of an instance's class, in draws of theta."""
LARGEST_WEIGHT = 1e15
"""Largest weight of an image in a combined step: far above those of the center, and small enough for finite sums."""


@dataclass(frozen=True)
class Holdings(Payload):
    """To the center, once: what a site holds, by name and size.

    Attributes
    ----------
    instances : int
        Number of instances; if statistics are masked, `coarse_count` of it, which hides the exact number.
    n_classes : int
        Number of classes in its labels.
    classifiers, clusterings : tuple of str
        Names of its models, in alphabetical order.
    n_clusters : ndarray
        Number of clusters in the labels of each clustering.
    keys : ndarray
        Keyed hashes of its instances' names, from which the center finds the shared instances; empty in the row
        distribution.
    has_truth : bool
        Whether it has the true classes and can count correct decisions.
    """

    instances: int
    n_classes: int
    classifiers: tuple[str, ...]
    clusterings: tuple[str, ...]
    n_clusters: Int64[np.ndarray, "m"]
    keys: UInt64[np.ndarray, "n"]
    has_truth: bool


def coarse_count(n: int) -> int:
    """Round a number of instances up to a power of four, 256 at least; 0 stays 0.

    Examples
    --------
    >>> [coarse_count(n) for n in (0, 5, 256, 257, 5000)]
    [0, 256, 256, 1024, 16384]
    """
    bound = 256
    while bound < n:
        bound *= 4
    return bound if n else 0


MUCH_WITHHELD = 60
"""Percentage of a site's labels without which a run lost accuracy in drawn worlds (docs/bc3e-evidence.md)."""


def coarse_percent(share: float) -> int:
    """Round a share down to tens of percent.

    Examples
    --------
    >>> [coarse_percent(share) for share in (0.0, 0.09, 0.3, 1.0)]
    [0, 0, 30, 100]
    """
    return 10 * int(10 * share + 1e-9)


@dataclass(frozen=True)
class Survey(Payload, answer=Holdings):
    """To sites, once: asks what a site holds.

    `salt` goes into the keyed hashes; `masked` says that statistics will be masked.
    """

    distribution: str
    salt: str
    masked: bool = False


@dataclass(frozen=True)
class Starts(Payload):
    """To the center, once, column and arbitrary: ``votes + r2_n / k`` of every shared instance, on the grid."""

    start: Int64[np.ndarray, "k shared"]


@dataclass(frozen=True)
class Setup(Payload, answer=Starts):
    """To sites, once, column and arbitrary: the common sizes, and which instances are shared.

    Attributes
    ----------
    n_classes, grid_bits : int
        k, and the fineness of the grid.
    clusterings : tuple of str
        Names of all tables of this site: its clusterings and its confusion matrices. `n_clusters` has their common
        sizes.
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
    """To the center, every round: sums over the site's private instances, on the grid.

    Attributes
    ----------
    n : int
        Number of private instances, ``N_d``.
    mass : tuple of ndarray
        ``T_m`` of every common table of the ask, ``(k, k_m)`` each (eq. 7).
    log_theta : ndarray
        ``s_i = sum_n psi(gamma_ni) - psi(sum gamma_n)``, ``(k,)``.
    bound : int
        These instances' part of the bound (eq. 3).
    changed : int
        Number of these instances whose likeliest class has changed since the last accepted E-step; in the first E-step,
        of all.
    squares : ndarray
        In an E-step of the classifiers alone, for each common table the sum of squared class probabilities over the
        instances with a cluster label (0 for a confusion matrix); else empty.
    """

    n: int
    mass: tuple[Int64[np.ndarray, "k _"], ...]
    log_theta: Int64[np.ndarray, "k"]
    bound: int
    changed: int = 0
    squares: Int64[np.ndarray, "_"] = field(default_factory=lambda: np.zeros(0, np.int64))


@dataclass(frozen=True)
class EStep(Payload, answer=Statistics, spends={MODELS: 1}):
    """To sites, every round: the parameters, for an E-step over the private instances until it converges.

    Attributes
    ----------
    step : int
        Number of E-steps of this fit so far; at 0 an instance starts cold.
    accepted : bool
        Whether the center accepts the previous E-step; if not, the site returns to the state before it.
    start : int
        Start of own clusterings' beta at step 0: 0 for uniform, else the seed of random rows.
    weights : ndarray
        Weights of the last EM steps of own clusterings (numerics/bc3e/anderson.py); a single weight: the plain step.
    alpha : ndarray
        ``(k,)``.
    clusterings : tuple of str
        Names of the site's common tables, ``(k, k_m)`` in `beta`. If answers are masked, of all sites' tables; a site
        answers zeros for a model that it does not hold.
    grid_bits, tolerance, max_sweeps, smoothing :
        Settings of E-step and M-step (numerics/bc3e/e_step.py, numerics/bc3e/m_step.py).
    draws : int
        Weight of an instance's class, in draws of theta (numerics/bc3e/reliability.py); 0: classifiers vote.
    alone : bool
        Whether this is the first E-step, which uses the classifiers alone; from it the center chooses `draws`.
    classes : ndarray
        Responsibilities of the classes ``r_n`` of the site's shared instances in the previous E-step, ``(k, shared)``
        on the grid; empty unless the site alone holds confusion matrices and that step counts.
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
    draws: int = 0
    alone: bool = False
    classes: Int64[np.ndarray, "_ _"] = field(default_factory=lambda: np.zeros((0, 0), np.int64))


@dataclass(frozen=True)
class Shares(Payload):
    """To the center, every sweep, column and arbitrary: a site's part of the class scores of shared instances.

    Attributes
    ----------
    share : ndarray
        ``g_n`` of the active shared instances: votes plus the site's responsibilities, on the grid (eq. 6); without
        votes if classifiers have confusion matrices.
    mass : tuple of ndarray
        ``T_m`` of every common table, over all shared instances.
    bound : int
        Part of the bound that the clusterings contribute over all shared instances, with the prior of the site's own
        clusterings.
    products : ndarray
        Inner products of the newest step of its own clusterings' beta with earlier steps (numerics/bc3e/anderson.py).
    evidence : ndarray
        Sum over its classifiers of the log probabilities of their labels under each class, ``(k, active)``, on the
        grid; only in the first sweep of an E-step, and only if classifiers have confusion matrices. It reveals as much
        as votes: of a single classifier, its labels.
    squares : ndarray
        As in `Statistics`, over all shared instances.
    gains : ndarray
        In an E-step of the classifiers alone, `numerics.bc3e.reliability.gain` of each of the site's own clusterings,
        in the order of names: how well the clustering follows the classes of all classifiers. Else empty.
    """

    share: Int64[np.ndarray, "k active"]
    mass: tuple[Int64[np.ndarray, "k _"], ...]
    bound: int
    products: Int64[np.ndarray, "h"]
    evidence: Int64[np.ndarray, "_ _"] = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    squares: Int64[np.ndarray, "_"] = field(default_factory=lambda: np.zeros(0, np.int64))
    gains: Float64[np.ndarray, "_"] = field(default_factory=lambda: np.zeros(0))


@dataclass(frozen=True)
class Sweep(Payload, answer=Shares, spends={MODELS: 1}):
    """To sites, every sweep, column and arbitrary: ``psi(gamma_n)`` of the shared instances that have not converged.

    `active` are places among the site's shared instances, in the order of `Setup.shared`. If classifiers have confusion
    matrices, `first` marks the first sweep of an E-step. `classes` is empty, unless the center needs sums by the
    classes of this E-step: it then asks once more, with their responsibilities ``r_n``, ``(k, shared)`` on the grid.
    """

    active: Int64[np.ndarray, "active"]
    log_weights: Float64[np.ndarray, "k active"]
    classes: Int64[np.ndarray, "_ _"] = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    first: bool = False


@dataclass(frozen=True)
class Tally(Payload):
    """To the center, once: numbers of correct decisions; zeros if the site does not have the true classes.

    `methods` are ``bc3e``, ``vote`` (for private instances: no site has all votes for a shared one) and the site's
    classifiers. `withheld` is the percentage of the labels of private instances that entered no sum, because too few
    instances have them (`coarse_percent`). `reliability` is the estimated share of correct labels of each classifier
    whose confusion matrix the site alone holds, in the order of names (`numerics.bc3e.reliability.share_right`). For
    each of `LEVELS`, `sure` counts the decisions of ``bc3e`` with at least this class probability, and
    `sure_correct` the correct ones among them; both are 0 if too few decisions are above the level, or below it.
    `unsure` is the number of instances listed as unsure.
    """

    methods: tuple[str, ...]
    correct: Int64[np.ndarray, "methods"]
    total: Int64[np.ndarray, "methods"]
    withheld: int = 0
    reliability: Float64[np.ndarray, "_"] = field(default_factory=lambda: np.zeros(0))
    sure: Int64[np.ndarray, "levels"] = field(default_factory=lambda: np.zeros(0, np.int64))
    sure_correct: Int64[np.ndarray, "levels"] = field(default_factory=lambda: np.zeros(0, np.int64))
    unsure: int = 0


@dataclass(frozen=True)
class PredictionTally(Payload):
    """To the center, once, in a prediction: number of instances with a predicted class; the rest as in `Tally`."""

    instances: int
    methods: tuple[str, ...]
    correct: Int64[np.ndarray, "methods"]
    total: Int64[np.ndarray, "methods"]


@dataclass(frozen=True)
class EarlierParameters(Payload, spends={MODELS: 1}):
    """Fields of the asks of a prediction: the parameters of an earlier run.

    Attributes
    ----------
    alpha : ndarray
        ``(k,)``.
    clusterings : tuple of str
        Names of the tables of that run, ``(k, k_m)`` in `beta`; where instances are shared, the common ones only.
    tolerance, max_sweeps, draws :
        Settings of the E-step, as in `EStep`.
    """

    alpha: Float64[np.ndarray, "k"]
    clusterings: tuple[str, ...]
    beta: tuple[Float64[np.ndarray, "k _"], ...]
    tolerance: float
    max_sweeps: int
    draws: int = field(default=0, kw_only=True)


@dataclass(frozen=True)
class Predict(EarlierParameters, answer=PredictionTally):
    """To sites, once, in a prediction: asks for the classes of new instances."""


@dataclass(frozen=True)
class PredictShared(EarlierParameters, answer=Starts):
    """To sites, once, in a prediction where instances are shared: asks for the start of their E-step.

    Attributes
    ----------
    session : str
        Session of the earlier run, whose tables of own clusterings a site has in ``models/SESSION.npz``.
    shared : ndarray
        As in `Setup`.
    grid_bits : int
        Fineness of the grid.
    """

    session: str
    shared: Int64[np.ndarray, "shared"]
    grid_bits: int


@dataclass(frozen=True)
class Conclude(Payload, answer=Tally):
    """To sites, once: asks them to write class probabilities to their own files, and to count correct decisions.

    Attributes
    ----------
    accepted : bool
        Whether the center accepts the last E-step, as in `EStep`.
    gamma : ndarray
        Final gamma of the site's shared instances, ``(k, shared)``.
    counted : ndarray
        Shared instances that this site counts. Each is counted at one site.
    alpha : ndarray
        ``(k,)`` alpha of the fit if classifiers have confusion matrices: class probabilities are then those given the
        labels alone (`numerics.bc3e.reliability.class_probabilities`); else empty.
    abstain : float
        Class probability below which the site lists an instance as unsure in its own file; 0: none.
    doubt : float
        Weight of the uniform distribution in class probabilities (`numerics.bc3e.reliability.doubt_of`).
    """

    accepted: bool
    gamma: Float64[np.ndarray, "k shared"]
    counted: Int64[np.ndarray, "c"]
    alpha: Float64[np.ndarray, "_"] = field(default_factory=lambda: np.zeros(0))
    abstain: float = 0.0
    doubt: float = 0.0
