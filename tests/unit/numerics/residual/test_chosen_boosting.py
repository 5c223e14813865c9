"""Size and number of boosted trees are those with the smallest error of validation rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor

from numerics.residual import chosen_boosting
from numerics.residual.chosen_boosting import OF_STEPS, choose_boosting
from numerics.shared.threads import single_threaded

N_FIT, N, STAGES = 500, 700, 40


@pytest.mark.parametrize("seed", [0, 2, 4])
def test_the_choice_is_the_best_of_all_that_are_tried(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chosen_boosting, "STAGES", (STAGES, STAGES))
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (N, 2))
    y = np.sign(x[:, 0] * x[:, 1]) + rng.normal(size=N)
    errors = {}
    with single_threaded():
        for size in OF_STEPS:
            model = HistGradientBoostingRegressor(
                max_iter=STAGES, **size.settings(1), random_state=0, early_stopping=False
            ).fit(x[:N_FIT], y[:N_FIT])
            for place, predicted in enumerate(model.staged_predict(x[N_FIT:])):
                errors[size.leaves, place + 1] = np.mean(np.square(y[N_FIT:] - predicted))
        chosen = choose_boosting(x, y, N_FIT, steps=True)
    best = min(errors, key=lambda each: errors[each])
    assert (chosen.model.max_leaf_nodes, chosen.model.max_iter) == best
    assert np.mean(np.square(y[N_FIT:] - chosen.judged)) == pytest.approx(errors[best])
