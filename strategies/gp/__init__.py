"""The fusion center of Gaussian process experts: finds their common hyperparameters, sends every query point to the
experts that know its neighbourhood, and makes one prediction of theirs (docs/gp.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from numerics.gp.expert import Expert
from numerics.gp.gates import discriminant, nearest
from numerics.gp.gates.network import Network
from numerics.gp.gates.ranking import ranking
from numerics.gp.kernels import Kernel, kernel_of
from numerics.gp.landmarks import DEFAULT, offsets
from numerics.gp.rules import Fused, Predictions, aggregate
from numerics.gp.scoring import CANDIDATES, MOST_ASKS
from numerics.measurements import Queries
from numerics.threads import single_threaded
from protocols.gp import LARGEST, MOST_EXPERTS, MOST_ROWS, Disclose, Inputs, Moments, Rows, Share, Survey
from protocols.payload import PayloadError
from strategies.conversation import Broadcast, Check, Conversation, Tell, in_step
from strategies.fusion import FusionStrategy
from strategies.gp.federation import Federation
from strategies.gp.fitting import fit, starts, train
from strategies.gp.predicting import Answers, Asking, gather
from strategies.gp.report import Model, Outcome, answers_csv, metrics_of, notes_on, table_of
from strategies.roster import FusionError

__all__ = ["GP", "Outcome", "Settings"]

_MOST_NAME = 200
"""Characters of an input's name: it is shown in log and report."""
_NETWORK_SEED, _LANDMARK_SEED = 4, 5


