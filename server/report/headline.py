"""A run's answer: one sentence with its number, and what that number is to be held against."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.special
from jaxtyping import Shaped

from server.report.formatting import counted, grouped, listed, number, percent, with_error
from server.report.glossary import direction, meaning
from server.report.table_headline import label_columns, table_answer

if TYPE_CHECKING:
    from server.results import Report

__all__ = ["Comparison", "answer", "comparisons", "differences", "first_metrics"]

UNCLEAR = "within the errors"
"""The verdict on a difference that the repetitions do not tell from none."""

EARLIER_KEYS = ("from", "sec.join")
"""Keys that name the results directory of an earlier run that a run goes on from."""


@dataclass(frozen=True)
class _Answer:
    """What a run can answer with.

    Attributes
    ----------
    metric : str
        The number of the answer.
    sentence : str
        How it is said; ``{who}``, ``{value}`` and ``{NAME}`` of other metrics, which it needs, stand for what they are,
        ``{s}``, ``{have}`` and ``{their}`` for what one site or several take.
    rivals : Mapping[str, str]
        By metric, what the number is compared with, as it follows "less than".
    prices : Mapping[str, str]
        By metric among `rivals` that nobody could choose instead: of what being worse than it is the price.
    beside : tuple of str
        Metrics that are shown next to it.
    also : str
        What is said after it, as `sentence`, where all metrics that it names are known.
    also_at_0 : tuple of str
        A metric, and what is said in place of `also` where it is 0.
    in_tables : tuple of str
        Metrics that answer in its place, best first, where settings are compared over which `metric` is not the same
        kind of number.
    """

    metric: str
    sentence: str
    rivals: Mapping[str, str] = field(default_factory=dict)
    prices: Mapping[str, str] = field(default_factory=dict)
    beside: tuple[str, ...] = ()
    also: str = ""
    also_at_0: tuple[str, str] = ("", "")
    in_tables: tuple[str, ...] = ()


_ANSWERS: Mapping[str, tuple[_Answer, ...]] = {
    "bc3e": (
        _Answer(
            "accuracy",
            "{who} put {value} of {their} instances into the right class",
            {"accuracy_majority": "by majority vote", "accuracy_best_component": "by the best single component"},
            {"accuracy_best_component": "not knowing beforehand which is best"},
        ),
        _Answer(
            "n_predicted",
            "{who} told the classes of {value} new instances, each of its own; no true classes are known",
        ),
        _Answer(
            "bound",
            "{who} agreed on the classes of {their} instances, at a bound on the log-likelihood of {value}; no true"
            " classes are known, so nobody can say how many are right",
        ),
    ),
    "sec": (
        _Answer(
            "mse_cluster",
            "{who}, each predicting with its cluster, {have} a mean squared error of {value}",
            {"mse_alone": "with every learner alone", "mse_all": "with all learners together"},
            beside=("mse_oracle", "n_clusters", "clusters_correct", "adjusted_rand"),
            also="They form {n_clusters}.",
        ),
        _Answer("n_clusters", "{who} form{s} {n_clusters}; no rows were held out to measure errors on"),
    ),
    "residual": (
        _Answer(
            "test_mse",
            "{who} predict{s} test rows with a mean squared error of {value}",
            {
                "test_mse_once": "when everybody is asked once",
                "mse_average": "by the mean of the agents alone",
                "mse_centralized": "by boosting all columns in one place",
            },
            {"mse_centralized": "columns that stay apart"},
            ("mse_pooled", "train_mse", "iterations"),
        ),
        _Answer(
            "train_mse",
            "{who} fit{s} the rows that were learnt from with a mean squared error of {value}; there are no test rows,"
            " on which it would be larger",
        ),
        _Answer("n_predicted", "{who} predict{s} {value} rows, whose outcomes nobody has said yet"),
    ),
    "coreset": (
        _Answer(
            "cost",
            "{who} put {n_rows} into fair clusters at a cost of {value}",
            {
                "cost_full": "by the same algorithm on all rows in one place",
                "cost_unfair": "without the bounds of fairness",
            },
            {"cost_full": "rows that stay apart", "cost_unfair": "fairness"},
            ("max_violation", "balance", "price_of_fairness", "n_coreset"),
            also="A colour misses its bounds of fairness in a cluster by {max_violation} at most.",
            also_at_0=("max_violation", "Every cluster keeps the bounds of fairness."),
            in_tables=("error", "relative", "price_of_fairness", "excess"),
        ),
    ),
    "gp": (
        _Answer(
            "smse",
            "{who} predict{s} {n_queries} with a standardised mean squared error of {value}, where 0 is exact and"
            " 1 no better than the mean output",
            {"smse_full": "by one Gaussian process of all rows"},
            {"smse_full": "rows that stay apart"},
            ("msll", "coverage_95", "rmse"),
            also="Their 95 % intervals hold {coverage_95} of the outputs.",
        ),
        _Answer("n_queries", "{who} predict{s} {value} points, at which nobody has said what was measured"),
        _Answer(
            "log_likelihood",
            "{who} agreed on the hyperparameters of {their} experts, at a log likelihood of {value} per row; there were"
            " no points to predict",
        ),
    ),
}
"""By protocol, what can be its answer, best first."""


@dataclass(frozen=True)
class Comparison:
    """The answer's number beside another.

    Attributes
    ----------
    metric : str
        The other number's name; that of the answer where it is the paper's figure.
    words : str
        What it stands for.
    value : str
        The other number as text.
    difference : str
        By how much this run's number is less or more, in words; "the same" if they are equal.
    verdict : str
        ``"better"``, ``"worse"``, ``"the same"``, `UNCLEAR`, or of what nobody could choose instead ``"the price of
        ..."`` in place of "worse"; empty where neither way is better.
    """

    metric: str
    words: str
    value: str
    difference: str
    verdict: str


def answer(report: Report) -> str:
    """One sentence, or one and a half: the run's main number, which way is better, and what to hold it against."""
    told = table_answer(report, _who(report), _by_protocol(report))
    if told:
        return told
    chosen = _chosen(report)
    if chosen is None:
        return _of_no_protocol(report)
    values = {name: _counted(report.metrics, name) for name in report.metrics}
    better = direction(meaning(chosen.metric))
    value = f"{_value(report.metrics, chosen.metric)}{f' ({better})' if better else ''}"
    verbs = {"s": "s", "have": "has", "their": "its"} if len(report.sites) == 1 else _PLURAL
    sentence = chosen.sentence.format_map(_Known({**values, **verbs, "who": _who(report), "value": value}))
    held = [_held_against(each) for each in comparisons(report)]
    at_0, said = chosen.also_at_0
    also = said if report.metrics.get(at_0) == 0 else chosen.also.format_map(_Known(values))
    return f"{sentence}{': ' if held else ''}{listed(held)}.{f' {also}' if also and _UNKNOWN not in also else ''}"


