"""Losses of boosting: the squared error of amounts, or the log loss of classes.

Boosting adds up scores. An amount has one score, the predicted amount less the mean. Two classes have one, the log
odds; k classes have k, from which softmax makes probabilities (Friedman 2001, section 4.6). The residual is minus the
derivative of the loss by the scores: for an amount, outcome minus prediction; for a class, 1 where the row has it and 0
elsewhere, minus its probability.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from numerics.residual.linear import combine
from numerics.residual.rules import Rules
from numerics.residual.split import Split
from numerics.shared.classes import align_probabilities, balancing_weights, one_hot, probabilities_of_scores
from numerics.shared.classification import log_losses_of, smoothed_log_losses

_LEAST_SPREAD = 1e-6
"""Least variance of a class in a row; below it, rounding errors would dominate."""


@dataclass(frozen=True, eq=False)
class SquaredError:
    """Squared error of amounts.

    Attributes
    ----------
    y : ndarray
        ``(n,)`` outcomes minus the mean.
    split : Split
        Use of the rows.
    mean : float
        Mean outcome of the training rows, or 0.
    """

    y: Float64[np.ndarray, "n"]
    split: Split
    mean: float

    n_scores = 1

    @classmethod
    def of(cls, y: Float64[np.ndarray, "n"], split: Split, rules: Rules) -> SquaredError:
        """Return the loss of these outcomes."""
        mean = rules.mean_of(y[: split.n_fit])
        return cls(y - mean, split, mean)

    def residual(self, sums: Float64[np.ndarray, "1 n"]) -> Float64[np.ndarray, "1 n"]:
        """Return what sums of steps leave."""
        return np.asarray(self.y - sums)

    def left(self, predicted: Float64[np.ndarray, "... m"], rows: slice = slice(None)) -> Float64[np.ndarray, "... m"]:
        """Return the number from which each of these rows' loss is computed: outcome minus prediction."""
        return np.asarray(self.y[rows] - predicted)

    def losses(self, left: Float64[np.ndarray, "... m"]) -> Float64[np.ndarray, "... m"]:
        """Return the loss of each row."""
        return np.asarray(np.square(left))

    def errors(self, predicted: Float64[np.ndarray, "n"]) -> Float64[np.ndarray, "3"]:
        """Return mean losses by kind of row; NaN for a kind without rows."""
        return self.split.errors(self.left(predicted))

    def prediction(self, sums: Float64[np.ndarray, "1 n"]) -> Float64[np.ndarray, "n"]:
        """Return the predictions by sums of steps, less the mean."""
        return np.asarray(sums[0])

    def judged_losses(self, predicted: Float64[np.ndarray, "m"]) -> Float64[np.ndarray, "m"]:
        """Return the losses of predictions of the validation rows."""
        return self.losses(self.left(predicted, self.split.slices[1]))

    def rows_that_judge(self, sums: Float64[np.ndarray, "1 n"]) -> float:
        """Return the number of validation rows."""
        return float(self.split.n_validation)

    def judged_error(self, predicted: Float64[np.ndarray, "m"]) -> float:
        """Return the mean of `judged_losses`."""
        return float(self.judged_losses(predicted).mean())

    def gains(
        self,
        steps: Float64[np.ndarray, "D 1 n"],
        residual: Float64[np.ndarray, "1 n"],
        sums: Float64[np.ndarray, "1 n"],
        share: float,
    ) -> Float64[np.ndarray, "D m"]:
        """Return by how much this share of each agent's step, by itself, lowers the losses of the validation rows."""
        rows = self.split.slices[1]
        before = residual[0, rows]
        return np.asarray(np.square(before) - np.square(before - share * steps[:, 0, rows]))

    def combined(
        self,
        steps: Float64[np.ndarray, "D 1 n"],
        residual: Float64[np.ndarray, "1 n"],
        sums: Float64[np.ndarray, "1 n"],
        ridge: float,
    ) -> Float64[np.ndarray, "D 1"]:
        """Return the coefficients of all steps together: least squares on the training rows."""
        rows = self.split.slices[0]
        return combine(steps[:, 0, rows], residual[0, rows], ridge).beta[:, None]


