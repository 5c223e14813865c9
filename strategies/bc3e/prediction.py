"""Classes of new instances, by what an earlier run has learnt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from protocols.bc3e import MOST_INSTANCES, Predict, Predicted
from protocols.payload import PayloadError
from strategies.bc3e.fit import SWEEPS, Settings
from strategies.bc3e.tally import accuracies, add_up, check_tally
from strategies.conversation import Broadcast, Conversation
from strategies.fusion import FusionStrategy


@dataclass(frozen=True)
class Told:
    """What the sites say of their new instances.

    Attributes
    ----------
    answers : dict[str, Predicted]
        By site.
    """

    answers: dict[str, Predicted]

    @property
    def n(self) -> int:
        """New instances of all sites."""
        return sum(answer.instances for answer in self.answers.values())

    @property
    def measure(self) -> dict[str, float]:
        """For the progress line of the round."""
        return {"predicted": float(self.n)}


class Prediction(FusionStrategy):
    """Have every site tell its new instances their class, by the alpha and beta that an earlier run has learnt.

    Parameters
    ----------
    **common
        Of `FusionStrategy`. Its reference's `earlier` has ``alpha``, ``clusterings`` and ``beta_0``, ``beta_1``, ...
    """

    def conversation(self, repetition: int = 0) -> Conversation[Told]:
        """One round: the probabilities stay at the sites, and counts come back."""
        earlier = self.reference.earlier
        names = tuple(map(str, earlier["clusterings"]))
        ask = Predict(
            alpha=earlier["alpha"],
            clusterings=names,
            beta=tuple(earlier[f"beta_{place}"] for place in range(len(names))),
            tolerance=Settings.gamma_tolerance,
            max_sweeps=SWEEPS,
        )
        answers: dict[str, Predicted] = yield Broadcast(ask, check=_check_predicted)
        return Told(answers)

    def metrics(self, outcome: Told) -> dict[str, float]:
        """Names and numbers of `report.json`."""
        return {"n_predicted": float(outcome.n), **accuracies(*add_up(outcome.answers))}

    def table(self, metrics: Mapping[str, float], outcome: Told) -> list[dict[str, Any]]:
        """A row for every site: its new instances, and the share of right ones where it knows their classes."""
        rows = []
        for site, answer in outcome.answers.items():
            row: dict[str, Any] = {"site": site, "instances": answer.instances}
            own = accuracies(*add_up({site: answer}))
            if "accuracy" in own:
                row["% correct"] = round(100 * own["accuracy"], 2)
            rows.append(row)
        return rows


def _check_predicted(site: str, answer: Predicted) -> None:
    check_tally(site, answer)
    if not 0 <= answer.instances <= MOST_INSTANCES or (answer.total > answer.instances).any():
        raise PayloadError(answer.title(), "instances", f"expected up to {MOST_INSTANCES}, and no more counted")