_PLURAL = {"s": "", "have": "have", "their": "their"}
_UNKNOWN = "some"
_ROUNDING = 1e-12
"""Standard errors below this share of their number are rounding errors of none."""
_THINGS = {"n_clusters": "cluster", "n_queries": "point", "n_rows": "row", "max_violation": "row"}


class _Known(dict[str, str]):
    """What a report does not say is "some"."""

    def __missing__(self, name: str) -> str:
        return f"{_UNKNOWN} {_THINGS[name]}s" if name in _THINGS else _UNKNOWN


def _counted(metrics: Mapping[str, float], name: str) -> str:
    """A number with what it counts: ``1 cluster``, ``103 points``; of what counts nothing its value."""
    value = _value(metrics, name)
    return f"{value} {_THINGS[name]}{'' if value == '1' else 's'}" if name in _THINGS else value


def _of_no_protocol(report: Report) -> str:
    """The first metric there is, for a protocol that nobody described."""
    name = min((each for each in report.metrics if not each.endswith("_se")), default=None)
    if name is None:
        return f"{_who(report)} completed {counted(report.rounds, 'round')}; there was nothing to measure."
    told = f"{_who(report)} reached {name} = {_value(report.metrics, name)}"
    return f"{told}; published: {_value(report.published, name)}." if name in report.published else f"{told}."


