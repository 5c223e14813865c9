"""Verdict of a run by its own numbers: join, do not join, or too few rows to tell."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final, Literal

from server.report.data import Arrays, Report, json_value
from server.report.formatting import listed
from server.report.glossary import meaning
from server.report.headline import chosen_answer, differences, half_width, in_words, value_text
from server.report.influence import better_without
from server.report.missing_sites import caution
from server.report.protocol import Answer, Rival, report_of
from server.report.table_headline import label_columns
from strategies.influence import Influence

SMALL = 0.05
"""Share of an alternative's error: a result that certainly saves less is not worth joining."""
LARGE = 2.0
"""Ratio of two errors from which on a difference without a standard error counts."""

Decision = Literal["join", "do not join", "too few rows", "undecided"]
JOIN: Final = "join"
DO_NOT_JOIN: Final = "do not join"
TOO_FEW: Final = "too few rows"
UNDECIDED: Final = "undecided"
_BETTER, _NO_GAIN, _OPEN, _UNKNOWN = "better", "no gain", "open", "unknown"


@dataclass(frozen=True)
class Way:
    """The result, or an alternative to it.

    Attributes
    ----------
    metric, kind, words : str
        Name of its metric; ``"together"`` or `Rival.kind`; the way in words.
    value : float
        Value of the metric.
    gain : float or None
        Share of this alternative's error that the result saves (negative: it has a larger error); None for the result.
    error : float or None
        Standard error of `gain`; None if unknown.
    n : int
        Number of rows, or repetitions, behind `error`.
    state : str
        ``"better"``: the result is significantly better. ``"no gain"``: it is not, and certainly saves less than
        `SMALL` of the error. ``"open"``: neither is shown. ``"unknown"``: there is no standard error. Empty if the
        alternative does not count.
    """

    metric: str
    kind: str
    words: str
    value: float
    gain: float | None = None
    error: float | None = None
    n: int = 0
    state: str = ""


@dataclass(frozen=True)
class Verdict:
    """Whether to join, and why.

    Attributes
    ----------
    decision : str
        ``"join"``, ``"do not join"``, ``"too few rows"`` or ``"undecided"``.
    words : str
        The decision as a sentence: ``Do not join: use the majority vote.`` Empty if there is nothing to decide: the run
        predicts new rows, and compares nothing.
    reason : str
        The reason in one or two sentences.
    use : str
        The alternative to use; empty unless the decision is not to join.
    more : int
        Approximate number of further rows (or repetitions) that would decide; 0 unless there are too few.
    measure : str
        The deciding metric in words.
    ways : tuple of Way
        The result, then its alternatives.
    warnings : tuple of str
        Facts that may change the decision.

    Examples
    --------
    >>> print(Verdict("join", "Join.", "The error is 40 % less than alone."))
    Join. The error is 40 % less than alone.
    """

    decision: Decision
    words: str
    reason: str
    use: str = ""
    more: int = 0
    measure: str = ""
    ways: tuple[Way, ...] = ()
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.words} {self.reason}".strip()

    @property
    def heading(self) -> str:
        """Heading of the warnings."""
        return "Before you decide" if self.words else "Before you use the predictions"

    def as_data(self) -> dict[str, Any]:
        """Return the verdict as ``report.json`` has it."""
        return dict(json_value({**asdict(self), "ways": [asdict(way) for way in self.ways]}))


def verdict(report: Report) -> Verdict:
    """Return the verdict in a report; a report without one is judged by its numbers.

    Examples
    --------
    >>> report = Report(scenario="s", protocol="p", seed=0, sites=["a", "b"], rounds=1, seconds=1.0, metrics={})
    >>> print(verdict(report))
    Undecided. The protocol has no alternative to compare with.
    >>> report.sites.pop()
    'b'
    >>> print(verdict(report))
    Undecided. The run has one site: there is nobody to join.
    """
    if not report.verdict:
        return judge(report, {})
    known = {each.name for each in fields(Verdict)}
    data = {name: value for name, value in report.verdict.items() if name in known}
    names = {each.name for each in fields(Way)}
    ways = tuple(Way(**{name: each[name] for name in names if name in each}) for each in data.get("ways", ()))
    return Verdict(**{**data, "ways": ways, "warnings": tuple(data.get("warnings", ()))})


