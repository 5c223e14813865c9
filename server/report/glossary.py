"""Glossary of a report: metrics, measures of a round and payloads in plain words."""

from __future__ import annotations

from collections.abc import Mapping

from server.report.protocol import Meaning, report_of

_METRICS: Mapping[str, Meaning] = {
    "n_cells": Meaning("rows of the scenario's table"),
    "n_clusters": Meaning("clusters", counts="cluster"),
    "n_rows": Meaning("rows of all sites", counts="row"),
}
"""Metrics that several protocols have."""

_MEASURES: Mapping[str, str] = {
    "open": "fits under way in this round (repetitions, restarts, rows of the table); the columns after it show one",
}
"""Measures of a round that several protocols have."""

_PAYLOADS: Mapping[str, str] = {
    "envelope": "site's name, round, seed and session, around every message",
    "secure_aggregation.Join": "asks for a new public key",
    "secure_aggregation.Keys": "a site's public key, with which others encrypt for it",
    "secure_aggregation.Deal": "asks for shares of the secrets behind the masks",
    "secure_aggregation.Shares": "these shares, encrypted for the other sites",
    "secure_aggregation.Hide": "an ask whose answer is to be masked",
    "secure_aggregation.MaskedAnswer": "a masked answer: only the sum of all is readable",
    "secure_aggregation.Show": "asks for the shares of sites that did not answer",
    "secure_aggregation.SecretShares": "a site's shares of these secrets",
}
"""Payloads that several protocols use, and the envelope."""


def meaning(protocol: str, metric: str) -> Meaning | None:
    """Return the meaning of a protocol's metric; None for one without a description.

    Examples
    --------
    >>> meaning("unheard-of", "n_rows").words
    'rows of all sites'
    """
    return report_of(protocol).meaning(metric) or _METRICS.get(metric)


def direction(known: Meaning | None) -> str:
    """Return which way is better, in words; empty if neither is.

    Examples
    --------
    >>> direction(Meaning("error", "lower")), direction(Meaning("inside", target=0.95))
    ('lower is better', 'best near 95 %')
    """
    if known is None:
        return ""
    if known.target is not None:
        return f"best near {100 * known.target:g} %"
    return f"{known.better} is better" if known.better else ""


def measure_words(protocol: str, measure: str) -> str:
    """Return the meaning of a column in the table of rounds; empty for one without a description.

    Examples
    --------
    >>> measure_words("unheard-of", "n_clusters")
    'clusters'
    """
    words = report_of(protocol).measures.get(measure) or _MEASURES.get(measure, "")
    return words or (known.words if (known := meaning(protocol, measure)) else "")


def payload_words(payload: str) -> str:
    """Return what a payload holds, by its name in the ledger; empty for one without a description.

    The page of the protocol, ``docs/NAME.md``, describes every field.

    Examples
    --------
    >>> payload_words("secure_aggregation.MaskedAnswer")
    'a masked answer: only the sum of all is readable'
    """
    protocol, _, name = payload.rpartition(".")
    return _PAYLOADS.get(payload) or report_of(protocol).payloads.get(name, "")
