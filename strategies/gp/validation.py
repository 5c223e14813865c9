"""Choice among hyperparameters by leave-one-out errors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from jaxtyping import Float64

from numerics.shared.exact_sum import exact_sum
from protocols.gp.payloads import Errors, Validate
from protocols.wire.payload import PayloadError
from strategies.conversation import Check, Conversation
from strategies.gp.expert_registry import ExpertRegistry
from strategies.gp.hyperparameters import Fit
from strategies.secure_aggregation import Masking, ask_plain_or_masked


def choose(
    registry: ExpertRegistry,
    fit: Fit,
    other: Float64[np.ndarray, "p"],
    kernel: str,
    max_rows: int,
    candidates: int,
    masking: Masking | None = None,
) -> Conversation[Fit]:
    """Choose hyperparameters by leave-one-out errors.

    With experts of nearest rows, candidates are on the line from the likeliest ones of neighborhoods to `other`. The
    likelihood of rows that lie close together prefers short lengths, that of rows far apart long ones. From several
    hundred rows of either kind, neither likelihood shows which lengths predict best from all rows (docs/gp.md).

    Otherwise candidates are the likeliest ones, and `Fit.alternatives`. Of few rows with classes, the likelihoods of
    different optima are almost equal, and their log losses are not.

    Parameters
    ----------
    registry : ExpertRegistry
        The experts.
    fit : Fit
        The likeliest hyperparameters.
    other : ndarray
        ``(p,)`` likely hyperparameters of rows drawn at random.
    kernel : str
        The kernel's text on the wire.
    max_rows : int
        Largest number of rows of an expert of fixed rows.
    candidates : int
        Number of points on the line, ends included.
    masking : Masking, optional
        Secure aggregation: the center sees the sums over sites only.
    """
    share = np.linspace(0.0, 1.0, max(2, candidates))[:, np.newaxis]
    on_line = (1.0 - share) * fit.theta + share * other
    thetas = on_line if registry.nearest else np.vstack([fit.theta, fit.alternatives])
    asks = {
        site: Validate(**registry.agreement(site, max_rows), kernel=kernel, thetas=thetas) for site in registry.learning
    }
    zero, check = Errors(np.zeros(len(thetas))), _check_errors(len(thetas))
    answers = yield from ask_plain_or_masked(asks, zero, lambda _: check, masking, needed=False)
    squares = exact_sum([zero.squares, *(answer.squares for answer in answers.values())])
    return replace(fit, theta=thetas[np.argmin(squares)], rounds=fit.rounds + 1)


def _check_errors(n_candidates: int) -> Check:
    def check(site: str, answer: Errors) -> None:
        if len(answer.squares) != n_candidates or answer.squares.min() < 0:
            raise PayloadError(answer.title(), "squares", f"expected {n_candidates} sums of squares")

    return check