@dataclass(frozen=True, eq=False)
class LogLoss:
    """Log loss of classes, each row with a weight.

    Attributes
    ----------
    y : ndarray
        ``(n,)`` places of the rows' classes.
    split : Split
        Use of the rows.
    start : ndarray
        ``(c,)`` scores of a row before any step, from the classes' shares of the training rows.
    weights : ndarray
        ``(n,)`` weights of the rows, of mean 1 over the training rows.
    """

    y: Int64[np.ndarray, "n"]
    split: Split
    start: Float64[np.ndarray, "c"]
    weights: Float64[np.ndarray, "n"]

    mean = 0.0

    @classmethod
    def of(cls, y: Float64[np.ndarray, "n"], split: Split, rules: Rules) -> LogLoss:
        """Return the loss of these places of classes.

        Examples
        --------
        >>> loss = LogLoss.of(np.array([0.0, 1.0, 1.0, 0.0]), Split(3, 1, 0), Rules(algorithm="boosted", n_classes=2))
        >>> loss.residual(np.zeros((1, 4))).round(3)
        array([[-0.625,  0.375,  0.375, -0.625]])
        """
        places, k, n = y.astype(np.int64), rules.n_classes, split.n_fit
        weights = balancing_weights(places, n, k) if rules.balanced else np.ones(split.n)
        shares = np.bincount(places[:n], weights[:n], minlength=k) / weights[:n].sum()
        logs = np.log(align_probabilities(shares, np.arange(k), k, n))
        return cls(places, split, logs[1:] - logs[:1] if k == 2 else logs, weights)

    @property
    def n_scores(self) -> int:
        """Scores of a row."""
        return len(self.start)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return max(len(self.start), 2)

    def prediction(self, sums: Float64[np.ndarray, "c n"]) -> Float64[np.ndarray, "n k"]:
        """Return the probabilities by sums of steps."""
        return probabilities_of_scores(self.start[:, None] + sums)

    def residual(self, sums: Float64[np.ndarray, "c n"]) -> Float64[np.ndarray, "c n"]:
        """Return minus the derivative of the loss by the scores: 1 or 0 minus the probability, times the weight."""
        each = (one_hot(self.y, self.n_classes) - self.prediction(sums)).T * self.weights
        return np.ascontiguousarray(each[-self.n_scores :])

    def left(
        self, predicted: Float64[np.ndarray, "... m k"], rows: slice = slice(None)
    ) -> Float64[np.ndarray, "... m"]:
        """Return the number from which each of these rows' loss is computed: the probability of its class."""
        y = self.y[rows]
        return np.asarray(predicted[..., np.arange(len(y)), y])

    def losses(self, left: Float64[np.ndarray, "... m"]) -> Float64[np.ndarray, "... m"]:
        """Return the log loss of each row."""
        return log_losses_of(left)

    def errors(self, predicted: Float64[np.ndarray, "n k"]) -> Float64[np.ndarray, "3"]:
        """Return mean losses by kind of row, with the rows' weights, of validation rows those that judge.

        NaN for a kind without rows.
        """
        losses, (training, validation, test) = self.losses(self.left(predicted)), self.split.slices
        losses[validation] = smoothed_log_losses(predicted[validation], self.y[validation])
        return np.array([self._mean(losses, rows) for rows in (training, validation, test)])

    def _mean(self, losses: Float64[np.ndarray, "n"], rows: slice) -> float:
        weights = self.weights[rows]
        return float(np.average(losses[rows], weights=weights)) if len(weights) else np.nan

    def _spread(self, sums: Float64[np.ndarray, "c n"]) -> Float64[np.ndarray, "c n"]:
        """Return the second derivative of the loss by each score, times the weight."""
        p = self.prediction(sums).T[-self.n_scores :]
        return np.asarray(np.maximum(p * (1 - p), _LEAST_SPREAD) * self.weights)

    def _own_weights(
        self,
        steps: Float64[np.ndarray, "D c n"],
        residual: Float64[np.ndarray, "c n"],
        sums: Float64[np.ndarray, "c n"],
    ) -> Float64[np.ndarray, "D c"]:
        """Return the coefficients of each agent's step by itself: a Newton step on the training rows."""
        rows = self.split.slices[0]
        own, spread = steps[:, :, rows], self._spread(sums)[:, rows]
        powers = (np.square(own) * spread).sum(axis=2)
        slopes, none = (own * residual[:, rows]).sum(axis=2), np.zeros(powers.shape)
        return np.asarray(np.divide(slopes, powers, where=powers > 0, out=none))

    def judged_losses(self, predicted: Float64[np.ndarray, "m k"]) -> Float64[np.ndarray, "m"]:
        """Return the losses of predictions of the validation rows, times their weights; labels are smoothed.

        Rows that are all right say little of how sure a prediction may be: by their plain log loss it would get surer
        and surer.
        """
        rows = self.split.slices[1]
        return np.asarray(smoothed_log_losses(predicted, self.y[rows]) * self.weights[rows])

    def rows_that_judge(self, sums: Float64[np.ndarray, "c n"]) -> float:
        """Return the effective number of validation rows: 0 for a row of certain class, 1 for uniform probabilities."""
        p, k = self.prediction(sums)[self.split.slices[1]], self.n_classes
        return float(k / (k - 1) * (1 - np.square(p).sum(axis=1)).sum())

    def judged_error(self, predicted: Float64[np.ndarray, "m k"]) -> float:
        """Return the mean of `judged_losses`, with the rows' weights."""
        return float(self.judged_losses(predicted).sum() / self.weights[self.split.slices[1]].sum())

    def gains(
        self,
        steps: Float64[np.ndarray, "D c n"],
        residual: Float64[np.ndarray, "c n"],
        sums: Float64[np.ndarray, "c n"],
        share: float,
    ) -> Float64[np.ndarray, "D m"]:
        """Return by how much this share of each agent's step, by itself, lowers the losses of the validation rows."""
        rows = self.split.slices[1]
        shares = share * self._own_weights(steps, residual, sums)
        before = sums[:, rows]

        def losses(scores: Float64[np.ndarray, "c m"]) -> Float64[np.ndarray, "m"]:
            return self.judged_losses(self.prediction(scores))

        each = zip(steps, shares, strict=True)
        return np.array([losses(before) - losses(before + own[:, None] * step[:, rows]) for step, own in each])

    def combined(
        self,
        steps: Float64[np.ndarray, "D c n"],
        residual: Float64[np.ndarray, "c n"],
        sums: Float64[np.ndarray, "c n"],
        ridge: float,
    ) -> Float64[np.ndarray, "D c"]:
        """Return the coefficients of all steps together: a Newton step on the training rows, score by score."""
        rows = self.split.slices[0]
        root = np.sqrt(self._spread(sums)[:, rows])
        each = [
            combine(steps[:, place, rows] * root[place], residual[place, rows] / root[place], ridge).beta
            for place in range(self.n_scores)
        ]
        return np.stack(each, axis=1)


Loss = SquaredError | LogLoss


def loss_of(y: Float64[np.ndarray, "n"], split: Split, rules: Rules) -> Loss:
    """Return the loss of outcomes, which are places of classes if the rules have a number of classes."""
    return LogLoss.of(y, split, rules) if rules.n_classes else SquaredError.of(y, split, rules)
