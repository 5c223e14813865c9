"""Interface of ``server/report/NAME.py``: what the report of a run needs from its protocol."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from protocols import registry
from protocols.settings import tasks_of
from server.report.data import Arrays
from server.report.formatting import percent

Config = Mapping[str, Any]
"""A run configuration."""

HASHED_NAMES = " Where {} are matched by name, keyed hashes of the names left the sites, too."
"""Sentence of a protocol whose sites match the names of instances or entities."""


@dataclass(frozen=True)
class Meaning:
    """Meaning of a metric.

    Attributes
    ----------
    words : str
        The metric in plain words.
    better : str
        ``"lower"`` or ``"higher"``; empty if neither is better.
    share : bool
        Whether the metric is a share, shown in percent.
    target : float or None
        The best value, if neither lower nor higher is better.
    counts : str
        For a count, the counted thing in the singular: ``"row"``; else empty.
    useless_from : float or None
        For a metric where lower is better, the smallest value of a useless result; None: there is none.

    Examples
    --------
    >>> Meaning("rows of all sites", counts="row").better
    ''
    """

    words: str
    better: Literal["lower", "higher", ""] = ""
    share: bool = False
    target: float | None = None
    counts: str = ""
    useless_from: float | None = None


def lower(words: str, *, share: bool = False, counts: str = "", useless_from: float | None = None) -> Meaning:
    """Return the meaning of a metric whose lower values are better.

    Examples
    --------
    >>> lower("mean squared error").better
    'lower'
    """
    return Meaning(words, "lower", share, counts=counts, useless_from=useless_from)


def higher(words: str, *, share: bool = False) -> Meaning:
    """Return the meaning of a metric whose higher values are better.

    Examples
    --------
    >>> higher("share of right decisions", share=True).share
    True
    """
    return Meaning(words, "higher", share)


@dataclass(frozen=True)
class Rival:
    """An alternative to the result: another metric, on the same rows and by the same criterion.

    A run may have an array ``paired_METRIC`` with the standard error of the difference, ``[difference, error, n]``: the
    answer's metric minus the rival's, its standard error over n common rows, and optionally, as a fourth number, how
    many candidates the rival was chosen from by these rows.

    Attributes
    ----------
    words : str
        Text that follows "less than".
    use : str
        Text that follows "use": the alternative of a site.
    kind : str
        ``"alone"`` (each site by itself), ``"best site"``, ``"plain way"`` (something simpler of all sites, such as a
        mean, one round), or ``"out of reach"``: an ideal such as data in one place, which does not count in the
        verdict.
    price : str
        For an ideal out of reach: the condition whose price the distance to it is.
    starts : str
        For a plain way: the metric of what the result starts from. Where both are equal, the result is this way, and it
        does not count in the verdict.
    breaks : tuple of (str, float, str)
        Where it may not be what was asked for: a metric, from which value on it is not, and what it is then, after the
        words of its use, with ``{value}``. Then it is no reason against joining.

    Examples
    --------
    >>> Rival("by majority vote", "the majority vote", "alone").use
    'the majority vote'
    """

    words: str
    use: str
    kind: Literal["alone", "best site", "plain way", "out of reach"]
    price: str = ""
    starts: str = ""
    breaks: tuple[str, float, str] | None = None

    def broken_by(self, metrics: Mapping[str, float]) -> str:
        """Return what the alternative is in place of what was asked for; empty where it is that."""
        if self.breaks is None:
            return ""
        metric, least, words = self.breaks
        value = metrics.get(metric, 0.0)
        return f"{self.use} {words.format(value=percent(value))}" if value >= least else ""


@dataclass(frozen=True)
class Answer:
    """A sentence that answers a protocol's question with one metric.

    Attributes
    ----------
    metric : str
        The metric.
    sentence : str
        The sentence, with ``{who}`` for the sites, ``{value}`` for the metric and ``{NAME}`` for other metrics;
        ``{s}``, ``{have}`` and ``{their}`` agree with the number of sites.
    rivals : Mapping[str, Rival]
        Alternatives, by their metrics.
    beside : tuple of str
        Metrics shown next to it.
    also : str
        A second sentence, for a run with all metrics named in it.
    also_at_0 : tuple of str
        A metric, and the second sentence if that metric is 0.
    in_tables : tuple of str
        Metrics that replace it in the answer of a table, if its values in different rows are not comparable; the best
        first.
    unit : str
        One of the rows on which it is measured, in words.

    Examples
    --------
    >>> Answer("mean", "{who} have the mean {value}").sentence.format(who="3 sites", value="5.2")
    '3 sites have the mean 5.2'
    """

    metric: str
    sentence: str
    rivals: Mapping[str, Rival] = field(default_factory=dict)
    beside: tuple[str, ...] = ()
    also: str = ""
    also_at_0: tuple[str, str] = ("", "")
    in_tables: tuple[str, ...] = ()
    unit: str = "held-out row"


FROM: Mapping[str, str] = {"from": "Nothing was learned anew. The sites used the result of an earlier run"}
"""Key of an earlier run's results in all protocols, and the sentence that their path completes."""


