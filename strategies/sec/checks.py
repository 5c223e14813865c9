"""Checks of what learners answer: numbers that no learner can have are refused."""

from __future__ import annotations

from collections.abc import Mapping

from numerics.shared.classification import BINS, SCORES
from protocols.sec.payloads import LARGEST_ERROR, Errors, Losses, Predict, Rows
from protocols.wire.payload import PayloadError
from strategies.conversation import Check
from strategies.sec.learners import Learners

_NONE = (0, 0)
"""Shape of a table that does not apply."""
_MOST_NOISE = 1e3
"""Largest standard deviation of the noise in a loss: a site of five rows and a million models has one of 500."""


def _check_noise(answer: Losses | Errors) -> None:
    if not 0 <= answer.noise <= _MOST_NOISE:
        raise PayloadError(answer.title(), "noise", f"expected a share from 0 to {_MOST_NOISE:g}")


def check_rows(learners: Learners) -> Check:
    """Return a check of the rows that learners send to be pooled."""

    def check(site: str, answer: Rows) -> None:
        profile = learners.profiles[site]
        expected = len(profile.features)
        if answer.x.shape[1] != expected:
            raise PayloadError(answer.title(), "x", f"expected {expected} columns, got {answer.x.shape[1]}")
        if len(answer.y) not in (0, profile.n):
            raise PayloadError(
                answer.title(),
                "y",
                f"expected none or the {profile.n} rows that are not held out, got {len(answer.y)}",
            )

    return check


def check_losses(senders: Mapping[str, tuple[str, ...]]) -> Check:
    """Return a check of the losses of foreign models."""

    def check(site: str, answer: Losses) -> None:
        expected = len(senders[site])
        if len(answer.losses) != expected:
            raise PayloadError(answer.title(), "losses", f"expected {expected} numbers, got {len(answer.losses)}")
        if ((answer.losses < 0) | (answer.losses > LARGEST_ERROR)).any():
            raise PayloadError(answer.title(), "losses", f"expected mean squared errors from 0 to {LARGEST_ERROR:g}")
        _check_noise(answer)

    return check


def check_errors(asks: Mapping[str, Predict], learners: Learners) -> Check:
    """Return a check of the errors of combinations, and of their scores where there are classes."""
    k = len(learners.classes)

    def check(site: str, answer: Errors) -> None:
        expected = len(asks[site].combinations)
        if len(answer.errors) != expected:
            raise PayloadError(answer.title(), "errors", f"expected {expected} numbers, got {len(answer.errors)}")
        if answer.n_test < 0 or ((answer.errors < 0) | (answer.errors > LARGEST_ERROR)).any():
            raise PayloadError(answer.title(), "errors", f"expected mean squared errors from 0 to {LARGEST_ERROR:g}")
        _check_noise(answer)
        if len(answer.deviations) != expected or ((answer.deviations < 0) | (answer.deviations > LARGEST_ERROR)).any():
            raise PayloadError(answer.title(), "deviations", f"expected {expected} numbers from 0 to {LARGEST_ERROR:g}")
        scores = answer.scores
        right = k and scores.shape == (expected, len(SCORES)) and ((scores >= 0) | (scores == -1)).all()
        if scores.shape != _NONE and not right:
            raise PayloadError(
                answer.title(), "scores", f"expected {len(SCORES)} scores of {expected} combinations, or none"
            )
        counts, points = answer.confusion, answer.reliability
        right = counts.shape == (k, k) and (counts >= 0).all() and counts.sum() == answer.n_test
        if counts.shape != _NONE and not right:
            raise PayloadError(
                answer.title(), "confusion", "is not a count of the held-out rows by true and predicted class"
            )
        if points.shape != _NONE and (
            points.shape != (3, BINS) or (points < 0).any() or points[0].sum() != answer.n_test
        ):
            raise PayloadError(answer.title(), "reliability", "are not the points of a reliability diagram")

    return check