@dataclass(frozen=True)
class Settings:
    """What the run configuration sets under ``gp.`` (server/config.py has each key's meaning and range).

    A key that is empty (``""`` or 0) there has the value here; `experts` empty is half of them, `communication` 0 as
    many rows as an expert has on average.
    """

    kernel: str = "se"
    gate: str = "gaussian"
    experts: str = ""
    aggregation: str = "npae"
    covariance: str = "sketch"
    landmarks: int = DEFAULT
    max_expert_rows: int = 2000
    fit_rounds: int = MOST_ASKS
    candidates: int = CANDIDATES
    gate_rounds: int = 40
    communication: float = 0.0

    def K(self, M: int) -> int:
        """How many of M experts a point is sent to."""
        if self.gate == "all":
            return M
        if not self.experts:
            return math.ceil(M / 2)
        wanted = round(float(self.experts) * M) if "." in self.experts else int(self.experts)
        return min(max(wanted, 1), M)

    @property
    def sketched(self) -> bool:
        """Whether experts send features from which their covariances follow."""
        return self.aggregation == "npae" and self.covariance == "sketch"

    @property
    def disclosed(self) -> bool:
        """Whether sites are asked for the inputs of their rows."""
        return self.aggregation == "npae" and self.covariance == "inputs"


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
        """Take stock, learn what is to be learnt in rounds, and have the chosen experts predict."""
        settings, seed = self.settings, self.seed + repetition
        earlier = self.reference.earlier
        if earlier:
            model = Model.saved(earlier)
            federation, kernel = model.federation, kernel_of(model.kernel, len(model.federation.features))
            queries = self._queries(federation, repetition)
            if settings.gate == "dnn" and not len(model.network):
                raise FusionError("gp.gate=dnn: the run that gp.model names has trained no network; set another gate")
            shared, inputs = yield from in_step(
                _shared(federation, settings, model.max_rows), _inputs(federation, settings, model.max_rows)
            )
        else:
            survey = Survey(settings.max_expert_rows, settings.kernel, fit=_translates(settings.kernel))
            answers: dict[str, Moments] = yield Broadcast(survey, check=_check_moments)
            federation = Federation.of(answers)
            federation.check_enough(self.min_sites)
            kernel = kernel_of(settings.kernel, len(federation.features))
            queries = self._queries(federation, repetition)
            found, network, shared, inputs = yield from in_step(
                fit(
                    federation,
                    kernel,
                    settings.kernel,
                    starts(answers, federation, kernel),
                    settings.max_expert_rows,
                    candidates=settings.candidates,
                    most_asks=settings.fit_rounds,
                ),
                self._gate_training(federation, seed),
                _shared(federation, settings, settings.max_expert_rows),
                _inputs(federation, settings, settings.max_expert_rows),
            )
            model = Model(federation, settings.kernel, settings.max_expert_rows, found, network)
        if queries is None:
            return Outcome(model, settings)
        return (yield from self._predicted(model, kernel, queries, shared, inputs, seed))

    # -- what is learnt in rounds -------------------------------------------------------------------------------------

    def _gate_training(self, federation: Federation, seed: int) -> Conversation[Float64[np.ndarray, "w"]]:
        settings = self.settings
        if settings.gate != "dnn":
            return np.zeros(0)
        network = Network(len(federation.features), federation.M)
        start = network.start(int(np.random.default_rng([seed, _NETWORK_SEED]).integers(2**31)))
        return (yield from train(federation, network, start, settings.gate_rounds, settings.max_expert_rows))

    def _queries(self, federation: Federation, repetition: int) -> Queries | None:
        """Where the center wants to know the output: its own file, else the scenario's points, else nowhere.

        Raises
        ------
        FusionError
            If the file lacks an input.
        """
        columns = self.reference.test
        if not columns:
            return self.reference.queries(repetition) if self.reference.queries else None
        for name in federation.features:
            if name not in columns or columns[name].dtype.kind != "f":
                raise FusionError(f"the center's file of query points has no column of numbers {name!r}, an input")
        x = np.column_stack([columns[name] for name in federation.features])
        if np.abs(x).max(initial=0.0) > LARGEST:
            raise FusionError(f"the center's file of query points holds a number beyond {LARGEST:g}")
        return Queries(x, federation.features, columns.get(self.target), columns.get(self.id_column))

    # -- predictions --------------------------------------------------------------------------------------------------

    def _predicted(
        self,
        model: Model,
        kernel: Kernel,
        queries: Queries,
        shared: dict[str, Rows],
        inputs: dict[str, Inputs],
        seed: int,
    ) -> Conversation[Outcome]:
        settings, federation, theta = self.settings, model.federation, model.fit.theta
        x = federation.units.inputs(queries.x)
        asking = _asking(model, kernel, settings, shared, seed)
        there = np.ones(federation.M, bool)
        if settings.disclosed:
            there = np.isin(federation.site_of, list(inputs))
        K = settings.K(federation.M)
        static = settings.gate == "ggm"
        with single_threaded():
            order = _ranking(model, kernel, settings, x)
        answers: Answers = yield from gather(federation, x, order, federation.M if static else K, there, asking)
        with single_threaded():
            if static:
                answers = answers.taking(_most_important(answers, K))
            fused = _fused(model, kernel, settings, x, answers, inputs, asking)
        return Outcome(model, settings, queries, answers, fused, kernel.diagonal(theta[:-1], x))

    # -- what a run reports -------------------------------------------------------------------------------------------

    def metrics(self, outcome: Outcome) -> dict[str, float]:
        """Names and numbers of `report.json`."""
        return metrics_of(outcome)

    def arrays(self, outcome: Outcome) -> dict[str, Shaped[np.ndarray, "..."]]:
        """Names and arrays of `arrays.npz` (docs/gp.md)."""
        return outcome.arrays()

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
    """The strategy that a run configuration asks for (server/config.py); `common` goes to `FusionStrategy`."""
    given = {field.name: config[f"gp.{field.name.replace('_', '-')}"] for field in fields(Settings)}
    settings = replace(Settings(), **{name: value for name, value in given.items() if value not in ("", 0)})
    try:
        kernel_of(settings.kernel, 1)
    except ValueError as error:
        raise FusionError(f"gp.kernel: {error}") from error
    if settings.covariance == "inputs" and settings.aggregation != "npae":
        raise FusionError(f"gp.covariance=inputs is for gp.aggregation=npae; {settings.aggregation} needs none")
    if config["protocol"] and common.get("repetitions", 1) > 1:
        raise FusionError("a party's own rows are learnt from once; leave repetitions out")
    target, id_column = str(config["target"]).strip(), str(config["id"]).strip()
    return GP(settings=settings, target=target, id_column=id_column, **common)


def _translates(text: str) -> bool:
    """Whether hyperparameters found in a site's own units are of use in the common ones."""
    kernel = kernel_of(text, 1)
    return kernel.rescaled(kernel.start(), np.ones(1), 1.0) is not None


# -- rows that are disclosed ------------------------------------------------------------------------------------------


