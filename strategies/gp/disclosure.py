"""What sites disclose on their consent: rows for a communication expert, and the inputs of all rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocols.gp.payloads import MOST_SHARED, Disclose, Inputs, Rows, Share
from strategies.conversation import Conversation, Tell
from strategies.errors import FusionError
from strategies.gp.checks import check_inputs, check_rows
from strategies.gp.federation import Federation

if TYPE_CHECKING:
    from protocols.gp.settings import Settings


def shared_rows(federation: Federation, settings: Settings, max_rows: int) -> Conversation[dict[str, Rows]]:
    """Rows for the communication expert from every site that gives some, by site."""
    if settings.aggregation != "grbcm":
        return {}
    wanted = rows_wanted(federation, settings)
    sites = federation.willing("allow-rows")
    asks = {site: Share(**federation.agreed(site, max_rows), rows=wanted[site]) for site in sites}
    answers: dict[str, Rows] = {}
    if asks:
        answers = yield Tell(asks, check=check_rows(wanted, len(federation.features)))
    if not sum(len(answer.y) for answer in answers.values()):
        raise FusionError(
            "gp.aggregation=grbcm needs a communication expert, and no site gives it rows (allow-rows in its node"
            " configuration); set another gp.aggregation"
        )
    return answers


def rows_wanted(federation: Federation, settings: Settings) -> dict[str, int]:
    """How many rows each site is asked to share, in proportion to those it has; as many as it may be asked at most."""
    share = settings.communication or 1 / (federation.M + 1)

    def wanted(n: int) -> int:
        return max(1, min(round(share * n), n // 2, MOST_SHARED * n // federation.n_rows))

    return {site: wanted(federation.rows_of(site)) for site in federation.counts}


def disclosed_inputs(federation: Federation, settings: Settings, max_rows: int) -> Conversation[dict[str, Inputs]]:
    """The inputs of every site that discloses them, by site."""
    if not settings.disclosed:
        return {}
    asks = {site: Disclose(**federation.agreed(site, max_rows)) for site in federation.willing("allow-inputs")}
    answers: dict[str, Inputs] = {}
    if asks:
        answers = yield Tell(asks, check=check_inputs(federation))
    if not answers:
        raise FusionError(
            "gp.covariance=inputs: no site discloses its inputs (allow-inputs in its node configuration); set"
            " gp.covariance=sketch"
        )
    return answers
