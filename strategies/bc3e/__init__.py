"""The fusion center of bc3e: M-steps of a variational EM whose E-steps run at the sites (docs/bc3e.md)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Shaped

from numerics.bc3e.reliability import classifier_of, doubt_of, is_confusion, share_right
from protocols.bc3e.payloads import MUCH_WITHHELD, Conclude, Holdings, Survey, Tally
from protocols.bc3e.settings import Settings
from strategies.bc3e.accuracy import accuracies, add_up, contrasts, coverage, paired
from strategies.bc3e.checks import check_conclusion, check_holdings, check_starts
from strategies.bc3e.em import EM
from strategies.bc3e.fitted import EMFit, FittedEnsemble
from strategies.bc3e.influence import influence_of_sums, influence_on_shared
from strategies.bc3e.layout import Layout, agree_layout, strangers
from strategies.bc3e.prediction import BC3EPrediction
from strategies.column_names import check_enough
from strategies.conversation import Broadcast, Conversation, Tell, together
from strategies.fusion import FusionStrategy
from strategies.influence import Influence
from strategies.secure_aggregation import Masking

__all__ = ["BC3E", "FittedEnsemble", "Settings"]

RESTARTS_WITHOUT_CLASSIFIERS = 10
"""Number of random starts without a classifier, because uniform beta is then a saddle point of the bound."""


_METHODS = {"accuracy": "BC3E", "accuracy_majority": "majority vote"}
"""Methods by metric; any other accuracy is a classifier's."""


