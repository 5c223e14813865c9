"""Outcomes of bc3e: of one EM, and of a run."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float64, Int64

from strategies.bc3e.shared import SharedInstances


@dataclass
class EMFit:
    """Outcome of one EM.

    Attributes
    ----------
    alpha : ndarray
        ``(k,)`` parameters of the Dirichlet prior.
    beta : dict[str, ndarray]
        ``(k, k_m)`` tables of the common clusterings and confusion matrices, by name.
    bound : float
        Evidence lower bound (eq. 3) at alpha and beta.
    rounds : int
        Number of E-steps.
    converged : bool
        Whether the fit stopped by its rule (``bc3e.stop``).
    bounds : list of float
        Bound after every accepted E-step.
    changed : list of float
        Share of the instances whose class changed, in every accepted E-step.
    accepted : dict[str, bool]
        Whether the last E-step of a site was accepted, by site.
    shared : SharedInstances or None
        Gamma of the instances that several sites hold.
    mass : dict
        Sums ``T_m`` of a site's private instances in the last accepted E-step, by site and common clustering; empty
        with secure aggregation.
    left_out : list of str
        Sites whose sums contradicted those of the others, and did not count from then on (``bc3e.robust``).
    draws : int
        Draws of theta that an instance's class counts for; 0: classifiers vote.
    pivot : dict[str, int]
        The site whose sums alone decide the draws of a class, and the draws without it; empty if none or several
        decide.
    gain : float
        `numerics.bc3e.reliability.mean_gain` of the clusterings; 0 if it does not choose the draws.
    instances : int
        Number of instances in the sums of the last accepted E-step.
    labels : dict[str, int]
        Number of these instances with a label, by common clustering and confusion matrix.
    """

    alpha: Float64[np.ndarray, "k"]
    beta: dict[str, Float64[np.ndarray, "k k_m"]]
    bound: float = -np.inf
    rounds: int = 0
    converged: bool = False
    bounds: list[float] = field(default_factory=list)
    changed: list[float] = field(default_factory=list)
    accepted: dict[str, bool] = field(default_factory=dict)
    shared: SharedInstances | None = None
    mass: dict[str, dict[str, Int64[np.ndarray, "k k_m"]]] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    draws: int = 0
    pivot: dict[str, int] = field(default_factory=dict)
    gain: float = 0.0
    instances: int = 0
    labels: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class FittedEnsemble:
    """Ensemble of classifiers and clusterings with its fitted parameters.

    Attributes
    ----------
    fit : EMFit
        The best fit: alpha, beta, and the bounds of its E-steps.
    correct, total : dict[str, int]
        Numbers of right decisions and of decisions with known truth, by method (``bc3e``, ``vote``, the classifiers).
    starts : int
        Number of fits.
    withheld : dict[str, int]
        By site, the percentage of its labels that it withheld, since too few of its instances have them.
    reliability : dict[str, float]
        By classifier, the estimated share of right labels; empty where classifiers vote.
    coverage : ndarray
        `strategies.bc3e.accuracy.coverage`.
    unsure : float
        Share of the instances that the sites list as unsure; each site of a shared instance counts it.
    left_out : dict[str, str]
        Sites whose holdings are unlike most others', with the reason.
    contrasts : dict[str, tuple of float]
        `strategies.bc3e.accuracy.contrasts`.
    nameless : bool
        Whether classes have no names, since there is no classifier.
    """

    fit: EMFit
    correct: dict[str, int]
    total: dict[str, int]
    starts: int
    withheld: dict[str, int] = field(default_factory=dict)
    reliability: dict[str, float] = field(default_factory=dict)
    coverage: Float64[np.ndarray, "levels 3"] = field(default_factory=lambda: np.zeros((0, 3)))
    unsure: float = 0.0
    left_out: dict[str, str] = field(default_factory=dict)
    contrasts: dict[str, tuple[float, float]] = field(default_factory=dict)
    nameless: bool = False

    @property
    def measure(self) -> dict[str, float]:
        """Numbers for the progress line of the last round."""
        return {"bound": self.fit.bound}