def own_test_rows(config: Config, *, scenario: bool) -> dict[str, Any]:
    """Return the columns of the fusion center's file ``_test`` beside the sites' own data."""
    from clients.data.testset import center_columns

    return {} if scenario else {"test": center_columns(config, tasks_of(str(config["protocol"])))}


class _CenterFiles(Protocol):
    """A function that reads the fusion center's own files."""

    def __call__(self, config: Config, *, scenario: bool) -> dict[str, Any]:
        """Return arguments of `strategies.fusion.Reference`."""


@dataclass(frozen=True, kw_only=True)
class ProtocolReport:
    """A protocol's part of the report, and of the start of a run.

    A protocol's module ``server/report/NAME.py`` (the room ``report`` of `protocols.registry`) has an instance named
    ``REPORT``. The defaults keep reports readable after their protocol was uninstalled.

    Attributes
    ----------
    question : str
        The question that the protocol answers, for a reader who has not read the paper. Used by `overview` and `html`.
    answers : tuple of Answer
        Possible answers; the report has the first one whose metric the run has. Used by `headline`, `verdict` and
        `summary`.
    metrics : Mapping[str, Meaning]
        Meaning of the protocol's metrics. Used by `glossary`.
    more_metrics : Callable
        ``more_metrics(metric)``: the meaning of a metric whose name follows a pattern, or None. Used by `glossary`.
    measures : Mapping[str, str]
        Measures of a round that are not metrics, in words. Used by `glossary`.
    payloads : Mapping[str, str]
        Content of every payload class, by the class's name. Used by `glossary`.
    holdings : Callable
        ``holdings(config, arrays)``: who holds what, in one or two sentences, from the run configuration and the arrays
        of the results. Used by `overview`.
    disclosure : Callable
        ``disclosure(settings, payloads)``: what stayed at the sites and what left them. `settings` are run
        configurations, one for each row of a table, and the text must hold for all of them; `payloads` are the names
        ``protocol.Class`` of payloads that crossed the wire. Used by `overview`.
    column_keys : Mapping[str, str]
        Keys of the run configuration that name columns, with the content of these columns. Used by `overview`.
    earlier_keys : Mapping[str, str]
        Keys that name the results of an earlier run, each with a sentence that the path completes. Used by `headline`
        and `overview`.
    earlier_arrays : Callable
        ``earlier_arrays(config)``: arrays of the earlier run that this one uses, empty if the configuration names
        none; a `ResultsError` if the results are missing, damaged or unsuitable. Used by `server.preflight`.
    center_files : Callable
        ``center_files(config, scenario=...)``: data from the fusion center's own files, as arguments of
        `strategies.fusion.Reference`; `scenario` is True if the sites' data are a scenario's. A `DataError` if a file
        cannot be used. Used by `server.preflight`.
    warnings : Callable
        ``warnings(metrics, arrays)``: sentences that may change the decision to use the result. Used by `verdict`.
    saved_arrays : Mapping[str, str]
        Arrays for use after the run, with types and shapes in the notation of `saved_arrays`.
    test_advice : str
        Part of a sentence: how a user gives outcomes to test the result on. Used by `verdict`.
    alone_advice : str
        Part of a sentence: what a comparison with each site alone needs. Used by `verdict`.
    packages : tuple of str
        Packages that affect results, beside those of all protocols. Used by `server.versions`.

    Examples
    --------
    >>> report = ProtocolReport(
    ...     question="What is the mean of all our numbers?",
    ...     answers=(Answer("mean", "{who} have the mean {value}"),),
    ...     metrics={"mean": Meaning("mean of all numbers")},
    ... )
    >>> report.meaning("mean").words
    'mean of all numbers'
    """

    question: str = ""
    answers: tuple[Answer, ...] = ()
    metrics: Mapping[str, Meaning] = field(default_factory=dict)
    more_metrics: Callable[[str], Meaning | None] = lambda metric: None
    measures: Mapping[str, str] = field(default_factory=dict)
    payloads: Mapping[str, str] = field(default_factory=dict)
    holdings: Callable[[Config, Arrays], str] = lambda config, arrays: ""
    disclosure: Callable[[Sequence[Config], Collection[str]], str] = lambda settings, payloads: ""
    column_keys: Mapping[str, str] = field(default_factory=dict)
    earlier_keys: Mapping[str, str] = field(default_factory=lambda: FROM)
    earlier_arrays: Callable[[Config], Arrays] = lambda config: {}
    center_files: _CenterFiles = own_test_rows
    warnings: Callable[[Mapping[str, float], Arrays], list[str]] = lambda metrics, arrays: []
    saved_arrays: Mapping[str, str] = field(default_factory=dict)
    test_advice: str = ""
    alone_advice: str = ""
    packages: tuple[str, ...] = ()

    def meaning(self, metric: str) -> Meaning | None:
        """Return the meaning of a metric; None if the protocol does not describe it."""
        return self.metrics.get(metric) or self.more_metrics(metric)


def report_of(protocol: str) -> ProtocolReport:
    """Return the report of a protocol; all defaults if the protocol is not installed or has no report.

    Examples
    --------
    >>> report_of("unheard-of").question
    ''
    """
    if registry.exists(protocol) and registry.has_room(protocol, "report"):
        report: ProtocolReport = registry.room(protocol, "report").REPORT
        return report
    return ProtocolReport()
