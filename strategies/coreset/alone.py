"""Costs of left-out rows at each site's own fair centers, beside those at the joint centers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

import numpy as np
from jaxtyping import Float64, Shaped

from numerics.coreset.fairness.apportionment import PointMasses
from protocols.coreset.payloads import Compare, CostsAlone
from protocols.wire.payload import PayloadError
from strategies.conversation import Check, Conversation
from strategies.coreset.exact_assignment import BestPrices
from strategies.coreset.outcome import CoresetOutcome
from strategies.coreset.sums import sum_answers
from strategies.secure_aggregation import CheckOf, Masking, Total

_ROUNDING = 0.02
"""Largest relative error of figures computed from sums of three digits."""
_MOST_ALONE = 6.0
"""Largest cost alone, in units of the squares of a site's rows around their mean m.

Fair clusters cost 1 at most. The distance of a left-out row p from a center c has ``|p - c|^2 <= 2 |p - m|^2 + 2 |c -
m|^2``, and the center nearest to m is no farther from it than four fifths of the rows are on average: 2 + 2 / .8.
"""

FEWEST_TO_TELL = 3
"""Fewest sites from which on costs without one of them tell something of it."""


def ask_alone(
    outcome: CoresetOutcome,
    joint: BestPrices | Mapping[str, PointMasses],
    masking: Masking | None,
) -> Conversation[Total[CostsAlone]]:
    """Ask every site once how well it would cluster its rows alone; return the sum of the answers, and plain ones.

    Parameters
    ----------
    outcome : CoresetOutcome
        Outcome with the final centers.
    joint : Mapping or BestPrices
        By site, numbers of rows of each of its points at each center; or the prices that assign the rows.
    masking : Masking, optional
        Secure aggregation.
    """
    pool, centers = outcome.pool, outcome.centers
    nothing = PointMasses(*np.zeros((3, 0), np.int64))
    assignment = outcome.clustering.assignment
    prices = assignment.prices
    sizes = np.bincount(assignment.center, assignment.mass, len(centers.fair)).astype(np.int64)
    if isinstance(joint, BestPrices):
        prices, sizes = joint.shift, joint.targets(outcome).sum(axis=0)
    asks = {}
    for site, summary in pool.summaries.items():
        groups, own = (pool.groups, nothing) if isinstance(joint, BestPrices) else (summary.groups, joint[site])
        asks[site] = Compare(
            **asdict(centers.how),
            groups=groups,
            centers=centers.fair,
            scale=centers.scale,
            point=own.point,
            center=own.center,
            mass=own.mass,
            shift=prices[[pool.groups.index(name) for name in groups]],
            sizes=sizes,
            alpha=outcome.fairness.alpha,
        )
    return (yield from sum_answers(asks, CostsAlone.nothing(), _check(outcome), masking, needed=False))


def _check(outcome: CoresetOutcome) -> CheckOf:
    """Return a check of the number of compared rows, and of the sums against each other."""
    pool, costs, squares = outcome.pool, outcome.possible_costs(), outcome.squares_by_site()

    def check_of(sites_of: Mapping[str, tuple[str, ...]]) -> Check:
        def check(name: str, answer: CostsAlone) -> None:
            sites = sites_of[name]
            if not 0 <= answer.rows <= int(pool.rows_of(sites).sum()):
                raise PayloadError(answer.title(), "rows", "are more than the sites' points have")
            if not answer.rows:
                if answer != CostsAlone.nothing():
                    raise PayloadError(answer.title(), "rows", "are none, but have a cost")
                return
            # A center without the row is at most twice as far.
            most = 4 * sum(float(costs[site][0, 1]) for site in sites)
            if not 0 <= answer.together <= most * (1 + _ROUNDING):
                raise PayloadError(answer.title(), "together", "is not a cost of rows with these points")
            if not 0 <= answer.alone <= _MOST_ALONE * sum(squares[site] for site in sites):
                raise PayloadError(answer.title(), "alone", "is not a cost of rows with these points")
            gap, total = abs(answer.together - answer.alone), answer.together + answer.alone
            slack = _ROUNDING * total
            # Cauchy and Schwarz; no difference is larger than all sums together.
            least = max(0.0, gap - slack) ** 2 / answer.rows * (1 - _ROUNDING)
            if not least <= answer.squares <= (total + slack) ** 2:
                raise PayloadError(answer.title(), "squares", "do not fit the sums")

        return check

    return check_of


def metrics_alone(outcome: CoresetOutcome) -> dict[str, float]:
    """Return mean costs of a left-out row, together and alone, and how far sites' shares lie outside the bounds."""
    compared, pool = outcome.compared.sum, outcome.pool
    if compared.rows < 2:
        return {}
    bounds = pool.bounds(outcome.fairness)
    shares = np.stack([own / own.sum() for own in pool.totals_by_site.values()])
    off = np.maximum(bounds.low - shares, shares - bounds.high).max(initial=0.0)
    return _means(compared) | {"share_off_alone": float(off)}


def _means(compared: CostsAlone) -> dict[str, float]:
    return {"cost_left_out": compared.together / compared.rows, "cost_alone": compared.alone / compared.rows}


def paired_difference(compared: CostsAlone) -> dict[str, Float64[np.ndarray, "3"]]:
    """Return the mean difference of joint and own cost, its standard error, and the number of rows.

    Examples
    --------
    Of four rows, two cost 1 less together than alone, two as much:

    >>> costs = CostsAlone(rows=4, alone=8.0, together=6.0, squares=2.0)
    >>> paired_difference(costs)["paired_cost_alone"].round(4).tolist()
    [-0.5, 0.2887, 4.0]
    """
    n = compared.rows
    if n < 2:
        return {}
    difference = (compared.together - compared.alone) / n
    variance = max(0.0, compared.squares / n - difference**2) * n / (n - 1)
    return {"paired_cost_alone": np.array([difference, np.sqrt(variance / n), n])}


def without_each(compared: Total[CostsAlone]) -> dict[str, dict[str, Shaped[np.ndarray, "..."]]]:
    """Return, by site, costs and their paired difference without its answer; none with masks, or of fewer than three.

    Examples
    --------
    >>> answers = {site: CostsAlone(4, alone, 6.0, 20.0) for site, alone in (("a", 8.0), ("b", 8.0), ("c", 0.0))}
    >>> {site: float(each["cost_alone"]) for site, each in without_each(Total.of(answers)).items()}
    {'a': 1.0, 'b': 1.0, 'c': 2.0}
    """
    answers = {site: answer for site, answer in compared.answers.items() if answer.rows > 1}
    if len(answers) < FEWEST_TO_TELL:
        return {}
    numbers = {}
    for site in answers:
        others = Total.of({other: answer for other, answer in answers.items() if other != site}).sum
        means = {name: np.asarray(mean) for name, mean in _means(others).items()}
        numbers[site] = means | paired_difference(others)
    return numbers
