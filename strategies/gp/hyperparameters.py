"""The hyperparameters that all experts share, and the gate's network: what is learnt in rounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64

from numerics.gp.gates.network import Network, drawn_rows, from_moments
from numerics.gp.hyperparameter_search import TOLERANCE, Evaluations, Scoring, pooled_starts
from numerics.gp.kernels import Kernel
from numerics.gp.likelihood import start_theta, theta_bounds
from numerics.shared.exact_sum import exact_sum
from numerics.shared.threads import single_threaded
from protocols.gp.payloads import LARGEST, NO_VALUE, Evaluate, Likelihood, Moments, Slope, Train
from protocols.secure_aggregation.masking import FEWEST_SITES
from protocols.wire.payload import PayloadError
from protocols.wire.vector_encoding import Sum
from strategies.conversation import Check, Conversation, Tell
from strategies.errors import FusionError
from strategies.gp.federation import Federation, own_choice
from strategies.secure_aggregation import Masking, Total

ROUNDING = 1e-8
"""By how much a matrix of numbers up to 1 may fail to be positive semidefinite."""
Theta = Float64[np.ndarray, "p"]


@dataclass(frozen=True, eq=False)
class Fit:
    """The hyperparameters found.

    Attributes
    ----------
    theta : ndarray
        ``(p,)`` the kernel's parameters and the logarithm of the noise's standard deviation.
    log_likelihood : float
        Sum over the experts of the log marginal likelihood, per row.
    rounds : int
        Asks that it took.
    converged : bool
        Whether the search ended because little was left to be gained.
    """

    theta: Theta
    log_likelihood: float
    rounds: int
    converged: bool


def starts(answers: Mapping[str, Moments], federation: Federation, kernel: Kernel) -> Float64[np.ndarray, "s p"]:
    """Where the search begins: what the sites would choose, together and each for itself, and the usual start."""
    choices = {site: own_choice(answers[site], kernel, federation.units) for site in federation.counts}
    own = {site: theta for site, theta in choices.items() if theta is not None}
    usual = start_theta(kernel)
    if not own:
        return usual[np.newaxis]
    informations = np.stack([symmetric(answers[site].information, len(usual)) for site in own])
    with single_threaded():
        return pooled_starts(
            usual, np.stack(list(own.values())), informations, [federation.rows_of(site) for site in own]
        )


def symmetric(upper: Float64[np.ndarray, "... q"], size: int) -> Float64[np.ndarray, "... p p"]:
    """Symmetric matrices from their upper triangles, row by row."""
    rows, columns = np.triu_indices(size)
    matrices = np.zeros((*upper.shape[:-1], size, size))
    matrices[..., rows, columns] = matrices[..., columns, rows] = upper
    return matrices


def fit(
    federation: Federation,
    kernel: Kernel,
    text: str,
    first: Float64[np.ndarray, "s p"],
    max_rows: int,
    *,
    candidates: int,
    most_asks: int,
    masking: Masking | None = None,
) -> Conversation[Fit]:
    """Maximise the sum of the experts' log marginal likelihoods (papers/gp_experts.txt, eq. 1).

    Parameters
    ----------
    federation : Federation
        Whose experts.
    kernel, text
        The kernel, and what it is called on the wire.
    first : ndarray
        ``(s, p)`` where to begin.
    max_rows : int
        Of an expert.
    candidates, most_asks : int
        Of `Scoring`.
    masking : Masking, optional
        By which the sum over sites alone is seen: `Scoring` then knows one site, that of the sum.
    """
    with single_threaded():  # the same candidates wherever the center runs
        scoring = Scoring(theta_bounds(kernel), first, candidates=candidates, most_asks=most_asks)
    # Sites go by their place, for a sum over them must not depend on their names.
    place = {site: f"{number:06d}" for number, site in enumerate(federation.counts)}
    rows = {site: federation.rows_of(site) for site in place}
    while not scoring.done:
        thetas = scoring.candidates
        asks = {site: Evaluate(**federation.agreed(site, max_rows), kernel=text, thetas=thetas) for site in place}
        measure = {"log_likelihood": scoring.value} if scoring.asks else {}
        if masking is None:
            answers: dict[str, Likelihood] = yield Tell(asks, check=_check_likelihood(thetas, rows), measure=measure)
        else:
            total = yield from masking.total(asks, _no_likelihood(thetas), measure=measure)
            rows[total.name] = sum(rows[site] for site in total.sites)
            answers = _as_answer(total, _check_likelihood(thetas, rows))
        if not answers:
            raise FusionError("no site answers with the likelihood of its outputs")
        told = {place.get(site, site): _evaluations(answer) for site, answer in answers.items()}
        with single_threaded():
            scoring.tell(told, {place.get(site, site): rows[site] for site in answers})
        if not np.isfinite(scoring.value):
            raise FusionError(
                "the likelihood can be computed with no hyperparameters that were tried: try another gp.kernel"
            )
    converged = scoring.asks < most_asks or max(scoring.gain, scoring.promised) <= TOLERANCE
    return Fit(scoring.theta, scoring.value, scoring.asks, converged)


def _no_likelihood(thetas: Float64[np.ndarray, "c p"]) -> Likelihood:
    """An answer of no rows."""
    n_candidates, size = thetas.shape
    upper = np.zeros((n_candidates, size * (size + 1) // 2))
    return Likelihood(np.zeros(n_candidates), np.zeros_like(thetas), upper)


def _as_answer(total: Total[Sum], check: Check) -> dict[str, Sum]:
    """A sum as what one site answers, held against what holds for that; nobody knows whose part it is if not."""
    try:
        check(total.name, total.sum)
    except PayloadError as error:
        raise FusionError(f"secure-aggregation: {total.name} is none that their rows can have ({error})") from None
    return {total.name: total.sum}


def _evaluations(answer: Likelihood) -> Evaluations:
    values = np.where(_has_value(answer.values), answer.values, -np.inf)
    return Evaluations(values, answer.gradients, symmetric(answer.informations, answer.gradients.shape[1]))


def _check_likelihood(thetas: Float64[np.ndarray, "c p"], rows: Mapping[str, int]) -> Check:
    n_candidates, size = thetas.shape
    expected = {
        "values": (n_candidates,),
        "gradients": (n_candidates, size),
        "informations": (n_candidates, size * (size + 1) // 2),
    }
    # Of no outputs is the density larger than that of the noise alone at its middle.
    densest = -0.5 * np.log(2 * np.pi) - thetas[:, -1]

    def check(site: str, answer: Likelihood) -> None:
        def refuse(field: str, problem: str) -> None:
            raise PayloadError(answer.title(), field, problem)

        for name, shape in expected.items():
            told = getattr(answer, name)
            if told.shape != shape:
                refuse(name, f"expected {shape}, got {told.shape}")
            numbers = told[_has_value(told)] if name == "values" else told
            if np.abs(numbers).max(initial=0.0) > LARGEST:
                refuse(name, f"expected numbers up to {LARGEST:g}")
        most = rows[site] * densest
        if (answer.values > most + 1e-6 * np.abs(most) + 1e-6).any():
            refuse("values", "expected log likelihoods of its rows, which the noise bounds")
        if not all(is_information(each) for each in symmetric(answer.informations, size)):
            refuse("informations", "expected positive semidefinite matrices")

    return check


def _has_value(values: Float64[np.ndarray, "c"]) -> Bool[np.ndarray, "c"]:
    """Which of the log likelihoods of a site, or of several together, could be computed."""
    return values > NO_VALUE / 2


def is_information(matrix: Float64[np.ndarray, "p p"]) -> bool:
    """Whether a symmetric matrix of usual numbers is positive semidefinite, but for rounding."""
    largest = float(np.abs(matrix).max(initial=0.0))
    return largest == 0 or (largest <= LARGEST and float(np.linalg.eigvalsh(matrix)[0]) >= -ROUNDING * largest)


# -- the gate's network -----------------------------------------------------------------------------------------------


def train(
    federation: Federation,
    network: Network,
    seed: int,
    n_rounds: int,
    max_rows: int,
    masking: Masking | None = None,
) -> Conversation[Float64[np.ndarray, "w"]]:
    """Teach the network whose rows are whose, by full-batch steps (papers/gp_experts.txt, Algorithm 3).

    The sites' gradients are summed, so that every step is that of all rows in one place; averages of networks that
    each know one class only would not be. For the rows of a site that takes no part, or does not answer, points stand
    in that are drawn from its moments: without any the network would unlearn its experts.

    Raises
    ------
    FusionError
        If some sites consent to take part, but fewer than a masked sum needs.
    """
    with single_threaded():
        weights, adam = from_moments(network, federation.experts, seed)
        points, label = drawn_rows(federation.experts, seed)
    n = federation.n_rows
    best, least, nothing = weights, np.inf, Slope(0.0, np.zeros(network.size))
    taking_part = federation.willing("allow-gate-training")
    if masking and 0 < len(taking_part) < FEWEST_SITES:
        raise FusionError(
            f"gp.gate=dnn: {', '.join(sorted(taking_part))} alone set allow-gate-training=true in their node"
            f" configuration; under secure-aggregation {FEWEST_SITES} sites or more train the gate, or none"
        )
    for _ in range(n_rounds if taking_part else 0):
        asks = {
            site: Train(
                **federation.agreed(site, max_rows),
                hidden=network.hidden,
                n_experts=network.experts,
                experts=federation.places[site],
                weights=weights,
            )
            for site in taking_part
        }
        measure = {"gate_loss": least} if np.isfinite(least) else {}
        check = _check_slope(network.size)
        if masking is None:
            answers: dict[str, Slope] = yield Tell(asks, check=check, measure=measure)
            answered = tuple(answers)
        else:
            total = yield from masking.total(asks, nothing, measure=measure)
            answered, answers = total.sites, _as_answer(total, check)
        there = [federation.places[site] for site in answered]
        absent = ~np.isin(label, np.concatenate([np.zeros(0, np.int64), *there]))
        with single_threaded():
            loss, gradient = network.gradient(weights, points[absent], label[absent])
        each = n / len(label)  # rows that a point stands for
        slopes = [nothing, *answers.values()]
        told = exact_sum([slope.gradient for slope in slopes])
        loss = (loss * each + float(exact_sum([np.array(slope.loss) for slope in slopes]))) / n
        if loss < least:
            best, least = weights, loss
        weights, adam = adam.step(weights, (gradient * each + told) / n)
    return best


def _check_slope(size: int) -> Check:
    def check(site: str, answer: Slope) -> None:
        if len(answer.gradient) != size:
            raise PayloadError(answer.title(), "gradient", f"expected {size} numbers, got {len(answer.gradient)}")
        if np.abs(answer.gradient).max() > LARGEST:
            raise PayloadError(answer.title(), "gradient", f"expected numbers up to {LARGEST:g}")
        if not 0 <= answer.loss <= LARGEST:
            raise PayloadError(answer.title(), "loss", f"expected a cross-entropy, from 0 to {LARGEST:g}")

    return check
