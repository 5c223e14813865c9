"""Sites alone: what the center asks, what it makes of the answers, and which answers it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from numerics.gp.alone import chosen_points, number_of_groups
from numerics.gp.measurements import Queries
from protocols.gp.payloads import FEWEST_IN_GROUP, MOST_GROUPS, ErrorsAlone
from protocols.wire.payload import PayloadError
from strategies.gp.alone import ask_alone
from strategies.gp.expert_registry import ExpertRegistry
from strategies.gp.hyperparameters import Fit
from strategies.gp.model import Model
from tests.unit.strategies.gp.test_checks import moments

N = 103


def world(n: int = N) -> tuple[Model, Queries]:
    rng = np.random.default_rng(0)
    rows = {site: (rng.normal(size=(20, 2)), 5 + rng.normal(size=20)) for site in ("a", "b")}
    registry = ExpertRegistry.of({site: moments(x, y) for site, (x, y) in rows.items()})
    queries = Queries(rng.normal(size=(n, 2)), ("a", "b"), 5 + rng.normal(size=n))
    return Model(registry, "se", 2000, Fit(np.zeros(4), 0.0, 1, True), np.zeros(0)), queries


def test_differences_and_their_errors_are_those_of_the_points_in_groups() -> None:
    model, queries = world()
    assert queries.y is not None
    units, rng = model.registry.units, np.random.default_rng(1)
    y, predictions = units.outputs(queries.y), {site: rng.normal(size=N) for site in ("a", "b")}
    conversation = ask_alone(model, queries)
    request = next(conversation)
    groups = number_of_groups(N, MOST_GROUPS, FEWEST_IN_GROUP)
    answers = {}
    for site, ask in request.asks.items():  # type: ignore[union-attr]
        np.testing.assert_allclose(ask.outputs, y)
        squares = (ask.outputs - predictions[site]) ** 2
        answers[site] = ErrorsAlone(np.array([squares[g :: ask.groups].sum() for g in range(groups)]))
        request.check(site, answers[site])  # type: ignore[union-attr]
    with pytest.raises(StopIteration) as end:
        conversation.send(answers)
    mean = 0.3 * y
    for site, found in end.value.value.differences((y - mean) ** 2, float(y.var())).items():
        alone = (y - predictions[site]) ** 2 / y.var()
        pairs = (y - mean) ** 2 / y.var() - alone
        by_group = np.array([pairs[g::groups].sum() for g in range(groups)])
        assert found.alone == pytest.approx(alone.mean())
        assert found.difference == pytest.approx(pairs.mean())
        assert found.error == pytest.approx(by_group.std(ddof=1) * np.sqrt(groups) / N)
        # Points in a random order: groups say what the points themselves would.
        assert found.error == pytest.approx(pairs.std(ddof=1) / np.sqrt(N), rel=0.5)


def test_nobody_is_asked_without_outputs_or_about_few_points() -> None:
    model, queries = world(7)
    for each in (queries, Queries(queries.x, queries.features)):
        with pytest.raises(StopIteration) as end:
            next(ask_alone(model, each))
        assert not end.value.value.losses


def test_of_many_points_some_are_asked() -> None:
    model, queries = world(2500)
    request = next(ask_alone(model, queries))
    points = request.asks["a"].points  # type: ignore[union-attr]
    np.testing.assert_array_equal(points, model.registry.units.inputs(queries.x[chosen_points(2500)]))


@pytest.mark.parametrize("squares", [np.ones(3), np.full(MOST_GROUPS, -1.0)])
def test_impossible_sums_are_refused(squares: np.ndarray) -> None:
    model, queries = world()
    request = next(ask_alone(model, queries))
    with pytest.raises(PayloadError, match="squares"):
        request.check("a", ErrorsAlone(squares))  # type: ignore[union-attr]
