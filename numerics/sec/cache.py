"""A cache of the values used last."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


class Cache(Generic[_K, _V]):
    """A thread-safe cache of the values used last.

    Parameters
    ----------
    most : float
        Largest total weight; beyond it, the values used longest ago are dropped.
    weigh : callable
        Computes the weight of a value, not negative; by default each value counts 1. A value heavier than `most` is
        not stored.

    Examples
    --------
    >>> cache = Cache(most=2)
    >>> [cache.get(key, lambda: key.upper()) for key in "aba"]
    ['A', 'B', 'A']
    >>> cache.get("a", lambda: "computed anew")
    'A'
    """

    def __init__(self, most: float, weigh: Callable[[_V], float] = lambda _: 1) -> None:
        self._most, self._weigh = most, weigh
        self._lock = threading.Lock()
        self._values: OrderedDict[_K, tuple[_V, float]] = OrderedDict()
        self._weight = 0.0

    def get(self, key: _K, compute: Callable[[], _V]) -> _V:
        """Return the value of a key; compute it if it is not stored, possibly in two threads at the same time."""
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
