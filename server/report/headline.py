"""The answer of a run: one sentence with its main number, and comparisons with alternatives."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Shaped

from server.report.data import Arrays, Report
from server.report.formatting import counted, listed, percent, short, with_error
from server.report.glossary import direction, meaning
from server.report.protocol import Answer, Rival, report_of
from server.report.table_headline import label_columns, table_answer

__all__ = [
    "Comparison",
    "answer",
    "chosen_answer",
    "comparisons",
    "differences",
    "first_metrics",
    "half_width",
    "in_words",
    "value_text",
]

UNCLEAR = "not significant"
"""Verdict when a difference is not statistically significant over the repetitions, or over test rows."""

THE_SAME = "the same"
"""Difference and verdict of equal numbers."""

_IN_PAPER = "in the paper"
_CHANCE = 0.05
"""Two-sided probability of a difference by chance."""


@dataclass(frozen=True)
class Comparison:
    """A comparison of the answer's number with another one.

    Attributes
    ----------
    metric : str
        Name of the other number; the answer's own name for the paper's figure.
    words : str
        The other number in words that follow "less than".
    value : str
        The other number as text.
    difference : str
        The difference in words; "the same" if the numbers are equal.
    verdict : str
        ``"better"``, ``"worse"``, ``"the same"``, `UNCLEAR`, or ``"the price of ..."`` in place of "worse" for a rival
        that is not available in practice; empty if neither way is better.
    """

    metric: str
    words: str
    value: str
    difference: str
    verdict: str


def answer(report: Report, beside: Collection[str] = ()) -> str:
    """Return one or two sentences: the run's main number, which way is better, and the comparisons.

    Metrics in `beside` are not compared, because another sentence has them.
    """
    if table := table_answer(report, _who(report), report_of(report.protocol).answers):
        return table
    chosen = chosen_answer(report)
    if chosen is None:
        return _first_metric(report)
    values = {name: _counted(report, name) for name in report.metrics}
    better = direction(meaning(report.protocol, chosen.metric))
    value = f"{_value(report, report.metrics, chosen.metric)}{f' ({better})' if better else ''}"
    verbs = _SINGULAR if len(set(report.sites) - set(report.lost)) == 1 else _PLURAL
    words = _Words({**values, **verbs, "who": _who(report), "value": value}, report.protocol)
    sentence = chosen.sentence.format_map(words)
    compared = [_describe(each) for each in comparisons(report) if each.metric not in beside]
    at_0, text = chosen.also_at_0
    also = text if report.metrics.get(at_0) == 0 else chosen.also.format_map(_Words(values, report.protocol))
    return (
        f"{sentence}{': ' if compared else ''}{listed(compared)}.{f' {also}' if also and _UNKNOWN not in also else ''}"
    )


_SINGULAR = {"s": "s", "have": "has", "their": "its"}
_PLURAL = {"s": "", "have": "have", "their": "their"}
_UNKNOWN = "some"
_ROUNDING = 1e-12
"""Standard errors below this share of their number are rounding errors."""


class _Words(dict[str, str]):
    """Words for the placeholders of an `Answer`; a metric that the report lacks is "some"."""

    def __init__(self, words: Mapping[str, str], protocol: str) -> None:
        super().__init__(words)
        self._protocol = protocol

    def __missing__(self, name: str) -> str:
        known = meaning(self._protocol, name)
        return f"{_UNKNOWN} {known.counts}s" if known and known.counts else _UNKNOWN


def _counted(report: Report, name: str) -> str:
    """Return a metric with its counted thing: ``1 cluster``, ``103 points``."""
    value, known = _value(report, report.metrics, name), meaning(report.protocol, name)
    return f"{value} {known.counts}{'' if value == '1' else 's'}" if known and known.counts else value


def _first_metric(report: Report) -> str:
    """Return the answer of a protocol without answers: its first metric."""
    name = min((each for each in report.metrics if not each.endswith("_se")), default=None)
    if name is None:
        return f"{_who(report)} completed {counted(report.rounds, 'round')}; there was nothing to measure."
    text = f"{_who(report)} reached {name} = {_value(report, report.metrics, name)}"
    return f"{text}; published: {_value(report, report.published, name)}." if name in report.published else f"{text}."


def comparisons(report: Report) -> list[Comparison]:
    """Compare the answer's number with the alternatives, then with the paper's figure.

    A table has no comparisons, because its answer compares its rows.
    """
    chosen = chosen_answer(report)
    if chosen is None or (label_columns(report) and len(report.table) > 1):
        return []
    value, name = report.metrics[chosen.metric], chosen.metric
    compared = [
        _comparison(report, name, metric, rival.words, value, report.metrics[metric])
        for metric, rival in chosen.rivals.items()
        if metric in report.metrics
    ]
    if name in report.published:
        compared.append(_comparison(report, name, name, _IN_PAPER, value, report.published[name]))
    return compared


def _comparison(report: Report, metric: str, other: str, phrase: str, own: float, value: float) -> Comparison:
    values = report.published if other == metric else report.metrics
    text = _value(report, values, other)
    if math.isclose(own, value, rel_tol=1e-12):
        return Comparison(other, phrase, text, THE_SAME, THE_SAME)
    error = report.differences.get(other, {})
    # The error of a published figure is unknown; this run's own stands in.
    spread = report.metrics.get(f"{metric}_se", 0.0) if other == metric else error.get("difference_se", 0.0)
    pairs = int(error.get("pairs", report.config.get("repetitions", 1)))
    verdict = _verdict(report, metric, other, own - value, spread, pairs)
    return Comparison(other, phrase, text, _difference(report, metric, own, value, error), verdict)


def _verdict(report: Report, metric: str, other: str, difference: float, error: float, pairs: int) -> str:
    """Return whether a difference is for the better; `error` is its standard error over so many pairs, 0: unknown."""
    better = known.better if (known := meaning(report.protocol, metric)) else ""
    if not better:
        return ""
    if error > 0 and pairs > 1 and abs(difference) < half_width(error, pairs):
        return UNCLEAR
    if (difference < 0) == (better == "lower"):
        return "better"
    price = rival.price if (rival := _rival(report, metric, other)) else ""
    return f"the price of {price}" if price else "worse"


def _rival(report: Report, metric: str, other: str) -> Rival | None:
    """Return the alternative behind another metric; None for the paper's figure."""
    rivals = next((each.rivals for each in report_of(report.protocol).answers if each.metric == metric), {})
    return rivals.get(other)


