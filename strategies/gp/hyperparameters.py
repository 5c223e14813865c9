"""Search for the hyperparameters that all experts share, in rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from jaxtyping import Bool, Float64

from numerics.gp.hyperparameter_search import POOLED_STARTS, TOLERANCE, Evaluations, Scoring, pooled_starts
from numerics.gp.kernels import Kernel
from numerics.gp.likelihood import start_theta, theta_bounds
from numerics.shared.exact_sum import exact_sum
from numerics.shared.threads import single_threaded
from protocols.gp.payloads import LARGEST, NO_VALUE, Evaluate, Likelihood, Moments
from protocols.wire.payload import PayloadError
from strategies.conversation import Check, Conversation
from strategies.errors import FusionError
from strategies.gp.expert_registry import ExpertRegistry, own_choice
from strategies.secure_aggregation import Masking, ask_plain_or_masked

ROUNDING = 1e-8
"""Largest size of a negative eigenvalue that rounding gives a positive semidefinite matrix of numbers up to 1."""
MOST_PULL = 0.2
"""Largest gain of the others' log likelihood per row without a site that honest sites with alike rows bring."""
Theta = Float64[np.ndarray, "p"]


@dataclass(frozen=True, eq=False)
class Fit:
    """The best hyperparameters, and the end of the search for them.

    Attributes
    ----------
    theta : ndarray
        ``(p,)`` parameters of the kernel, and the logarithm of the noise's standard deviation.
    log_likelihood : float
        Sum over the experts of the log marginal likelihood, per row.
    rounds : int
        Number of asks.
    converged : bool
        Whether the search ended because the likelihood hardly rose any more.
    pulls : Mapping[str, float]
        By site, the gain of the others' log likelihood per row at the best candidate without it
        (`numerics.gp.hyperparameter_search.Scoring.pulls`); empty if unknown.
    left_out : tuple of str
        Sites whose likelihoods do not count, since they pulled the others (``gp.robust``).
    alternatives : ndarray
        ``(a, p)`` likely starts of the search, none a single site's own; they may lie near another optimum.
    """

    theta: Theta
    log_likelihood: float
    rounds: int
    converged: bool
    pulls: Mapping[str, float] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    alternatives: Float64[np.ndarray, "a p"] = field(default_factory=lambda: np.zeros((0, 0)))

    @property
    def notable_pulls(self) -> dict[str, float]:
        """Sites without which the hyperparameters would fit the others notably better, with the gain."""
        return {site: pull for site, pull in self.pulls.items() if pull > MOST_PULL}

    @property
    def noise(self) -> float:
        """Variance of the noise."""
        return float(np.exp(2 * self.theta[-1]))


def favored(kernels: Sequence[str], answers: Mapping[str, Moments]) -> str:
    """Return the kernel that the sites' rows favor.

    A site's rows favor a kernel by its log likelihood per row over that of the first kernel; the median over the rows
    of all sites decides. So sites with less than half of the rows cannot decide for the others, whatever they say.
    """
    sites = [answer for answer in answers.values() if len(answer.likelihoods)]
    if not sites:
        return kernels[0]
    gains = np.stack([answer.likelihoods - answer.likelihoods[0] for answer in sites])
    rows = np.array([answer.counts.sum() for answer in sites])
    order = np.argsort(gains, axis=0, kind="stable")
    reached = 2 * np.cumsum(rows[order], axis=0) >= rows.sum()
    medians = np.take_along_axis(gains, order, axis=0)[reached.argmax(axis=0), np.arange(len(kernels))]
    return kernels[int(medians.argmax())]


