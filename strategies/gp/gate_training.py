"""Training of the gate's network, in rounds."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float64

from numerics.gp.gates.network import Network, from_moments, sample_rows
from numerics.shared.exact_sum import exact_sum
from numerics.shared.threads import single_threaded
from protocols.gp.payloads import LARGEST, Slope, Train
from protocols.secure_aggregation.masking import FEWEST_SITES
from protocols.wire.payload import PayloadError
from strategies.conversation import Check, Conversation
from strategies.errors import FusionError
from strategies.gp.expert_registry import ExpertRegistry
from strategies.secure_aggregation import Masking, ask_plain_or_masked


def train(
    registry: ExpertRegistry,
    network: Network,
    seed: int,
    n_rounds: int,
    max_rows: int,
    masking: Masking | None = None,
) -> Conversation[Float64[np.ndarray, "w"]]:
    """Train the network to classify rows by expert, in full-batch steps (Jalali and Kasneci 2022, Algorithm 3).

    The sites' gradients are summed, so every step is that of training on all rows in one place. An average of networks
    would not be: each would know one class only. If a site takes no part, or does not answer, points drawn from its
    moments replace its rows; without them, the network would unlearn the site's experts.

    Raises
    ------
    FusionError
        If some sites consent to take part, but fewer of them than secure aggregation needs.
    """
    with single_threaded():
        weights, adam = from_moments(network, registry.moments, seed)
        points, label = sample_rows(registry.moments, seed)
    n = registry.n_rows
    best, least, no_rows = weights, np.inf, Slope(0.0, np.zeros(network.size))
    taking_part, check = registry.willing("allow-gate-training"), _check_slope(network.size)
    if masking and 0 < len(taking_part) < FEWEST_SITES:
        raise FusionError(
            f"gp.gate=dnn: only {', '.join(sorted(taking_part))} set allow-gate-training=true in their node"
            f" configuration; with secure-aggregation, {FEWEST_SITES} sites or more must, or none"
        )
    for _ in range(n_rounds if taking_part else 0):
        asks = {
            site: Train(
                **registry.agreement(site, max_rows),
                hidden=network.hidden,
                n_experts=network.experts,
                experts=registry.places[site],
                weights=weights,
            )
            for site in taking_part
        }
        measure = {"gate_loss": least} if np.isfinite(least) else {}
        answers: Mapping[tuple[str, ...], Slope] = yield from ask_plain_or_masked(
            asks, no_rows, lambda _: check, masking, measure=measure
        )
        places = [registry.places[site] for sites in answers for site in sites]
        absent = ~np.isin(label, np.concatenate([np.zeros(0, np.int64), *places]))
        with single_threaded():
            loss, gradient = network.gradient(weights, points[absent], label[absent])
        rows_per_point = n / len(label)
        slopes = [no_rows, *answers.values()]
        row_gradient = exact_sum([slope.gradient for slope in slopes])
        loss = (loss * rows_per_point + float(exact_sum([np.array(slope.loss) for slope in slopes]))) / n
        if loss < least:
            best, least = weights, loss
        weights, adam = adam.step(weights, (gradient * rows_per_point + row_gradient) / n)
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