def _shared(federation: Federation, settings: Settings, max_rows: int) -> Conversation[dict[str, Rows]]:
    """Rows for the communication expert from every site that gives some, by site."""
    if settings.aggregation != "grbcm":
        return {}
    wanted = rows_wanted(federation, settings)
    asks = {site: Share(**federation.agreed(site, max_rows), rows=rows) for site, rows in wanted.items()}
    answers: dict[str, Rows] = yield Tell(asks, check=_check_rows(wanted))
    if not sum(len(answer.y) for answer in answers.values()):
        raise FusionError(
            "gp.aggregation=grbcm needs a communication expert, and no site gives it rows (allow-rows in its node"
            " configuration); set another gp.aggregation"
        )
    return answers


def rows_wanted(federation: Federation, settings: Settings) -> dict[str, int]:
    """How many rows each site is asked to share, in proportion to those it has."""
    share = settings.communication or 1 / (federation.M + 1)
    return {site: max(1, round(share * federation.rows_of(site))) for site in federation.counts}


def _inputs(federation: Federation, settings: Settings, max_rows: int) -> Conversation[dict[str, Inputs]]:
    """The inputs of every site that discloses them, by site."""
    if not settings.disclosed:
        return {}
    asks = {site: Disclose(**federation.agreed(site, max_rows)) for site in federation.counts}
    answers: dict[str, Inputs] = yield Tell(asks, check=_check_inputs(federation))
    if not answers:
        raise FusionError(
            "gp.covariance=inputs: no site discloses its inputs (allow-inputs in its node configuration); set"
            " gp.covariance=sketch"
        )
    return answers


# -- gate and aggregation ---------------------------------------------------------------------------------------------


def _asking(model: Model, kernel: Kernel, settings: Settings, shared: Mapping[str, Rows], seed: int) -> Asking:
    federation = model.federation
    given = [shared[site] for site in federation.counts if site in shared]
    wanted = rows_wanted(federation, settings)
    around = np.zeros((0, len(federation.features)))
    if settings.sketched:
        number = int(np.random.default_rng([seed, _LANDMARK_SEED]).integers(2**31))
        around = offsets(settings.landmarks, kernel.lengths(model.fit.theta[:-1]), number)
    return Asking(
        kernel=model.kernel,
        theta=model.fit.theta,
        max_rows=model.max_rows,
        offsets=around,
        shared_x=np.concatenate([np.zeros((0, len(federation.features))), *(rows.x for rows in given)]),
        shared_y=np.concatenate([np.zeros(0), *(rows.y for rows in given)]),
        shared_rows={site: wanted[site] for site in shared},
    )


def _ranking(
    model: Model, kernel: Kernel, settings: Settings, x: Float64[np.ndarray, "N d"]
) -> Int64[np.ndarray, "N M"]:
    """All experts in the order in which each point wants them."""
    experts = model.federation.experts
    lengths = kernel.lengths(model.fit.theta[:-1])
    if settings.gate == "dnn":
        network = Network(x.shape[1], len(experts.counts))
        return ranking(network.log_probabilities(model.network, x))
    if settings.gate == "gaussian":
        return ranking(discriminant.scores(x, experts, lengths))
    return ranking(nearest.scores(x, experts))


def _most_important(answers: Answers, K: int) -> Int64[np.ndarray, "N K"]:
    """The same K experts for all points, by the graph of their predictions (Algorithm 1)."""
    from numerics.gp.gates.graphical import importance

    present = np.flatnonzero(answers.there)
    by_expert = np.broadcast_to(present, (len(answers.mean), len(present)))
    order = np.argsort(-importance(answers.taking(by_expert).mean), kind="stable")
    chosen = present[order][:K]
    padded = np.concatenate([chosen, np.full(K - len(chosen), -1)])
    return np.tile(padded, (len(answers.mean), 1))


def _fused(
    model: Model,
    kernel: Kernel,
    settings: Settings,
    x: Float64[np.ndarray, "N d"],
    answers: Answers,
    inputs: Mapping[str, Inputs],
    asking: Asking,
) -> Fused:
    theta = model.fit.theta
    predictions = Predictions(
        answers.mean,
        answers.explained,
        answers.selected >= 0,
        directions=answers.features if settings.sketched else None,
        covariance=_exact(model.federation, kernel, theta, x, answers.selected, inputs) if settings.disclosed else None,
        common=(
            Expert(kernel, theta, asking.shared_x, asking.shared_y).predict(x)
            if settings.aggregation == "grbcm"
            else None
        ),
    )
    prior = kernel.diagonal(theta[:-1], x)
    return aggregate(settings.aggregation, predictions, prior, float(np.exp(2 * theta[-1])))


