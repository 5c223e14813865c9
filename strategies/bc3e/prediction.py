"""Classes of new instances, by the alpha and beta of an earlier run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float64

from numerics.bc3e.anderson import GAMMA_TOLERANCE, PLAIN, SWEEPS
from numerics.bc3e.reliability import confusion_of, doubt_of
from protocols.bc3e.payloads import (
    Conclude,
    Holdings,
    Predict,
    PredictionTally,
    PredictShared,
    Shares,
    Starts,
    Survey,
    Tally,
)
from strategies.bc3e.accuracy import accuracies, add_up
from strategies.bc3e.checks import check_counts, check_holdings, check_plain_shares, check_predicted, check_starts
from strategies.bc3e.layout import Layout, agree_layout, strangers
from strategies.bc3e.shared import SharedInstances
from strategies.conversation import Broadcast, Conversation, Tell
from strategies.fusion import FusionStrategy


@dataclass(frozen=True)
class ClassPredictions:
    """Counts of the sites' predictions of new instances.

    Attributes
    ----------
    tallies : dict[str, Tally or PredictionTally]
        Counts of right decisions, by site.
    instances : dict[str, int]
        Numbers of predicted instances, by site.
    n : int
        Number of predicted instances over all sites; a shared instance counts once.
    left_out : dict[str, str]
        Sites whose holdings are unlike most others', with the reason.
    """

    tallies: Mapping[str, Tally | PredictionTally]
    instances: Mapping[str, int]
    n: int
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def measure(self) -> dict[str, float]:
        """Numbers for the progress line of the last round."""
        return {"predicted": float(self.n)}


class BC3EPrediction(FusionStrategy):
    """Ask every site to predict the classes of its new instances, by the alpha and beta of an earlier run.

    Parameters
    ----------
    distribution : str
        Distribution of the labels over sites, as in `Settings`.
    **common
        Parameters of `FusionStrategy`. Its reference's `earlier` holds ``alpha``, ``clusterings``, ``beta_0``,
        ``beta_1``, ..., and ``session``, by which sites that share instances find the tables that they saved.

    Examples
    --------
    >>> from strategies.fusion import Reference
    >>> earlier = {"alpha": np.ones(2), "clusterings": np.array(["km"]), "beta_0": np.full((2, 3), 1 / 3)}
    >>> strategy = BC3EPrediction(reference=Reference(earlier=earlier))
    >>> next(strategy.conversation()).ask.clusterings
    ('km',)
    """

    def __init__(self, *, distribution: str = "row", **common: Any) -> None:
        super().__init__(**common)
        self.distribution = distribution
        earlier = self.reference.earlier
        self._alpha: Float64[np.ndarray, "k"] = earlier["alpha"]
        self._names = tuple(map(str, earlier["clusterings"]))
        self._beta = tuple(earlier[f"beta_{place}"] for place in range(len(self._names)))
        self._draws = int(earlier.get("draws", 0))
        classifiers = map(str, earlier.get("classifiers", ()))
        for place, name in enumerate(classifiers):
            self._names += (confusion_of(name),)
            self._beta += (earlier[f"confusion_{place}"],)

    def conversation(self, repetition: int = 0) -> Conversation[ClassPredictions]:
        """Ask for an E-step at fixed parameters and for counts: in one round, unless instances are shared."""
        if self.distribution != "row":
            return (yield from self._predict_shared())
        ask = Predict(self._alpha, self._names, self._beta, GAMMA_TOLERANCE, SWEEPS, draws=self._draws)
        answers: dict[str, PredictionTally] = yield Broadcast(ask, check=check_predicted)
        instances = {site: answer.instances for site, answer in answers.items()}
        return ClassPredictions(answers, instances, sum(instances.values()))

    def _predict_shared(self) -> Conversation[ClassPredictions]:
        """Find the shared instances, sweep until they have converged, and ask the sites to write and count."""
        k = len(self._alpha)
        survey = Survey(self.distribution, f"{self.session}")
        holdings: dict[str, Holdings] = yield Broadcast(survey, check=partial(check_holdings, self.distribution, 0))
        left_out = strangers(holdings, self.distribution, k)
        # The earlier run has fixed the sizes, so new classes and clusters must not change them.
        holdings = {
            site: replace(held, n_classes=min(held.n_classes, k), n_clusters=np.zeros_like(held.n_clusters))
            for site, held in holdings.items()
            if site not in left_out
        }
        layout = agree_layout(holdings, self.distribution, k)
        starts: dict[str, Starts] = yield Tell(self._asks(layout), check=partial(check_starts, layout))
        layout = layout.restricted_to(set(starts))
        shared = SharedInstances(
            layout, {site: answer.start for site, answer in starts.items()}, self._alpha, self._draws
        )
        yield from self._converge(shared)
        alpha, doubt = self._alpha if self._draws else np.zeros(0), doubt_of(self._draws, layout.n_clusters)
        asks = {
            site: Conclude(
                True, shared.gamma_of(site, accepted=True), shared.instances_to_count(site), alpha, doubt=doubt
            )
            for site in sorted(shared.members)
        }
        tallies: dict[str, Tally] = yield Tell(asks, check=partial(check_counts, layout))
        instances = {site: layout.instances[site] for site in tallies}
        return ClassPredictions(tallies, instances, layout.distinct(tallies), left_out)

    def _asks(self, layout: Layout) -> dict[str, PredictShared]:
        return {
            site: PredictShared(
                alpha=self._alpha,
                clusterings=self._names,
                beta=self._beta,
                session=str(self.reference.earlier["session"]),
                shared=rows,
                grid_bits=layout.bits,
                tolerance=GAMMA_TOLERANCE,
                max_sweeps=SWEEPS,
                draws=self._draws,
            )
            for site, rows in layout.shared_rows.items()
        }

    def _converge(self, shared: SharedInstances) -> Conversation[None]:
        """Sweep over the shared instances until they have converged; go on without sites that stop answering."""
        shared.begin(PLAIN, SWEEPS, accepted=True)
        for number in range(1, SWEEPS + 1):
            asks = shared.asks(first=False)
            if not asks:
                return
            answers: dict[str, Shares] = yield Tell(asks, check=partial(check_plain_shares, shared.layout, asks))
            for site in set(asks) - set(answers):
                shared.drop(site)
            shared.take(answers, asks, self._alpha, GAMMA_TOLERANCE, last=number == SWEEPS)

    def metrics(self, outcome: ClassPredictions) -> dict[str, float]:
        """Return the metrics of `report.json` by name (docs/bc3e.md)."""
        return {"n_predicted": float(outcome.n), **accuracies(*add_up(outcome.tallies))}

    def excluded(self, outcome: ClassPredictions) -> Mapping[str, str]:
        """Return the sites whose holdings did not count, with the reason."""
        return outcome.left_out

    def table(self, metrics: Mapping[str, float], outcome: ClassPredictions) -> list[dict[str, Any]]:
        """Return a row for every site: its number of new instances, and its accuracy if it knows their classes."""
        rows = []
        for site, tally in outcome.tallies.items():
            row: dict[str, Any] = {"site": site, "instances": outcome.instances[site]}
            own = accuracies(*add_up({site: tally}))
            if "accuracy" in own:
                row["% correct"] = round(100 * own["accuracy"], 2)
            rows.append(row)
        return rows
