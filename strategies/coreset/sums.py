"""Sums over the sites' rows: of masked answers, which hide each site's own, or of plain ones."""

from __future__ import annotations

from collections.abc import Mapping

from protocols.coreset.payloads import Construction
from protocols.wire.vector_encoding import Sum
from strategies.conversation import Conversation
from strategies.secure_aggregation import CheckOf, Masking, Total, ask_plain_or_masked

ATTEMPTS = 2
"""Number of times that a site gets the same ask before it is left out: in many rounds, one answer may be late."""


def sum_answers(
    asks: Mapping[str, Construction],
    zero: Sum,
    check_of: CheckOf,
    masking: Masking | None,
    *,
    attempts: int = 1,
    measure: Mapping[str, float] | None = None,
    needed: bool = True,
) -> Conversation[Total[Sum]]:
    """Ask the sites, and return the sum of their answers: the same with masks and without, bit for bit.

    Parameters
    ----------
    asks, zero, check_of, masking, attempts, measure, needed
        As of `strategies.secure_aggregation.ask_plain_or_masked`.

    Returns
    -------
    Conversation
        Returns the sum over the sites that answered.
    """
    answers: Mapping[tuple[str, ...], Sum] = yield from ask_plain_or_masked(
        asks, zero, check_of, masking, attempts=attempts, measure=measure, needed=needed
    )
    if masking is not None:
        ((sites, total),) = answers.items()
        return Total(total, sites)
    return Total.of({site: answer for (site,), answer in answers.items()}) if answers else Total(zero, ())
