"""Plan of boosting of bins: sites that allow it send bins of their columns, once; the others go on as agents."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float64

from numerics.residual.rules import LearningResult, Rules
from numerics.residual.split import Split
from protocols.residual.boosted import Boosted
from protocols.residual.payloads import Bin, Conclude, EntityBins
from protocols.wire.payload import Payload


class Bins(Boosted):
    """Gated boosting whose finish uses the bins of some agents, and the steps of those that give no bins.

    Where all sites give bins, no residual is sent: the finish is all that is learned. Its trees find interaction
    between columns of different sites as if these were in one place (vertical FederBoost, arXiv 2011.02796).
    """

    def __init__(self, names: tuple[str, ...], y: Float64[np.ndarray, "n"], split: Split, rules: Rules) -> None:
        super().__init__(names, y, split, rules)
        self.opened = False

    def asks(self) -> dict[str, Payload]:
        """Ask for bins once; then send the residual to agents that gave none."""
        if self.opened:
            return super().asks()
        return dict.fromkeys(self.names, Bin(self.rules.bins, self.rules.epsilon))

    def take(self, answers: Mapping[str, Payload]) -> None:
        """Take the bins, and later the steps of the others."""
        if self.opened:
            super().take(answers)
            return
        self.opened = True
        self.binned = {
            name: each for name, each in answers.items() if isinstance(each, EntityBins) and each.levels.size
        }
        self.ended = self.ended or not self.fitting

    def conclusions(self, result: LearningResult) -> dict[str, Payload]:
        """Return each agent's last ask: its steps to store, or to store the edges of its bins."""
        edges = Conclude(np.zeros(0), np.zeros(0, np.int64), bins=True)
        return {**super().conclusions(result), **dict.fromkeys(self.binned, edges)}
