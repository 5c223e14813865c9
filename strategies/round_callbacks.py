"""Callbacks after every round of a run, such as a progress bar or a writer of metrics."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

logger = logging.getLogger("flwr")

OnRound = Callable[[Mapping[str, Any]], object]
"""``on_round(row)``: the row has `round`, `sites`, `bytes_to_sites`, `bytes_from_sites`, `seconds`, and the strategy's
own measures by name."""


class RoundCallbacks:
    """Callbacks of one run. An exception in a callback is logged once, and the callback called again the next round.

    Parameters
    ----------
    callbacks : Callable, or sequence of them
        Each is called with a copy of the row, in order.

    Examples
    --------
    >>> RoundCallbacks(lambda row: print(row["round"], row["sites"])).call([{"round": 1, "sites": 3}])
    1 3
    """

    def __init__(self, callbacks: OnRound | Sequence[OnRound]) -> None:
        self._callbacks = [callbacks] if callable(callbacks) else list(callbacks)
        self._failed: set[int] = set()

    def call(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Call every callback with each row."""
        for row in rows:
            for place, callback in enumerate(self._callbacks):
                try:
                    callback(dict(row))
                except Exception:
                    if place not in self._failed:
                        logger.exception("round %d: on_round failed; the run goes on", row["round"])
                    self._failed.add(place)