def _exact(
    federation: Federation,
    kernel: Kernel,
    theta: Float64[np.ndarray, "p"],
    x: Float64[np.ndarray, "N d"],
    selected: Int64[np.ndarray, "N K"],
    inputs: Mapping[str, Inputs],
) -> Float64[np.ndarray, "N K K"]:
    """Covariances between the selected experts' predictions, from their inputs."""
    from numerics.gp.covariances import covariances

    place = np.full(federation.M + 1, -1)  # the last for "none"
    rows: list[Float64[np.ndarray, "n d"]] = []
    for site, answer in inputs.items():
        for expert, own in zip(federation.places[site].tolist(), answer.x, strict=True):
            place[expert] = len(rows)
            rows.append(own)
    return covariances(kernel, theta, rows, x, place[selected])


# -- checks -----------------------------------------------------------------------------------------------------------


def _check_moments(site: str, answer: Moments) -> None:
    def refuse(field: str, problem: str) -> None:
        raise PayloadError(answer.title(), field, problem)

    names = answer.features
    if not names or len(set(names)) < len(names):
        refuse("features", "there is none, or one comes twice")
    if not all(0 < len(name) <= _MOST_NAME and name.isprintable() for name in names):
        refuse("features", f"a name is longer than {_MOST_NAME} characters, or holds others than printable ones")
    if answer.means.shape[1] != len(names):
        refuse("means", f"expected {len(names)} inputs, got {answer.means.shape[1]}")
    if not 1 <= len(answer.counts) <= MOST_EXPERTS:
        refuse("counts", f"expected 1 to {MOST_EXPERTS} experts")
    if not 1 <= answer.counts.min() <= answer.counts.max() <= MOST_ROWS:
        refuse("counts", f"expected experts of 1 to {MOST_ROWS} rows")
    for field in ("means", "y_means"):
        if np.abs(getattr(answer, field)).max() > LARGEST:
            refuse(field, f"expected numbers up to {LARGEST:g}")
    if not 0 <= answer.y_variances.min() <= answer.y_variances.max() <= LARGEST**2:
        refuse("y_variances", "expected variances")
    if not _are_covariances(answer.covariances):
        refuse("covariances", "expected covariance matrices")
    if len(answer.theta) and np.abs(answer.theta).max() > np.log(LARGEST):
        refuse("theta", "is out of bounds")


def _are_covariances(matrices: Float64[np.ndarray, "m d d"]) -> bool:
    """Symmetric, and with no correlation beyond 1."""
    variances = np.einsum("mdd->md", matrices)
    if not 0 <= variances.min() <= variances.max() <= LARGEST**2:
        return False
    deviations = np.sqrt(variances)
    most = deviations[:, :, np.newaxis] * deviations[:, np.newaxis, :]
    return bool(np.array_equal(matrices, matrices.swapaxes(1, 2)) and (np.abs(matrices) <= most * (1 + 1e-6)).all())


def _check_rows(wanted: Mapping[str, int]) -> Check:
    def check(site: str, answer: Rows) -> None:
        if len(answer.y) > wanted[site]:
            raise PayloadError(answer.title(), "y", f"expected {wanted[site]} rows at most, got {len(answer.y)}")
        _check_size(answer, "x", (answer.x,))

    return check


def _check_inputs(federation: Federation) -> Check:
    def check(site: str, answer: Inputs) -> None:
        told = [x.shape for x in answer.x]
        expected = [(int(n), len(federation.features)) for n in federation.counts[site]]
        if told != expected:
            raise PayloadError(answer.title(), "x", f"expected inputs of shapes {expected}, got {told}")
        _check_size(answer, "x", answer.x)

    return check


def _check_size(answer: Rows | Inputs, field: str, arrays: Sequence[Float64[np.ndarray, "n d"]]) -> None:
    if any(np.abs(x).max(initial=0.0) > LARGEST for x in arrays):
        raise PayloadError(answer.title(), field, f"expected coordinates up to {LARGEST:g}")
