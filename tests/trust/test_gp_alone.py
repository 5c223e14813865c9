"""A center that makes up the test points of `PredictAlone`: what it reads of a site, and what it does not.

It does not choose the hyperparameters, which are the site's own. With all points of a group at one place, its sum of
squares is that of the site's prediction there: 25 predictions in a run, rounded as others are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clients.gp.experts import expert_of, in_own_units
from clients.gp.own_fit import best_fit_of
from clients.site import Site
from protocols.gp.payloads import FEWEST_IN_GROUP, MOST_GROUPS, PredictAlone
from tests.support.gp_sites import (
    SITES,
    agreed_fields,
    ask,
    assert_refused,
    site_of,
    soundings,
    split_over_sites,
    write_files,
)

N = 480
_FAR = 3.0


def crafted(places: np.ndarray, output: float, **fields: Any) -> PredictAlone:
    """Every group's points are all at one of 25 places, and their outputs are the same."""
    groups = len(places)
    points = np.tile(places, (FEWEST_IN_GROUP, 1))
    return PredictAlone(**fields, kernel="se", points=points, outputs=np.full(len(points), output), groups=groups)


def site_and_fields(tmp_path: Path, noise: float) -> tuple[Site, dict[str, Any]]:
    frame = soundings(N).assign(grade=lambda rows: rows["grade"] + noise * np.random.default_rng(3).normal(size=N))
    folder = write_files(tmp_path / "files", split_over_sites(frame, "random"))
    site = site_of(tmp_path, data=str(folder / f"{SITES[0]}.csv"))
    rows = site.shard
    own = in_own_units(rows).units
    fields = agreed_fields(
        counts=np.array([rows.n]), mean=own.mean, scale=own.scale, y_mean=own.y_mean, y_scale=own.y_scale
    )
    return site, fields


def test_it_reads_predictions_at_25_places_and_no_more(tmp_path: Path) -> None:
    site, fields = site_and_fields(tmp_path, 0.0)
    part = in_own_units(site.shard).part
    places = part.x[:MOST_GROUPS]
    answer = ask(site, crafted(places, _FAR, **fields))
    read = _FAR - np.sqrt(answer.squares / FEWEST_IN_GROUP)
    theta = tuple(best_fit_of("se", part).theta.tolist())
    mean, explained = expert_of(part, "se", theta).predict(places)
    deviation = np.sqrt(np.exp(2 * theta[-2]) - explained + np.exp(2 * theta[-1]))
    # That is what it reads: the predictions but for their rounding, a quarter of a deviation or less.
    assert (np.abs(read - mean) <= 0.13 * deviation + 0.01).all()
    # Another center's points, or the same with other outputs, are refused for the rest of the run.
    assert_refused(site, crafted(places, -_FAR, **fields))
    assert_refused(site, crafted(places + 0.1, _FAR, **fields))


@pytest.mark.parametrize("noise", [5.0, 40.0])
def test_whoever_knows_the_inputs_of_a_row_reads_its_output_hardly_better_than_from_the_others(
    tmp_path: Path, noise: float
) -> None:
    """The error of a row's output, read so, is not much less than that of a prediction from all other rows."""
    site, fields = site_and_fields(tmp_path, noise)
    part = in_own_units(site.shard).part
    read = _FAR - np.sqrt(ask(site, crafted(part.x[:MOST_GROUPS], _FAR, **fields)).squares / FEWEST_IN_GROUP)
    errors = np.abs(read - part.y[:MOST_GROUPS])
    theta = tuple(best_fit_of("se", part).theta.tolist())
    others = np.abs(expert_of(part, "se", theta).left_out().errors[:MOST_GROUPS])
    print(f"noise {noise}: median {np.median(errors):.3f}, from the others {np.median(others):.3f}")
    assert np.median(errors) > 0.6 * np.median(others)


def test_of_classes_it_reads_probabilities(tmp_path: Path) -> None:
    frame = soundings(120).assign(grade=lambda rows: np.where(rows["grade"] > rows["grade"].median(), "rich", "poor"))
    folder = write_files(tmp_path / "files", split_over_sites(frame, "random"))
    site = site_of(tmp_path, data=str(folder / f"{SITES[0]}.csv"))
    rows = site.shard
    own = in_own_units(rows)
    assert own.latent is not None
    fields = agreed_fields(
        counts=np.array([rows.n]), mean=own.units.mean, scale=own.units.scale, y_mean=0.0, y_scale=own.latent.scale,
        classes=("poor", "rich"), class_means=own.latent.means,
    )  # fmt: skip
    answer = ask(site, crafted(own.part.x[:MOST_GROUPS], 1.0, **fields))
    rich = np.exp(-answer.squares / FEWEST_IN_GROUP)
    assert ((rich > 0) & (rich < 1)).all()
    # No probability is so sure that it would show a single row's class.
    assert rich.max() <= 1 - 1 / (2 * (rows.n + 1))
    assert rich.min() >= 1 / (2 * (rows.n + 1)) * 0.9
    assert_refused(site, crafted(own.part.x[:MOST_GROUPS], 0.5, **fields))
