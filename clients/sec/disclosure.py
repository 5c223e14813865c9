"""Rules by which errors of other sites' models on a site's rows leave the site (numerics/sec/disclosure.py)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from clients.digest import digest_of
from clients.site import Site
from numerics.sec.disclosure import (
    DIGITS,
    guarded_deviations,
    guarded_errors,
    loss_noise,
    noise_of,
    ranks_and_noise,
    supported_predictions,
)
from numerics.sec.losses import Loss
from numerics.shared.digits import rounded
from numerics.shared.regression_rows import RegressionRows
from protocols.sec.payloads import Exchange, Pool, Predict, Select
from protocols.wire.faults import Fault, SiteFault

FEWEST_IN_A_CELL = 5
"""Fewest rows whose error leaves the site; a policy's `min-rows` may raise it."""


def repetitions_of(site: Site) -> int:
    """Return the run's number of repetitions: in each, other models ask about the same rows."""
    return int(site.config.get("repetitions", 1))


@dataclass(frozen=True)
class Disclosure:
    """The rules by which errors leave a site. From a site that trusts the center they leave as they are.

    The random part depends on the site's rows and on the ask, and on nothing else: the same ask gets the same answer in
    every run, and only who has the rows can compute it.

    Attributes
    ----------
    floor : int
        Fewest rows whose error leaves the site; 0: all errors leave it, unchanged.
    key : bytes
        Digest of the rows.
    loss : Loss
        Kind of the errors: squared errors, or log losses.
    """

    floor: int
    key: bytes
    loss: Loss
    repetitions: int = 1

    @classmethod
    def of_trusted_center(cls, loss: Loss) -> Disclosure:
        """Return the rules by which errors are exact."""
        return cls(0, b"", loss)

    @classmethod
    def of(cls, site: Site, rows: RegressionRows) -> Disclosure:
        """Return the rules of a site with these rows."""
        loss = Loss(len(rows.classes))
        if not site.has_private_rows:
            return cls.of_trusted_center(loss)
        digest = hashlib.sha256()
        for array in (rows.x, rows.y, rows.x_test, rows.y_test):
            digest.update(np.ascontiguousarray(array, np.float64).tobytes())
        return cls(site.rows_that_hold(FEWEST_IN_A_CELL), digest.digest(), loss, repetitions_of(site))

    def errors(
        self,
        predictions: Float64[np.ndarray, "models n"],
        own: Float64[np.ndarray, "n"],
        y: Float64[np.ndarray, "n"],
        questions: Sequence[object],
        *,
        supported: bool = False,
        answers: int = 1,
    ) -> Float64[np.ndarray, "models"]:
        """Return the mean squared errors of some models as they leave the site; infinite where one is not finite.

        Parameters
        ----------
        predictions, own, y : ndarray
            As in `numerics.sec.disclosure.guarded_errors`.
        questions : Sequence
            What the center has sent for each model.
        supported : bool
            Whether the predictions come from `supported`, so that no row needs to be bounded again.
        answers : int
            Numbers that the center gets for each model, this one included.
        """
        if not self.floor:
            return self.loss.means(predictions, y)
        ranks, noise = self._draws(questions, len(y), answers)
        ranks = np.ones_like(ranks) if supported else ranks
        return rounded(guarded_errors(predictions, own, y, ranks, noise, self.loss), DIGITS)

    def deviations(
        self,
        predictions: Float64[np.ndarray, "models n"],
        other: int,
        y: Float64[np.ndarray, "n"],
        questions: Sequence[object],
        answers: int,
    ) -> Float64[np.ndarray, "models"]:
        """Return standard errors of differences as they leave the site (`numerics.sec.disclosure.guarded_deviations`).

        Differences are from the prediction in place `other`. Its question is part of each question: otherwise two runs
        could compare with two predictions under the same noise. The predictions come from `supported`; `questions` and
        `answers` are as in `errors`.
        """
        noise = np.zeros(len(predictions))
        if self.floor:
            _, noise = self._draws([("deviation", each, questions[other]) for each in questions], len(y), answers)
        deviations = guarded_deviations(predictions, predictions[other], y, noise, self.loss)
        return rounded(deviations, DIGITS) if self.floor else deviations

    def noise(self, n_rows: int, n_answers: int, *, supported: bool = False) -> float:
        """Return `protocols.sec.payloads.Losses.noise`."""
        if not self.floor:
            return 0.0
        n_answers *= self.repetitions
        if supported:
            return noise_of(self.floor, n_answers) / n_rows
        return loss_noise(n_rows, self.floor, n_answers)

    def supported(
        self,
        predictions: Float64[np.ndarray, "models n"],
        own: Float64[np.ndarray, "n"],
        questions: Sequence[object],
    ) -> Float64[np.ndarray, "models n"]:
        """Return bounded predictions, from which later answers are computed."""
        if not self.floor:
            return predictions
        to_scale, ranks = self.loss.to_scale, self._draws(questions, len(own))[0]
        return self.loss.from_scale(supported_predictions(to_scale(predictions), to_scale(own), ranks))

    def _draws(
        self, questions: Sequence[object], n_rows: int, answers: int = 1
    ) -> tuple[Int64[np.ndarray, "models"], Float64[np.ndarray, "models"]]:
        seeds = [hashlib.sha256(self.key + repr(digest_of(each)).encode()).digest() for each in questions]
        generators = [np.random.default_rng(int.from_bytes(seed, "big")) for seed in seeds]
        n_answers = answers * len(questions) * self.repetitions
        draws = [ranks_and_noise(each, n_rows, self.floor, n_answers) for each in generators]
        return np.array([rank for rank, _ in draws], np.int64), np.array([noise for _, noise in draws])


def commit_to(site: Site, ask: Select | Exchange | Pool | Predict) -> None:
    """Hold the center to one `Select` in a run, one ask of each other kind in each repetition, and one seed.

    Another set of models, another method, or another split of the rows would be further questions about the same rows.

    Raises
    ------
    SiteFault
        If this ask differs from an earlier one, or is in a repetition beyond the run's number of them.
    """
    what, keeps, repetitions = type(ask).__name__, site.commitments.keeps, repetitions_of(site)
    if site.has_private_rows and site.lane not in map(str, range(repetitions)):
        raise SiteFault(Fault.MALFORMED_ASK, f"an ask in repetition {site.lane} of a run that has {repetitions}")
    kind = what if isinstance(ask, Select) else f"{what} {site.lane}"
    if not (keeps("rows", site.seed, ask.standardize, repetitions) and keeps(kind, ask)):
        raise SiteFault(Fault.MALFORMED_ASK, f"another {what} than earlier in this run")
