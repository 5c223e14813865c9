"""The fusion center of BC3E: M-steps of a variational EM whose E-steps run at the sites (docs/bc3e.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Shaped

from protocols.bc3e.payloads import Conclude, Holdings, Survey, Tally
from protocols.bc3e.settings import Settings
from strategies.bc3e.accuracy import accuracies, add_up
from strategies.bc3e.checks import check_holdings, check_starts, check_tally
from strategies.bc3e.em import EM, EMFit
from strategies.bc3e.layout import Layout, agree_layout
from strategies.bc3e.prediction import BC3EPrediction
from strategies.conversation import Broadcast, Conversation, Tell, together
from strategies.errors import FusionError
from strategies.fusion import FusionStrategy

__all__ = ["BC3E", "FittedEnsemble", "Settings"]

RESTARTS_WITHOUT_CLASSIFIERS = 10
"""Without a classifier, uniform beta is a saddle of the bound: of this many random starts the best counts."""


@dataclass(frozen=True)
class FittedEnsemble:
    """The ensemble of classifiers and clusterings with its fitted parameters.

    Attributes
    ----------
    fit : EMFit
        alpha, beta, the bound and how it was reached.
    correct, total : dict[str, int]
        By method (``bc3e``, ``vote``, the classifiers), right decisions and those that could be checked.
    starts : int
        Number of fits, of which it is the best.
    """

    fit: EMFit
    correct: dict[str, int]
    total: dict[str, int]
    starts: int

    @property
    def measure(self) -> dict[str, float]:
        """For the progress line of the last round."""
        return {"bound": self.fit.bound}


class BC3E(FusionStrategy):
    """Combine class and cluster labels of several sites (Acharya, Hruschka and Ghosh 2011; docs/bc3e.md).

    Parameters
    ----------
    settings : Settings
        What the sites hold, and how the model is fitted.
    **common
        Of `FusionStrategy`.

    Examples
    --------
    Its first request asks every site what it holds:

    >>> next(BC3E(session="run-1").conversation()).ask
    Survey(distribution='row', salt='run-1')
    """

    def __init__(self, *, settings: Settings | None = None, **common: Any) -> None:
        super().__init__(**common)
        self.settings = settings or Settings()

    def conversation(self, repetition: int = 0) -> Conversation[FittedEnsemble]:
        """Survey what the sites hold, fit the model, and have the sites write and count."""
        distribution = self.settings.distribution
        survey = Survey(distribution, f"{self.session}")
        holdings: dict[str, Holdings] = yield Broadcast(survey, check=partial(check_holdings, distribution))
        layout = agree_layout(holdings, distribution, self.settings.classes)
        starts = {}
        if distribution != "row":
            setups = {site: layout.setup(site) for site in holdings}
            answers = yield Tell(setups, check=partial(check_starts, layout))
            layout = layout.restricted_to(set(answers))
            starts = {site: answer.start for site, answer in answers.items()}
        seeds = self._start_seeds(layout, repetition)
        fits = yield from together(
            {str(place): EM(layout, self.settings, seed, starts).run() for place, seed in enumerate(seeds)}
        )
        best = max(fits, key=lambda lane: fits[lane].bound)
        tallies = yield from together({best: _conclude(layout, fits[best])})
        correct, total = add_up(tallies[best])
        return FittedEnsemble(fits[best], correct, total, len(seeds))

    def _start_seeds(self, layout: Layout, repetition: int) -> list[int]:
        """Return a start for each fit; the first is the uniform one where classifiers break the symmetry."""
        number = self.settings.restarts or (1 if layout.n_classifiers else RESTARTS_WITHOUT_CLASSIFIERS)
        rng = np.random.default_rng([self.seed + repetition, 1])
        seeds = [int(seed) for seed in rng.integers(1, 2**31, size=number)]
        return [0, *seeds[1:]] if layout.n_classifiers else seeds

    # -- what a run reports -------------------------------------------------------------------------------------------

    def metrics(self, outcome: FittedEnsemble) -> dict[str, float]:
        """Return names and numbers of `report.json`."""
        fit = outcome.fit
        metrics = {
            "bound": fit.bound,
            "rounds_to_converge": float(fit.rounds),
            "converged": float(fit.converged),
        }
        return metrics | accuracies(outcome.correct, outcome.total)

    def arrays(self, outcome: FittedEnsemble) -> dict[str, Shaped[np.ndarray, "..."]]:
        """Return ``alpha``; ``clusterings``, names in order, and ``beta_0``, ``beta_1``, ... of them; ``bounds``."""
        names = sorted(outcome.fit.beta)
        betas = {f"beta_{place}": outcome.fit.beta[name] for place, name in enumerate(names)}
        return {
            "alpha": outcome.fit.alpha,
            "clusterings": np.array(names, dtype=str),
            **betas,
            "bounds": np.array(outcome.fit.bounds),
        }

    def table(self, metrics: Mapping[str, float], outcome: FittedEnsemble) -> list[dict[str, Any]]:
        """Return the comparison of the paper's Table I: accuracy of BC3E, vote, best component and each classifier."""
        order = ["accuracy", "accuracy_majority", "accuracy_best_component"]
        names = order + sorted(name for name in metrics if name.startswith("accuracy_"))
        rows = []
        for name in dict.fromkeys(name for name in names if name in metrics and not name.endswith("_se")):
            method = {"accuracy": "BC3E", "accuracy_majority": "majority vote"}.get(name)
            row: dict[str, Any] = {"method": method or name.removeprefix("accuracy_").replace("_", " ")}
            row["% correct"] = round(100 * metrics[name], 2)
            if f"{name}_se" in metrics:
                row["standard error"] = round(100 * metrics[f"{name}_se"], 2)
            rows.append(row)
        return rows


def from_config(config: Mapping[str, Any], **common: Any) -> BC3E | BC3EPrediction:
    """Return the strategy for a run configuration; `common` goes to `FusionStrategy`."""
    settings = Settings.of(config)
    reference = common.get("reference")
    if reference is not None and reference.earlier:
        return BC3EPrediction(distribution=settings.distribution, **common)
    if settings.masked and settings.distribution != "row":
        raise FusionError(
            "secure-aggregation=true needs bc3e.distribution=row: where sites share instances, the fusion center needs"
            " what each says of them"
        )
    return BC3E(settings=settings, **common)


def _conclude(layout: Layout, fit: EMFit) -> Conversation[dict[str, Tally]]:
    """Have every site write its class probabilities, and count its right decisions."""
    asks = {}
    for site, accepted in fit.accepted.items():
        gamma = np.zeros((layout.k, 0))
        to_count = np.zeros(0, np.int64)
        if fit.shared and site in fit.shared.members:
            gamma = fit.shared.gamma_of(site, accepted=accepted)
            to_count = fit.shared.instances_to_count(site)
        asks[site] = Conclude(accepted, gamma, to_count)
    answers: dict[str, Tally] = yield Tell(asks, check=check_tally, measure={"bound": fit.bound})
    return answers