def judge(report: Report, arrays: Arrays, cautions: Sequence[str] = (), influence: Influence | None = None) -> Verdict:
    """Return the verdict on a run, from its metrics, `Report.differences`, and its protocol's warnings.

    Every alternative is compared on the same rows, or over the same repetitions, by Student's t. To join, the result
    must be better than each of them, by however little. If it may be no better than an alternative, and certainly saves
    less than `SMALL` of its error, the site should use that alternative, which costs less. If neither holds, there are
    too few rows: the number of further rows is such that the confidence interval shrinks until one of the two holds at
    the observed gain. An alternative that is the best of several by the same rows is favoured by that choice, and has a
    wider interval (Bonferroni).

    Parameters
    ----------
    report : Report
        The report, without its verdict.
    arrays : Mapping[str, ndarray]
        Arrays of the run.
    cautions : sequence of str
        Further warnings about the sites' rows.
    influence : Influence or None
        A site without whose answer the verdict is the opposite (`Influence.numbers`) is named in a warning.
    """
    known = _verdict_on(report, arrays, cautions)
    once = int(report.config.get("repetitions", 1)) == 1
    lone = _lone_answers(report, influence.numbers, known.decision) if influence and once else ()
    return replace(known, warnings=(*known.warnings, *lone))


def _verdict_on(report: Report, arrays: Arrays, cautions: Sequence[str]) -> Verdict:
    """Return the verdict as `judge` does, without the influence of sites."""
    chosen = chosen_answer(report)
    warnings = (*report_of(report.protocol).warnings(report.metrics, arrays), *_of_sites(report), *cautions)
    if report.config.get("from") and not (chosen and chosen.rivals.keys() & report.metrics.keys()):
        reason = "The run predicts by what an earlier one has learned; the verdict is that one's."
        return Verdict(UNDECIDED, "", reason, warnings=warnings)
    if len(report.sites) == 1:
        others = "No other site answered" if report.missing else "The run has one site"
        reason = f"{others}: there is nobody to join."
        return Verdict(UNDECIDED, _words(UNDECIDED), reason, warnings=warnings)
    if len(left := sorted(set(report.sites) - set(report.lost))) <= 1:
        reason = f"{f'Only {left[0]}' if left else 'No site'} answered its last ask: run again when others do, too."
        return Verdict(UNDECIDED, _words(UNDECIDED), reason, warnings=warnings)
    if chosen is None or (label_columns(report) and len(report.table) > 1):
        return Verdict(UNDECIDED, _words(UNDECIDED), _nothing_to_compare(report, chosen), warnings=warnings)
    ways = _ways(report, chosen)
    known = meaning(report.protocol, chosen.metric)
    measure = known.words.partition(" (")[0] if known else chosen.metric

    def verdict(decision: Decision, reason: str, use: str = "", more: int = 0, unit: str = "") -> Verdict:
        return Verdict(decision, _words(decision, use, more, unit), reason, use, more, measure, ways, warnings)

    if useless := _no_better_than_nothing(report, chosen.metric):
        return verdict(DO_NOT_JOIN, useless, "the mean of the outcomes")
    rivals = [way for way in ways[1:] if way.state]
    broken = {way.metric: chosen.rivals[way.metric].broken_by(report.metrics) for way in rivals if way.state != _BETTER}
    unlike = [way for way in rivals if broken.get(way.metric)]
    rivals = [way for way in rivals if way not in unlike]
    if unlike and not rivals:
        but = listed(broken[way.metric] for way in unlike)
        return verdict(UNDECIDED, f"{_reason(report, chosen, unlike)} But {but}: that is not what was asked for.")
    if not rivals:
        return verdict(UNDECIDED, _nothing_to_compare(report, chosen))
    by_state = {state: [way for way in rivals if way.state == state] for state in (_NO_GAIN, _OPEN, _UNKNOWN)}
    if refuted := by_state[_NO_GAIN]:
        best = min(refuted, key=lambda way: _as_error(report, chosen.metric, way.value))
        return verdict(DO_NOT_JOIN, _reason(report, chosen, [best]), best.words)
    if by_state[_UNKNOWN]:
        note = " One draw has no standard error: repeat it where that can be done."
        return verdict(UNDECIDED, _reason(report, chosen, by_state[_UNKNOWN]) + note)
    if still := by_state[_OPEN]:
        unit = chosen.unit if "pairs" in report.differences[still[0].metric] else "repetition"
        note = " That is within what chance explains."
        return verdict(TOO_FEW, _reason(report, chosen, still) + note, more=max(map(_more, still)), unit=unit)
    return verdict(JOIN, _reason(report, chosen, rivals))