class BC3E(FusionStrategy):
    """Combine class and cluster labels of several sites (Acharya, Hruschka and Ghosh 2011; docs/bc3e.md).

    Parameters
    ----------
    settings : Settings
        Distribution of the labels over sites, and settings of the fit.
    **common
        Parameters of `FusionStrategy`.

    Examples
    --------
    The first ask surveys the labels of every site:

    >>> next(BC3E(session="run-1").conversation()).ask
    Survey(distribution='row', salt='run-1', masked=False)
    """

    def __init__(self, *, settings: Settings | None = None, **common: Any) -> None:
        super().__init__(**common)
        self.settings = settings or Settings()

    def conversation(self, repetition: int = 0) -> Conversation[FittedEnsemble]:
        """Survey the sites, fit the model, and ask the sites to write their results and to count right decisions."""
        distribution = self.settings.distribution
        survey = Survey(distribution, f"{self.session}", self.masked)
        holdings: dict[str, Holdings] = yield Broadcast(
            survey, check=partial(check_holdings, distribution, self.settings.classes)
        )
        left_out = strangers(holdings, distribution, self.settings.classes)
        holdings = {site: held for site, held in holdings.items() if site not in left_out}
        check_enough(len(holdings), self.min_sites, left_out, "learn")
        layout = agree_layout(
            holdings, distribution, self.settings.classes, confusion=self.settings.reliability == "confusion"
        )
        starts = {}
        if distribution != "row":
            setups = {site: layout.setup(site) for site in holdings}
            answers = yield Tell(setups, check=partial(check_starts, layout))
            layout = layout.restricted_to(set(answers))
            starts = {site: answer.start for site, answer in answers.items()}
        seeds = self._start_seeds(layout, repetition)

        def fit(start: int) -> Conversation[EMFit]:
            masking = Masking("statistics", self.min_sites) if self.masked else None
            return EM(layout, self.settings, start, starts, masking).run()

        fits = yield from together({str(place): fit(seed) for place, seed in enumerate(seeds)})
        best = max(fits, key=lambda lane: fits[lane].bound)
        tallies = yield from together({best: _conclude(layout, fits[best], self.settings.abstain)})
        # Without a classifier nobody knows which class is which, and no decision is right or wrong.
        correct, total = add_up(tallies[best]) if layout.n_classifiers else ({}, {})
        withheld = {site: tally.withheld for site, tally in tallies[best].items() if tally.withheld}
        reliability = _reliability(layout, fits[best], tallies[best])
        held = sum(layout.instances[site] for site in tallies[best])
        if self.masked:  # of each site only a bound is known
            held = fits[best].instances
        unsure = sum(tally.unsure for tally in tallies[best].values()) / max(held, 1)
        certainty = coverage(tallies[best].values() if layout.n_classifiers else ())
        return FittedEnsemble(
            fit=fits[best],
            correct=correct,
            total=total,
            starts=len(seeds),
            withheld=withheld,
            reliability=reliability,
            coverage=certainty,
            unsure=unsure,
            left_out=left_out,
            contrasts=contrasts(tallies[best]) if layout.n_classifiers else {},
            nameless=not layout.n_classifiers,
        )

    def _start_seeds(self, layout: Layout, repetition: int) -> list[int]:
        """Return the start of each fit; with a classifier, which breaks the symmetry, the first is uniform (0)."""
        number = self.settings.restarts or (1 if layout.n_classifiers else RESTARTS_WITHOUT_CLASSIFIERS)
        rng = np.random.default_rng([self.seed + repetition, 1])
        seeds = [int(seed) for seed in rng.integers(1, 2**31, size=number)]
        return [0, *seeds[1:]] if layout.n_classifiers else seeds

    # -- what a run reports -------------------------------------------------------------------------------------------

    def metrics(self, outcome: FittedEnsemble) -> dict[str, float]:
        """Return the metrics of `report.json` by name (docs/bc3e.md)."""
        fit = outcome.fit
        metrics = {
            "bound": fit.bound,
            "rounds_to_converge": float(fit.rounds),
            "converged": float(fit.converged),
        }
        if fit.gain:
            metrics["gain"] = fit.gain
        if self.settings.abstain:
            metrics["unsure"] = outcome.unsure
        metrics |= {f"reliability_{name}": value for name, value in outcome.reliability.items()}
        return metrics | accuracies(outcome.correct, outcome.total)

    def arrays(self, outcome: FittedEnsemble) -> dict[str, Shaped[np.ndarray, "..."]]:
        """Return ``alpha``, ``clusterings`` (names in order), their ``beta_0``, ``beta_1``, ..., and ``bounds``.

        ``classifiers`` and ``confusion_0``, ... are the same of confusion matrices that the fusion center holds.
        """
        fit = outcome.fit
        names = sorted(name for name in fit.beta if not is_confusion(name))
        confusions = sorted(name for name in fit.beta if is_confusion(name))
        return {
            "alpha": fit.alpha,
            "clusterings": np.array(names, dtype=str),
            **{f"beta_{place}": fit.beta[name] for place, name in enumerate(names)},
            "classifiers": np.array([classifier_of(name) for name in confusions], dtype=str),
            **{f"confusion_{place}": fit.beta[name] for place, name in enumerate(confusions)},
            "draws": np.array(float(fit.draws)),
            "bounds": np.array(fit.bounds),
            "changed": np.array(fit.changed),
            "coverage": outcome.coverage,
            **paired(outcome.correct, outcome.total),
        }

    def influence(self, outcome: FittedEnsemble) -> Influence:
        """Return the influence of each site on the results of the others."""
        if outcome.fit.shared is not None and outcome.fit.shared.members:
            return influence_on_shared(outcome.fit.shared)
        if self.masked:
            return Influence.unknown_since("the sites' sums were masked, so the fusion center holds their total only")
        return influence_of_sums(outcome.fit.mass)

    def excluded(self, outcome: FittedEnsemble) -> Mapping[str, str]:
        """Return the sites whose holdings or sums did not count, with the reason."""
        reason = "its sums contradicted those of all others, and did not count from then on (bc3e.robust)"
        return outcome.left_out | dict.fromkeys(outcome.fit.left_out, reason)

    def notes(self, outcome: FittedEnsemble) -> list[str]:
        """Return sentences on sites that withhold labels, are unlike others or decide the draws; on unnamed classes."""
        notes = [
            f"{site}: {percent} % or more of its labels enter no sum, because too few of its instances have the same"
            " labels of all models: leave out models, or allow rarer ones there (min-combination)"
            for site, percent in sorted(outcome.withheld.items())
            if percent >= MUCH_WITHHELD
        ]
        notes += [
            f"{site}: {own:.1%} of its decisions are right, and {usual:.1%} of the others': compare its labels and"
            " known classes with theirs"
            for site, (own, usual) in outcome.contrasts.items()
        ]
        if outcome.nameless:
            notes.append("no site has a classifier, so classes have no names, and no right decisions are counted")
        for site, draws in outcome.fit.pivot.items():
            text = f"{site} alone decides the draws of a class: without its sums they are {draws}"
            notes.append(
                f"{text}, and were chosen without them (bc3e.robust)"
                if self.settings.robust
                else f"{text} instead of {outcome.fit.draws}: compare with bc3e.draws={draws}"
            )
        return notes

    def table(self, metrics: Mapping[str, float], outcome: FittedEnsemble) -> list[dict[str, Any]]:
        """Return the rows of the paper's Table I: accuracy of BC3E, vote, best component and each classifier.

        A classifier also has the estimate of its accuracy by its confusion matrix.
        """
        order = ["accuracy", "accuracy_majority", "accuracy_best_component"]
        names = order + sorted(name for name in metrics if name.startswith("accuracy_"))
        names += [f"accuracy_{name}" for name in outcome.reliability]  # also those without known classes
        rows = []
        for name in dict.fromkeys(name for name in names if not name.endswith("_se")):
            method, classifier = _METHODS.get(name), name.removeprefix("accuracy_")
            row: dict[str, Any] = {"method": method or classifier.replace("_", " ")}
            if name in metrics:
                row["% correct"] = round(100 * metrics[name], 2)
            if f"{name}_se" in metrics:
                row["standard error"] = round(100 * metrics[f"{name}_se"], 2)
            if f"reliability_{classifier}" in metrics and not method:
                row["% correct, estimated"] = round(100 * metrics[f"reliability_{classifier}"], 2)
            rows += [row] if len(row) > 1 else []
        return rows


