"""What the parties of attribute-distributed learning hold: an agent its columns, somebody the outcomes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float64, Shaped


@dataclass(frozen=True)
class Columns:
    """One agent's own columns of its entities.

    Attributes
    ----------
    x : ndarray
        ``(n, p)`` finite numbers; a column of categories has become one column of 0 and 1 for each category.
    features : tuple of str
        Names of the p columns.
    entity : ndarray or None
        ``(n,)`` names of the entities as text, each once; None: the row number.
    y : ndarray or None
        ``(n,)`` finite outcomes, if this party holds them.
    categories : Mapping[str, tuple of str]
        By column of text, its categories in the order of their columns in `x`.
    entity_kind : str
        ``number`` or ``text``: what the column of names holds; empty without one.
    """

    x: Float64[np.ndarray, "n p"]
    features: tuple[str, ...]
    entity: Shaped[np.ndarray, "n"] | None = None
    y: Float64[np.ndarray, "n"] | None = None
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    entity_kind: str = ""

    @property
    def n(self) -> int:
        """Number of entities."""
        return len(self.x)


@dataclass(frozen=True)
class Outcomes:
    """The outcomes that the fusion center holds.

    Attributes
    ----------
    y : ndarray
        ``(n,)`` finite outcomes; NaN where an outcome is to be predicted and nobody knows it.
    entity : ndarray or None
        As in `Columns`.
    n_test : int
        The last so many are test rows: nothing is learned from them.
    entity_kind : str
        As in `Columns`.
    """

    y: Float64[np.ndarray, "n"]
    entity: Shaped[np.ndarray, "n"] | None = None
    n_test: int = 0
    entity_kind: str = ""
