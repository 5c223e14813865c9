"""No rows make predictions beyond what the check allows: an honest site is never refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numerics.gp.expert import Expert
from numerics.gp.kernel_registry import kernel_of
from numerics.gp.likelihood import theta_bounds
from numerics.gp.moments import moments_of
from protocols.gp.payloads import Moments, Predict, Predictions, Rows
from protocols.wire.payload import PayloadError
from strategies.gp.checks import check_predictions, check_rows
from strategies.gp.expert_registry import ExpertRegistry
from tests.support.examples import examples

D = 2
KERNELS = ("se", "matern12", "matern52", "se + linear", "rq * periodic")


def moments(x: np.ndarray, y: np.ndarray) -> Moments:
    each = moments_of(x, y)
    nothing = np.zeros(0), np.zeros(0), np.zeros(0)
    return Moments(
        ("a", "b"), each.counts, each.means, each.covariances, each.y_mean, each.y_variance, *nothing, ()
    )  # fmt: skip


def exchange(
    seed: int, kernel: str, share: float, offset: float, n: int = 30
) -> tuple[dict[str, Predict], ExpertRegistry, np.ndarray, Predictions]:
    """What site a is asked and answers, with hyperparameters anywhere within their bounds."""
    rng = np.random.default_rng(seed)
    rows = {site: (rng.normal(size=(n, D)), offset + rng.standard_cauchy(n)) for site in ("a", "b")}
    registry = ExpertRegistry.of({site: moments(x, y) for site, (x, y) in rows.items()})
    bounds = theta_bounds(kernel_of(kernel, D))
    theta = bounds[:, 0] + rng.random(len(bounds)) * (bounds[:, 1] - bounds[:, 0])
    theta[-1] = bounds[-1, 0] + share * (bounds[-1, 1] - bounds[-1, 0])
    x, y = registry.units.inputs(rows["a"][0]), registry.units.outputs(rows["a"][1])
    points = np.vstack([x[:5], rng.normal(size=(10, D)), 100 * rng.normal(size=(5, D))])
    mean, explained = Expert(kernel_of(kernel, D), theta, x, y).predict(points)
    ask = Predict(
        **registry.agreement("a", 1000), kernel=kernel, theta=theta, points=(points,), landmarks=0, seed=0,
        varies=registry.varies, shared_rows=0, shared_x=np.zeros((0, D)), shared_y=np.zeros(0),
    )  # fmt: skip
    features = np.zeros((len(points), 0), np.float16)
    return {"a": ask}, registry, theta, Predictions((mean,), (explained,), (features,))


@examples(150)
@given(
    st.integers(0, 2**32 - 1), st.sampled_from(KERNELS), st.sampled_from([0.0, 0.3, 1.0]), st.sampled_from([0.0, 1e6])
)
def test_what_an_honest_expert_predicts_is_taken(seed: int, kernel: str, share: float, offset: float) -> None:
    asks, registry, theta, answer = exchange(seed, kernel, share, offset)
    check_predictions(asks, registry, kernel, theta)("a", answer)


@pytest.mark.parametrize("field", ["mean", "explained"])
def test_what_no_expert_predicts_is_refused(field: str) -> None:
    asks, registry, theta, answer = exchange(0, "se", 1.0, 0.0)
    noise, squares = np.exp(2 * theta[-1]), 30 * (1 + np.abs(registry.moments.y_mean[0])) ** 2 * 60
    impossible = {
        "mean": np.sqrt(squares / noise) * 100,
        "explained": 1.001 * kernel_of("se", D).diagonal(theta[:-1], np.zeros((1, D))),
    }
    lie = tuple(each + impossible[field] for each in getattr(answer, field))
    parts = {"mean": answer.mean, "explained": answer.explained, "features": answer.features, field: lie}
    with pytest.raises(PayloadError, match=f"field '{field}'"):
        check_predictions(asks, registry, "se", theta)("a", Predictions(**parts))


def test_a_site_gives_at_most_the_rows_it_was_asked_for() -> None:
    check = check_rows({"a": 4}, D)
    check("a", Rows(np.zeros((4, D)), np.zeros(4)))
    with pytest.raises(PayloadError, match="expected 4 rows at most, got 5"):
        check("a", Rows(np.zeros((5, D)), np.zeros(5)))
