"""Report of attribute-distributed regression: agents that hold different columns of the same entities."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from protocols.settings import tasks_of
from server.report.classification import score_meanings
from server.report.data import Arrays, ResultsError
from server.report.protocol import HASHED_NAMES, Answer, Config, Meaning, ProtocolReport, Rival, lower
from server.report.saved_arrays import check_saved, read_results

_SEALED = ("residual.SealedAsk", "residual.Pass", "residual.Present")
"""Payloads of runs in which predictions are encrypted between sites."""
_BINS = (
    " Sites that allow it sent once, {to}, in which bin (1/64 of a site's rows or more) each entity lies in each of"
    " their columns; names of columns stayed there."
)
_ALONE = (
    " At the end the sites got the outcome of the rows learned from, and answered with what their own columns alone"
    " predict of the entities, test rows among them."
)


def holdings(config: Config, arrays: Arrays) -> str:
    """Return who holds what; the outcome is at a site or at the fusion center."""
    at_center = str(arrays["holder"]) == "" if "holder" in arrays else "prediction" in arrays
    holder = "the fusion center" if at_center else "one of them"
    of_class = " It is a class, which residuals show to every site that fits them." if "classes" in arrays else ""
    return f"Each site holds other columns of the same entities. The outcome is at {holder}.{of_class}"


def disclosure(settings: Sequence[Config], payloads: Collection[str]) -> str:
    """Return what left the sites: predictions and residuals, plain or encrypted, or bins."""
    relayed = "residual.Lead" in payloads and any(each.get("residual.baselines") for each in settings)
    alone = _ALONE if relayed or "residual.Compare" in payloads else ""
    if any(each.get("residual.algorithm") == "bins" for each in settings):
        left = _of_bins("residual.Lead" in payloads, "residual.Fit" in payloads)
        return left + alone + HASHED_NAMES.format("entities")
    if any(name in payloads for name in _SEALED):
        return (
            "Columns and models stayed at the sites. Predictions and residuals, a number for every entity, went"
            f" from site to site encrypted; the fusion center relayed them and could read errors and sizes only.{alone}"
            f"{HASHED_NAMES.format('entities')}"
        )
    return (
        "Columns and models stayed at the sites. Each site's predictions, a number for every entity, went to the"
        f" fusion center, which returned the residual still to be explained.{alone}{HASHED_NAMES.format('entities')}"
    )


def _of_bins(sealed: bool, fitted: bool) -> str:
    """Return what left the sites where those that allow it send bins."""
    to = "to the site with the outcome, encrypted" if sealed else "to the fusion center"
    others = f" Predictions of the others, a number for every entity, went {to}, which returned residuals."
    return f"Values, models and edges stayed at the sites.{_BINS.format(to=to)}{others if sealed or fitted else ''}"


def earlier_arrays(config: Config) -> Arrays:
    """Return arrays of the run whose agents predict, and its ``session``."""
    path = str(config["from"]).strip()
    if not path:
        return {}
    report, arrays = read_results(path, "from", "residual")
    if "beta" not in arrays or not report.config.get("protocol"):
        raise ResultsError(f"from: no agent has kept a model of {path}; learn from the sites' own data")
    check_saved(path, "residual", arrays)
    _check_widths(path, arrays)
    return {**arrays, "session": np.array(report.session)}


def _check_widths(path: str, arrays: Arrays) -> None:
    """Refuse coefficients of steps that are not those of the agents."""
    if "widths" not in arrays and "weights" not in arrays:
        return
    widths, weights = arrays.get("widths", np.zeros(0)), arrays.get("weights", np.zeros(0))
    levels = arrays.get("levels", np.zeros(len(weights), np.int64))
    binned = levels.dtype == np.int64 and levels.shape == weights.shape and bool(((levels >= 0) & (levels < 256)).all())
    own = str(arrays.get("own_site", "")) in ("", *arrays["agents"].tolist())
    share = arrays.get("own_share", np.array(0.0))
    binned = binned and own and share.shape == () and share.dtype == np.float64 and bool(0 <= share <= 1)
    if "classes" in arrays:
        places, start = arrays.get("class_places", np.zeros(0)), arrays.get("class_start", np.zeros(0))
        k = len(arrays["classes"])
        sound = places.dtype == np.int64 and places.ndim == 1 and len(np.unique(places)) == len(places)
        sound = sound and bool(((places >= 0) & (places < k)).all()) and bool(len(places)) == ("model" in arrays)
        sound = sound and start.shape == (1 if k == 2 else k,) and start.dtype == np.float64
        rows = arrays.get("class_rows", np.zeros(1))
        binned = binned and sound and rows.shape == () and rows.dtype == np.int64
    same = binned and widths.dtype == np.int64 and widths.shape == arrays["agents"].shape and bool((widths >= 0).all())
    if not (same and weights.dtype == np.float64 and weights.shape == (int(widths.sum()),)):
        raise ResultsError(
            f"{path}: weights, levels, shares in arrays.npz do not go with widths and agents; use a run's own results"
        )


def center_files(config: Config, *, scenario: bool) -> dict[str, Any]:
    """Return the outcomes that the fusion center holds; a scenario makes its own."""
    from clients.data.outcomes import center_outcomes
    from numerics.residual.columns_and_outcomes import Outcomes

    if scenario:
        return {}
    by_row = config["residual.align"] == "row-order"
    known = [str(label) for label in earlier_arrays(config).get("classes", ())]
    columns = center_outcomes(config, by_row=by_row, tasks=tasks_of("residual"), known=known)
    if columns is None:
        return {}
    outcomes = Outcomes(*columns)
    return {"outcome": lambda repetition: outcomes}


REPORT = ProtocolReport(
    question="How well can we predict together when each of us holds other columns?",
    test_advice="hold rows out (residual.holdout), or give test rows (test, or a file _test)",
    column_keys={"target": "outcome", "features": "columns", "id": "names of entities"},
    answers=(
        Answer(
            "test_mse",
            "{who} predict{s} test rows with a mean squared error of {value}",
            {
                "mse_alone": Rival("with the best site alone", "the best site's own columns", "best site"),
                "mse_holder": Rival(
                    "with the site alone that holds the outcome", "the columns of the site with the outcome", "alone"
                ),
                "mse_average": Rival("by the mean of the agents alone", "the mean of the agents", "plain way"),
                "mse_centralized": Rival(
                    "by boosting all columns in one place",
                    "all columns in one place",
                    "out of reach",
                    "columns in separate places",
                ),
            },
            ("mse_pooled", "test_mse_once", "train_mse", "iterations"),
        ),
        Answer(
            "log_loss",
            "{who} predict{s} the classes of test rows with a log loss of {value}",
            {
                "log_loss_alone": Rival("with the best site alone", "the best site's own columns", "best site"),
                "log_loss_holder": Rival(
                    "with the site alone that holds the outcome", "the columns of the site with the outcome", "alone"
                ),
            },
            ("auc", "auc_alone", "accuracy", "balanced_accuracy", "brier", "calibration_error", "iterations"),
            unit="test row",
        ),
        Answer(
            "train_mse",
            "{who} fit{s} the training rows with a mean squared error of {value}; there are no test rows, on which it"
            " would be larger",
        ),
        Answer(
            "train_log_loss",
            "{who} fit{s} the classes of the training rows with a log loss of {value}; there are no test rows, on which"
            " it would be larger",
        ),
        Answer("n_predicted", "{who} predict{s} {value} rows with unknown outcomes"),
    ),
    metrics={
        "test_mse": lower("mean squared error on test rows"),
        "test_mse_last": lower("mean squared error on test rows after the last iteration"),
        "test_mse_once": lower("mean squared error on test rows with one round only, combined linearly"),
        "test_mse_best": lower("mean squared error on test rows at the best iteration, known only afterwards"),
        "train_mse": lower("mean squared error on the training rows"),
        "train_mse_last": lower("mean squared error on the training rows after the last iteration"),
        "validation_mse": lower("mean squared error on the validation rows, which decide when to stop"),
        "mse_alone": lower("mean squared error of the best site alone, by boosting of its own columns, on test rows"),
        "mse_holder": lower("mean squared error of the site alone that holds the outcome, where another one is best"),
        "mse_average": lower("mean squared error of the mean of the agents alone"),
        "mse_centralized": lower("mean squared error of boosted trees on all columns in one place"),
        "mse_pooled": lower("mean squared error of scikit-learn's gradient boosting on all columns in one place"),
        **score_meanings(
            {
                "": "",
                "alone": "the best site alone, by boosting of its own columns",
                "holder": "the site alone that holds the outcome, where another one is best",
            }
        ),
        "train_log_loss": lower("log loss on the training rows"),
        "validation_log_loss": lower("log loss on the validation rows and an imaginary one, which decide when to stop"),
        "n_classes": Meaning("classes of the outcome"),
        "threshold": Meaning("probability of the second class from which on to predict it, for the best mean recall"),
        "iterations": Meaning("iterations of the result"),
        "power": Meaning("exponent p of the reweighting"),
        "power_relevant": Meaning("mean square of the predictions of agents with a relevant column, summed"),
        "power_irrelevant": lower("mean square of the predictions of agents without a relevant column, summed"),
        "contraction": lower("factor by which a step shrinks from one turn to the next"),
        "n_aligned": Meaning("entities known to every site"),
        "n_lost": lower("entities left out, since some site does not know them"),
        "n_agents": Meaning("agents"),
        "n_test": Meaning("test rows"),
        "n_predicted": Meaning("rows predicted"),
        "numbers_down": lower("numbers sent to the sites in an iteration"),
        "numbers_up": lower("numbers sent by the sites in an iteration"),
        "asks_per_iteration": lower("asks in an iteration"),
    },
    measures={
        "train": "mean squared error on the training rows",
        "validation": "mean squared error on the validation rows, which decide when to stop",
        "test": "mean squared error on test rows",
        "predicted": "rows predicted",
    },
    payloads={
        "Enrol": "asks what a site holds",
        "Holdings": "hashed names of the entities, numbers of rows and columns",
        "Order": "the entities known to all, and the settings of learning",
        "Ready": "a site's confirmation of the order",
        "Bin": "asks for the bins of a site's columns, if it allows that",
        "EntityBins": "in which bin each entity lies, in each of a site's columns; none without the site's consent",
        "Fit": "the residual that an agent is to fit, a number for every entity",
        "FittedValues": "an agent's predictions, a number for every entity",
        "Try": "the residual, to say how well it could be fitted",
        "TrialFit": "how well an agent could fit it",
        "Show": "asks the best agent for its predictions",
        "Compare": "the outcome, to say how well an agent predicts alone",
        "PredictionsAlone": "an agent's predictions of the test rows by its own columns alone",
        "Conclude": "which model an agent is to keep",
        "Receipt": "whether the model was kept",
        "Predict": "asks for predictions of the rows that the agents have now",
        "AgentPredictions": "an agent's part of the predictions, a number for every entity",
        "SealedAsk": "a message from one site to another, encrypted; the center relays it",
        "SealedAnswer": "the answer to it, encrypted",
        "Lead": "asks the site with the outcome to do the fusion center's arithmetic",
        "Fuse": "the agents' encrypted answers, to the site with the outcome",
        "FusionStep": "that site's next ask, encrypted; at the end its results",
        "Pass": "asks an agent for its turn in the ring",  # nosec B105 - no password
        "NextResidual": "the residual for the next agent, encrypted, and its mean square",
        "Residual": "the residual on its way in the ring",
        "Sum": "agents' encrypted parts of the predictions, to the site with the outcome",
        "PredictionCount": "number of predictions; they stay at that site",
        "KeepEnsemble": "what the site with the outcome needs for later predictions",
        "Present": "asks for encrypted predictions with an earlier run's model",
    },
    saved_arrays={"agents": "names D", "holder": "text", "beta": "float D", "mean": "float"},
    holdings=holdings,
    disclosure=disclosure,
    earlier_arrays=earlier_arrays,
    center_files=center_files,
)
