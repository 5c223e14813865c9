"""Rows for a communication expert, and inputs of all rows: sites disclose them if they consent."""

from __future__ import annotations

from protocols.gp.payloads import MOST_SHARED, Disclose, Inputs, Rows, Share
from protocols.gp.settings import Settings
from strategies.conversation import Conversation, Tell
from strategies.errors import FusionError
from strategies.gp.checks import check_inputs, check_rows
from strategies.gp.expert_registry import ExpertRegistry


def shared_rows(registry: ExpertRegistry, settings: Settings, max_rows: int) -> Conversation[dict[str, Rows]]:
    """Ask the sites that consent for rows of the communication expert, and return them by site."""
    if settings.aggregation != "grbcm":
        return {}
    n_rows = rows_to_share(registry, settings)
    sites = [site for site in registry.willing("allow-rows") if site not in registry.remote]
    asks = {site: Share(**registry.agreement(site, max_rows), rows=n_rows[site]) for site in sites}
    answers: dict[str, Rows] = {}
    if asks:
        answers = yield Tell(asks, check=check_rows(n_rows, len(registry.features)))
    if not sum(len(answer.y) for answer in answers.values()):
        raise FusionError(
            "gp.aggregation=grbcm needs rows for a communication expert, and no site shares any: set allow-rows in a"
            " site's node configuration, or another gp.aggregation"
        )
    return answers


def rows_to_share(registry: ExpertRegistry, settings: Settings) -> dict[str, int]:
    """Return, by site, the number of rows to ask for: in proportion to its rows, within the limits of the ask."""
    share = settings.communication or 1 / (registry.M + 1)

    def rows(n: int) -> int:
        return max(1, min(round(share * n), n // 2, MOST_SHARED * n // registry.n_rows))

    return {site: rows(registry.rows_of(site)) for site in registry.counts}


def disclosed_inputs(registry: ExpertRegistry, settings: Settings, max_rows: int) -> Conversation[dict[str, Inputs]]:
    """Ask the sites that consent for the inputs of all their rows, and return them by site."""
    if not settings.disclosed:
        return {}
    asks = {site: Disclose(**registry.agreement(site, max_rows)) for site in registry.willing("allow-inputs")}
    answers: dict[str, Inputs] = {}
    if asks:
        answers = yield Tell(asks, check=check_inputs(registry))
    if not answers:
        raise FusionError(
            "gp.covariance=inputs needs the inputs of rows, and no site discloses them: set allow-inputs in a site's"
            " node configuration, or gp.covariance=sketch"
        )
    return answers
