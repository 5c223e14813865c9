"""Errors of each site alone at the test points, beside those of the combined prediction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from numerics.gp.alone import Difference, chosen_points, compare, number_of_groups
from numerics.gp.measurements import Queries
from protocols.gp.payloads import FEWEST_IN_GROUP, MOST_GROUPS, ErrorsAlone, PredictAlone
from protocols.wire.payload import PayloadError
from strategies.conversation import Conversation, Tell
from strategies.gp.model import Model


@dataclass(frozen=True, eq=False)
class Alone:
    """Sums of squared errors of the sites alone.

    Attributes
    ----------
    squares : dict[str, ndarray]
        By site, ``(g,)`` sums over groups of the test points (`numerics.gp.alone.chosen_points`); empty: nobody was
        asked.
    """

    squares: Mapping[str, Float64[np.ndarray, "g"]]

    def differences(self, mean: Float64[np.ndarray, "N"], y: Float64[np.ndarray, "N"]) -> dict[str, Difference]:
        """Return by site the difference of combined predictions from it, in units of the variance of the outputs.

        Parameters
        ----------
        mean, y : ndarray
            ``(N,)`` combined predictions and outputs, in the common units.
        """
        some = chosen_points(len(y))
        variance = float(np.var(y[some]))
        if not variance > 0:
            return {}
        squares = np.square(y - mean)[some]
        return {site: compare(squares / variance, own / variance) for site, own in self.squares.items()}


NOBODY = Alone({})


def ask_alone(model: Model, queries: Queries) -> Conversation[Alone]:
    """Ask every site once how well it would predict the test points alone; without outputs or with few points nobody.

    Parameters
    ----------
    model : Model
        Experts and units.
    queries : Queries
        The test points.
    """
    groups = number_of_groups(len(queries.x), MOST_GROUPS, FEWEST_IN_GROUP)
    if queries.y is None or not groups:
        return NOBODY
    registry, some = model.registry, chosen_points(len(queries.x))
    points, outputs = registry.units.inputs(queries.x[some]), registry.units.outputs(queries.y[some])
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

    answers: dict[str, ErrorsAlone] = yield Tell(asks, check=check, needed=False)
    return Alone({site: answer.squares for site, answer in answers.items()})