def starts(answers: Mapping[str, Moments], registry: ExpertRegistry, kernel: Kernel) -> Float64[np.ndarray, "s p"]:
    """Return the ``(s, p)`` starts of the search: the sites' pooled choice, each site's own, and the usual start.

    A site's own is that of the kernel which its rows favor, perhaps another one with the same parameters.
    """
    choices = {site: own_choice(answers[site], kernel, registry.units) for site in registry.learning}
    own = {site: theta for site, theta in choices.items() if theta is not None}
    usual = start_theta(kernel)
    if not own:
        return usual[np.newaxis]
    informations = np.stack([symmetric(answers[site].information, len(usual)) for site in own])
    with single_threaded():
        return pooled_starts(
            usual, np.stack(list(own.values())), informations, [registry.learning_rows_of(site) for site in own]
        )


def symmetric(upper: Float64[np.ndarray, "... q"], size: int) -> Float64[np.ndarray, "... p p"]:
    """Build symmetric matrices from their upper triangles, row by row.

    Examples
    --------
    >>> symmetric(np.array([1.0, 2.0, 3.0]), size=2).tolist()
    [[1.0, 2.0], [2.0, 3.0]]
    """
    rows, columns = np.triu_indices(size)
    matrices = np.zeros((*upper.shape[:-1], size, size))
    matrices[..., rows, columns] = matrices[..., columns, rows] = upper
    return matrices


def fit(
    registry: ExpertRegistry,
    kernel: Kernel,
    text: str,
    first: Float64[np.ndarray, "s p"],
    max_rows: int,
    *,
    candidates: int,
    most_asks: int,
    masking: Masking | None = None,
    robust: bool = False,
) -> Conversation[Fit]:
    """Maximize the sum of the experts' log marginal likelihoods (Jalali and Kasneci 2022, eq. 1).

    Parameters
    ----------
    registry : ExpertRegistry
        The experts. Remote sites have no part in the sum.
    kernel, text
        The kernel, and its text on the wire.
    first : ndarray
        ``(s, p)`` starts of the search.
    max_rows : int
        Largest number of rows of an expert.
    candidates, most_asks : int
        Parameters of `Scoring`.
    masking : Masking, optional
        Secure aggregation: the center sees the sum over sites only, which `Scoring` takes for the answer of one site.
    robust : bool
        Whether sites that pull the others (`Fit.notable_pulls`) are left out, one after the other.
    """
    with single_threaded():  # gives the same candidates for any number of cores
        scoring = Scoring(theta_bounds(kernel), first, candidates=candidates, most_asks=most_asks)
    # Sites are named by their place, because a sum over them must not depend on their own names.
    place = {site: f"{number:06d}" for number, site in enumerate(registry.learning)}
    site_at, left_out = {number: site for site, number in place.items()}, []
    alternatives: Float64[np.ndarray, "a p"] = first[:0]
    while not scoring.done:
        thetas = scoring.candidates
        asks = {site: Evaluate(**registry.agreement(site, max_rows), kernel=text, thetas=thetas) for site in place}
        measure = {"log_likelihood": scoring.value} if scoring.asks else {}
        answers: Mapping[tuple[str, ...], Likelihood] = yield from ask_plain_or_masked(
            asks, _no_likelihood(thetas), partial(_check_likelihood, registry, thetas), masking, measure=measure
        )
        if not answers:
            raise FusionError("no site answered with the likelihood of its outputs")
        evaluations = {place[sites[0]]: _evaluations(answer) for sites, answer in answers.items()}
        rows = {place[sites[0]]: sum(map(registry.learning_rows_of, sites)) for sites in answers}
        with single_threaded():
            if not scoring.asks:
                alternatives = _likely(thetas, evaluations, sum(rows.values()))
            scoring.update(evaluations, rows)
            pulls = scoring.pulls() if robust else {}
            worst = max(pulls, key=pulls.__getitem__, default="")
            if worst and pulls[worst] > MOST_PULL:
                scoring.leave_out(worst)
                left_out.append(site_at[worst])
                del place[site_at[worst]]
        if not np.isfinite(scoring.value):
            raise FusionError(
                "the likelihood cannot be computed for any of the hyperparameters that were tried: try another"
                " gp.kernel"
            )
    converged = scoring.asks < most_asks or max(scoring.gain, scoring.predicted_gain) <= TOLERANCE
    pulls = {} if masking else {site_at[number]: pull for number, pull in scoring.pulls().items()}
    return Fit(scoring.theta, scoring.value, scoring.asks, converged, pulls, tuple(left_out), alternatives)