def comparisons(report: Report) -> list[Comparison]:
    """What the answer's number is to be held against: what else could be done, then the paper's figure.

    None of a table: its rows have a number each, and the answer says how these fare.
    """
    chosen = _chosen(report)
    if chosen is None or (label_columns(report) and len(report.table) > 1):
        return []
    here, name = report.metrics[chosen.metric], chosen.metric
    found = [
        _comparison(report, name, rival, phrase, here, report.metrics[rival])
        for rival, phrase in chosen.rivals.items()
        if rival in report.metrics
    ]
    if name in report.published:
        found.append(_comparison(report, name, name, "as the paper has it", here, report.published[name]))
    return found


def _comparison(report: Report, metric: str, other: str, phrase: str, here: float, there: float) -> Comparison:
    values = report.published if other == metric else report.metrics
    if math.isclose(here, there, rel_tol=1e-12):
        return Comparison(other, phrase, _value(values, other), "the same", "the same")
    error = report.differences.get(other, {})
    # A published figure has no error that we know: this run's own is all there is.
    spread = report.metrics.get(f"{metric}_se", 0.0) if other == metric else error.get("difference_se", 0.0)
    verdict = _verdict(report, metric, other, here - there, spread)
    return Comparison(other, phrase, _value(values, other), _difference(metric, here, there, error), verdict)


def _verdict(report: Report, metric: str, other: str, difference: float, error: float) -> str:
    """Whether a difference, with its standard error over the repetitions (0: unknown), is for the better."""
    better = known.better if (known := meaning(metric)) else ""
    if not better:
        return ""
    repetitions = int(report.config.get("repetitions", 1))
    if error > 0 and repetitions > 1 and abs(difference) < _quantile(repetitions) * error:
        return UNCLEAR
    if (difference < 0) == (better == "lower"):
        return "better"
    prices = next((each.prices for each in _by_protocol(report) if each.metric == metric), {})
    return f"the price of {prices[other]}" if other in prices else "worse"


def _quantile(repetitions: int) -> float:
    """How many standard errors a mean of so many differences lies from 0 in one of 20 draws in which nothing differs.

    Of Student's distribution, since the error is estimated from these few.
    """
    return float(scipy.special.stdtrit(repetitions - 1, 0.975))


def _difference(metric: str, here: float, there: float, error: Mapping[str, float]) -> str:
    """``5.6 percentage points more``, ``40 ± 3 % less``; of numbers that are not all positive their difference."""
    way = "more" if here > there else "less"
    known = meaning(metric)
    if known and known.share:
        points, spread = abs(here - there) * 100, error.get("difference_se", 0.0) * 100
        return f"{with_error(points, spread) if spread else f'{points:.1f}'} percentage points {way}"
    if there > 0 and here >= 2 * there:
        return f"{here / there:.3g} times as large"
    if here > 0 and there > 0:
        return f"{percent(abs(here / there - 1), error.get('relative_se'))} {way}"
    spread = error.get("difference_se", 0.0)
    return f"{with_error(abs(here - there), spread) if spread else f'{abs(here - there):.4g}'} {way}"


def _held_against(each: Comparison) -> str:
    if each.difference == "the same":
        return f"the same {each.words}" if each.words.startswith("as ") else f"the same as {each.words}"
    link = "as" if each.difference.endswith("times as large") else "than"
    aside = f"; {each.verdict}" if each.verdict == UNCLEAR or each.verdict.startswith("the price") else ""
    return f"{each.difference} {link} {each.words.replace('as the paper has it', 'in the paper')} ({each.value}{aside})"


