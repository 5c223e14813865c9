"""Report of distributed Gaussian processes."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from protocols.gp.settings import FEWEST_IN_GROUP, Settings
from server.report.classification import score_meanings
from server.report.data import Arrays, ResultsError
from server.report.formatting import listed
from server.report.protocol import Answer, Config, Meaning, ProtocolReport, Rival, higher, lower
from server.report.saved_arrays import check_saved, read_results

_COVERAGE = re.compile(r"coverage_(\d\d)")
_LEVEL, _CHANCE = 0.95, 1.96
"""Level of the intervals, and standard errors of a share that chance explains in 19 of 20 runs."""
_DISCLOSED = {
    "gp.Moments": "numbers of rows, means and covariances of the inputs and of the output",
    "gp.Likelihood": "sums for the hyperparameters",
    "gp.Errors": "sums of squared errors",
    "gp.Slope": "sums for the gate's network",
    "gp.Residuals": "numbers of residuals by size",
    "gp.Losses": "sums of log losses",
    "secure_aggregation.MaskedAnswer": "sums to learn from (masked: only their total over all sites is readable)",
    "gp.Predictions": "predictions at the query points",
    "gp.ErrorsAlone": "sums of errors of each site alone",
}
"""Disclosures about the sites' rows by payload."""


def more_metrics(metric: str) -> Meaning | None:
    """Return the meaning of ``coverage_95`` and its like, which are best near their level."""
    level = _COVERAGE.fullmatch(metric)
    return level and Meaning(f"outputs inside their {level[1]} % interval", share=True, target=int(level[1]) / 100)


def warnings(metrics: Mapping[str, float], arrays: Arrays) -> list[str]:
    """Return a sentence on 95 % intervals that hold another share of the outputs than chance explains.

    Examples
    --------
    >>> warnings({"coverage_95": 0.85, "n_measured": 200.0}, {})[0].partition(":")[0]
    '95 % intervals hold 85.0 % of the 200 outputs at the query points'
    >>> warnings({"coverage_95": 0.93, "n_measured": 200.0}, {})
    []
    """
    share, n = metrics.get("coverage_95"), metrics.get("n_measured", 0.0)
    if share is None or not n or abs(share - _LEVEL) <= _CHANCE * math.sqrt(_LEVEL * (1 - _LEVEL) / n):
        return []
    side = "too narrow" if share < _LEVEL else "too wide"
    return [
        f"95 % intervals hold {100 * share:.1f} % of the {n:.0f} outputs at the query points: they are {side} by more"
        " than chance explains"
    ]


def holdings(config: Config, arrays: Arrays) -> str:
    """Return who holds what."""
    output = "class" if len(arrays.get("classes", ())) else "output measured"
    return f"Each site holds rows of the same inputs with the {output} there, and a Gaussian process of its own."


def disclosure(settings: Sequence[Config], payloads: Collection[str]) -> str:
    """Return what left the sites, by the payloads that crossed the wire."""
    left = listed(words for payload, words in _DISCLOSED.items() if payload in payloads)
    text = f"Rows stayed at the sites. {f'What left them are {left}.' if left else 'Nothing left them.'}"
    if "gp.Inputs" in payloads:
        text += " Sites that consented disclosed the inputs of all their rows to the fusion center."
    if "gp.Rows" in payloads:
        text += " Sites that consented disclosed some of their rows to all sites."
    return text


def earlier_arrays(config: Config) -> Arrays:
    """Return arrays of the run whose experts predict."""
    path = str(config["from"]).strip()
    if not path:
        return {}
    _, arrays = read_results(path, "from", "gp")
    if len(arrays.get("cells_log_likelihood", ())) > 1:
        raise ResultsError(f"from: {path} is a scenario's table with several models; name a run that has one")
    check_saved(path, "gp", arrays)
    return arrays


def center_files(config: Config, *, scenario: bool) -> dict[str, Any]:
    """Return the query points of a file; a scenario makes its own unless `gp.queries` names a file."""
    from clients.data.testset import center_queries

    if scenario and not config["gp.queries"]:
        return {}
    return {"test": center_queries(config, str(config["gp.queries"]), Settings.tasks)}