def _likely(
    thetas: Float64[np.ndarray, "c p"], answers: Mapping[str, Evaluations], n_rows: int
) -> Float64[np.ndarray, "a p"]:
    """Return the pooled starts whose log likelihood per row is at most `MOST_PULL` below that of the best start.

    So a site that lies about its errors chooses among hyperparameters that are likely by the rows of all.
    """
    values = exact_sum([np.maximum(answer.values, NO_VALUE) for answer in answers.values()]) / n_rows
    return np.asarray(thetas[:POOLED_STARTS][values[:POOLED_STARTS] >= values.max() - MOST_PULL])


def _no_likelihood(thetas: Float64[np.ndarray, "c p"]) -> Likelihood:
    """Return the answer of a site without rows."""
    n_candidates, size = thetas.shape
    upper = np.zeros((n_candidates, size * (size + 1) // 2))
    return Likelihood(np.zeros(n_candidates), np.zeros_like(thetas), upper)


def _evaluations(answer: Likelihood) -> Evaluations:
    values = np.where(_has_value(answer.values), answer.values, -np.inf)
    return Evaluations(values, answer.gradients, symmetric(answer.informations, answer.gradients.shape[1]))


def _check_likelihood(
    registry: ExpertRegistry, thetas: Float64[np.ndarray, "c p"], sites_of: Mapping[str, tuple[str, ...]]
) -> Check:
    n_candidates, size = thetas.shape
    expected = {
        "values": (n_candidates,),
        "gradients": (n_candidates, size),
        "informations": (n_candidates, size * (size + 1) // 2),
    }
    # No density of outputs is larger than that of the noise alone at its mean.
    densest = -0.5 * np.log(2 * np.pi) - thetas[:, -1]
    if registry.classes:
        noise = np.exp(2 * thetas[:, -1]) + registry.row_noise
        densest = -0.5 * registry.n_outputs * np.log(2 * np.pi * noise)

    def check(site: str, answer: Likelihood) -> None:
        def refuse(field: str, problem: str) -> None:
            raise PayloadError(answer.title(), field, problem)

        for name, shape in expected.items():
            value = getattr(answer, name)
            if value.shape != shape:
                refuse(name, f"expected {shape}, got {value.shape}")
            numbers = value[_has_value(value)] if name == "values" else value
            if np.abs(numbers).max(initial=0.0) > LARGEST:
                refuse(name, f"expected numbers up to {LARGEST:g}")
        most = sum(map(registry.learning_rows_of, sites_of[site])) * densest
        if (answer.values > most + 1e-6 * np.abs(most) + 1e-6).any():
            refuse("values", "expected log likelihoods within the bound that the noise sets")
        if not all(is_information(each) for each in symmetric(answer.informations, size)):
            refuse("informations", "expected positive semidefinite matrices")

    return check


def _has_value(values: Float64[np.ndarray, "c"]) -> Bool[np.ndarray, "c"]:
    """Return a mask of the log likelihoods, of a site or of a sum of sites, that could be computed."""
    return values > NO_VALUE / 2


def is_information(matrix: Float64[np.ndarray, "p p"]) -> bool:
    """Return whether a symmetric matrix of numbers up to `LARGEST` is positive semidefinite up to rounding.

    Examples
    --------
    >>> is_information(np.eye(2)), is_information(-np.eye(2))
    (True, False)
    """
    largest = float(np.abs(matrix).max(initial=0.0))
    return largest == 0 or (largest <= LARGEST and float(np.linalg.eigvalsh(matrix)[0]) >= -ROUNDING * largest)