def _lone_answers(report: Report, numbers: Mapping[str, Arrays], decision: Decision) -> list[str]:
    """Return a warning of every site without whose answer (`Influence.numbers`) the verdict is the opposite."""
    warnings = []
    for site, others in sorted(numbers.items()):
        metrics = {**report.metrics, **{name: float(each) for name, each in others.items() if name in report.metrics}}
        compared = differences(report.protocol, metrics, others)
        other = _verdict_on(replace(report, metrics=metrics, differences=compared), {}, ())
        if {decision, other.decision} == {JOIN, DO_NOT_JOIN}:
            warnings.append(f"The verdict rests on the answer of {site} alone: without it, it would be: {other.words}")
    return warnings


def _words(decision: Decision, use: str = "", more: int = 0, unit: str = "") -> str:
    """Return a decision as a sentence.

    Examples
    --------
    >>> _words(TOO_FEW, more=120, unit="held-out row")
    'Too few held-out rows to tell: about 120 more would.'
    >>> _words(DO_NOT_JOIN, "the majority vote")
    'Do not join: use the majority vote.'
    """
    if decision == TOO_FEW:
        first, _, rest = unit.partition(" ")
        plural = f"{first}s {rest}" if rest.startswith("of ") else f"{unit}s"
        return f"Too few {plural} to tell: about {more:,} more would."
    if decision == DO_NOT_JOIN:
        return f"Do not join: use {use}."
    return f"{decision[0].upper()}{decision[1:]}."


# -- comparison -------------------------------------------------------------------------------------------------------


def _ways(report: Report, chosen: Answer) -> tuple[Way, ...]:
    """Return the result and its alternatives."""
    together = Way(chosen.metric, "together", "together", report.metrics[chosen.metric])
    rivals = [
        _way(report, chosen.metric, metric, rival)
        for metric, rival in chosen.rivals.items()
        if metric in report.metrics
    ]
    return together, *rivals


def _way(report: Report, own: str, metric: str, rival: Rival) -> Way:
    """Compare the result with one alternative."""
    value = report.metrics[metric]
    errors = _as_error(report, own, report.metrics[own]), _as_error(report, own, value)
    gain = _share_saved(*errors)
    known = report.differences.get(metric, {})
    same = math.isclose(report.metrics[own], value, rel_tol=1e-12)
    start = report.metrics.get(rival.starts, math.nan)
    itself = rival.kind == "plain way" and (same or math.isclose(start, value, rel_tol=1e-12))
    error = None
    if "difference_se" in known and errors[1] > 0:
        error = known["difference_se"] / errors[1]
    n = int(known.get("pairs", report.config.get("repetitions", 1)))
    if rival.kind == "out of reach" or itself:
        state = ""
    elif same:
        state = _NO_GAIN
    else:
        state = _state(gain, error, n, int(known.get("chosen_from", 1)))
    return Way(metric, rival.kind, rival.use, value, gain, error, n, state)


def _as_error(report: Report, metric: str, value: float) -> float:
    """Return a metric's value as an error, for which less is better; a share that should be high becomes 1 minus it."""
    known = meaning(report.protocol, metric)
    if known is not None and known.better == "higher":
        return 1 - value if known.share else -value
    return value