REPORT = ProtocolReport(
    question="What is the value here, and how sure are we, when every site has its own Gaussian process?",
    alone_advice=f"{2 * FEWEST_IN_GROUP} query points with measured outputs, and gp.alone=true",
    test_advice="give query points with measured outputs (gp.queries, or a file _test)",
    column_keys={"target": "output", "features": "inputs", "id": "names of points"},
    answers=(
        Answer(
            "smse",
            "{who} predict{s} {n_measured} with a standardized mean squared error of {value}, where 0 is exact and 1 no"
            " better than the mean output",
            {
                "smse_alone": Rival("by the best site alone", "the best site's own process", "best site"),
                "smse_full": Rival(
                    "by one Gaussian process of all rows",
                    "one Gaussian process of all rows",
                    "out of reach",
                    "rows in separate places",
                ),
            },
            ("msll", "coverage_95", "rmse"),
            unit="group of query points",
            also="Their 95 % intervals hold {coverage_95} of the outputs.",
        ),
        Answer(
            "log_loss",
            "{who} predict{s} the classes of {n_measured} with a log loss of {value}",
            {
                "log_loss_alone": Rival("by the best site alone", "the best site's own process", "best site"),
                "log_loss_full": Rival(
                    "by one Gaussian process of all rows",
                    "one Gaussian process of all rows",
                    "out of reach",
                    "rows in separate places",
                ),
            },
            ("auc", "accuracy", "brier", "calibration_error"),
            unit="group of query points",
        ),
        Answer("n_queries", "{who} predict{s} {n_queries} with unknown outputs"),
        Answer(
            "log_likelihood",
            "{who} fit{s} common hyperparameters at a log likelihood of {value} per row; there are no query points",
        ),
    ),
    metrics={
        "smse": lower(
            "standardized mean squared error (0: exact, 1: no better than the mean output)", useless_from=1.0
        ),
        "msll": lower("mean standardized log loss (0: no better than the mean and variance of the outputs)"),
        "rmse": lower("root mean squared error, in units of the output"),
        "smse_sample": lower("standardized mean squared error at 1000 of the points or fewer"),
        "smse_full": lower("standardized mean squared error of one Gaussian process of all rows"),
        "smse_alone": lower("standardized mean squared error of the site that predicts best alone"),
        "msll_full": lower("mean standardized log loss of one Gaussian process of all rows"),
        **score_meanings({"": "", "full": "one Gaussian process of all rows", "alone": "the best site alone"}),
        "log_loss_sample": lower("log loss at 1000 of the points or fewer"),
        "n_classes": Meaning("classes of the output, over all sites"),
        "sharpness": Meaning("factor of the latent functions, by rows left out (above 1: surer probabilities)"),
        "log_likelihood": higher("log likelihood of the outputs, per row"),
        "fit_rounds": lower("asks until the hyperparameters were found"),
        "noise": Meaning("standard deviation of the noise divided by that of the outputs"),
        "n_experts": Meaning("Gaussian process experts"),
        "n_queries": Meaning("points predicted", counts="point"),
        "n_measured": Meaning("points with a measured output, over which errors are computed", counts="point"),
        "n_selected": Meaning("experts asked for a point, on average"),
        "best_reduction": higher("mean variance at the points that a measurement at the best one removes", share=True),
        "n_dropped": lower("expected answers of experts that did not come"),
        "bytes_per_query": lower("bytes on the wire for a point"),
    },
    measures={
        "queries": "points to predict",
        "gate_loss": "loss of the gate's network on whose rows are whose (cross-entropy, nats a row)",
    },
    payloads={
        "Survey": "asks which experts a site has",
        "Moments": "numbers of rows, means and covariances of a site's experts",
        "Evaluate": "hyperparameters to try",
        "Likelihood": "likelihood of the outputs under them, summed over a site's experts",
        "Train": "the gate's network, to say how well it tells whose rows are whose",
        "Slope": "the network's loss and gradient over a site's rows",
        "Validate": "hyperparameters to choose from, to say how well they predict rows left out",
        "Errors": "sums of a site's squared errors of rows left out",
        "Calibrate": "the hyperparameters, to say how large the residuals are that they leave",
        "Residuals": "numbers of a site's residuals by size",
        "Sharpen": "the hyperparameters, to say how sure class probabilities may be",
        "Losses": "sums of log losses of a site's rows left out, by how sure probabilities are",
        "Share": "asks for rows for the communication expert",
        "Rows": "rows that a site consented to disclose to all sites",
        "Disclose": "asks for the inputs of all rows",
        "Inputs": "inputs of all rows, which a site consented to disclose",
        "Predict": "points to predict, and the experts asked for each",
        "PredictAlone": "test points with their outputs, to say how well a site does alone",
        "ErrorsAlone": "sums of squared errors, or log losses, of a site alone, over groups of test points",
        "Predictions": "an expert's mean and variance at each of these points, of classes for each",
    },
    saved_arrays={
        "features": "names d",
        "kernel": "text",
        "theta": "number t",
        "log_likelihood": "float",
        "max_expert_rows": "place",
        "input_mean": "number d",
        "input_scale": "positive d",
        "output_mean": "number",
        "output_scale": "positive",
        "expert_site": "text M",
        "expert_rows": "count M",
        "centroids": "number M d",
        "covariances": "number M d d",
        "expert_y_mean": "number M",
        "expert_y_variance": "share M",
        "network": "number *",
        "residual_counts": "place 50",
        "sharpness": "positive",
        "classes": "text k",
        "class_counts": "place M k",
        "local": "place",
        "own_noise": "flag",
        "expert_nearest": "flag M",
    },
    packages=("torch", "gpytorch"),
    more_metrics=more_metrics,
    holdings=holdings,
    disclosure=disclosure,
    warnings=warnings,
    earlier_arrays=earlier_arrays,
    center_files=center_files,
)
