"""What a run of Gaussian process experts reports: the model, its predictions, and how good they are."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float64, Shaped

from numerics.gp.aggregation import FusedPrediction
from numerics.gp.kernel_registry import kernel_of
from numerics.gp.measurements import Queries
from numerics.gp.metrics import coverage, msll, smse
from strategies.column_names import list_names
from strategies.gp.expert_count_curve import Sample
from strategies.gp.model import Model
from strategies.gp.prediction import Answers

if TYPE_CHECKING:
    from protocols.gp.settings import Settings

LEVELS = (0.5, 0.8, 0.95, 0.99)
"""Of the prediction intervals whose coverage is reported."""
_UNKNOWN_SHARE = 0.9
"""Share of the prior variance that is left where the experts know next to nothing."""
_HARDLY = 100.0
"""Length of an input, in its standard deviations, from which on it hardly matters."""
_SHOWN = 20


@dataclass(frozen=True, eq=False)
class Outcome:
    """A model, and what it says of the query points, if there are any.

    Attributes
    ----------
    model : Model
        What was learnt.
    settings : Settings
        How the predictions were made.
    queries : Queries or None
        The points, in the data's own units.
    answers : Answers or None
        What the experts said of them, in the agreed units.
    fused : FusedPrediction or None
        The predictions, in the agreed units, of an observation.
    sample : Sample or None
        What some of these were made of.
    shared : tuple of str
        Sites that have given rows to the communication expert.
    """

    model: Model
    settings: Settings
    queries: Queries | None = None
    answers: Answers | None = None
    fused: FusedPrediction | None = None
    sample: Sample | None = None
    shared: tuple[str, ...] = ()

    @property
    def prior(self) -> Float64[np.ndarray, "N"]:
        """Variance of the latent function where nothing is known, in the agreed units."""
        assert self.queries is not None
        federation, theta = self.model.federation, self.model.fit.theta
        kernel = kernel_of(self.model.kernel, len(federation.features))
        return kernel.diagonal(theta[:-1], federation.units.inputs(self.queries.x))

    @property
    def mean(self) -> Float64[np.ndarray, "N"]:
        """Predictions in the data's own units."""
        assert self.fused is not None
        units = self.model.federation.units
        return np.asarray(self.fused.mean * units.y_scale + units.y_mean)

    @property
    def std(self) -> Float64[np.ndarray, "N"]:
        """Standard deviation of an observation, in the data's own units."""
        assert self.fused is not None
        return np.asarray(np.sqrt(self.fused.variance) * self.model.federation.units.y_scale)

    def arrays(self) -> dict[str, Shaped[np.ndarray, "..."]]:
        """Arrays of `arrays.npz` (docs/gp.md)."""
        arrays = self.model.arrays()
        if self.queries is None or self.answers is None:
            return arrays
        arrays |= {
            "mean": self.mean,
            "std": self.std,
            "selected": self.answers.selected,
            "queries": self.queries.x,
        }
        return arrays if self.queries.y is None else {**arrays, "outputs": self.queries.y}


def metrics_of(outcome: Outcome) -> dict[str, float]:
    """Names and numbers of `report.json`."""
    model, federation = outcome.model, outcome.model.federation
    metrics = {
        "log_likelihood": model.fit.log_likelihood,
        "fit_rounds": float(model.fit.rounds),
        "n_experts": float(federation.M),
        "n_rows": float(federation.n_rows),
        "noise": float(np.exp(model.fit.theta[-1])),
    }
    if outcome.queries is None or outcome.answers is None:
        return metrics
    n = max(1, len(outcome.queries.x))
    metrics |= {
        "n_queries": float(len(outcome.queries.x)),
        "n_selected": float((outcome.answers.selected >= 0).sum() / n),
        "bytes_per_query": outcome.answers.n_bytes / n,
        "n_dropped": float((~outcome.answers.there).sum()),
    }
    return metrics if outcome.queries.y is None else metrics | _accuracy(outcome, outcome.queries.y)


def _accuracy(outcome: Outcome, outputs: Float64[np.ndarray, "N"]) -> dict[str, float]:
    """How good the predictions are where outputs were measured; what is not defined is left out."""
    assert outcome.fused is not None
    fused, federation = outcome.fused, outcome.model.federation
    y = federation.units.outputs(outputs)
    # The pooled moments are those of the training outputs, so these have mean 0 and variance 1, or 0 if they are equal.
    scores = {
        "smse": smse(y, fused.mean),
        "msll": msll(y, fused.mean, fused.variance, 0.0, 1.0),
        "rmse": float(np.sqrt(np.mean((outputs - outcome.mean) ** 2))),
        **{f"coverage_{level * 100:.0f}": coverage(y, fused.mean, fused.variance, level) for level in LEVELS},
    }
    return {name: score for name, score in scores.items() if np.isfinite(score)}