def from_config(config: Mapping[str, Any], **common: Any) -> BC3E | BC3EPrediction:
    """Return the strategy for a run configuration; `common` goes to `FusionStrategy`."""
    settings = Settings.of_run(config)
    reference = common.get("reference")
    if reference is not None and reference.earlier:
        return BC3EPrediction(distribution=settings.distribution, **common)
    return BC3E(settings=settings, **common)


def _conclude(layout: Layout, fit: EMFit, abstain: float) -> Conversation[dict[str, Tally]]:
    """Ask every site to write its class probabilities, and to count its right decisions."""
    asks = {}
    for site, accepted in fit.accepted.items():
        gamma = np.zeros((layout.k, 0))
        to_count = np.zeros(0, np.int64)
        if fit.shared and site in fit.shared.members:
            gamma = fit.shared.gamma_of(site, accepted=accepted)
            to_count = fit.shared.instances_to_count(site)
        alpha, doubt = fit.alpha if fit.draws else np.zeros(0), doubt_of(fit.draws, layout.n_clusters)
        asks[site] = Conclude(accepted, gamma, to_count, alpha, abstain, doubt)
    answers: dict[str, Tally] = yield Tell(asks, check=partial(check_conclusion, layout), measure={"bound": fit.bound})
    return answers


def _reliability(layout: Layout, fit: EMFit, tallies: Mapping[str, Tally]) -> dict[str, float]:
    """Return the estimated share of correct labels by classifier; a site sends that of a matrix it alone holds."""
    tables = {name: table for name, table in fit.beta.items() if is_confusion(name)}
    shares = {name: share_right(fit.alpha, table, fit.labels[name]) for name, table in tables.items()}
    for site, tally in tallies.items():
        own = [name for name in layout.own_of(site) if is_confusion(name)]
        shares |= dict(zip(own, tally.reliability.tolist(), strict=True))
    return {classifier_of(name): shares[name] for name in sorted(shares)}
