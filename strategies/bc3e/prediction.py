"""Classes of new instances, by what an earlier run has learnt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float64

from protocols.bc3e.payloads import Conclude, Holdings, Predict, Predicted, PredictShared, Shares, Starts, Survey, Tally
from protocols.bc3e.settings import Settings
from strategies.bc3e.accuracy import accuracies, add_up
from strategies.bc3e.checks import check_holdings, check_plain_shares, check_predicted, check_starts, check_tally
from strategies.bc3e.em import SWEEPS
from strategies.bc3e.layout import Plan, make_plan
from strategies.bc3e.shared import SharedInstances
from strategies.conversation import Broadcast, Conversation, Tell
from strategies.fusion import FusionStrategy


@dataclass(frozen=True)
class Told:
    """What the sites say of their new instances.

    Attributes
    ----------
    tallies : dict[str, Tally or Predicted]
        By site.
    instances : dict[str, int]
        By site, how many it has told their class.
    n : int
        How many all have told, one that several sites hold counted once.
    """

    tallies: Mapping[str, Tally | Predicted]
    instances: Mapping[str, int]
    n: int

    @property
    def measure(self) -> dict[str, float]:
        """For the progress line of the last round."""
        return {"predicted": float(self.n)}


class Prediction(FusionStrategy):
    """Have every site tell its new instances their class, by the alpha and beta that an earlier run has learnt.

    Parameters
    ----------
    distribution : str
        As in `BC3E`, of the run that has learnt.
    **common
        Of `FusionStrategy`. Its reference's `earlier` has ``alpha``, ``clusterings``, ``beta_0``, ``beta_1``, ...; and
        ``session``, by which sites that share instances find what they have kept.
    """

    def __init__(self, *, distribution: str = "row", **common: Any) -> None:
        super().__init__(**common)
        self.distribution = distribution
        earlier = self.reference.earlier
        self._alpha: Float64[np.ndarray, "k"] = earlier["alpha"]
        self._names = tuple(map(str, earlier["clusterings"]))
        self._beta = tuple(earlier[f"beta_{place}"] for place in range(len(self._names)))

    def conversation(self, repetition: int = 0) -> Conversation[Told]:
        """An E-step at fixed parameters: where nothing is shared one round, in which counts come back."""
        if self.distribution != "row":
            return (yield from self._of_shared())
        ask = Predict(self._alpha, self._names, self._beta, Settings.gamma_tolerance, SWEEPS)
        answers: dict[str, Predicted] = yield Broadcast(ask, check=check_predicted)
        instances = {site: answer.instances for site, answer in answers.items()}
        return Told(answers, instances, sum(instances.values()))

    def _of_shared(self) -> Conversation[Told]:
        """Find the shared instances, sweep until they have settled, conclude."""
        k = len(self._alpha)
        survey = Survey(self.distribution, f"{self.session}")
        holdings: dict[str, Holdings] = yield Broadcast(survey, check=partial(check_holdings, self.distribution))
        # Classes and clusters that were not seen then are none: they decide no size.
        known = {
            site: replace(held, n_classes=min(held.n_classes, k), n_clusters=np.zeros_like(held.n_clusters))
            for site, held in holdings.items()
        }
        plan = make_plan(known, self.distribution, k)
        starts: dict[str, Starts] = yield Tell(self._asks(plan), check=partial(check_starts, plan))
        plan = plan.restricted_to(set(starts))
        shared = SharedInstances(plan, {site: answer.start for site, answer in starts.items()}, self._alpha)
        yield from self._settle(shared)
        asks = {
            site: Conclude(True, shared.gamma_of(site, accepted=True), shared.counted_by(site))
            for site in sorted(shared.members)
        }
        tallies: dict[str, Tally] = yield Tell(asks, check=check_tally)
        return Told(tallies, {site: plan.instances[site] for site in tallies}, plan.distinct(tallies))

    def _asks(self, plan: Plan) -> dict[str, PredictShared]:
        return {
            site: PredictShared(
                alpha=self._alpha,
                clusterings=self._names,
                beta=self._beta,
                session=str(self.reference.earlier["session"]),
                shared=rows,
                grid_bits=plan.bits,
                tolerance=Settings.gamma_tolerance,
                max_sweeps=SWEEPS,
            )
            for site, rows in plan.shared_rows.items()
        }

    def _settle(self, shared: SharedInstances) -> Conversation[None]:
        """Sweeps over the shared instances; without a site that no longer answers they go on."""
        k = len(self._alpha)
        shared.begin(accepted=True)
        for number in range(1, SWEEPS + 1):
            asks = shared.asks(first=False)
            if not asks:
                return
            answers: dict[str, Shares] = yield Tell(asks, check=partial(check_plain_shares, k, asks))
            for site in set(asks) - set(answers):
                shared.drop(site)
            shared.take(answers, asks, self._alpha, Settings.gamma_tolerance, last=number == SWEEPS)

    def metrics(self, outcome: Told) -> dict[str, float]:
        """Names and numbers of `report.json`."""
        return {"n_predicted": float(outcome.n), **accuracies(*add_up(outcome.tallies))}

    def table(self, metrics: Mapping[str, float], outcome: Told) -> list[dict[str, Any]]:
        """A row for every site: its new instances, and the share of right ones where it knows their classes."""
        rows = []
        for site, tally in outcome.tallies.items():
            row: dict[str, Any] = {"site": site, "instances": outcome.instances[site]}
            own = accuracies(*add_up({site: tally}))
            if "accuracy" in own:
                row["% correct"] = round(100 * own["accuracy"], 2)
            rows.append(row)
        return rows
