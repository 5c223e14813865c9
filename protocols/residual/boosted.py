"""Plan of gated parallel boosting: all agents fit the residual in each round, and steps that help are added up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from jaxtyping import Float64

from numerics.residual.agent_combination import AgentCombination
from numerics.residual.alone import best_share
from numerics.residual.boosted import Finish, finish, gated_weights
from numerics.residual.influence import compare
from numerics.residual.rules import LearningResult, Rules, Split, selection_error
from protocols.residual.payloads import Binned, Compared, Conclude, Fit, Fitted
from protocols.residual.sequential import MOST_MISSES
from protocols.wire.payload import Payload


class Boosted:
    """Gated parallel boosting (`numerics.residual.boosted`).

    The validation rows decide which steps count, when it ends, and about the finish. An agent that is silent takes
    no step in that round. Parameters as of `protocols.residual.parallel.Parallel`.
    """

    def __init__(self, names: tuple[str, ...], y: Float64[np.ndarray, "n"], split: Split, rules: Rules) -> None:
        self.names, self.split, self.rules = names, split, rules
        self.mean = rules.mean_of(y[: split.n_fit])
        self.y = y - self.mean
        self.residual = self.y
        self.iteration = self.misses = 0
        self.sums = np.zeros((len(names), split.n))
        self.curve = np.full((rules.rounds + 1, 3), np.nan)
        self.curve[0] = split.errors(self.y)
        self.power = np.zeros((rules.rounds + 1, len(names)))
        # By iteration: coefficients, and the agents' steps for all rows.
        self.weights: list[Float64[np.ndarray, "D"]] = []
        self.steps: list[Float64[np.ndarray, "D n"]] = []
        self.binned: dict[str, Binned] = {}
        self.ended = rules.rounds == 0
        self.learned: LearningResult | None = None

    @property
    def fitting(self) -> tuple[str, ...]:
        """Agents that fit the residual: those that have given no bins."""
        return tuple(name for name in self.names if name not in self.binned)

    # -- asks and answers ---------------------------------------------------------------------------------------------

    def asks(self) -> dict[str, Payload]:
        """Return the residual for every agent."""
        if self.ended:
            return {}
        target = np.ascontiguousarray(self.residual[: self.split.n_fit, None])
        ask = Fit(target, add=1.0, number=self.iteration, keep=self.rules.keep)
        return dict.fromkeys(self.fitting, ask)

    def answer_shape(self, name: str) -> tuple[int, int, int]:
        """Return the shape of an answer: training rows, later rows, columns."""
        return self.split.n_fit, self.split.n_held, 1

    def take(self, answers: Mapping[str, Payload]) -> None:
        """Add up the steps that help; it ends when none does."""
        steps = np.zeros((len(self.names), self.split.n))
        for name, answer in answers.items():
            assert isinstance(answer, Fitted)  # noqa: S101 - an ask's class names its answer's
            steps[self.names.index(name)] = np.concatenate([answer.fitted[:, 0], answer.held[:, 0]])
        rules = self.rules
        weights = gated_weights(steps, self.residual, self.split, shrinkage=rules.shrinkage, ridge=rules.ridge)
        if not weights.any():  # where somebody was silent, all are asked once more
            self.misses += 1
            self.ended = len(answers) == len(self.fitting) or self.misses >= MOST_MISSES
            return
        self.misses = 0
        self.weights.append(weights)
        self.steps.append(steps)
        self.iteration += 1
        self.sums += weights[:, None] * steps
        self.residual = self.y - self.sums.sum(axis=0)
        self.curve[self.iteration] = self.split.errors(self.residual)
        self.power[self.iteration] = self.sums[:, : self.split.n_fit].var(axis=1)
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
        return [[t for t in range(best) if self.weights[t][j]] for j in range(len(self.names))]

    def _parts(self) -> tuple[Float64[np.ndarray, "k n"], AgentCombination]:
        """Return every agent's steps that count, or bins, and their sum; bins have coefficient 0."""
        columns: list[Float64[np.ndarray, "_ n"]] = []
        weights, levels, widths = [], [], []
        for j, (name, own) in enumerate(zip(self.names, self._counted(), strict=True)):
            if name in self.binned:
                columns.append(self.binned[name].bins.T.astype(np.float64))
                weights += [0.0] * len(columns[-1])
                levels += self.binned[name].levels.tolist()
            else:
                columns.append(np.array([self.steps[t][j] for t in own]).reshape(-1, self.split.n))
                weights += [self.weights[t][j] for t in own]
                levels += [0] * len(own)
            widths.append(len(columns[-1]))
        combination = AgentCombination(
            self.names, np.array(weights), 0.0, None, tuple(widths), tuple(levels) if any(levels) else ()
        )
        return np.vstack(columns), combination

    def _finish(self) -> LearningResult:
        best = self.choice()[1]
        parts, combination = self._parts()
        if combination.levels:
            finished = self._finish_by_bins(combination, parts)
        else:
            finished = finish(combination, parts, self.y, self.split)
        combination, self.left = finished.combination, finished.left
        curve, power = self.curve[: best + 1], self.power[: best + 1]
        residuals = self.residuals = self._residuals(combination, parts)
        if combination.model is not None:
            curve, power = np.vstack([curve, finished.errors]), np.vstack([power, power[-1:]])
            # Bins have no part of their own: what the prediction loses without them stands for it.
            for j in [self.names.index(name) for name in self.binned]:
                power[-1, j] = (residuals[1 + j] - residuals[0])[: self.split.n_fit].var()
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
            without=compare(residuals[0], residuals[1:], self.split),
            left=residuals[0, self.split.slices[2]],
            weights=combination.beta,
            widths=combination.widths,
            levels=combination.levels,
            epsilons=tuple(epsilons) if self.binned else (),
        )

    def beside_alone(self, alone: Mapping[str, Compared]) -> LearningResult:
        """Return the result with a share of the best agent's own prediction, if that helps on validation rows.

        Parameters
        ----------
        alone : Mapping[str, Compared]
            Predictions of the agents by their own columns alone.
        """
        result, (training, validation, test) = self.result(), self.split.slices
        n_validation = self.split.n_validation
        left = {name: self.y[validation] - each.held[:n_validation] for name, each in alone.items()}
        best = min(left, key=lambda name: float(np.mean(left[name] ** 2)))
        share = best_share(self.left, left[best])
        if not share:
            return result
        predicted = np.concatenate([alone[best].fitted, alone[best].held[n_validation:]])
        # Without that agent nothing stands for its own prediction but the mean.
        own = np.array([self.y if each == best else self.y - predicted for each in ("", *self.names)])
        residuals = (1 - share) * self.residuals + share * own
        errors = self.split.errors(residuals[0])
        errors[1] = np.mean(((1 - share) * self.left + share * left[best]) ** 2)
        j = self.names.index(best)
        power = (1 - share) ** 2 * result.power[-1:]
        power[0, j] += share**2 * predicted[training].var()
        self.learned = replace(
            result,
            beta=np.where(np.arange(len(self.names)) == j, 1.0, result.beta if share < 1 else 0.0),
            iteration=len(result.curve),
            curve=np.vstack([result.curve, errors]),
            power=np.vstack([result.power, power]),
            seen=(result.seen & (share < 1)) | (np.arange(len(self.names)) == j),
            without=compare(residuals[0], residuals[1:], self.split),
            left=residuals[0, test],
            own_site=best,
            own_share=share,
        )
        if share == 1:  # nothing is left of the combination
            self.learned = replace(self.learned, weights=np.zeros(0), widths=(0,) * len(self.names), model=None)
        return self.learned

    def _finish_by_bins(self, combination: AgentCombination, parts: Float64[np.ndarray, "k n"]) -> Finish:
        """Boost what the sum of the steps leaves, or the outcome itself, whichever is better on validation rows."""
        anew = replace(combination, beta=np.zeros(len(combination.beta)))
        starts = [combination, anew] if combination.beta.any() else [combination]
        leaf = self.rules.min_leaf
        finished = [finish(each, parts, self.y, self.split, min_leaf=leaf) for each in starts]
        return min(finished, key=lambda each: float(each.errors[1]))

    def _residuals(
        self, combination: AgentCombination, parts: Float64[np.ndarray, "k n"]
    ) -> Float64[np.ndarray, "residuals n"]:
        """Return what the combination leaves with all agents, and without each: as in a prediction without it."""
        ends = np.cumsum(combination.widths)[:-1]
        own = {name: part.T for name, part in zip(self.names, np.split(parts, ends), strict=True)}
        residuals: Float64[np.ndarray, "residuals n"] = self.y - combination.predict_without_each(own, self.split.n)
        return residuals

    def conclusions(self, result: LearningResult) -> dict[str, Payload]:
        """Return each agent's last ask: which of its steps to store, each to be predicted by itself."""
        return {
            name: Conclude(np.zeros(0), np.array(own if result.own_share < 1 else [], np.int64), separate=True)
            for name, own in zip(self.names, self._counted(), strict=True)
        }
