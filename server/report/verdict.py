"""Verdict of a run: whether a site should join, by the run's own numbers."""

from __future__ import annotations

from dataclasses import dataclass

from server.report.data import Report
from server.report.formatting import grouped, listed
from server.report.glossary import meaning
from server.report.headline import THE_SAME, UNCLEAR, Comparison, chosen_answer, comparisons
from server.report.protocol import Answer, report_of
from server.report.table_headline import label_columns

SMALL = 0.05
"""Relative difference below which a single draw says nothing."""

JOIN, DO_NOT_JOIN, CANNOT_BE_SAID = "join", "do not join", "cannot be said"


@dataclass(frozen=True)
class Verdict:
    """Whether to join, and why.

    Attributes
    ----------
    decision : str
        ``"join"``, ``"do not join"`` or ``"cannot be said"``.
    reason : str
        Why, in one sentence.

    Examples
    --------
    >>> print(Verdict("join", "The error is 40 % less than alone."))
    Join. The error is 40 % less than alone.
    """

    decision: str
    reason: str

    @property
    def words(self) -> str:
        """The decision as a sentence begins."""
        return f"{self.decision[0].upper()}{self.decision[1:]}."

    def __str__(self) -> str:
        return f"{self.words} {self.reason}"


def verdict(report: Report) -> Verdict:
    """Return the verdict of a run.

    It compares the result with alternatives that the sites have. Pooled data and a paper's figures are no alternatives,
    and neither is what the result itself is: all learners together, where they form one cluster.
    """
    chosen = chosen_answer(report)
    if chosen is not None and (useless := _no_better_than_nothing(report, chosen.metric)):
        return Verdict(DO_NOT_JOIN, useless)
    out_of_reach = () if chosen is None else (chosen.metric, *chosen.prices)
    rivals = [each for each in comparisons(report) if each.verdict and each.metric not in out_of_reach]
    if not rivals:
        return Verdict(CANNOT_BE_SAID, _nothing_to_compare(report, chosen))
    rivals = [each for each in rivals if each.verdict != THE_SAME] or rivals
    unclear = [each for each in rivals if each.verdict in (UNCLEAR, THE_SAME) or _is_small(report, each)]
    worse = [each for each in rivals if each.verdict == "worse" and each not in unclear]
    if worse:
        return Verdict(DO_NOT_JOIN, f"The result is {_in_words(worse)}.")
    if unclear:
        return Verdict(CANNOT_BE_SAID, f"The result is {_in_words(unclear)}: no difference is shown.")
    alone = "" if report.differences else " One draw has no standard error: repeat it where that can be done."
    return Verdict(JOIN, f"The result is {_in_words(rivals)}.{alone}")


def _nothing_to_compare(report: Report, chosen: Answer | None) -> str:
    """Return why a run without a comparison has no verdict."""
    if label_columns(report) and len(report.table) > 1:
        return f"The run went through {grouped(len(report.table))} settings: each row of its table is a comparison."
    if chosen is None or not chosen.rivals:
        comparable = any(each.rivals for each in report_of(report.protocol).answers)
        return "There were no outcomes to test the result on." if comparable else "The run compares with nothing."
    alone = "How well a site does alone was not measured"
    prices = [words for name, words in chosen.rivals.items() if name in chosen.prices and name in report.metrics]
    if not prices:
        return f"{alone}."
    return f"{alone}, only what comes out {listed(prices)}, which no site can choose."


def _no_better_than_nothing(report: Report, metric: str) -> str:
    """Return why a result is useless; empty if it is useful, or if that is unknown."""
    known = meaning(report.protocol, metric)
    if known is None or known.useless_from is None or report.metrics[metric] < known.useless_from:
        return ""
    words = known.words.partition(" (")[0]
    return f"The {words} is {report.metrics[metric]:.3g}; from {known.useless_from:g} on nothing was gained."


def _is_small(report: Report, each: Comparison) -> bool:
    """Whether a difference without a standard error is too small to be called one; of shares, that of the errors."""
    chosen = chosen_answer(report)
    if chosen is None or "difference_se" in report.differences.get(each.metric, {}):
        return False
    own, other = report.metrics[chosen.metric], report.metrics[each.metric]
    known = meaning(report.protocol, chosen.metric)
    if known is not None and known.share and known.better == "higher":
        own, other = 1 - own, 1 - other
    return abs(own - other) < SMALL * max(abs(own), abs(other))


def _in_words(compared: list[Comparison]) -> str:
    """Return comparisons as they follow "is"."""
    parts = []
    for each in compared:
        if each.difference == THE_SAME:
            parts.append(f"the same as {each.words} ({each.value})")
        else:
            link = "as" if each.difference.endswith("times as large") else "than"
            parts.append(f"{each.difference} {link} {each.words} ({each.value})")
    return listed(parts)
