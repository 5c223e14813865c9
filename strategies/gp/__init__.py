"""The fusion center of Gaussian process experts: finds their common hyperparameters, sends every query point to the
experts that know its neighbourhood, and makes one prediction of theirs (docs/gp.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float64, Shaped

from numerics.gp.gates.network import Network
from numerics.gp.kernel_registry import kernel_of
from numerics.gp.measurements import Queries
from numerics.shared.threads import single_threaded
from protocols.gp.payloads import LARGEST, MOST_TRIED, Inputs, Moments, Rows, Survey
from protocols.gp.settings import Settings
from strategies.conversation import Broadcast, Conversation, asking_nothing, in_step
from strategies.errors import FusionError
from strategies.fusion import FusionStrategy
from strategies.gp.aggregation import asking_of, fused, most_important, ranked, told
from strategies.gp.checks import check_moments
from strategies.gp.disclosure import disclosed_inputs, shared_rows
from strategies.gp.expert_count_curve import Sample, scores_by_expert_count
from strategies.gp.federation import Federation
from strategies.gp.hyperparameters import fit, starts, train
from strategies.gp.model import Model
from strategies.gp.prediction import Answers, gather
from strategies.gp.report import Outcome, answers_csv, metrics_of, notes_on, table_of
from strategies.secure_aggregation import Masking

__all__ = ["GP", "Outcome", "Settings"]

_NETWORK_SEED = 4
_OF_LEARNING = ("kernel", "max-expert-rows", "fit-rounds", "candidates", "gate-rounds")
"""Settings that the earlier run brings, or that a prediction has no use for."""
_Learnt = tuple[Model, Queries | None, dict[str, Rows], dict[str, Inputs]]
"""A model, where it is to predict, and by site what was disclosed for that."""


class GP(FusionStrategy):
    """Predict with the Gaussian processes of all sites (papers/gp_experts.txt).

    Parameters
    ----------
    settings : Settings
        Kernel, gate, aggregation, and how much is spent on each.
    target : str
        Name of the output among the columns of the center's query file.
    id_column : str
        Name of the column there that names the points.
    **common
        Of `FusionStrategy`. Its reference's `queries` gives a scenario's query points, `test` the columns of the
        center's own file of them, `earlier` the arrays of a run whose experts are to predict.
    """

    def __init__(
        self, *, settings: Settings | None = None, target: str = "", id_column: str = "", **common: Any
    ) -> None:
        super().__init__(**common)
        self.settings = settings or Settings()
        self.target, self.id_column = target, id_column

    def conversation(self, repetition: int = 0) -> Conversation[Outcome]:
        """Learn what is to be learnt in rounds, unless an earlier run has, and have the chosen experts predict."""
        learnt = self._recalled(repetition) if self.reference.earlier else self._learnt(repetition)
        model, queries, shared, inputs = yield from learnt
        if queries is None:
            return Outcome(model, self.settings)
        return (yield from self._predicted(model, queries, shared, inputs, self.seed + repetition))

    def _recalled(self, repetition: int) -> Conversation[_Learnt]:
        """What an earlier run has learnt."""
        settings, model = self.settings, Model.saved(self.reference.earlier)
        queries = self._queries(model.federation, repetition)
        if settings.gate == "dnn" and not len(model.network):
            raise FusionError("gp.gate=dnn: the run that from names has trained no network; set another gate")
        shared, inputs = yield from in_step(*self._disclosures(model.federation, model.max_rows, queries))
        return model, queries, shared, inputs

    def _disclosures(self, federation: Federation, max_rows: int, queries: Queries | None) -> tuple[Any, Any]:
        """What predictions need of rows; without any predictions nothing is disclosed."""
        if queries is None:
            return asking_nothing({}), asking_nothing({})
        return shared_rows(federation, self.settings, max_rows), disclosed_inputs(federation, self.settings, max_rows)

    def _learnt(self, repetition: int) -> Conversation[_Learnt]:
        """Take stock, and learn the hyperparameters and the gate."""
        settings = self.settings
        survey = Survey(settings.max_expert_rows, settings.kernel, fit=_translates(settings.kernel))
        answers: dict[str, Moments] = yield Broadcast(survey, check=check_moments(settings.kernel))
        federation = Federation.of(answers)
        federation.check_enough(self.min_sites)
        queries = self._queries(federation, repetition)  # what is wrong with them is said before anything is learnt
        kernel = kernel_of(settings.kernel, len(federation.features))
        found, network, shared, inputs = yield from in_step(
            fit(
                federation,
                kernel,
                settings.kernel,
                starts(answers, federation, kernel),
                settings.max_expert_rows,
                candidates=settings.candidates,
                most_asks=settings.fit_rounds,
                masking=self._masking("likelihood", len(federation.counts)),
            ),
            self._gate_training(federation, self.seed + repetition),
            *self._disclosures(federation, settings.max_expert_rows, queries),
        )
        return Model(federation, settings.kernel, settings.max_expert_rows, found, network), queries, shared, inputs

    def _gate_training(self, federation: Federation, seed: int) -> Conversation[Float64[np.ndarray, "w"]]:
        settings = self.settings
        if settings.gate != "dnn":
            return np.zeros(0)
        network = Network(len(federation.features), federation.M)
        start = int(np.random.default_rng([seed, _NETWORK_SEED]).integers(2**31))
        masking = self._masking("slope", len(federation.willing("allow-gate-training")))
        return (yield from train(federation, network, start, settings.gate_rounds, settings.max_expert_rows, masking))

    def _masking(self, name: str, n_sites: int) -> Masking | None:
        """By which sums over so many sites alone are seen, if they are to be masked."""
        return Masking(name, min(self.min_sites, n_sites)) if self.settings.masked else None

    def _queries(self, federation: Federation, repetition: int) -> Queries | None:
        """Where the center wants to know the output: its own file, else the scenario's points, else nowhere.

        Raises
        ------
        FusionError
            If the points lack an input, or a number of one, or have others.
        """
        columns, given = self.reference.test, self.reference.queries
        queries = self._own_queries(federation, columns) if columns else given(repetition) if given else None
        if queries is None:
            return None
        if queries.features != federation.features:
            raise FusionError(
                f"the query points have the inputs {', '.join(queries.features)}, the experts"
                f" {', '.join(federation.features)}: they are not of the same data"
            )
        if np.abs(federation.units.inputs(queries.x)).max(initial=0.0) > LARGEST:
            raise FusionError(f"a query point lies beyond {LARGEST:g} standard deviations of an input")
        return queries

    def _own_queries(self, federation: Federation, columns: Mapping[str, Shaped[np.ndarray, "t"]]) -> Queries:
        """The points of the center's own file."""
        for name in federation.features:
            if name not in columns or columns[name].dtype.kind != "f":
                raise FusionError(f"the center's file of query points has no column of numbers {name!r}, an input")
            for point in np.flatnonzero(np.isnan(columns[name]))[:1]:
                raise FusionError(f"the center's file of query points: {name!r} is empty at point {point + 1}")
        x = np.column_stack([columns[name] for name in federation.features])
        return Queries(x, federation.features, columns.get(self.target), columns.get(self.id_column))

    # -- predictions --------------------------------------------------------------------------------------------------

    def _predicted(
        self,
        model: Model,
        queries: Queries,
        shared: dict[str, Rows],
        inputs: dict[str, Inputs],
        seed: int,
    ) -> Conversation[Outcome]:
        settings, federation = self.settings, model.federation
        kernel = kernel_of(model.kernel, len(federation.features))
        x = federation.units.inputs(queries.x)
        asking = asking_of(model, settings, shared, seed)
        there = np.ones(federation.M, bool)
        if settings.disclosed:
            there = np.isin(federation.site_of, list(inputs))
        K = settings.K(federation.M)
        static = settings.gate == "ggm"
        with single_threaded():
            order = ranked(model, kernel, settings, x)
        answers: Answers = yield from gather(federation, x, order, federation.M if static else K, there, asking)
        with single_threaded():
            if static:
                answers = answers.taking(most_important(answers, K))
            said = told(model, kernel, settings, x, answers, inputs, asking)
            made = fused(model, kernel, settings, x, said)
        # Features may take far more memory than all else; of cells and repetitions, the first alone is looked at again.
        answers = replace(answers, features=answers.features[:, :, :0].copy())
        sample = Sample.of(said) if seed == self.seed else None
        return Outcome(model, settings, queries, answers, made, sample, tuple(sorted(shared)))

    # -- what a run reports -------------------------------------------------------------------------------------------

    def metrics(self, outcome: Outcome) -> dict[str, float]:
        """Names and numbers of `report.json`."""
        return metrics_of(outcome)

    def arrays(self, outcome: Outcome) -> dict[str, Shaped[np.ndarray, "..."]]:
        """Names and arrays of `arrays.npz` (docs/gp.md)."""
        return outcome.arrays()

    def diagnostics(self, outcome: Outcome) -> dict[str, Shaped[np.ndarray, "..."]]:
        """Scores of predictions by fewer experts a point, where the outputs at the query points are known."""
        sample, queries, model = outcome.sample, outcome.queries, outcome.model
        if sample is None or queries is None or queries.y is None:
            return {}
        return scores_by_expert_count(
            sample,
            y=model.federation.units.outputs(queries.y)[sample.rows],
            prior=outcome.prior[sample.rows],
            noise=float(np.exp(2 * model.fit.theta[-1])),
            aggregation=outcome.settings.aggregation,
        )

    def table(self, metrics: Mapping[str, float], outcome: Outcome) -> list[dict[str, Any]]:
        """A row for every expert: its rows, and how many points it answered."""
        return table_of(outcome)

    def files(self, outcome: Outcome) -> dict[str, bytes]:
        """``predictions.csv``: a line for every query point."""
        return {} if outcome.queries is None else {"predictions.csv": answers_csv(outcome)}

    def excluded(self, outcome: Outcome) -> Mapping[str, str]:
        """Sites whose rows are in no expert."""
        return outcome.model.federation.excluded

    def notes(self, outcome: Outcome) -> list[str]:
        """What a reader should know before using the predictions."""
        return notes_on(outcome)


