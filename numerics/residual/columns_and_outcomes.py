"""Data of attribute-distributed regression: columns at the agents, outcomes at one site or the fusion center."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float64, Shaped

from numerics.shared.folds import OPTIONAL, Persons


@dataclass(frozen=True)
class Columns:
    """Columns of one site, a row for each of its entities.

    Attributes
    ----------
    x : ndarray
        ``(n, p)`` finite numbers. A column of categories is p_c columns of 0 and 1, one for each category.
    features : tuple of str
        Names of the p columns.
    entity : ndarray or None
        ``(n,)`` distinct names of the entities as text; None: entities go by their row number.
    y : ndarray or None
        ``(n,)`` finite outcomes, if the site holds them: amounts, or places of `classes`.
    categories : Mapping[str, tuple of str]
        Categories of each column of text, in the order of their columns in `x`.
    entity_kind : str
        ``number`` or ``text``: content of the column of names; empty if there is none.
    person : ndarray or None
        ``(n,)`` numbers of the persons that the entities belong to; None: every entity is another person.
    classes : tuple of str
        Names of the outcome's classes, in order; empty for amounts.

    Examples
    --------
    >>> Columns(np.zeros((4, 2)), features=("age", "income")).n
    4
    """

    x: Float64[np.ndarray, "n p"]
    features: tuple[str, ...]
    entity: Shaped[np.ndarray, "n"] | None = None
    y: Float64[np.ndarray, "n"] | None = None
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    entity_kind: str = ""
    person: Persons = field(default=None, metadata=OPTIONAL)
    classes: tuple[str, ...] = ()

    @property
    def n(self) -> int:
        """Number of entities."""
        return len(self.x)


@dataclass(frozen=True)
class Outcomes:
    """Outcomes that the fusion center holds.

    Attributes
    ----------
    y : ndarray
        ``(n,)`` finite outcomes; in a prediction NaN if an outcome is unknown.
    entity : ndarray or None
        As in `Columns`.
    n_test : int
        Number of test rows, which are the last; no agent learns from them.
    entity_kind, person, classes
        As in `Columns`.
    """

    y: Float64[np.ndarray, "n"]
    entity: Shaped[np.ndarray, "n"] | None = None
    n_test: int = 0
    entity_kind: str = ""
    person: Persons = None
    classes: tuple[str, ...] = ()
