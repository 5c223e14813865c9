"""Plan of gated parallel boosting: all agents fit the residual in each round, and steps that help are added up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float64

from numerics.residual.agent_combination import AgentCombination, ClassScores
from numerics.residual.alone import SURE, best_share, errors_alone
from numerics.residual.boosted import MIN_LEAF, finish, gate_of, gated_weights
from numerics.residual.influence import harm_of
from numerics.residual.losses import LogLoss, loss_of
from numerics.residual.rules import LearningResult, Rules, Without, selection_error
from numerics.residual.split import Split
from numerics.shared.classification import best_threshold, score_row
from protocols.residual.payloads import Conclude, EntityBins, Fit, FittedValues, PredictionsAlone
from protocols.residual.sequential import MOST_MISSES
from protocols.wire.payload import Payload

Predictions = Float64[np.ndarray, "..."]
"""Amounts minus the mean; or probabilities of classes, along the last axis."""


class Boosted:
    """Gated parallel boosting (`numerics.residual.boosted`).

    The validation rows decide which steps count, when boosting ends, and whether the finish is used. A silent agent
    takes no step in that round. Parameters as of `protocols.residual.parallel.Parallel`.
    """

    def __init__(self, names: tuple[str, ...], y: Float64[np.ndarray, "n"], split: Split, rules: Rules) -> None:
        self.names, self.split, self.rules = names, split, rules
        self.loss = loss_of(y, split, rules)
        self.mean = self.loss.mean
        self.iteration = self.misses = 0
        # Of each agent and score, the sum of its steps for all rows.
        self.sums = np.zeros((len(names), self.loss.n_scores, split.n))
        self.curve = np.full((rules.rounds + 1, 3), np.nan)
        self.curve[0] = self._errors()
        self.power = np.zeros((rules.rounds + 1, len(names)))
        # By iteration: coefficients, and the agents' steps for all rows.
        self.weights: list[Float64[np.ndarray, "D c"]] = []
        self.steps: list[Float64[np.ndarray, "D c n"]] = []
        self.binned: dict[str, EntityBins] = {}
        self.ended = rules.rounds == 0
        self.learned: LearningResult | None = None

    def _errors(self) -> Float64[np.ndarray, "3"]:
        return self.loss.errors(self.loss.prediction(self.sums.sum(axis=0)))

    @property
    def fitting(self) -> tuple[str, ...]:
        """Agents that fit the residual: those that have given no bins."""
        return tuple(name for name in self.names if name not in self.binned)

    # -- asks and answers ---------------------------------------------------------------------------------------------

    def asks(self) -> dict[str, Payload]:
        """Return the residual for every agent."""
        if self.ended:
            return {}
        residual = self.loss.residual(self.sums.sum(axis=0))
        target = np.ascontiguousarray(residual[:, : self.split.n_fit].T)
        ask = Fit(target, add=1.0, number=self.iteration, keep=self.rules.keep)
        return dict.fromkeys(self.fitting, ask)

    def answer_shape(self, name: str) -> tuple[int, int, int]:
        """Return the shape of an answer: training rows, later rows, columns."""
        return self.split.n_fit, self.split.n_held, self.loss.n_scores

    def take(self, answers: Mapping[str, Payload]) -> None:
        """Add up the steps that help; end when none does."""
        steps = np.zeros(self.sums.shape)
        for name, answer in answers.items():
            assert isinstance(answer, FittedValues)  # noqa: S101 - an ask's class names its answer's
            steps[self.names.index(name)] = np.concatenate([answer.fitted, answer.held]).T
        rules, sums = self.rules, self.sums.sum(axis=0)
        weights = gated_weights(self.loss, steps, sums, shrinkage=rules.shrinkage, ridge=rules.ridge)
        if not weights.any():  # where somebody was silent, all are asked once more
            self.misses += 1
            self.ended = len(answers) == len(self.fitting) or self.misses >= MOST_MISSES
            return
        self.misses = 0
        self.weights.append(weights)
        self.steps.append(steps)
        self.iteration += 1
        self.sums += weights[:, :, None] * steps
        self.curve[self.iteration] = self._errors()
        self.power[self.iteration] = self.sums[:, :, : self.split.n_fit].var(axis=2).sum(axis=1)
        self.ended = not rules.continues(self.curve[: self.iteration + 1], self.split, rules.patience)

    # -- result -------------------------------------------------------------------------------------------------------

    def choice(self) -> tuple[float, int]:
        """Return no p, and the number of iterations whose sum has the smallest error on the validation rows."""
        return 0.0, int(np.argmin(selection_error(self.curve[: self.iteration + 1], self.split)))

    def result(self, *, last: bool = False) -> LearningResult:
        """Return the finished combination of the best iterations; the finish is an iteration more if it helps."""
        if self.learned is None:
            self.learned = self._finish()
        return self.learned

    def _counted(self) -> list[list[int]]:
        """Return each agent's iterations in which it took a step, up to the best one."""
        best = self.choice()[1]
        return [[t for t in range(best) if self.weights[t][j].any()] for j in range(len(self.names))]

    def _parts(self) -> tuple[Float64[np.ndarray, "k n"], AgentCombination]:
        """Return each agent's columns, steps that count or bins, and their combination; bins have coefficient 0."""
        columns: list[Float64[np.ndarray, "_ n"]] = []
        weights, levels, widths = [], [], []
        for j, (name, own) in enumerate(zip(self.names, self._counted(), strict=True)):
            if name in self.binned:
                columns.append(self.binned[name].bins.T.astype(np.float64))
                weights += [0.0] * len(columns[-1])
                levels += self.binned[name].levels.tolist()
            else:
                columns.append(np.array([self.steps[t][j] for t in own]).reshape(-1, self.split.n))
                weights += [each for t in own for each in self.weights[t][j].tolist()]
                levels += [0] * len(columns[-1])
            widths.append(len(columns[-1]))
        combination = AgentCombination(
            self.names,
            np.array(weights),
            0.0,
            None,
            tuple(widths),
            tuple(levels) if any(levels) else (),
            classes=ClassScores(tuple(self.loss.start.tolist())) if isinstance(self.loss, LogLoss) else None,
        )
        return np.vstack(columns), combination

    def _finish(self) -> LearningResult:
        best = self.choice()[1]
        parts, combination = self._parts()
        starts = [combination]
        if combination.levels and combination.beta.any():  # trees on bins may do better without the steps
            starts.append(replace(combination, beta=np.zeros(len(combination.beta))))
        # Trees on bins have smaller leaves than agents by default, but none smaller than a run asks for.
        leaf = self.rules.min_leaf if combination.levels and self.rules.min_leaf > MIN_LEAF else 1
        finished = [finish(each, parts, self.loss, min_leaf=leaf) for each in starts]
        chosen = min(finished, key=lambda each: float(each.errors[1]))
        combination, self.judged = chosen.combination, chosen.judged
        curve, power = self.curve[: best + 1], self.power[: best + 1]
        ends = np.cumsum(combination.widths)[:-1]
        self.parts = {name: part.T for name, part in zip(self.names, np.split(parts, ends), strict=True)}
        self.predictions = combination.predict_without_each(self.parts, self.split.n)
        if combination.model is not None:
            curve, power = np.vstack([curve, chosen.errors]), np.vstack([power, power[-1:]])
            # Bins have no sum of steps: their power is that of the prediction's change without them.
            for j in [self.names.index(name) for name in self.binned]:
                change = (self.predictions[0] - self.predictions[1 + j])[: self.split.n_fit]
                power[-1, j] = change.var(axis=0).sum()
        seen = np.array([combination.uses(name) for name in self.names])
        epsilons = [self.binned[name].epsilon if name in self.binned else 0.0 for name in self.names]
        return LearningResult(
            names=self.names,
            algorithm=self.rules.algorithm,
            mean=self.mean,
            beta=seen.astype(np.float64),
            iteration=len(curve) - 1,
            p=0.0,
            curve=curve,
            power=power,
            step_power=np.zeros(0),
            split=self.split,
            seen=seen,
            model=combination.model,
            weights=combination.beta,
            widths=combination.widths,
            levels=combination.levels,
            epsilons=tuple(epsilons) if self.binned else (),
            classes=combination.classes,
            **self._by_predictions(self.predictions, self.judged),
        )

    def _by_predictions(self, predictions: Predictions, judged: Predictions) -> dict[str, Any]:
        """Return the result's fields that follow from predictions.

        Parameters
        ----------
        predictions : ndarray
            Final predictions of all rows, with all agents and without each.
        judged : ndarray
            Predictions of the validation rows by models that have not seen them.
        """
        loss, (_, validation, test) = self.loss, self.split.slices
        left = loss.left(predictions)
        losses = loss.losses(left)
        errors = np.array([loss.errors(each) for each in predictions[1:]]).reshape(len(left) - 1, 3)
        of_rows = {"without": Without(errors, harm_of(losses[0], losses[1:], self.split)), "left": left[0, test]}
        if not isinstance(loss, LogLoss):
            return of_rows
        two = loss.n_classes == 2
        threshold = best_threshold(judged, loss.y[validation]) if two and len(judged) else -1.0
        return {**of_rows, "probabilities": predictions[0, test], "threshold": threshold}

    def beside_alone(self, alone: Mapping[str, PredictionsAlone]) -> LearningResult:
        """Return the result with a share of the best agent's own prediction, if that helps on validation rows.

        Parameters
        ----------
        alone : Mapping[str, PredictionsAlone]
            Predictions of the agents by their own columns alone.
        """
        result, loss, training = self.result(), self.loss, self.split.slices[0]
        n_validation = self.split.n_validation
        own = {name: (self._own(each.fitted), self._own(each.held)) for name, each in alone.items()}

        best = min(own, key=lambda name: loss.judged_losses(own[name][1][:n_validation]).mean())
        is_best = np.array([name == best for name in self.names])
        fitted, held = own[best]
        share = best_share(
            lambda share: loss.judged_losses((1 - share) * self.judged + share * held[:n_validation]),
            gate_of(n_validation),
            sure=SURE if isinstance(loss, LogLoss) else 0.0,
        )
        if not share:
            return result
        predicted = np.concatenate([fitted, held[n_validation:]])
        # Without that agent, the mean or the classes' shares replace its own prediction.
        nothing = loss.prediction(np.zeros((loss.n_scores, self.split.n)))
        beside = np.array([nothing if each == best else predicted for each in ("", *self.names)])
        predictions = (1 - share) * self.predictions + share * beside
        judged = (1 - share) * self.judged + share * held[:n_validation]
        errors = loss.errors(predictions[0])
        errors[1] = loss.judged_error(judged)
        power = (1 - share) ** 2 * result.power[-1:]
        power[0, is_best] += share**2 * predicted[training].var(axis=0).sum()
        self.learned = replace(
            result,
            beta=np.where(is_best, 1.0, result.beta if share < 1 else 0.0),
            iteration=len(result.curve),
            curve=np.vstack([result.curve, errors]),
            power=np.vstack([result.power, power]),
            seen=(result.seen & (share < 1)) | is_best,
            own_site=best,
            own_share=share,
            **self._by_predictions(predictions, judged),
        )
        if share == 1:  # nothing is left of the combination
            self.learned = replace(self.learned, weights=np.zeros(0), widths=(0,) * len(self.names), model=None)
            self.parts = {name: part[:, :0] for name, part in self.parts.items()}
        self.parts[best] = np.column_stack([self.parts[best], predicted])
        return self.learned

    def _own(self, answered: Float64[np.ndarray, "m c"]) -> Predictions:
        """Return an agent's own predictions in the form that the loss takes."""
        values = answered.astype(np.float64)
        return values if isinstance(self.loss, LogLoss) else values[:, 0]

    def alone_on_test_rows(self, alone: Mapping[str, PredictionsAlone], result: LearningResult) -> LearningResult:
        """Return the result with the errors of agents alone on the test rows; of classes, with all scores."""
        loss, n_test, test = self.loss, self.split.n_test, self.split.slices[2]
        own = {name: self._own(each.held[-n_test:]) for name, each in alone.items()}
        losses = {name: loss.losses(loss.left(each, test)) for name, each in own.items()}
        compared = errors_alone(losses, loss.losses(result.left)) if own else None
        if not isinstance(loss, LogLoss):
            return replace(result, alone=compared)
        ways = [result.probabilities, *(own[name] for name in sorted(own))]
        return replace(result, alone=compared, scores=np.array([score_row(p, loss.y[test]) for p in ways]))

    def conclusions(self, result: LearningResult) -> dict[str, Payload]:
        """Return each agent's last ask: which of its steps to store, each to be predicted by itself."""
        return {
            name: Conclude(np.zeros(0), np.array(own if result.own_share < 1 else [], np.int64), separate=True)
            for name, own in zip(self.names, self._counted(), strict=True)
        }
