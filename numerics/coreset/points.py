"""Coloured points: what a site's rows are to fair clustering, read in blocks so that they need not fit in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64, Shaped

CLUSTERS, LOCATIONS = 10, 200
"""Clusters where nobody says how many, and locations of a coreset for each (papers/fair_coresets.txt, section 4)."""
BLOCK_ROWS = 65_536
"""Rows of a block at most, where the source does not say otherwise."""


@dataclass(frozen=True, eq=False)
class Block:
    """Some consecutive rows.

    Attributes
    ----------
    x : ndarray
        ``(b, d)``, finite.
    colour : ndarray
        ``(b,)``, each row's sensitive class: a place in `names`.
    names : tuple of str
        Names of the colours seen so far; those of a later block begin with those of an earlier one.
    entity : ndarray or None
        ``(b,)`` names of the rows; None: they have none.
    """

    x: Float64[np.ndarray, "b d"]
    colour: Int64[np.ndarray, "b"]
    names: tuple[str, ...]
    entity: Shaped[np.ndarray, "b"] | None = None


@dataclass(frozen=True, eq=False)
class Points:
    """A shard of coloured points.

    Attributes
    ----------
    features : tuple of str
        Names of the d coordinates.
    blocks : Callable
        ``blocks()`` reads all rows from the first on, block by block; called again, it gives the same.
    """

    features: tuple[str, ...]
    blocks: Callable[[], Iterator[Block]]

    @classmethod
    def of(
        cls,
        x: Float64[np.ndarray, "n d"],
        colour: Int64[np.ndarray, "n"],
        names: tuple[str, ...],
        features: tuple[str, ...] = (),
        entity: Shaped[np.ndarray, "n"] | None = None,
    ) -> Points:
        """Points that are in memory already; features are called ``x_0``, ``x_1``, ... unless named."""

        def blocks() -> Iterator[Block]:
            for start in range(0, len(x), BLOCK_ROWS):
                part = slice(start, start + BLOCK_ROWS)
                yield Block(x[part], colour[part], names, None if entity is None else entity[part])

        return cls(features or tuple(f"x_{j}" for j in range(x.shape[1])), blocks)
