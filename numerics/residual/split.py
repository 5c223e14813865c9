"""Training, validation and test rows of a run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64


@dataclass(frozen=True)
class Split:
    """Numbers of training, validation and test rows, in this order.

    Attributes
    ----------
    n_fit, n_validation, n_test : int
        Numbers of rows of each kind.

    Examples
    --------
    >>> split = Split(n_fit=2, n_validation=0, n_test=1)
    >>> split.errors(np.array([1.0, 3.0, 2.0]))
    array([ 5., nan,  4.])
    """

    n_fit: int
    n_validation: int
    n_test: int

    @property
    def n(self) -> int:
        """Number of all rows."""
        return self.n_fit + self.n_validation + self.n_test

    @property
    def n_held(self) -> int:
        """Number of rows after the training rows."""
        return self.n_validation + self.n_test

    @property
    def slices(self) -> tuple[slice, slice, slice]:
        """Training, validation and test rows."""
        ends = np.cumsum([0, self.n_fit, self.n_validation, self.n_test]).tolist()
        return slice(*ends[:2]), slice(*ends[1:3]), slice(*ends[2:])

    @property
    def without_validation(self) -> Split:
        """The same rows with the validation rows as training rows."""
        return Split(self.n_fit + self.n_validation, 0, self.n_test)

    def mark_missing(self, errors: Float64[np.ndarray, "... 3"]) -> Float64[np.ndarray, "... 3"]:
        """Return errors by kind of row from a payload, with NaN for kinds without rows."""
        return np.where(np.array([self.n_fit, self.n_validation, self.n_test]) > 0, errors, np.nan)

    def errors(self, residual: Float64[np.ndarray, "n"]) -> Float64[np.ndarray, "3"]:
        """Return mean squares by kind of row; NaN for a kind without rows."""
        ends = np.cumsum([self.n_fit, self.n_validation])
        parts = np.split(residual, ends)
        return np.array([part @ part / len(part) if len(part) else np.nan for part in parts])
