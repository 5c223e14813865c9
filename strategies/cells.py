"""A scenario's table in one run: one strategy for each cell, side by side in the same rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from strategies.conversation import Conversation, together
from strategies.fusion import FusionStrategy


class Table(FusionStrategy):
    """Several settings of one protocol in the same rounds; the lane of cell c in repetition r is ``r.c``.

    Parameters
    ----------
    members : Sequence of FusionStrategy
        One for every cell.
    **common
        Parameters of `FusionStrategy`.
    """

    def __init__(self, members: Sequence[FusionStrategy], **common: Any) -> None:
        super().__init__(**common)
        self.members = members
        for each in members:
            each.in_table = len(members) > 1

    def conversation(self, repetition: int = 0) -> Conversation[list[Any]]:
        """Run the conversations of all cells in one repetition; return their outcomes in order."""
        for each in self.members:
            if each.named_by_run:
                each.session = self.session
        results = yield from together({str(c): each.conversation(repetition) for c, each in enumerate(self.members)})
        return list(results.values())

    def excluded(self, outcome: Sequence[Any]) -> Mapping[str, str]:
        """Return the sites that some cell left out, with the reason of the first such cell."""
        excluded: dict[str, str] = {}
        for member, each in zip(self.members, outcome, strict=True):
            excluded = {**member.excluded(each), **excluded}
        return excluded
