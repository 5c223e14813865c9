"""Notes of the report."""

from __future__ import annotations

import numpy as np

from strategies.residual.notes import _overfit_notes


def test_agents_that_know_the_training_rows_by_heart_are_noted() -> None:
    [note] = _overfit_notes(np.array([0.29, 537.0, 510.0]))
    assert "0.29 on training rows, and of 537 on validation rows" in note
    assert "residual.agent" in note
    assert _overfit_notes(np.array([103.0, 213.0, 170.0])) == []
    assert _overfit_notes(np.array([0.0, 0.0, 0.0])) == []
    assert _overfit_notes(np.array([1.0, np.nan, 1.0])) == []