def _share_saved(own: float, other: float) -> float:
    """Return the share of another error that the own one saves."""
    if other == own:
        return 0.0
    return (other - own) / abs(other) if other else -math.inf


def _state(gain: float, error: float | None, n: int, chosen_from: int) -> str:
    """Return the state of a gain (`Way.state`).

    Examples
    --------
    >>> [_state(gain, 0.05, 100, 1) for gain in (0.2, -0.1, 0.06)]
    ['better', 'no gain', 'open']
    >>> _state(-3.0, None, 1, 1), _state(0.2, None, 1, 1)
    ('no gain', 'unknown')
    """
    if error is None or n < 2:
        large = gain <= 1 - LARGE or gain >= 1 - 1 / LARGE
        return (_BETTER if gain > 0 else _NO_GAIN) if large else _UNKNOWN
    if gain > half_width(error, n):
        return _BETTER
    return _NO_GAIN if gain + half_width(error, n, chosen_from) < SMALL else _OPEN


def _more(way: Way) -> int:
    """Return the number of further rows that would decide, to two digits, if the observed gain is the true one.

    Examples
    --------
    >>> _more(Way("mse_alone", "alone", "", 1.0, gain=0.06, error=0.05, n=100))
    170
    """
    gain, error = way.gain or 0.0, way.error or 0.0
    needed = way.n * (half_width(error, way.n) / max(gain, SMALL - gain)) ** 2
    more = max(1.0, needed - way.n)
    digits = max(0, math.floor(math.log10(more)) - 1)
    scale = int(10**digits)
    return round(more / scale) * scale


# -- words ------------------------------------------------------------------------------------------------------------


def _reason(report: Report, chosen: Answer, ways: Sequence[Way]) -> str:
    """Return the comparison of the result's number with those of alternatives."""
    rivals = {metric: rival.words for metric, rival in chosen.rivals.items()}
    known = meaning(report.protocol, chosen.metric)
    measure = known.words.partition(" (")[0] if known else chosen.metric
    value = value_text(report, chosen.metric)
    compared = listed(in_words(report, chosen.metric, way.metric, rivals[way.metric]) for way in ways)
    return f"{measure[0].upper()}{measure[1:]}: {value}, {compared}."


def _nothing_to_compare(report: Report, chosen: Answer | None) -> str:
    """Return the reason why a run without a comparison is undecided."""
    if label_columns(report) and len(report.table) > 1:
        return f"The run went through {len(report.table):,} settings: each row of its table is a comparison."
    if chosen is None or not chosen.rivals:
        known = report_of(report.protocol)
        if not any(each.rivals for each in known.answers):
            return "The protocol has no alternative to compare with."
        advice = f": {known.test_advice}" if known.test_advice else ""
        return f"There were no outcomes to test the result on{advice}."
    needed = report_of(report.protocol).alone_advice
    alone = f"How well a site does alone was not measured{f': that takes {needed}' if needed else ''}"
    prices = [rival.words for name, rival in chosen.rivals.items() if rival.price and name in report.metrics]
    if not prices:
        return f"{alone}."
    return f"{alone}, only what comes out {listed(prices)}, which no site can choose."


def _no_better_than_nothing(report: Report, metric: str) -> str:
    """Return the reason why a result is useless; empty if it is useful, or that is unknown."""
    known = meaning(report.protocol, metric)
    if known is None or known.useless_from is None or report.metrics[metric] < known.useless_from:
        return ""
    words = known.words.partition(" (")[0]
    return f"The {words} is {report.metrics[metric]:.3g}; from {known.useless_from:g} on nothing was gained."


def _of_sites(report: Report) -> list[str]:
    """Return the warnings of every protocol: sites that failed, and a site that spoils the result."""
    warnings = []
    if report.missing:
        warnings.append(caution(report.missing, len({*report.sites, *report.missing})))
    if improved := better_without(report):
        warnings.append(improved)
    return warnings
