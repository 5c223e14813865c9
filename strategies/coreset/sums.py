"""Sums over the sites' rows: of masked answers, which hide each site's own, or of plain ones."""

from __future__ import annotations

from collections.abc import Mapping

from protocols.coreset.payloads import Construction
from protocols.wire.vector_encoding import Sum
from strategies.conversation import Conversation, Tell
from strategies.secure_aggregation import CheckOf, Masking, Total, check_sum

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
    asks : Mapping[str, Payload]
        By site.
    zero : Payload
        An answer with the shapes that all answers have.
    check_of : Callable
        Makes the check of an answer.
    masking : Masking, optional
        Secure aggregation. A site that does not answer is not in the sum, and is not asked again.
    attempts : int
        Number of times that a site is asked without masks.
    measure : Mapping[str, float], optional
        As of `strategies.conversation.Tell`.
    needed : bool
        As of `strategies.conversation.Tell`, without masks.

    Returns
    -------
    Conversation
        Returns the sum over the sites that answered.
    """
    if masking is not None:
        total = yield from masking.total(asks, zero, measure=measure)
        check_sum(total, check_of)
        return total
    check = check_of({site: (site,) for site in asks})
    answers: dict[str, Sum] = {}
    for _ in range(attempts):
        missing = {site: ask for site, ask in asks.items() if site not in answers}
        if missing:
            answers |= yield Tell(missing, check=check, measure=measure or {}, needed=needed)
    return Total.of(answers) if answers else Total(zero, ())