def from_config(config: Mapping[str, Any], **common: Any) -> GP:
    """Return the strategy for a run configuration; `common` goes to `FusionStrategy`."""
    settings = Settings.of(config)
    try:
        kernel_of(settings.kernel, 1)
    except ValueError as error:
        raise FusionError(f"gp.kernel: {error}") from error
    _refuse_what_is_ignored(config, settings, common.get("repetitions", 1))
    if settings.fit_rounds * settings.candidates > MOST_TRIED:
        raise FusionError(f"gp.fit-rounds times gp.candidates is more than the {MOST_TRIED} that a site tries in a run")
    if config["protocol"] and common.get("repetitions", 1) > 1:
        raise FusionError("a party's own rows are learnt from once; leave repetitions out")
    target, id_column = str(config["target"]).strip(), str(config["id"]).strip()
    return GP(settings=settings, target=target, id_column=id_column, **common)


def _translates(text: str) -> bool:
    """Whether hyperparameters found in a site's own units are of use in the common ones."""
    kernel = kernel_of(text, 1)
    return kernel.rescaled(kernel.start(), np.ones(1), 1.0) is not None


def _refuse_what_is_ignored(config: Mapping[str, Any], settings: Settings, repetitions: int) -> None:
    """A key that is set in vain is told, rather than passed over."""
    earlier = bool(str(config["from"]).strip())
    npae = settings.aggregation == "npae"
    in_vain: dict[str, str | bool] = dict.fromkeys(_OF_LEARNING, earlier and "a run that learns, not for a prediction")
    if config["protocol"]:  # a scenario's table has rows that need a key, and rows that do not
        in_vain |= {
            "covariance": not npae and "gp.aggregation=npae",
            "landmarks": not settings.sketched and "gp.aggregation=npae with gp.covariance=sketch",
            "communication": settings.aggregation != "grbcm" and "gp.aggregation=grbcm",
            "experts": settings.gate == "all" and "a gate that chooses",
        }
        if settings.gate != "dnn":
            in_vain["gate-rounds"] = "gp.gate=dnn"
    keys = Settings.keys()
    for key, needed in in_vain.items():
        if needed and config[f"gp.{key}"] != keys[f"gp.{key}"].declared:
            raise FusionError(f"gp.{key} is for {needed}: leave it out")
