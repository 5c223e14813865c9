"""Losses of each site alone at the test points, beside those of the combined prediction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from numerics.gp.alone import Difference, chosen_points, compare, number_of_groups
from numerics.gp.measurements import Queries
from numerics.shared.classes import SMALLEST_PROBABILITY
from protocols.gp.payloads import FEWEST_IN_GROUP, MOST_GROUPS, ErrorsAlone, PredictAlone
from protocols.wire.payload import PayloadError
from strategies.conversation import Conversation, Tell
from strategies.gp.model import Model


@dataclass(frozen=True, eq=False)
class Alone:
    """Losses of the sites alone: sums of squared errors, or of log losses if outputs are classes.

    Attributes
    ----------
    losses : dict[str, ndarray]
        By site, ``(g,)`` sums over groups of the test points (`numerics.gp.alone.chosen_points`); empty: nobody was
        asked.
    """

    losses: Mapping[str, Float64[np.ndarray, "g"]]

    def differences(self, losses: Float64[np.ndarray, "t"], unit: float) -> dict[str, Difference]:
        """Return, by site, the difference between the losses of combined predictions and its own.

        Parameters
        ----------
        losses : ndarray
            ``(t,)`` losses of combined predictions, at the chosen points.
        unit : float
            Unit of the differences.
        """
        return {site: compare(losses / unit, own / unit) for site, own in self.losses.items()}


NOBODY = Alone({})
_ROUNDING = 0.005
"""Share by which a number of three digits may exceed the exact one."""


def ask_alone(model: Model, queries: Queries) -> Conversation[Alone]:
    """Ask every site once how well it would predict the test points alone; ask nobody if few outputs are measured.

    Parameters
    ----------
    model : Model
        Experts and units.
    queries : Queries
        The test points, of which those with a measured output count.
    """
    measured = queries.measured
    groups = number_of_groups(len(measured), MOST_GROUPS, FEWEST_IN_GROUP)
    if queries.y is None or not groups:
        return NOBODY
    registry, some = model.registry, measured[chosen_points(len(measured))]
    points = registry.units.inputs(queries.x[some])
    outputs = queries.y[some] if registry.classes else registry.units.outputs(queries.y[some])
    asks = {
        site: PredictAlone(
            **registry.agreement(site, model.max_rows),
            kernel=model.kernel,
            points=points,
            outputs=outputs,
            groups=groups,
        )
        for site in registry.counts
    }

    def check(site: str, answer: ErrorsAlone) -> None:
        if len(answer.squares) != groups or answer.squares.min() < 0:
            raise PayloadError(answer.title(), "squares", f"expected {groups} sums of squares")
        largest = -np.log(SMALLEST_PROBABILITY) * (-(-len(points) // groups)) * (1 + _ROUNDING)
        if registry.classes and answer.squares.max() > largest:
            raise PayloadError(answer.title(), "squares", f"expected sums of log losses up to {largest:.3g}")

    answers: dict[str, ErrorsAlone] = yield Tell(asks, check=check, needed=False)
    return Alone({site: answer.squares for site, answer in answers.items()})
