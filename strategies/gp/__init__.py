"""The fusion center of Gaussian process experts (docs/gp.md).

It finds the experts' common hyperparameters, sends every query point to the experts that know its neighborhood, and
combines their predictions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from numerics.gp.gates.network import Network
from numerics.gp.kernel_names import kernels_of
from numerics.gp.kernel_registry import kernel_of
from numerics.gp.likelihood import theta_bounds
from numerics.gp.measurements import Queries
from numerics.gp.moments import share_between
from numerics.gp.outliers import misleading
from numerics.shared.threads import single_threaded
from protocols.gp.payloads import Inputs, Moments, Rows, Survey
from protocols.gp.settings import Settings
from strategies.conversation import Broadcast, Conversation, in_step, no_asks
from strategies.errors import FusionError
from strategies.fusion import FusionStrategy
from strategies.gp.aggregation import expert_predictions, fuse, rank_experts, select_by_graph, setup_of
from strategies.gp.alone import NOBODY, Alone, ask_alone
from strategies.gp.calibration import residual_counts, sharpness
from strategies.gp.checks import check_moments
from strategies.gp.classes import refuse_keys_of_amounts, scored_arrays
from strategies.gp.disclosure import disclosed_inputs, shared_rows
from strategies.gp.expert_count_curve import Sample, scores_by_expert_count
from strategies.gp.expert_registry import ExpertRegistry
from strategies.gp.gate_training import train
from strategies.gp.hyperparameters import favored, fit, starts
from strategies.gp.influence import influence_of_answers
from strategies.gp.model import Model
from strategies.gp.outcome import GPOutcome
from strategies.gp.prediction import ExpertAnswers, ask_experts
from strategies.gp.query_points import own_queries, usable_queries
from strategies.gp.report import answers_csv, excluded_from, metrics_of, notes_on, paired_difference, table_of
from strategies.gp.suggestion import reductions, suggestion_note, suggestions_csv
from strategies.gp.trust import contradictions, distrust_of
from strategies.gp.validation import choose
from strategies.influence import Influence
from strategies.secure_aggregation import Masking

__all__ = ["GP", "GPOutcome", "Settings"]

_NETWORK_SEED = 4


class _Preparation(NamedTuple):
    """A model, the query points, disclosed rows and inputs, and conversations that calibrate the model."""

    model: Model
    queries: Queries | None
    shared: dict[str, Rows]
    inputs: dict[str, Inputs]
    residuals: Conversation[Int64[np.ndarray, "50"]]
    sharpness: Conversation[float]


class GP(FusionStrategy):
    """Predict with the Gaussian processes of all sites (Jalali and Kasneci 2022; docs/gp.md).

    Parameters
    ----------
    settings : Settings
        Kernel, gate, aggregation, and the effort for each.
    target : str
        Name of the output among the columns of the center's query file.
    id_column : str
        Name of the column of that file that names the points.
    class_weight : {"none", "balanced"}
        ``balanced``: class probabilities are those of rows among which all classes are equally frequent.
    **common
        Parameters of `FusionStrategy`. Its reference holds a scenario's query points (`queries`), the columns of the
        center's own query file (`test`), and the arrays of a run whose experts predict (`earlier`).

    Examples
    --------
    By default, half of ten experts predict each point:

    >>> GP().settings.K(10)
    5
    """

    def __init__(
        self,
        *,
        settings: Settings | None = None,
        target: str = "",
        id_column: str = "",
        class_weight: str = "none",
        **common: Any,
    ) -> None:
        super().__init__(**common)
        self.settings = settings or Settings()
        self.target, self.id_column, self.class_weight = target, id_column, class_weight

    def conversation(self, repetition: int = 0) -> Conversation[GPOutcome]:
        """Learn a model in rounds, or take that of an earlier run; then ask the selected experts for predictions."""
        prepare = self._recall(repetition) if self.reference.earlier else self._learn(repetition)
        prepared = yield from prepare
        if prepared.queries is None:
            counts, sharp = yield from in_step(prepared.residuals, prepared.sharpness)
            return GPOutcome(replace(prepared.model, residuals=counts, sharpness=sharp), self.settings)
        return (yield from self._predict(prepared, prepared.queries, self.seed + repetition))

    def _recall(self, repetition: int) -> Conversation[_Preparation]:
        """Take the model of an earlier run."""
        settings, model = self.settings, Model.from_arrays(self.reference.earlier)
        self._check_outputs(model.registry)
        queries = self._queries(model.registry, repetition)
        if model.registry.nearest and not settings.nearest:
            raise FusionError(
                "experts of the earlier run (from) predict from nearest rows, whose inputs nobody discloses or shares:"
                " that run needs gp.local=0 for gp.covariance=inputs or gp.aggregation=grbcm"
            )
        if settings.gate == "dnn" and not len(model.network):
            raise FusionError("gp.gate=dnn: the earlier run (from) trained no network; set another gate")
        shared, inputs = yield from in_step(*self._disclosures(model.registry, model.max_rows, queries))
        known = no_asks(model.residuals), no_asks(model.sharpness)
        return _Preparation(model, queries, shared, inputs, *known)

    def _disclosures(self, registry: ExpertRegistry, max_rows: int, queries: Queries | None) -> tuple[Any, Any]:
        """Return the conversations in which sites disclose rows and inputs; without query points nothing is asked."""
        if queries is None:
            return no_asks({}), no_asks({})
        return shared_rows(registry, self.settings, max_rows), disclosed_inputs(registry, self.settings, max_rows)

    def _learn(self, repetition: int) -> Conversation[_Preparation]:
        """Survey the sites, then learn the hyperparameters and the gate."""
        settings = self.settings
        fits = _is_convertible(settings.kernel)
        local = settings.nearest
        survey = Survey(settings.max_expert_rows, settings.kernel, fit=fits, robust=settings.robust, local=local)
        answers: dict[str, Moments] = yield Broadcast(survey, check=check_moments(survey))
        if settings.outliers == "auto" and misleading([each.outliers for each in answers.values()]):
            survey = replace(survey, robust=True)
            answers = yield Broadcast(survey, check=check_moments(survey))
        own_noise = settings.noise == "site"
        registry = ExpertRegistry.of(
            answers, robust=survey.robust, local=local, own_noise=own_noise, target=self.target
        )
        registry.check_enough(self.min_sites)
        self._check_outputs(registry)
        queries = self._queries(registry, repetition)  # reports faults in the query file before learning begins
        text = favored(kernels_of(settings.kernel), {site: answers[site] for site in registry.learning})
        kernel = kernel_of(text, len(registry.features))
        masking = self._masking("likelihood", len(registry.learning))
        own = starts(answers, registry, kernel)
        best_fit, network, shared, inputs = yield from in_step(
            fit(
                registry,
                kernel,
                text,
                own,
                settings.max_expert_rows,
                candidates=settings.candidates,
                most_asks=settings.fit_rounds,
                masking=masking,
                robust=settings.robust,
            ),
            self._gate_training(registry, self.seed + repetition),
            *self._disclosures(registry, settings.max_expert_rows, queries),
        )
        if (registry.nearest or registry.classes) and fits:
            best_fit = yield from choose(
                registry,
                best_fit,
                np.clip(own[0], *theta_bounds(kernel).T),
                text,
                settings.max_expert_rows,
                settings.candidates,
                masking,
            )
        model = Model(registry, text, settings.max_expert_rows, best_fit, network)
        residuals, sharp = no_asks(model.residuals), no_asks(model.sharpness)
        if registry.classes:
            sharp = sharpness(model, masking)
        elif settings.calibrated:
            residuals = residual_counts(model, masking)
        return _Preparation(model, queries, shared, inputs, residuals, sharp)

    def _check_outputs(self, registry: ExpertRegistry) -> None:
        """Refuse settings that are not for the kind of output that the sites have."""
        if registry.classes:
            refuse_keys_of_amounts(self.settings, self.target)
        elif self.class_weight != "none":
            raise FusionError(
                f"class-weight is for classes, and {self.target or 'the target'} is an amount: leave it out"
            )

    def _gate_training(self, registry: ExpertRegistry, seed: int) -> Conversation[Float64[np.ndarray, "w"]]:
        settings = self.settings
        if settings.gate != "dnn":
            return np.zeros(0)
        network = Network(len(registry.features), registry.M)
        start = int(np.random.default_rng([seed, _NETWORK_SEED]).integers(2**31))
        masking = self._masking("slope", len(registry.willing("allow-gate-training")))
        return (yield from train(registry, network, start, settings.gate_rounds, settings.max_expert_rows, masking))

    def _masking(self, name: str, n_sites: int) -> Masking | None:
        """Return the masking of sums over `n_sites` sites; None without secure aggregation."""
        return Masking(name, min(self.min_sites, n_sites)) if self.masked else None

    def _queries(self, registry: ExpertRegistry, repetition: int) -> Queries | None:
        """Return the query points: those of the center's own file, else the scenario's, else none.

        Raises
        ------
        FusionError
            If the points lack an input or a value, or if their inputs are not those of the experts.
        """
        columns, draw_queries = self.reference.test, self.reference.queries
        if columns:
            queries: Queries | None = own_queries(registry, columns, self.target, self.id_column)
        else:
            queries = draw_queries(repetition) if draw_queries else None
        return None if queries is None else usable_queries(registry, queries)

    # -- predictions --------------------------------------------------------------------------------------------------

    def _predict(self, prepared: _Preparation, queries: Queries, seed: int) -> Conversation[GPOutcome]:
        model, _, shared, inputs, residuals, sharp = prepared
        registry = model.registry
        settings = self.settings.of_classes(len(registry.classes))
        kernel = kernel_of(model.kernel, len(registry.features))
        points = registry.units.inputs(queries.x)
        x = np.repeat(points, registry.n_outputs, axis=0)
        setup = setup_of(model, settings, shared, seed)
        available = np.isin(registry.site_of, list(inputs)) if settings.disclosed else np.ones(registry.M, bool)
        between = share_between(registry.moments, kernel.lengths(model.fit.theta[:-1]))
        K = settings.K(registry.M, len(registry.nearest), between)
        prior, noise = kernel.diagonal(model.fit.theta[:-1], x), model.noise
        # This gate ranks experts by the graph of their predictions, so it asks all of them.
        by_graph = settings.gate == "ggm"
        with single_threaded():
            order = np.repeat(rank_experts(model, kernel, settings, points), registry.n_outputs, axis=0)
        conversation = ask_experts(
            registry,
            x,
            order,
            registry.M if by_graph else K,
            available,
            setup,
            np.isin(registry.site_of, registry.remote) if settings.robust else None,
            distrust_of(registry, prior, noise) if settings.robust else None,
        )
        answers: ExpertAnswers
        alone: Alone
        judged = settings.alone and not self.in_table
        errors_alone = ask_alone(model, queries) if judged else no_asks(NOBODY)
        answers, counts, alone, sharp = yield from in_step(conversation, residuals, errors_alone, sharp)
        model = replace(model, residuals=counts, sharpness=sharp)
        contradicted = contradictions(registry, answers, prior, noise)
        with single_threaded():
            if by_graph:
                answers = answers.select(select_by_graph(answers, K))
            predictions = expert_predictions(model, kernel, settings, x, answers, inputs, setup)
            fused = fuse(model, kernel, settings, x, predictions)
            gains = reductions(registry, kernel, x, fused, setup) if settings.suggest else None
        # Where outputs are measured, the sample is for scores.
        among = None if queries.y is None else queries.measured
        sample = Sample.of(predictions, registry.n_outputs, among) if seed == self.seed else None
        return GPOutcome(
            model,
            settings,
            queries,
            answers.without_features(),
            fused,
            sample,
            tuple(sorted(shared)),
            contradicted,
            alone,
            gains,
            self.class_weight == "balanced",
        )

    # -- what a run reports -------------------------------------------------------------------------------------------

    def metrics(self, outcome: GPOutcome) -> dict[str, float]:
        """Return the metrics of `report.json` by name (docs/gp.md)."""
        return metrics_of(outcome)

    def arrays(self, outcome: GPOutcome) -> dict[str, Shaped[np.ndarray, "..."]]:
        """Return the arrays of `arrays.npz` by name (docs/gp.md)."""
        return outcome.arrays() | paired_difference(outcome) | scored_arrays(outcome)

    def diagnostics(self, outcome: GPOutcome) -> dict[str, Shaped[np.ndarray, "..."]]:
        """Score predictions by fewer experts a point, if the outputs at the query points are known."""
        sample, queries, model = outcome.sample, outcome.queries, outcome.model
        if sample is None or queries is None or queries.y is None or model.registry.classes:
            return {}
        return scores_by_expert_count(
            sample,
            y=model.registry.units.outputs(queries.y)[sample.rows],
            prior=outcome.prior[sample.rows],
            noise=float(np.exp(2 * model.fit.theta[-1])),
            aggregation=outcome.settings.aggregation,
        )

    def influence(self, outcome: GPOutcome) -> Influence:
        """Return the error of the predictions without each site."""
        return influence_of_answers(outcome)

    def table(self, metrics: Mapping[str, float], outcome: GPOutcome) -> list[dict[str, Any]]:
        """Return a row for every expert: its site, its number of rows, and the number of points that it answered."""
        return table_of(outcome)

    def files(self, outcome: GPOutcome) -> dict[str, bytes]:
        """Return ``predictions.csv``, with a line for every query point, and ``suggestions.csv`` if it is asked for."""
        if outcome.queries is None:
            return {}
        files = {"predictions.csv": answers_csv(outcome)}
        return files if outcome.reductions is None else files | {"suggestions.csv": suggestions_csv(outcome)}

    def excluded(self, outcome: GPOutcome) -> Mapping[str, str]:
        """Return the sites that were left out, and why."""
        return excluded_from(outcome)

    def notes(self, outcome: GPOutcome) -> list[str]:
        """Return sentences on the fit and on the predictions, for users of the result."""
        return [*suggestion_note(outcome), *notes_on(outcome)]


def from_config(config: Mapping[str, Any], **common: Any) -> GP:
    """Return the strategy for a run configuration; `common` goes to `FusionStrategy`."""
    settings = Settings.of(config)
    target, id_column = str(config["target"]).strip(), str(config["id"]).strip()
    class_weight = str(config["class-weight"])
    return GP(settings=settings, target=target, id_column=id_column, class_weight=class_weight, **common)


def _is_convertible(text: str) -> bool:
    """Return whether hyperparameters in a site's own units can be converted to the common units."""
    kernels = [kernel_of(each, 1) for each in kernels_of(text)]
    return all(kernel.rescaled(kernel.start(), np.ones(1), 1.0) is not None for kernel in kernels)