def half_width(error: float, n: int, chosen_from: int = 1) -> float:
    """Return half of the 95 % confidence interval of a mean of n differences (Student's t).

    Parameters
    ----------
    error : float
        Standard error of the mean.
    n : int
        Number of differences.
    chosen_from : int
        Number of candidates of which the best is compared (Bonferroni).
    """
    from scipy.special import stdtrit

    return float(stdtrit(n - 1, 1 - _CHANCE / 2 / max(chosen_from, 1))) * error


def _difference(report: Report, metric: str, own: float, value: float, error: Mapping[str, float]) -> str:
    """Return a difference in words: ``5.6 percentage points more``, ``40 ± 3 % less``, ``3 times as large``."""
    way = "more" if own > value else "less"
    known = meaning(report.protocol, metric)
    if known and known.share:
        points, spread = abs(own - value) * 100, error.get("difference_se", 0.0) * 100
        return f"{with_error(points, spread) if spread else f'{points:.1f}'} percentage points {way}"
    if value > 0 and own >= 2 * value:
        return f"{own / value:.3g} times as large"
    if own > 0 and value > 0:
        return f"{percent(abs(own / value - 1), error.get('relative_se'))} {way}"
    spread = error.get("difference_se", 0.0)
    return f"{with_error(abs(own - value), spread) if spread else f'{abs(own - value):.4g}'} {way}"


def _describe(each: Comparison) -> str:
    """Return a comparison as a part of the answer."""
    if each.difference == THE_SAME:
        return f"the same as {each.words}"
    aside = f"; {each.verdict}" if each.verdict == UNCLEAR or each.verdict.startswith("the price") else ""
    return _beside(each, aside)


def _beside(each: Comparison, aside: str = "") -> str:
    link = "as" if each.difference == THE_SAME or each.difference.endswith("times as large") else "than"
    return f"{each.difference} {link} {each.words} ({each.value}{aside})"


def in_words(report: Report, metric: str, other: str, phrase: str) -> str:
    """Return a comparison of two metrics that follows "is": ``40 ± 3 % less than alone (0.83)``."""
    return _beside(_comparison(report, metric, other, phrase, report.metrics[metric], report.metrics[other]))


def value_text(report: Report, metric: str) -> str:
    """Return a metric for a sentence, with its standard error if known."""
    return _value(report, report.metrics, metric)


