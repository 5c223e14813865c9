"""What all algorithms have in common: how rows are used, when to stop, what came out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
from jaxtyping import Float64

from numerics.residual.agent_combination import AgentCombination

ALGORITHMS = ("parallel", "greedy", "sip", "average", "meta-linear", "meta-boosting")

MOST_ROUNDS, MOST_POWERS = 100_000, 12
"""Iterations (times the steps of one), and p side by side, that a run may want."""

LARGEST_OUTCOME = 1e15
"""Squares of larger outcomes, and sums of them, do not leave enough digits; in another unit they do."""

FEWEST_ROWS = 5
"""Rows of a kind whose mean square a site tells the center that only relays."""

STOPS = ("rounds", "train", "held-out")

MOST_STEPS = 1000
"""Fits that one ask may want: a fusion center must not keep a site busy for ever."""

_POWER_RANGE = (float, 0.0, 100.0)
_RANGES: Mapping[str, tuple[type[float], float, float]] = {
    "rounds": (int, 0, MOST_ROUNDS),
    "patience": (int, 1, 10**9),
    "shrinkage": (float, 1e-9, 1.0),
    "steps": (int, 1, MOST_STEPS),
    "ridge": (float, 0.0, 1e9),
    "idle_share": (float, 0.0, 1.0),
    "validation": (float, 1e-9, 1 - 1e-9),
    "min_leaf": (int, 1, 10**9),
}
"""By name, the type of a rule, and from where to where it may go."""

_FALLS = 1e-4
"""By what share of itself an error must fall to count as smaller."""


@dataclass(frozen=True)
class Rules:
    """How a run learns (protocols/residual/settings.py has each key's meaning and range).

    Attributes
    ----------
    algorithm : str
        One of `ALGORITHMS`.
    powers : tuple of float
        p of eq. (37); of several the best on the validation rows is taken.
    search : bool
        Whether a parallel step's length is found by Algorithm 4.
    rounds : int
        Iterations at most.
    stop : str
        One of `STOPS`.
    patience : int
        Iterations without a smaller error after which it stops.
    shrinkage : float
        nu of sip and greedy, above 0.
    steps : int
        Residual steps that an agent takes in one ask of sip and greedy.
    ridge : float
        lambda of eq. (35), relative.
    intercept : bool
        Whether outcomes are taken about their mean.
    idle_share : float
        Share of the power below which an agent of `parallel` is no longer asked.
    validation : float
        Share of the rows to learn from that are held out to choose by.
    refit : bool
        Whether all rows are learned from once that is chosen.
    min_leaf : int
        Of the trees of meta-boosting.
    keep : bool
        Whether the agents are to keep their models.
    """

    algorithm: str = "parallel"
    powers: tuple[float, ...] = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0)
    search: bool = True
    rounds: int = 60
    stop: str = "held-out"
    patience: int = 10
    shrinkage: float = 1.0
    steps: int = 1
    ridge: float = 1e-6
    intercept: bool = True
    idle_share: float = 0.0
    validation: float = 0.25
    refit: bool = True
    min_leaf: int = 40
    keep: bool = False

    def to_json(self) -> str:
        """The rules as text, for a site that plays the fusion center."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Rules:
        """What `to_json` wrote.

        Raises
        ------
        ValueError
            If it is something else, or a rule is of another type or out of range: nobody wants more iterations than
            `MOST_ROUNDS`.
        """
        try:
            content = json.loads(text)
            rules = cls(**{**content, "powers": tuple(content["powers"])})
        except (TypeError, KeyError, RecursionError) as error:
            raise ValueError("no rules") from error
        if not rules._sound():
            raise ValueError("out of range")
        return rules

    def _sound(self) -> bool:
        if type(self.rounds) is not int or type(self.steps) is not int or self.rounds * self.steps > MOST_ROUNDS:
            return False
        numbers = [(getattr(self, name), range_) for name, range_ in _RANGES.items()]
        numbers += [(p, _POWER_RANGE) for p in self.powers]
        return (
            self.algorithm in ALGORITHMS
            and self.stop in STOPS
            and 0 < len(self.powers) <= MOST_POWERS
            and all(type(getattr(self, name)) is bool for name in ("search", "intercept", "refit", "keep"))
            and all(type(value) in (kind, int) and low <= value <= high for value, (kind, low, high) in numbers)
        )

    @property
    def chooses(self) -> bool:
        """Whether something is chosen on validation rows."""
        several = self.algorithm == "parallel" and len(self.powers) > 1
        return several or (self.stop == "held-out" and self.algorithm in ("parallel", "greedy", "sip"))

    def split(self, n: int, n_learn: int) -> Split:
        """Of n rows, the first `n_learn` to learn from: with validation rows where something is chosen on them."""
        n_validation = round(self.validation * n_learn) if self.chooses else 0
        return Split(n_learn - n_validation, n_validation, n - n_learn)

    def looking(self, split: Split) -> Rules:
        """The rules of the first course: where only p and its end are looked for, nothing of it is kept."""
        return replace(self, keep=self.keep and not (split.n_validation and self.refit))

    def fixed(self, p: float, iterations: int) -> Rules:
        """The rules of the course on all rows, once p and the end are chosen."""
        return replace(self, powers=(p,), rounds=iterations, stop="rounds")

    def mean_of(self, y: Float64[np.ndarray, "n"]) -> float:
        """What outcomes are taken about, given those of the rows learned from."""
        return float(y.mean()) if self.intercept else 0.0

    def goes_on(self, errors: Float64[np.ndarray, "t 3"], split: Split, patience: int) -> bool:
        """Whether there is another iteration after these, whose errors by kind of row are given, the start first."""
        if len(errors) > self.rounds:
            return False
        return self.stop == "rounds" or falls(errors[:, 0] if self.stop == "train" else judged(errors, split), patience)


@dataclass(frozen=True)
class Split:
    """How many rows of the agreed order are for what: learned from, then validation, then test."""

    n_fit: int
    n_validation: int
    n_test: int

    @property
    def n(self) -> int:
        """All rows."""
        return self.n_fit + self.n_validation + self.n_test

    @property
    def n_held(self) -> int:
        """Rows behind those learned from."""
        return self.n_validation + self.n_test

    @property
    def without_validation(self) -> Split:
        """The same rows, when nothing is left to choose."""
        return Split(self.n_fit + self.n_validation, 0, self.n_test)

    def known(self, errors: Float64[np.ndarray, "... 3"]) -> Float64[np.ndarray, "... 3"]:
        """Errors by kind of row that crossed as numbers, with NaN where there is no such row."""
        return np.where(np.array([self.n_fit, self.n_validation, self.n_test]) > 0, errors, np.nan)

    def errors(self, residual: Float64[np.ndarray, "n"]) -> Float64[np.ndarray, "3"]:
        """Mean squares by kind of row; NaN where there is none."""
        ends = np.cumsum([self.n_fit, self.n_validation])
        parts = np.split(residual, ends)
        return np.array([part @ part / len(part) if len(part) else np.nan for part in parts])


@dataclass(frozen=True)
class Result:
    """What an algorithm arrived at.

    Attributes
    ----------
    names : tuple of str
        The agents.
    algorithm : str
        By which it was learned.
    mean : float
        Intercept: the mean outcome of the rows learned from, or 0.
    beta : ndarray
        ``(D,)`` coefficients of the agents' predictions; of meta-boosting, which has none, zeros.
    iteration : int
        Which iterate it is; 0 is the one before any residual was fitted.
    p : float
        Of eq. (37); 0 for other algorithms than parallel.
    curve : ndarray
        ``(T + 1, 3)`` mean squared errors on the rows learned from, validation and test rows, by iteration.
    power : ndarray
        ``(T + 1, D)`` power of the agents' parts of the prediction: their mean squares about their means.
    step_power : ndarray
        ``(T,)`` of sip and greedy, mean square of each step; else empty.
    split : Split
        Of the rows.
    seen : ndarray
        ``(D,)``, who gave any prediction.
    model : estimator or None
        Of meta-boosting.
    """

    names: tuple[str, ...]
    algorithm: str
    mean: float
    beta: Float64[np.ndarray, "D"]
    iteration: int
    p: float
    curve: Float64[np.ndarray, "t 3"]
    power: Float64[np.ndarray, "t D"]
    step_power: Float64[np.ndarray, "s"]
    split: Split
    seen: np.ndarray
    model: object = None

    @property
    def ensemble(self) -> AgentCombination:
        """What predicts."""
        return AgentCombination(self.names, self.beta, self.mean, self.model)


def judged(errors: Float64[np.ndarray, "... 3"], split: Split) -> Float64[np.ndarray, "..."]:
    """The errors by which iterates are compared: on the validation rows, or where there are none on those learned."""
    return np.asarray(errors[..., 1 if split.n_validation else 0])


def falls(errors: Sequence[float] | Float64[np.ndarray, "t"], patience: int) -> bool:
    """Whether the smallest of some errors is still news: at most `patience` steps old."""
    values = np.asarray(errors, float)
    best, at = np.inf, 0
    for place, value in enumerate(values):
        if value < best * (1 - _FALLS):
            best, at = value, place
    return len(values) - 1 - at < patience
