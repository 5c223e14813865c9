"""A learner's rows: inputs, and outcomes that are amounts or classes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Bool, Float64, Int64

from numerics.shared.folds import OPTIONAL, Persons, persons_in


@dataclass(frozen=True)
class RegressionRows:
    """Inputs and outcomes of one learner.

    Attributes
    ----------
    x : ndarray
        ``(n, p)`` inputs of the training rows, finite.
    y : ndarray
        ``(n,)`` outcomes of the training rows, finite; of classes, the place of each row's class in `classes`.
    x_test, y_test : ndarray
        ``(t, p)`` and ``(t,)`` test rows, which only serve to measure errors; t may be 0.
    features : tuple of str
        Names of the p inputs, the same for all learners of a run.
    classes : tuple of str
        The learner's classes, in order; empty for amounts.
    person, person_test : ndarray or None
        ``(n,)`` and ``(t,)`` numbers of the persons that the rows are about; None: each row is another person.

    Examples
    --------
    >>> rows = RegressionRows(np.array([[1.0], [3.0]]), np.array([5.0, 5.0]), np.zeros((0, 1)), np.zeros(0), ("age",))
    >>> rows.n, rows.standardized().x.ravel(), rows.standardized().y
    (2, array([-1.,  1.]), array([0., 0.]))
    """

    x: Float64[np.ndarray, "n p"]
    y: Float64[np.ndarray, "n"]
    x_test: Float64[np.ndarray, "t p"]
    y_test: Float64[np.ndarray, "t"]
    features: tuple[str, ...]
    classes: tuple[str, ...] = ()
    person: Persons = field(default=None, metadata=OPTIONAL)
    person_test: Persons = field(default=None, metadata=OPTIONAL)

    @property
    def n(self) -> int:
        """Number of training rows."""
        return len(self.y)

    @property
    def persons(self) -> Int64[np.ndarray, "persons"]:
        """Persons of the training rows, each once, in the order of their numbers; without persons, the rows."""
        return persons_in(np.arange(self.n), self.person)

    @property
    def persons_test(self) -> Int64[np.ndarray, "persons"]:
        """Persons of the test rows, each once; without persons, the rows."""
        return persons_in(np.arange(len(self.y_test)), self.person_test)

    def hold_out(self, persons: Int64[np.ndarray, "persons"]) -> RegressionRows:
        """Move the rows of some persons (`mask_of`) to the test rows.

        Examples
        --------
        >>> x, y, none = np.zeros((3, 1)), np.arange(3.0), np.zeros(0)
        >>> rows = RegressionRows(x, y, x[:0], none, ("age",), person=np.array([4, 9, 4]))
        >>> apart = rows.hold_out(np.array([4]))
        >>> apart.y, apart.y_test, apart.person
        (array([1.]), array([0., 2.]), array([9]))
        """
        return self.with_test(self.mask_of(persons))

    def mask_of(self, persons: Int64[np.ndarray, "persons"]) -> Bool[np.ndarray, "n"]:
        """Return which training rows are those of some persons (some of `persons`).

        If these persons have all rows of a class, one of them is left out: every class keeps a row outside the mask.

        Examples
        --------
        >>> x, y = np.zeros((3, 1)), np.array([0.0, 1.0, 0.0])
        >>> rows = RegressionRows(x, y, x[:0], y[:0], ("age",), ("no", "yes"))
        >>> rows.mask_of(np.array([0, 1]))
        array([ True, False, False])
        """
        owners = np.arange(self.n) if self.person is None else self.person
        for place in range(len(self.classes)):
            having = owners[self.y == place]
            if np.isin(having, persons).all():
                persons = persons[persons != having[0]]
        return np.isin(owners, persons)

    def with_test(self, test: Bool[np.ndarray, "n"]) -> RegressionRows:
        """Move some training rows to the test rows, in place of those; without any, nothing changes."""
        if not test.any():
            return self
        return replace(
            self,
            x=self.x[~test],
            y=self.y[~test],
            x_test=self.x[test],
            y_test=self.y[test],
            person=None if self.person is None else self.person[~test],
            person_test=None if self.person is None else self.person[test],
        )

    def standardized(self) -> RegressionRows:
        """Subtract the means of inputs and outcome, and divide by the standard deviations, of the training rows.

        A constant column is only centered. Test rows are transformed like training rows. Classes stay as they are.
        """
        x_mean, y_mean = self.x.mean(axis=0), 0.0 if self.classes else self.y.mean()
        # By the range: the standard deviation of equal numbers may be a rounding error instead of 0.
        x_scale = np.where(np.ptp(self.x, axis=0) > 0, self.x.std(axis=0), 1.0)
        y_scale = self.y.std() if np.ptp(self.y) > 0 and not self.classes else 1.0
        return replace(
            self,
            x=(self.x - x_mean) / x_scale,
            y=(self.y - y_mean) / y_scale,
            x_test=(self.x_test - x_mean) / x_scale,
            y_test=(self.y_test - y_mean) / y_scale,
        )