def first_metrics(report: Report) -> list[str]:
    """Return the run's metrics that the protocol's answers name, in their order; those of the chosen answer first."""
    chosen = chosen_answer(report)
    answers = [*([chosen] if chosen else []), *report_of(report.protocol).answers]
    names = [name for each in answers for name in (each.metric, *each.rivals, *each.beside)]
    return [name for name in dict.fromkeys(names) if name in report.metrics]


def differences(protocol: str, metrics: Mapping[str, float], arrays: Arrays) -> dict[str, dict[str, float]]:
    """Return the differences of the answer's number from its rivals', over the repetitions.

    Parameters
    ----------
    protocol : str
        Protocol of the run.
    metrics : Mapping[str, float]
        Metrics of the run.
    arrays : Mapping[str, ndarray]
        Arrays with every repetition's values (`server.evaluation.Evaluation.arrays`).

    Returns
    -------
    dict
        By rival, ``difference`` (this run's mean minus the rival's) and ``relative`` (divided by the rival's mean),
        with the standard errors ``difference_se`` and ``relative_se`` (of the ratio of means by the delta method, since
        the repetitions are pairs). With one repetition, for rivals with an array ``paired_RIVAL``: the difference, its
        standard error, and the number of rows as ``pairs``; ``chosen_from`` if the rival is the best of several. Empty
        without either.
    """
    chosen = next((each for each in report_of(protocol).answers if each.metric in metrics), None)
    if chosen is None:
        return {}
    own, by_rival = _repetitions(arrays, chosen.metric), {}
    for rival in chosen.rivals:
        values, paired = _repetitions(arrays, rival), arrays.get(f"paired_{rival}")
        if own is None and paired is not None:
            by_rival[rival] = _of_rows(paired, metrics[rival])
        if own is None or values is None:
            continue
        each = {"difference": float((own - values).mean()), "difference_se": _standard_error(own - values, own)}
        if values.mean() > 0:
            ratio = float(own.mean() / values.mean())
            error = _standard_error(own - ratio * values, own) / float(values.mean())
            each |= {"relative": ratio - 1, "relative_se": error}
        by_rival[rival] = each
    return by_rival


def _of_rows(paired: Shaped[np.ndarray, "_"], rival: float) -> dict[str, float]:
    """Return the difference from a rival, with its standard error over rows (`Rival`)."""
    difference, error, pairs, *chosen_from = map(float, paired)
    each = {"difference": difference, "difference_se": error, "pairs": pairs}
    each |= {"chosen_from": chosen_from[0]} if chosen_from else {}
    return each | {"relative": difference / rival, "relative_se": error / rival} if rival > 0 else each


def _repetitions(arrays: Arrays, name: str) -> Shaped[np.ndarray, "r"] | None:
    """Return a metric's value in every repetition, for a table the mean over its cells; None with fewer than two."""
    values = arrays[f"repetitions_{name}"] if f"repetitions_{name}" in arrays else arrays.get(f"cells_{name}")
    if values is None or values.shape[-1] < 2:
        return None
    return values.mean(axis=0) if values.ndim > 1 else values


def _standard_error(values: Shaped[np.ndarray, "r"], of: Shaped[np.ndarray, "r"]) -> float:
    """Return the standard error of the mean of differences of `of`; 0 if they differ by rounding errors only."""
    error = float(values.std(ddof=1) / np.sqrt(len(values)))
    return error if error > _ROUNDING * float(np.abs(of).max()) else 0.0


def chosen_answer(report: Report) -> Answer | None:
    """Return the first answer of the protocol whose metric the run has."""
    return next((each for each in report_of(report.protocol).answers if each.metric in report.metrics), None)


def _who(report: Report) -> str:
    """Return the subject of the answer."""
    complete = len(set(report.sites) - report.missing.keys())  # the sites that answered every ask
    n_sites = len({*report.sites, *report.missing})
    sites = counted(n_sites, "site")
    if 0 < complete < n_sites:
        sites = f"{complete} of {sites}"
    if any(report.config.get(key) for key in report_of(report.protocol).earlier_keys):
        return f"With the result of an earlier run, {sites}"
    return f"Together, {sites}" if len(set(report.sites) - set(report.lost)) > 1 else sites


def _value(report: Report, values: Mapping[str, Any], name: str) -> str:
    """Return a number for a sentence: a share in percent, with its standard error, else to four digits."""
    value, error = float(values[name]), values.get(f"{name}_se")
    if error is not None and float(error) <= _ROUNDING * abs(value):
        error = None
    if (known := meaning(report.protocol, name)) and known.share:
        return percent(value, error)
    return with_error(value, float(error)) if error else _plain(value)


def _plain(value: float) -> str:
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    return short(value)