def table_of(outcome: Outcome) -> list[dict[str, Any]]:
    """A row for every expert: whose it is, how many rows it has, and how many points it answered."""
    federation, answers = outcome.model.federation, outcome.answers
    rows = []
    for expert, (site, n) in enumerate(zip(federation.site_of, federation.experts.counts.tolist(), strict=True)):
        row: dict[str, Any] = {"expert": expert, "site": site, "rows": n}
        if answers is not None:
            row["queries"] = int((answers.selected == expert).sum())
        rows.append(row)
    return rows


def notes_on(outcome: Outcome) -> list[str]:
    """What a reader should know before using the predictions."""
    return [*_notes_on_fit(outcome.model), *_notes_on_answers(outcome)]


def _notes_on_fit(model: Model) -> list[str]:
    notes = []
    if not model.fit.converged:
        notes.append(
            f"the search for the hyperparameters was still gaining after {model.fit.rounds} asks: more gp.fit-rounds"
            " may find likelier ones"
        )
    features = model.federation.features
    lengths = kernel_of(model.kernel, len(features)).lengths(model.fit.theta[:-1])
    idle = [name for name, length in zip(features, lengths, strict=True) if length >= _HARDLY]
    if idle:
        notes.append(f"inputs that hardly matter (the function is the same far along them): {_told(idle)}")
    constant = [name for name, varies in zip(features, model.federation.varies, strict=True) if not varies]
    if constant:
        notes.append(f"inputs that are the same in every row: {_told(constant)}")
    within = np.einsum("mdd->d", model.federation.experts.covariances) > 0
    between = [name for name, v, w in zip(features, model.federation.varies, within, strict=True) if v and not w]
    if between:
        notes.append(
            f"inputs that differ between experts and are the same within each: {_told(between)}; nothing tells how"
            " far such an input reaches, and its length is what the search began with"
        )
    return notes


def _notes_on_answers(outcome: Outcome) -> list[str]:
    answers, federation = outcome.answers, outcome.model.federation
    if answers is None or outcome.fused is None:
        return ["there were no query points: a later run predicts with from, and the points as data"]
    notes = []
    dropped = sorted({federation.site_of[expert] for expert in np.flatnonzero(~answers.there)})
    if outcome.settings.disclosed:
        unwilling = sorted(set(federation.counts) - set(federation.willing("allow-inputs")))
        dropped = [site for site in dropped if site not in unwilling]
        if unwilling:
            notes.append(f"without the experts of {_told(unwilling)}, which disclose no inputs (allow-inputs)")
    if dropped:
        notes.append(f"without the experts of {_told(dropped)} where they gave no answer; the next took their place")
    alone = int((answers.selected < 0).all(axis=1).sum())
    if alone:
        whose = "communication expert's" if outcome.settings.aggregation == "grbcm" else "prior's"
        notes.append(f"at {alone} points no expert was left: the prediction there is the {whose}")
    noise = np.exp(2 * outcome.model.fit.theta[-1])
    prior = outcome.prior
    unknown = int((outcome.fused.variance - noise > _UNKNOWN_SHARE * prior).sum())
    if unknown:
        notes.append(
            f"{unknown} of {len(prior)} points lie where the experts know next to nothing: the prediction there"
            " is about the mean of all outputs, and its deviation says so"
        )
    if outcome.settings.disclosed:
        notes.append("sites disclosed the inputs of their rows to the fusion center (gp.covariance=inputs)")
    if outcome.settings.aggregation == "grbcm":
        given = _told(outcome.shared)
        notes.append(f"rows of {given} were shown to all sites, for the communication expert (gp.aggregation=grbcm)")
    if outcome.settings.gate == "dnn":
        unwilling = sorted(set(federation.counts) - set(federation.willing("allow-gate-training")))
        if unwilling:
            notes.append(
                f"the gate was trained without the rows of {_told(unwilling)} (allow-gate-training): points drawn"
                " from their moments stood in"
            )
    return notes


def _told(names: Sequence[str]) -> str:
    return list_names(names, _SHOWN)


def answers_csv(outcome: Outcome) -> bytes:
    """A line for every query point: its name or number, mean, standard deviation of an observation, experts used."""
    assert outcome.queries is not None
    assert outcome.answers is not None
    queries, federation = outcome.queries, outcome.model.federation
    several = len(federation.site_of) > len(federation.counts)
    called = [f"{site}/{expert}" if several else site for expert, site in enumerate(federation.site_of)]
    names = queries.names if queries.names is not None else np.arange(1, len(queries.x) + 1)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    measured = [] if queries.y is None else ["measured"]
    writer.writerow(["query", "mean", "std", "experts", *measured])
    used = [" ".join(called[expert] for expert in row if expert >= 0) for row in outcome.answers.selected.tolist()]
    columns = [names.tolist(), outcome.mean.tolist(), outcome.std.tolist(), used]
    if queries.y is not None:
        columns.append(queries.y.tolist())
    writer.writerows(zip(*columns, strict=True))
    return text.getvalue().encode()
