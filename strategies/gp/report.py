"""Report on a run of Gaussian process experts: metrics, table, notes, and the file of predictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64

from common.csv_text import csv_text
from common.grouping import list_names
from numerics.gp.alone import Difference
from numerics.gp.calibration import EDGES
from numerics.gp.kernel_names import AUTO
from numerics.gp.kernel_registry import kernel_of
from numerics.gp.measurements import LIMIT, WRONG_LIMIT, Queries
from numerics.gp.metrics import coverage, msll, smse
from numerics.gp.moments import MOST_INPUT_SPREAD, MOST_SPREAD
from numerics.shared.classification import as_metrics, classification_scores, predicted_classes
from strategies.gp.influence import error_by_answers_of, raising_the_error
from strategies.gp.model import Model
from strategies.gp.outcome import GPOutcome
from strategies.gp.trust import contradicting

LEVELS = (0.5, 0.8, 0.95, 0.99)
"""Levels of the prediction intervals whose coverage is reported."""
_INTERVAL = 0.95
"""Level of the interval in the file of predictions."""
_NOISY, _FAR, _FAR_ROWS = 0.5, 4.0, 0.005
"""A note tells of outliers beyond this share of noise in the variance, if beyond so many deviations lies this share of
the rows."""
_UNCONFIRMED = 2.0
"""Ratio of the error of a site's answers to what it calls its error alone, from which on they do not confirm it: .9 to
1.5 at honest sites, 2 to 9 at one that is far more precise than all others."""
_UNKNOWN_SHARE = 0.9
"""Share of the prior variance; where more of it is left, the experts know next to nothing."""
_IRRELEVANT = 100.0
"""Length of an input in its standard deviations; an input of this length or more hardly matters."""
_REMOTE = "its outputs lie far from those of most sites, also without its outliers (gp.robust)"
_CONTRADICTS = "its predictions contradict those of most other sites at the same points (gp.robust)"
_PULLS = (
    "its likelihoods pull the hyperparameters off those that fit the others' rows; its predictions count (gp.robust)"
)
_MOST_LISTED = 20
"""Largest number of names in a note."""


def metrics_of(outcome: GPOutcome) -> dict[str, float]:
    """Return the metrics of `report.json` by name (docs/gp.md)."""
    model, registry = outcome.model, outcome.model.registry
    metrics = {
        "log_likelihood": model.fit.log_likelihood,
        "fit_rounds": float(model.fit.rounds),
        "n_experts": float(registry.M),
        "n_rows": float(registry.n_rows),
    }
    if registry.classes:
        metrics |= {"n_classes": float(len(registry.classes)), "sharpness": model.sharpness}
    else:
        metrics["noise"] = float(np.exp(model.fit.theta[-1]))
    if outcome.queries is None or outcome.answers is None:
        return metrics
    n = max(1, len(outcome.queries.x))
    metrics |= {
        "n_queries": float(len(outcome.queries.x)),
        "n_selected": float((outcome.answers.selected >= 0).sum() / (n * registry.n_outputs)),
        "bytes_per_query": outcome.answers.n_bytes / n,
        "n_dropped": float((~outcome.answers.available).sum()),
    }
    if outcome.reductions is not None and len(outcome.reductions):
        metrics["best_reduction"] = float(outcome.reductions.max())
    if outcome.queries.y is None:
        return metrics
    return {**metrics, "n_measured": float(len(outcome.queries.measured)), **_accuracy(outcome, outcome.queries)}


def _accuracy(outcome: GPOutcome, queries: Queries) -> dict[str, float]:
    """Score the predictions of measured outputs, and leave out scores that are not defined."""
    assert queries.y is not None  # noqa: S101 - the caller has checked it
    best, measured = _best_alone(outcome), queries.measured
    if (places := outcome.class_places) is not None:
        classes = as_metrics(classification_scores(outcome.class_probabilities[measured], places))
        return classes if best is None else {**classes, "log_loss_alone": best.alone}
    fused, registry, outputs = outcome.fused_at(measured), outcome.model.registry, queries.y[measured]
    y = registry.units.outputs(outputs)
    # The units are those of the training outputs, which therefore have mean 0 and variance 1 (or 0 if all are equal).
    scores = {
        "smse": smse(y, fused.mean),
        "msll": msll(y, fused.mean, fused.variance, 0.0, 1.0),
        "rmse": float(np.sqrt(np.mean((outputs - outcome.mean[measured]) ** 2))),
        **{
            f"coverage_{level * 100:.0f}": coverage(y, fused.mean, fused.variance, level, outcome.calibration)
            for level in LEVELS
        },
    }
    if best is not None:
        scores["smse_alone"] = best.alone
    return {name: score for name, score in scores.items() if np.isfinite(score)}


def _best_alone(outcome: GPOutcome) -> Difference | None:
    """Return the comparison with the site whose error alone is smallest."""
    return min(outcome.differences_alone.values(), key=lambda each: each.alone, default=None)


def paired_difference(outcome: GPOutcome) -> dict[str, Float64[np.ndarray, "4"]]:
    """Return the difference from the best site alone, its standard error, and the numbers of groups and of sites."""
    best, losses = _best_alone(outcome), outcome.alone.losses
    if best is None:
        return {}
    groups = len(next(iter(losses.values())))
    name = "paired_log_loss_alone" if outcome.model.registry.classes else "paired_smse_alone"
    return {name: np.array([best.difference, best.error, groups, len(losses)])}


def table_of(outcome: GPOutcome) -> list[dict[str, Any]]:
    """Return a row for every expert: its site, its number of rows, and the number of points that it answered."""
    registry, answers, alone = outcome.model.registry, outcome.answers, outcome.differences_alone
    rows = []
    for expert, (site, n) in enumerate(zip(registry.site_of, registry.moments.counts.tolist(), strict=True)):
        row: dict[str, Any] = {"expert": expert, "site": site, "rows": n}
        if answers is not None:
            row["queries"] = int((answers.selected[:: registry.n_outputs] == expert).sum())
        if site in alone:
            row["alone"] = alone[site].alone
        rows.append(row)
    return rows


def excluded_from(outcome: GPOutcome) -> dict[str, str]:
    """Return the sites whose experts have no part in the result, and why."""
    registry, answers = outcome.model.registry, outcome.answers
    excluded = dict(registry.excluded)
    if answers is not None:
        for expert in np.flatnonzero(answers.distrusted):
            excluded[registry.site_of[expert]] = _CONTRADICTS
    if outcome.settings.robust:
        excluded |= dict.fromkeys(registry.remote, _REMOTE)
    return dict.fromkeys(outcome.model.fit.left_out, _PULLS) | excluded


def notes_on(outcome: GPOutcome) -> list[str]:
    """Return sentences on the fit and on the predictions, for users of the result."""
    return [
        *_note_on_kernel(outcome),
        *_notes_on_fit(outcome.model),
        *_notes_on_sites(outcome),
        *_note_on_alone(outcome),
        *_notes_on_answers(outcome),
    ]


def _note_on_kernel(outcome: GPOutcome) -> list[str]:
    """Return a note if the sites compared kernels in this run."""
    compared = outcome.settings.kernel == AUTO and outcome.model.fit.rounds > 0
    return [f"the kernel is {outcome.model.kernel}, by the likelihood of the sites' rows"] if compared else []


def _notes_on_fit(model: Model) -> list[str]:
    notes = []
    if not model.fit.converged:
        notes.append(
            f"the search for the hyperparameters still made progress after {model.fit.rounds} asks: more gp.fit-rounds"
            " may find likelier ones"
        )
    features = model.registry.features
    lengths = kernel_of(model.kernel, len(features)).lengths(model.fit.theta[:-1])
    irrelevant = [name for name, length in zip(features, lengths, strict=True) if length >= _IRRELEVANT]
    if irrelevant:
        notes.append(f"inputs that hardly matter (the function is the same far along them): {_list(irrelevant)}")
    constant = [name for name, varies in zip(features, model.registry.varies, strict=True) if not varies]
    if constant:
        notes.append(f"inputs that are the same in every row: {_list(constant)}")
    within = np.einsum("mdd->d", model.registry.moments.covariances) > 0
    between = [name for name, v, w in zip(features, model.registry.varies, within, strict=True) if v and not w]
    if between:
        notes.append(
            f"inputs that differ between experts and are the same within each: {_list(between)}; no expert can"
            " estimate the length of such an input, which stays at the start of the search"
        )
    return notes + ([] if model.registry.robust else note_on_outliers(model.noise, model.residuals))


def note_on_outliers(noise: float, counts: Int64[np.ndarray, "50"]) -> list[str]:
    """Return a note if noise hides the function and some rows lie far beyond it, as outliers do.

    Parameters
    ----------
    noise : float
        Variance of the noise, as a share of the variance of all outputs.
    counts : ndarray
        Leave-one-out residuals by size.

    Examples
    --------
    >>> from numerics.gp.calibration import histogram
    >>> "5 of 200 rows" in note_on_outliers(0.9, histogram(np.repeat([0.5, 6.0], [195, 5])))[0]
    True
    >>> note_on_outliers(0.1, histogram(np.repeat([0.5, 6.0], [195, 5])))
    []
    """
    far, n = int(counts[EDGES[:-1] >= _FAR].sum()), int(counts.sum())
    if noise < _NOISY or far < _FAR_ROWS * n or not n:
        return []
    return [
        f"{100 * min(noise, 1.0):.0f} % of the variance of the outputs is taken for noise, and {far} of {n} rows lie"
        f" more than {_FAR:g} of its deviations off: if their outputs are wrong, gp.robust=true may leave them out"
    ]


def _notes_on_sites(outcome: GPOutcome) -> list[str]:
    """Name the sites that the others contradict. A robust run leaves them out (`excluded_from`)."""
    registry, notes = outcome.model.registry, []
    error = "log loss" if registry.classes else "squared error"
    if left_out := registry.left_out:
        outliers = ""
        if registry.robust:
            why = "gp.robust" if outcome.settings.robust else "without them rows left out are predicted better"
            outliers = f", and outputs beyond {LIMIT:g} ({why})"
        notes.append(
            f"rows that sites left out for cells beyond {WRONG_LIMIT:g} deviations of their own median{outliers}:"
            f" {_list([f'{site}: {left_out[site]}' for site in sorted(left_out)])}; look at their data"
        )
    notes += [
        f"{site}: without it the {error} would be {100 * share:.0f} % lower; look at its data"
        for site, share in raising_the_error(outcome).items()
    ]
    notes += [
        f"{site}: {_list(names)} lies very far from that of most sites, in one row or in all (mean square"
        f" {MOST_INPUT_SPREAD:g} times theirs or more; a wrong cell, or another unit?). The unit is that of the other"
        " sites; look at these data, or set gp.robust"
        for site, names in registry.remote_inputs.items()
    ]
    if outcome.settings.robust:
        return notes
    notes += [
        f"{site}: without it, other hyperparameters would fit the other sites' rows better (log likelihood per row:"
        f" {pull:.2g} more; another noise or other lengths than theirs, or a lie?). Set gp.noise=site, or gp.robust"
        for site, pull in outcome.model.fit.notable_pulls.items()
    ]
    if registry.remote:
        notes.append(
            f"{_list(registry.remote)}: the outputs lie far from those of most sites (beyond {MOST_SPREAD:g} times"
            " their mean square; a wrong cell, another unit, or a lie?). Units and hyperparameters are those of the"
            " other sites; look at these data, or set gp.robust"
        )
    return notes + [
        f"{site}: its predictions contradict those of most other sites at the same points (mean square difference:"
        f" {outcome.contradictions[site]:.3g} times what the model expects; another unit, a wrong calibration, or a"
        " lie?). Look at its data, or set gp.robust"
        for site in contradicting(outcome.contradictions)
    ]


def _note_on_alone(outcome: GPOutcome) -> list[str]:
    """Return a note on the site that says it predicts better alone, with what its answers say of that."""
    alone = outcome.differences_alone
    site = min(alone, key=lambda each: alone[each].alone, default="")
    if not site or alone[site].difference <= 0:
        return []
    own, error = alone[site].alone, "log loss" if outcome.model.registry.classes else "standardized squared error"
    together = own + alone[site].difference
    note = f"{site} predicts better alone by its own word: {error} {own:.3g}, together {together:.3g}"
    answered = error_by_answers_of(outcome, site)
    if answered is None:
        return [f"{note}; it answered no point, so that nothing confirms it"]
    contrary = ", which does not confirm it" if answered > _UNCONFIRMED * own else ""
    return [f"{note}; by its answers, with the common hyperparameters, {answered:.3g} where it answered{contrary}"]


def _notes_on_answers(outcome: GPOutcome) -> list[str]:
    answers, registry = outcome.answers, outcome.model.registry
    if answers is None or outcome.fused is None:
        return ["this run had no query points: to predict, start a run with from=RUN and a file of points"]
    notes = _note_on_unmeasured(outcome)
    dropped = sorted({registry.site_of[expert] for expert in np.flatnonzero(~answers.available)})
    if outcome.settings.disclosed:
        unwilling = sorted(set(registry.counts) - set(registry.willing("allow-inputs")))
        dropped = [site for site in dropped if site not in unwilling]
        if unwilling:
            notes.append(f"without the experts of {_list(unwilling)}, which disclose no inputs (allow-inputs)")
    if dropped:
        notes.append(f"where experts of {_list(dropped)} did not answer, the next experts took their place")
    outputs = registry.n_outputs
    alone = int((answers.selected[::outputs] < 0).all(axis=1).sum())
    if alone:
        whose = "communication expert's" if outcome.settings.aggregation == "grbcm" else "prior's"
        notes.append(f"at {alone} points no expert answered: the prediction is the {whose}")
    is_unknown = outcome.fused.variance - outcome.model.noise > _UNKNOWN_SHARE * outcome.prior
    of_points = np.asarray(is_unknown.reshape(-1, outputs).all(axis=1))
    if of_points.any():
        is_about = (
            "every class is about as probable as it is frequent over all rows"
            if registry.classes
            else "the prediction is about the mean of all outputs, and its standard deviation is about that of all"
            " outputs"
        )
        notes.append(
            f"{int(of_points.sum())} of {len(of_points)} points lie where the experts know next to nothing: {is_about}"
        )
    if outcome.settings.disclosed:
        notes.append("sites disclosed the inputs of their rows to the fusion center (gp.covariance=inputs)")
    if outcome.settings.aggregation == "grbcm":
        sites = _list(outcome.sharing_sites)
        notes.append(f"all sites got rows of {sites}, for the communication expert (gp.aggregation=grbcm)")
    if outcome.settings.gate == "dnn":
        unwilling = sorted(set(registry.counts) - set(registry.willing("allow-gate-training")))
        if unwilling:
            notes.append(
                f"the gate was trained without the rows of {_list(unwilling)} (allow-gate-training): points drawn"
                " from their moments replaced them"
            )
    return notes


def _note_on_unmeasured(outcome: GPOutcome) -> list[str]:
    """Return a note if outputs were measured at some of the query points only."""
    assert outcome.queries is not None  # noqa: S101 - the caller has checked it
    n, N = len(outcome.queries.measured), len(outcome.queries.x)
    if n in (0, N):
        return []
    return [f"all {N} points are predicted; errors are measured at the {n} that have an output in the file of points"]


def _list(names: Sequence[str]) -> str:
    return list_names(names, _MOST_LISTED)


def answers_csv(outcome: GPOutcome) -> bytes:
    """Write a line for every query point: name or number, mean, standard deviation, a 95 % interval, and the experts.

    The standard deviation is that of an observation, noise included; the interval is calibrated. If outputs are
    classes, the most probable class and the probability of each replace these numbers.
    """
    assert outcome.queries is not None  # noqa: S101 - the caller has checked it
    assert outcome.answers is not None  # noqa: S101 - the caller has checked it
    queries, registry = outcome.queries, outcome.model.registry
    several = len(registry.site_of) > len(registry.counts)
    labels = [f"{site}/{expert}" if several else site for expert, site in enumerate(registry.site_of)]
    names = queries.names if queries.names is not None else np.arange(1, len(queries.x) + 1)
    selected = outcome.answers.selected[:: registry.n_outputs].tolist()
    experts = [" ".join(labels[expert] for expert in row if expert >= 0) for row in selected]
    values = _class_columns(outcome) if registry.classes else _amount_columns(outcome)
    columns = {"query": names.tolist(), **values, "experts": experts}
    if queries.y is not None:
        columns["measured"] = [
            "" if output != output else registry.classes[int(output)] if registry.classes else output
            for output in queries.y.tolist()
        ]
    return csv_text(columns).encode()


def _amount_columns(outcome: GPOutcome) -> dict[str, list[Any]]:
    half = outcome.calibration.reach(_INTERVAL) * outcome.std
    return {
        "mean": outcome.mean.tolist(),
        "std": outcome.std.tolist(),
        "low_95": (outcome.mean - half).tolist(),
        "high_95": (outcome.mean + half).tolist(),
    }


def _class_columns(outcome: GPOutcome) -> dict[str, list[Any]]:
    classes, probabilities = outcome.model.registry.classes, outcome.class_probabilities
    likeliest = [classes[place] for place in predicted_classes(probabilities).tolist()]
    return {
        "class": likeliest,
        **{f"probability_{label}": probabilities[:, place].tolist() for place, label in enumerate(classes)},
    }
