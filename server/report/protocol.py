"""Interface of ``server/report/NAME.py``: what the report of a run needs from its protocol."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from protocols import registry
from protocols.settings import tasks_of
from server.report.data import Arrays

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
        Its name in plain words.
    better : str
        ``"lower"`` or ``"higher"``; empty if neither is better.
    share : bool
        Whether it is a share, which is shown in percent.
    target : float or None
        The best value, if neither lower nor higher is better.
    counts : str
        What a count counts, in the singular: ``"row"``; empty for other metrics.
    useless_from : float or None
        For a metric where lower is better, the value from which on the result is useless; None: there is none.

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

    A run that also has an array ``paired_METRIC`` knows how sure the difference is: ``[difference, error, n]`` with the
    answer's metric minus the rival's, the standard error of that over the n rows that both were measured on, and
    optionally, as a fourth number, of how many the rival is the best one by these rows.

    Attributes
    ----------
    words : str
        As it follows "less than".
    use : str
        As it follows "use": what a site does instead.
    kind : str
        ``"alone"`` (each site by itself), ``"best site"``, ``"plain way"`` (what is simpler, such as a vote, a mean,
        one round), or ``"out of reach"``: nobody has it, such as data in one place, and it does not count in the
        verdict.
    price : str
        For what is out of reach, what the distance to it is the price of.
    starts : str
        Of a plain way, the metric of what the result starts from: where that is this way itself, so is the result, and
        it does not count in the verdict.

    Examples
    --------
    >>> Rival("by majority vote", "the majority vote", "plain way").use
    'the majority vote'
    """

    words: str
    use: str
    kind: Literal["alone", "best site", "plain way", "out of reach"]
    price: str = ""
    starts: str = ""


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
        Metrics that it is compared with.
    beside : tuple of str
        Metrics that are shown next to it.
    also : str
        A second sentence, for a run that has all metrics named in it.
    also_at_0 : tuple of str
        A metric, and the second sentence to use if that metric is 0.
    in_tables : tuple of str
        Metrics that replace it in the answer of a table, if its values in different rows cannot be compared; the best
        first.
    unit : str
        What the rows are that it is measured on, in the singular.

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
"""Key of all protocols for the results of an earlier run, and the sentence that its path completes."""


def no_meaning(metric: str) -> Meaning | None:
    """Return None: the protocol has no metrics beside `ProtocolReport.metrics`."""
    return None


def no_holdings(config: Config, arrays: Arrays) -> str:
    """Return an empty text."""
    return ""


def no_disclosure(settings: Sequence[Config], payloads: Collection[str]) -> str:
    """Return an empty text."""
    return ""


def no_earlier_arrays(config: Config) -> Arrays:
    """Return no arrays: the protocol does not use results of earlier runs."""
    return {}


def no_warnings(metrics: Mapping[str, float], arrays: Arrays) -> list[str]:
    """Return no warnings."""
    return []


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
    """What the shared modules of the report, and the start of a run, need to know of a protocol.

    A protocol's module ``server/report/NAME.py`` (the room ``report`` of `protocols.registry`) has an instance named
    ``REPORT``. Everything has a default, which is also used for a protocol that is no longer installed: its reports
    stay readable.

    Attributes
    ----------
    question : str
        The question that the protocol answers, for a reader who has not read the paper. Used by `overview` and `html`.
    answers : tuple of Answer
        Possible answers; a run gives the first one whose metric it has. Used by `headline`, `verdict` and
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
        ``disclosure(settings, payloads)``: what stayed at the sites and what left them. `settings` is the run
        configuration, for a table one for each row, and the text must hold for all of them; `payloads` are the names of
        those that crossed the wire, ``protocol.Class``. Used by `overview`.
    column_keys : Mapping[str, str]
        Keys of the run configuration that name columns, and what these columns hold. Used by `overview`.
    earlier_keys : Mapping[str, str]
        Keys that name the results of an earlier run, each with a sentence that the path completes. Used by `headline`
        and `overview`.
    earlier_arrays : Callable
        ``earlier_arrays(config)``: arrays of the earlier run that this one uses, empty if the configuration names
        none; a `ResultsError` if the results are missing, damaged, or of no use. Used by `server.center`.
    center_files : Callable
        ``center_files(config, scenario=...)``: what the fusion center reads from its own files, as arguments of
        `strategies.fusion.Reference`; `scenario` says whether the sites' data are a scenario's. A `DataError` if a file
        cannot be used. Used by `server.center`.
    warnings : Callable
        ``warnings(metrics, arrays)``: sentences that may change the decision to use the result. Used by `verdict`.
    saved_arrays : Mapping[str, str]
        Arrays that are used after the run, with types and shapes as `saved_arrays` reads them.
    test_advice : str
        How a user gives outcomes to test the result on, as a part of a sentence. Used by `verdict`.
    alone_advice : str
        What a comparison with each site alone takes, as a part of a sentence. Used by `verdict`.
    packages : tuple of str
        Packages that a result depends on, beside those of all protocols. Used by `server.versions`.

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
    more_metrics: Callable[[str], Meaning | None] = no_meaning
    measures: Mapping[str, str] = field(default_factory=dict)
    payloads: Mapping[str, str] = field(default_factory=dict)
    holdings: Callable[[Config, Arrays], str] = no_holdings
    disclosure: Callable[[Sequence[Config], Collection[str]], str] = no_disclosure
    column_keys: Mapping[str, str] = field(default_factory=dict)
    earlier_keys: Mapping[str, str] = field(default_factory=lambda: FROM)
    earlier_arrays: Callable[[Config], Arrays] = no_earlier_arrays
    center_files: _CenterFiles = own_test_rows
    warnings: Callable[[Mapping[str, float], Arrays], list[str]] = no_warnings
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