def first_metrics(report: Report) -> list[str]:
    """Names of the metrics that the answer speaks of, in order, that the run has."""
    names = [name for each in _by_protocol(report) for name in (each.metric, *each.rivals, *each.beside)]
    return [name for name in dict.fromkeys(names) if name in report.metrics]


def differences(
    protocol: str, metrics: Mapping[str, float], arrays: Mapping[str, Shaped[np.ndarray, "..."]]
) -> dict[str, dict[str, float]]:
    """How much the answer's number differs from what it is held against, over the repetitions.

    Parameters
    ----------
    protocol : str
    metrics : Mapping[str, float]
        Of the run.
    arrays : Mapping[str, ndarray]
        With every repetition's values (`server.evaluation.Evaluation.arrays`).

    Returns
    -------
    dict
        By rival ``difference`` and ``relative`` (this run's mean less the rival's, and that by the rival's), with the
        standard errors ``difference_se`` and ``relative_se``; of the ratio of the means by the delta method, as the
        repetitions are pairs. Empty with one repetition.
    """
    chosen = next((each for each in _ANSWERS.get(protocol, ()) if each.metric in metrics), None)
    if chosen is None or (here := _repetitions(arrays, chosen.metric)) is None:
        return {}
    found = {}
    for rival in chosen.rivals:
        there = _repetitions(arrays, rival)
        if there is None:
            continue
        told = {"difference": float((here - there).mean()), "difference_se": _spread(here - there, here)}
        if there.mean() > 0:
            ratio = float(here.mean() / there.mean())
            told |= {"relative": ratio - 1, "relative_se": _spread(here - ratio * there, here) / float(there.mean())}
        found[rival] = told
    return found


def _repetitions(arrays: Mapping[str, Shaped[np.ndarray, "..."]], name: str) -> Shaped[np.ndarray, "r"] | None:
    """A value for every repetition, of a table its mean over the cells; None with fewer than two."""
    values = arrays[f"repetitions_{name}"] if f"repetitions_{name}" in arrays else arrays.get(f"cells_{name}")
    if values is None or values.shape[-1] < 2:
        return None
    return values.mean(axis=0) if values.ndim > 1 else values


def _spread(values: Shaped[np.ndarray, "r"], of: Shaped[np.ndarray, "r"]) -> float:
    """Standard error of the mean of differences of `of`; 0 where they differ by rounding errors only."""
    error = float(values.std(ddof=1) / np.sqrt(len(values)))
    return error if error > _ROUNDING * float(np.abs(of).max()) else 0.0


def _by_protocol(report: Report) -> Sequence[_Answer]:
    return _ANSWERS.get(report.protocol, ())


def _chosen(report: Report) -> _Answer | None:
    return next((each for each in _by_protocol(report) if each.metric in report.metrics), None)


def _who(report: Report) -> str:
    sites = counted(len(report.sites), "site")
    if any(report.config.get(key) for key in EARLIER_KEYS):
        return f"With what an earlier run learnt, {sites}"
    return f"Together, {sites}" if len(report.sites) > 1 else sites


def _value(values: Mapping[str, Any], name: str) -> str:
    """A number as a sentence says it: in percent if it is a share, with its standard error, else to four digits."""
    value, error = float(values[name]), values.get(f"{name}_se")
    if error is not None and float(error) <= _ROUNDING * abs(value):
        error = None
    if (known := meaning(name)) and known.share:
        return percent(value, error)
    return with_error(value, float(error)) if error else _plain(value)


def _plain(value: float) -> str:
    if float(value).is_integer() and abs(value) < 1e15:
        return grouped(int(value))
    return f"{value:,.0f}" if abs(value) >= 1e4 else number(float(f"{value:.4g}"))
