"""A memory of what was computed last."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


class Cache(Generic[_K, _V]):
    """What was computed last, by key; safe to use from several threads.

    Parameters
    ----------
    most : float
        How much is kept: the values used longest ago are forgotten as soon as all weigh more.
    weigh : callable
        Weight of a value, not negative; by default each counts 1. What weighs more than `most` is not kept at all.
    """

    def __init__(self, most: float, weigh: Callable[[_V], float] = lambda _: 1) -> None:
        self._most, self._weigh = most, weigh
        self._lock = threading.Lock()
        self._values: OrderedDict[_K, tuple[_V, float]] = OrderedDict()
        self._weight = 0.0

    def get(self, key: _K, compute: Callable[[], _V]) -> _V:
        """The value of a key, computed if it is not remembered; two threads may then compute it at the same time."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key][0]
        value = compute()
        weight = self._weigh(value)
        with self._lock:
            if key not in self._values and weight <= self._most:
                self._values[key] = value, weight
                self._weight += weight
                while self._weight > self._most:
                    self._weight -= self._values.popitem(last=False)[1][1]
        return value

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._values.clear()
            self._weight = 0.0
