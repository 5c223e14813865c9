"""What a run was asked, for a reader who has not read the papers: the question, who holds what, what left the sites."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Shaped

from server.report.formatting import counted, listed
from server.report.headline import EARLIER_KEYS

Config = Mapping[str, Any]

QUESTIONS: Mapping[str, str] = {
    "sec": "With whom should I collaborate?",
    "bc3e": "What class is each of our instances, given all our classifiers and clusterings?",
    "residual": "How well can we predict together when each of us holds other columns?",
    "coreset": "How do we cluster all our records so that every cluster is fair?",
    "gp": "What is the value here, and how sure are we, when every site has its own Gaussian process?",
}
"""By protocol, the question that it answers."""

_HOLDS: Mapping[str, str] = {
    "bc3e.row": "Each site holds some of the instances, with the labels that all classifiers and clusterings give.",
    "bc3e.column": "Each site holds all instances, with the labels that some of the classifiers and clusterings give.",
    "bc3e.arbitrary": "Each site holds the labels that some classifiers and clusterings give to some of the instances.",
    "sec": "Each site is a learner: it holds rows of the same columns, and fits its own regression to them.",
    "residual": "Each site holds other columns of the same entities.",
    "coreset": "Each site holds rows of the same columns, and of every row its colour: a sensitive attribute.",
    "gp": "Each site holds rows of the same inputs with the output measured there, and a Gaussian process of its own.",
}
_COLUMNS: Mapping[str, Mapping[str, str]] = {
    "bc3e": {
        "classes": "class labels",
        "clusters": "cluster labels",
        "id": "names of instances",
        "truth": "true class",
    },
    "sec": {"target": "output", "features": "inputs"},
    "residual": {"target": "outcome", "features": "columns", "id": "names of entities"},
    "coreset": {"sensitive": "colour", "features": "columns"},
    "gp": {"target": "output", "features": "inputs", "id": "names of points"},
}
"""By protocol, which keys of the run configuration name columns, and what is in them."""


def asked(
    protocol: str,
    config: Config,
    cells: Sequence[Config],
    sites: int,
    about: str,
    payloads: Collection[str],
    arrays: Mapping[str, Shaped[np.ndarray, "..."]],
) -> dict[str, str]:
    """What the page says first: ``question``, ``data``, ``holds`` and ``left``, and ``earlier`` of a run that goes on.

    Parameters
    ----------
    protocol : str
    config : Mapping
        The run configuration.
    cells : Sequence of Mapping
        Of a scenario that is a table, what each row sets otherwise; what is said of it holds for the rows that let most
        of the sites' data be seen.
    sites : int
        How many took part.
    about : str
        A scenario's own words; empty: the sites' own data.
    payloads : Collection of str
        Names of the payloads that crossed.
    arrays : Mapping[str, ndarray]
        Of the results; those of `residual` say who holds the outcome.
    """
    settings: list[Config] = [{**config, **cell} for cell in cells] or [config]
    holds = _HOLDS.get(f"{protocol}.{config.get('bc3e.distribution', '')}", _HOLDS.get(protocol, ""))
    if protocol == "residual":
        at_center = str(arrays["holder"]) == "" if "holder" in arrays else "prediction" in arrays
        holds += f" The outcome is at {'the fusion center' if at_center else 'one of them'}."
    told = {
        "question": QUESTIONS.get(protocol, ""),
        "data": about or _own_data(protocol, config, sites),
        "holds": holds,
        "left": _what_left(protocol, settings, payloads),
        "earlier": next((_went_on(key, str(config[key])) for key in EARLIER_KEYS if config.get(key)), ""),
    }
    return {key: text for key, text in told.items() if text}


def _went_on(key: str, path: str) -> str:
    if key == "sec.join":
        return f"The sites joined the clusters that an earlier run found: {path}."
    return f"Nothing was learnt anew: the sites used what an earlier run had learnt: {path}."


def _own_data(protocol: str, config: Config, sites: int) -> str:
    """Which files, and which of their columns."""
    whose = f"Own data of {counted(sites, 'site')}"
    if not config.get("data"):
        return f"{whose}, each with its file and columns in its own configuration."
    told = [
        f"{words} {config[key]}"
        for key, words in _COLUMNS.get(protocol, {}).items()
        if str(config.get(key, "")).strip()
    ]
    return f"{whose}, a file each in {config['data']}.{f' Columns: {listed(told)}.' if told else ''}"


_HASHED = " Where {0} are matched by name, keyed hashes of the names left, too."


def _what_left(protocol: str, settings: Sequence[Config], payloads: Collection[str]) -> str:
    """What stayed at the sites and what did not, as far as the payloads that crossed tell."""
    if protocol == "bc3e":
        return _of_bc3e(settings[0], payloads)
    if protocol == "sec":
        return _of_sec(settings)
    if protocol == "residual":
        return _of_residual(payloads)
    if protocol == "coreset":
        return _of_coreset(settings, payloads)
    if protocol == "gp":
        return _of_gp(payloads)
    return ""


def _of_sec(settings: Sequence[Config]) -> str:
    held = any(each.get("sec.allow-row-models") for each in settings)
    some = any(each.get("sec.exchange") == "landmarks" for each in settings)
    sums = any(each.get("sec.combine") == "pooled-linear" for each in settings)
    return (
        "Rows stayed at the sites. Fitted models went to the fusion center and"
        f" {'those of some, the landmarks,' if some else 'from there'} to every other site, and came back as errors."
        f"{' Means and summed products of the columns, the outcome among them, went to the center.' if sums else ''}"
        f"{' Models that hold rows (knn, svr) were allowed.' if held else ''}"
    )


def _of_bc3e(config: Config, payloads: Collection[str]) -> str:
    if "bc3e.Predict" in payloads:
        return (
            "Instances, labels and class probabilities stayed at the sites. What left is how many instances were told"
            " their class, and how many decisions were right where the site knows."
        )
    if "bc3e.PredictShared" in payloads:
        return (
            "Labels stayed at the sites. Of instances that several sites hold, each site sent its part of their class"
            " scores; of all others, how many there are, and how many decisions were right where the site knows."
            f"{_HASHED.format('instances')}"
        )
    if config.get("bc3e.distribution", "row") == "row":
        masked = " (masked: only their total over all sites can be read)" if config.get("secure-aggregation") else ""
        return (
            "Instances, labels and class probabilities stayed at the sites. What left are sums over a site's"
            f" instances{masked}, and how many decisions were right where the site knows."
        )
    return (
        "Labels stayed at the sites. Of instances that several sites hold, each site sent its part of their class"
        f" scores; of all others sums only.{_HASHED.format('instances')}"
    )


def _of_residual(payloads: Collection[str]) -> str:
    if any(name in payloads for name in ("residual.Sealed", "residual.Pass", "residual.Present")):
        return (
            "Columns and models stayed at the sites. Predictions and residuals, a number for every entity, went from"
            " site to site encrypted; the fusion center relayed them and could read errors and sizes only."
            f"{_HASHED.format('entities')}"
        )
    return (
        "Columns and models stayed at the sites. Each site's predictions, a number for every entity, went to the fusion"
        f" center, and the residual that is left to explain came back.{_HASHED.format('entities')}"
    )


def _of_coreset(settings: Sequence[Config], payloads: Collection[str]) -> str:
    least = min(int(each.get("coreset.min-weight") or 5) for each in settings)
    points = f"weighted points, each the mean of {least} rows or more of one colour" if least > 1 else "weighted points"
    single = " A point may be a single row here (a setting allows it)." if least == 1 else ""
    prices = (
        " Counts of rows by colour and center left, too, some of single rows." if "coreset.Masses" in payloads else ""
    )
    return (
        f"Rows stayed at the sites. What left are {points}, how many rows of each colour are in each cluster, and"
        f" what these cost.{single}{prices}"
    )


def _of_gp(payloads: Collection[str]) -> str:
    parts = {
        "gp.Moments": "numbers of rows, means and covariances of the inputs and of the output",
        "gp.Likelihood": "sums for the hyperparameters",
        "gp.Slope": "sums for the gate's network",
        "secure_aggregation.Hidden": "sums for what was learnt (masked: only their total over all sites can be read)",
        "gp.Predictions": "predictions at the points that were asked for",
    }
    left = listed(words for payload, words in parts.items() if payload in payloads)
    told = f"Rows stayed at the sites. {f'What left are {left}.' if left else 'Nothing left them.'}"
    if "gp.Inputs" in payloads:
        told += " Sites that consented disclosed the inputs of all their rows to the fusion center."
    if "gp.Rows" in payloads:
        told += " Sites that consented gave some of their rows to all sites."
    return told
