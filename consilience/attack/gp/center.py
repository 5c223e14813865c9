"""A fusion center that asks a site about crafted hyperparameters, and what it claims to know from the answers."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64

from consilience.attack.interface import Claims
from consilience.attack.site import AttackedSite
from numerics.gp.dirichlet import LatentUnits, latent_units
from numerics.gp.landmarks import offsets
from numerics.gp.moments import Units
from protocols.gp.payloads import Moments, Predict, Predictions, Survey

MAX_ROWS, _LANDMARKS = 20_000, 32
STARTS = 4000
"""Number of starting points."""
_IRRELEVANT, LONGEST = 50.0, 1e4
"""Length from which on an input does not matter, and the longest at a site."""
TOLERANCE = 0.0045
"""Half the width of a claim, as a share of a column's range."""


def as_classes(moments: Moments) -> dict[str, Any]:
    """Return the fields of an ask about classes; empty for amounts."""
    if not moments.classes:
        return {}
    units = latent_of(moments)
    return {"classes": moments.classes, "class_means": units.means, "y_scale": units.scale}


def latent_of(moments: Moments) -> LatentUnits:
    """Return the units of the outputs of classes."""
    return latent_units(moments.class_counts.sum(axis=0))


class Center:
    """A fusion center that predicts with hyperparameters of its choice, given the site's moments.

    Parameters
    ----------
    site : AttackedSite
        The site.
    nearest : int
        Number of nearest rows that predict a point; 0: all rows do.
    starts : int
        Number of starting points.
    joint : bool
        Whether to ask about the landmarks, too.
    """

    def __init__(self, site: AttackedSite, nearest: int = 0, starts: int = STARTS, *, joint: bool = False) -> None:
        self.site, self.n_points, self.starts, self.joint = site, 0, starts, joint
        self.max_rows, self.nearest = 2 if nearest else MAX_ROWS, nearest
        self.moments: Moments | None = None
        if site.start_run():
            self.moments = site.ask(Survey(self.max_rows, "se", fit=True, local=nearest))

    def set_model(self, lengths: Float64[np.ndarray, "d"], scale: float, sigma: float) -> None:
        """Choose the model of the run."""
        assert self.moments is not None  # noqa: S101 - every caller has checked them
        moments, d = self.moments, len(lengths)
        self.units = Units(
            moments.means[0],
            np.sqrt(np.maximum(np.diagonal(moments.covariances[0]), 1e-12)),
            float(moments.y_means[0]),
            float(np.sqrt(max(moments.y_variances[0], 1e-12))),
        )
        self.lengths, self.prior, self.noise = lengths, scale**2, sigma**2
        self.theta = np.log([*lengths, scale, sigma])
        self.offsets = offsets(_LANDMARKS, lengths, 0, np.ones(d))
        relevant = self.offsets / lengths
        to_point = self.prior * np.exp(-0.5 * np.sum(relevant**2, axis=1))
        between = self.prior * np.exp(
            -0.5 * np.sum((relevant[:, np.newaxis] - relevant[np.newaxis]) ** 2, axis=2)
        ) - np.outer(to_point, to_point / self.prior)
        self.factor = np.linalg.cholesky(between + 1e-9 * self.prior * np.eye(_LANDMARKS))
        self.to_point = to_point

    def predict(self, points: Float64[np.ndarray, "q d"]) -> Predictions | None:
        """Ask for predictions of the site's first expert."""
        assert self.moments is not None  # noqa: S101 - every caller has checked them
        d = points.shape[1]
        self.n_points += len(points) * (1 + _LANDMARKS * self.joint)
        outputs = {"y_mean": self.units.y_mean, "y_scale": self.units.y_scale} | as_classes(self.moments)
        none = [np.zeros((0, d))] * (len(self.moments.counts) - 1)
        answer: Any = self.site.ask(
            Predict(
                max_rows=self.max_rows,
                local=self.nearest,
                counts=self.moments.counts,
                mean=self.units.mean,
                scale=self.units.scale,
                kernel="se",
                theta=self.theta,
                points=(points, *none),
                landmarks=_LANDMARKS,
                seed=0,
                varies=np.ones(d, bool),
                shared_rows=0,
                shared_x=np.zeros((0, d)),
                shared_y=np.zeros(0),
                joint=self.joint,
                **outputs,
            )
        )
        if not isinstance(answer, Predictions):
            return None
        k = len(self.moments.classes) or 1
        self.classes = answer.mean[0].reshape(-1, k).argmax(axis=1).astype(np.float64)
        # The output of the first class suffices to tell where the rows are.
        first = {each.name: tuple(array[::k] for array in getattr(answer, each.name)) for each in fields(Predictions)}
        return Predictions(**first)

    def outputs(self, mean: Float64[np.ndarray, "q"], known: Bool[np.ndarray, "q"]) -> Float64[np.ndarray, "q"]:
        """Return the outputs of these means at the points of `known`, in the data's units; of classes the likeliest."""
        assert self.moments is not None  # noqa: S101 - every caller has checked them
        return self.classes[known] if self.moments.classes else mean * self.units.y_scale + self.units.y_mean

    def steps(self, answer: Predictions, known: Bool[np.ndarray, "q"]) -> Float64[np.ndarray, "k d"]:
        """Return the offset of the nearest row from each point of `known`, if one row alone explains the answer.

        The covariances of the prediction with the function at the landmarks o are then in proportion to the kernel at
        that row: their logarithms are linear in o.
        """
        explained, active = answer.explained[0][known], self.lengths < _IRRELEVANT
        share = explained / self.prior
        features = answer.features[0][known].astype(np.float64) * np.sqrt(explained * (1 - share))[:, np.newaxis]
        ratio = (features @ self.factor.T + self.to_point * share[:, np.newaxis]) / explained[:, np.newaxis]
        relevant = (self.offsets / self.lengths)[:, active]
        logs = np.log(np.where(ratio > 1e-3, ratio, 1.0)) + 0.5 * np.sum(relevant**2, axis=1)
        weights = np.where(ratio > 1e-3, np.minimum(ratio, 1.0) ** 2, 0.0)
        columns = np.column_stack([np.ones(_LANDMARKS), relevant])
        matrix = np.einsum("za,qz,zb->qab", columns, weights, columns) + 1e-9 * np.eye(columns.shape[1])
        solution = np.linalg.solve(matrix, np.einsum("za,qz->qa", columns, weights * logs)[:, :, np.newaxis])
        steps = np.zeros((len(explained), len(self.lengths)))
        steps[:, active] = np.clip(solution[:, 1:, 0], -3.0, 3.0) * self.lengths[active]
        return steps

    def look_around(
        self, answer: Predictions, points: Float64[np.ndarray, "q d"]
    ) -> tuple[Float64[np.ndarray, "q d"], Float64[np.ndarray, "q"], Bool[np.ndarray, "q"]]:
        """Return each point's best explained landmark, the mean there, and whether a row is likely nearby."""
        share = answer.explained[0] / self.prior
        places = np.concatenate(
            [(self.to_point / self.prior)[:, np.newaxis], self.factor / np.sqrt(self.prior)], axis=1
        )
        left = np.zeros((len(points), 1 + _LANDMARKS, 1 + _LANDMARKS))
        rows, columns = np.triu_indices(_LANDMARKS)
        left[:, rows + 1, columns + 1] = left[:, columns + 1, rows + 1] = answer.further_unknown[0]
        left[:, 0, 0] = 1 - share
        left[:, 0, 1:] = left[:, 1:, 0] = -answer.features[0] * np.sqrt(share * (1 - share))[:, np.newaxis]
        means = np.concatenate([answer.mean[0][:, np.newaxis] / np.sqrt(self.prior), answer.further_mean[0]], axis=1)
        means_at = means @ places.T * np.sqrt(self.prior)
        explained = 1 - np.einsum("za,qab,zb->qz", places, left, places)
        best = explained.argmax(axis=1)
        each = np.arange(len(points))
        return points + self.offsets[best], means_at[each, best], explained[each, best] > 0.5


def claim_boxes(boxes: list[Float64[np.ndarray, "q"]], site: AttackedSite, notes: list[str]) -> Claims:
    """Claim that one row lies in each box: at these values, anywhere in the columns whose value is missing."""
    rows = np.unique(np.array(boxes).reshape(-1, site.ranges.shape[1]), axis=0)
    tolerance = TOLERANCE * np.ptp(site.ranges, axis=0)
    ends = [np.where(np.isnan(rows), sign * np.inf, rows + sign * tolerance) for sign in (-1, 1)]
    return Claims(ends[0], ends[1], np.ones(len(rows), np.int64), notes)
