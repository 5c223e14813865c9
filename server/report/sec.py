"""Report of Select-Exchange-Cluster: clusters of sites that see the same relation."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from protocols.sec.settings import Settings
from server.report.classification import score_meanings
from server.report.data import Arrays, ResultsError
from server.report.protocol import FROM, Answer, Config, Meaning, ProtocolReport, Rival, higher, lower
from server.report.saved_arrays import check_saved, read_results

_SAME_SETTINGS = ("standardize", "reference", "weights", "combine")
"""Settings that two runs must share, since otherwise their models or errors are not comparable."""


def more_metrics(metric: str) -> Meaning | None:
    """Return the meaning of ``SCORE_test_WAY``, which is ``SCORE_WAY`` on the fusion center's test rows."""
    score, test, way = metric.rpartition("_test_")
    known = REPORT.metrics.get(f"{score}_{way}") if test else None
    return known and replace(known, words=f"{known.words}, on the fusion center's test rows")


def holdings(config: Config, arrays: Arrays) -> str:
    """Return who holds what."""
    kind = "classifier" if len(arrays.get("classes", ())) else "regression"
    return f"Each site is a learner: it holds rows of the same columns, and fits its own {kind} to them."


_POOLED = (
    "All rows that are not held out went to the fusion center from every site of a cluster of several that allows"
    " it (allow-pooling); the others' rows stayed there."
)


def disclosure(settings: Sequence[Config], payloads: Collection[str]) -> str:
    """Return what left the sites: fitted models and their errors, and where asked for, moments."""
    rows = any(each.get("sec.allow-row-models") for each in settings)
    some = any(each.get("sec.exchange") == "landmarks" for each in settings)
    sums = any(each.get("sec.combine") == "pooled-linear" for each in settings)
    pooled = any(each.get("sec.combine") == "pooled-rows" for each in settings)
    return (
        f"{_POOLED if pooled else 'Rows stayed at the sites.'} Every site sent its fitted model to the fusion center,"
        f" which passed {'the models of some of them (the landmarks)' if some else 'it'} on to every other site; the"
        " sites returned the errors of these models."
        f"{' Means and summed products of the columns, outcome included, went to the center.' if sums else ''}"
        f"{' Models that hold rows (knn, svr) were allowed.' if rows else ''}"
    )


def earlier_arrays(config: Config) -> Arrays:
    """Return arrays of the run that `sec.join` names, whose clusters the sites of this run join."""
    path = str(config["sec.join"]).strip()
    if not path:
        return {}
    report, arrays = read_results(path, "sec.join", "sec")
    if "cells_n_clusters" in arrays:
        raise ResultsError(f"sec.join: {path} is a scenario's table with several clusterings; name a run that has one")
    for name in _SAME_SETTINGS:
        then, now = (getattr(Settings.of(each), name) for each in (report.config, config))
        if then != now:
            raise ResultsError(f"sec.join: {path} has sec.{name}={then!r}, this run has {now!r}; set the same")
    check_saved(path, "sec", arrays)
    return arrays


_WAYS = {
    "cluster": "every learner with its cluster",
    "alone": "every learner alone",
    "all": "all learners together",
    "personal": "every learner with its own weights for the models of all",
    "recommendation": "every learner as its own held-out rows recommend",
    "oracle": "if the true clusters were known",
}
"""Ways to predict, in words."""
_ERRORS = {"mse": "mean squared error", "log_loss": "log loss"}
_HOW = {"recommendation": "as its own held-out rows recommend", "cluster": "with its cluster"}
"""Ways that are compared with learning alone and with one model of all: the first one that a run has."""


def _answer(error: str, way: str) -> Answer:
    """Return the answer by one way to predict."""
    scores = () if error == "mse" else (f"auc_{way}", "auc_alone", f"accuracy_{way}", f"calibration_error_{way}")
    others = (each for each in ("cluster", "personal", "recommendation", "oracle") if each != way)
    return Answer(
        f"{error}_{way}",
        f"{{who}}, each predicting {_HOW[way]}, {{have}} a {_ERRORS[error]} of {{value}}",
        {
            f"{error}_alone": Rival("with every learner alone", "each learner's own model", "alone"),
            f"{error}_all": Rival(
                "with all learners together", "the mean of all models", "plain way", starts=f"{error}_cluster"
            ),
        },
        beside=(*(f"{error}_{each}" for each in others), *scores, "n_clusters", "clusters_correct", "adjusted_rand"),
        also="They form {n_clusters}.",
    )


REPORT = ProtocolReport(
    question="With whom should I collaborate?",
    test_advice="hold rows out (sec.holdout), five or more at a site, or give test rows (test, or a file _test)",
    column_keys={"target": "output", "features": "inputs"},
    answers=(
        *(_answer(error, way) for error in _ERRORS for way in _HOW),
        Answer("n_clusters", "{who} form{s} {n_clusters}; no rows were held out to measure errors on"),
    ),
    metrics={
        **{f"mse_{way}": lower(f"mean squared error, {words}") for way, words in _WAYS.items()},
        **score_meanings(_WAYS),
        "n_classes": Meaning("classes of the outcome, over all sites"),
        "n_learners": Meaning("learners"),
        "n_measured": Meaning(
            "learners with held-out rows to measure errors on, of their own models by fits without these rows"
        ),
        "n_unclustered": lower("learners without a cluster, since too little is known of them"),
        "clusters_correct": higher("draws in which every learner is in its true cluster", share=True),
        "adjusted_rand": higher("agreement with the true clusters, adjusted Rand index (1: full, 0: by chance)"),
    },
    measures={"learners": "learners whose models are compared", "models": "models of a learner, at most"},
    payloads={
        "Select": "candidate methods and how to choose among them",
        "FittedModel": "a fitted model, its method, error and number of rows; if pooled, moments of the columns",
        "Exchange": "the learners' models, for all to try",
        "Losses": "errors of the others' models on a learner's rows",
        "Pool": "a question for the rows of sites in a cluster of several",
        "Rows": "all rows that a learner does not hold out, where the site allows it; else none",
        "Predict": "a learner's cluster, and weights of the models in it; models of pooled rows, if there are any",
        "Errors": "errors on rows that a learner held out; of its own model, by fits without these rows",
    },
    earlier_keys={
        **FROM,
        "sec.join": "The sites joined the clusters of an earlier run",
    },
    saved_arrays={
        "learners": "names L",
        "methods": "text L",
        "features": "names p",
        "labels": "label<L L",
        "recommended": "text L",
        "newcomer": "flag L",
        "n": "count L",
        "weights": "positive L",
        "errors": "float L",
        "mean_#L": "number q",
        "scatter_#L": "number q q",
        "model_#L": "bytes _",
    },
    more_metrics=more_metrics,
    holdings=holdings,
    disclosure=disclosure,
    earlier_arrays=earlier_arrays,
)
