"""Settings of learning, use of the rows, stopping, and the result, for all algorithms."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

import numpy as np
from jaxtyping import Bool, Float64

from numerics.residual.agent_combination import AgentCombination, ClassScores
from numerics.residual.alone import Alone
from numerics.residual.bins import MOST_BINS
from numerics.residual.split import Split

ALGORITHMS = ("boosted", "bins", "parallel", "greedy", "sip", "average", "meta-linear", "meta-boosting")

MOST_ROUNDS, MOST_POWERS = 100_000, 12
"""Most iterations (times the steps of one) and most candidates of p in a run."""

LARGEST_OUTCOME = 1e15
"""Largest absolute outcome: sums of larger squares would lose too many digits."""

FEWEST_ROWS = 5
"""Fewest rows over which a site sends a mean square to a center that only relays."""

STOPS = ("rounds", "train", "held-out")

MOST_CLASSES = 100
"""Most classes of an outcome."""

MOST_STEPS = 1000
"""Most fits in one ask: a fusion center must not keep a site busy forever."""

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
    "bins": (int, 2, MOST_BINS),
    "epsilon": (float, 0.0, 100.0),
    "n_classes": (int, 0, MOST_CLASSES),
}
"""Type, smallest and largest value of each numeric rule."""

_FLAGS = ("search", "intercept", "refit", "keep", "robust", "baselines", "balanced")

_LEAST_DECREASE = 1e-4
"""Relative decrease from which an error counts as smaller."""


@dataclass(frozen=True)
class Rules:
    """Settings of learning (protocols/residual/settings.py has the meaning and range of each key).

    Attributes
    ----------
    algorithm : str
        One of `ALGORITHMS`.
    powers : tuple of float
        Candidates of p (eq. 37); the best on the validation rows is chosen.
    search : bool
        Whether Algorithm 4 determines the length of a parallel step.
    rounds : int
        Most iterations.
    stop : str
        One of `STOPS`.
    patience : int
        Iterations without a smaller error after which learning stops.
    shrinkage : float
        nu of boosted, sip and greedy, above 0.
    steps : int
        Steps of an agent in one ask of sip and greedy.
    ridge : float
        lambda of eq. (35), relative.
    intercept : bool
        Whether the mean is subtracted from the outcomes.
    idle_share : float
        Share of the power below which `parallel` no longer asks an agent.
    validation : float
        Share of the rows to learn from that are validation rows.
    refit : bool
        Whether the agents learn again from all these rows after the choice.
    min_leaf : int
        Smallest leaf of the trees of meta-boosting.
    keep : bool
        Whether the agents store their models.
    robust : bool
        Whether agents that raise the error on validation rows are left out.
    baselines : bool
        Whether each agent also predicts the test rows by its own columns alone, to compare with.
    bins : int
        Most bins of a column, where sites give bins.
    epsilon : float
        eps of randomized response for each column of bins; 0: none.
    n_classes : int
        Number of classes of the outcome; 0: it is an amount.
    balanced : bool
        Whether rows are weighted so that all classes have the same total weight.

    Examples
    --------
    >>> Rules(algorithm="greedy", shrinkage=0.1).split(n=120, n_learn=100)
    Split(n_fit=75, n_validation=25, n_test=20)
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
    robust: bool = False
    baselines: bool = False
    bins: int = 32
    epsilon: float = 0.0
    n_classes: int = 0
    balanced: bool = False

    def to_json(self) -> str:
        """Return the rules as text, for a site that does the arithmetic of the fusion center."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Rules:
        """Read rules from a text of `to_json`.

        Raises
        ------
        ValueError
            If the text is something else, or a rule has another type or is out of range.
        """
        try:
            content = json.loads(text)
            rules = cls(**{**content, "powers": tuple(content["powers"])})
        except (TypeError, KeyError, RecursionError) as error:
            raise ValueError("no rules") from error
        if not rules._is_valid():
            raise ValueError("out of range")
        return rules

    def _is_valid(self) -> bool:
        if type(self.rounds) is not int or type(self.steps) is not int or self.rounds * self.steps > MOST_ROUNDS:
            return False
        numbers = [(getattr(self, name), range_) for name, range_ in _RANGES.items()]
        numbers += [(p, _POWER_RANGE) for p in self.powers]
        return (
            self.algorithm in ALGORITHMS
            and self.n_classes != 1
            and (self.boosts or not self.n_classes)
            and self.stop in STOPS
            and 0 < len(self.powers) <= MOST_POWERS
            and all(type(getattr(self, name)) is bool for name in _FLAGS)
            and all(type(value) in (kind, int) and low <= value <= high for value, (kind, low, high) in numbers)
        )

    @property
    def boosts(self) -> bool:
        """Whether small trees are added up and finished, with validation rows from beginning to end."""
        return self.algorithm in ("boosted", "bins")

    @property
    def chooses(self) -> bool:
        """Whether validation rows decide about p, the number of iterations, or who takes part."""
        several = self.algorithm == "parallel" and len(self.powers) > 1
        held_out = self.stop == "held-out" and self.algorithm in ("parallel", "greedy", "sip")
        return self.robust or several or held_out or self.boosts

    @property
    def refits(self) -> bool:
        """Whether agents learn again after the choice; boosting needs validation rows from beginning to end."""
        return self.refit and not self.boosts

    def split(self, n: int, n_learn: int) -> Split:
        """Split n rows, the first `n_learn` of them to learn from; validation rows only if they decide anything."""
        n_validation = round(self.validation * n_learn) if self.chooses else 0
        return Split(n_learn - n_validation, n_validation, n - n_learn)

    def for_choice(self, split: Split) -> Rules:
        """Return the rules of the first fit, which stores no models if it only chooses p and the iterations."""
        return replace(self, keep=self.keep and not (split.n_validation and self.refits))

    def for_refit(self, p: float, iterations: int) -> Rules:
        """Return the rules of the fit to all rows, with the chosen p and number of iterations."""
        return replace(self, powers=(p,), rounds=iterations, stop="rounds")

    def mean_of(self, y: Float64[np.ndarray, "n"]) -> float:
        """Return the intercept, from the outcomes of the training rows."""
        return float(y.mean()) if self.intercept else 0.0

    def continues(self, errors: Float64[np.ndarray, "t 3"], split: Split, patience: int) -> bool:
        """Return whether another iteration follows; `errors` by kind of row, from iteration 0 on."""
        if len(errors) > self.rounds:
            return False
        deciding = errors[:, 0] if self.stop == "train" else selection_error(errors, split)
        return self.stop == "rounds" or still_falls(deciding, patience)


@dataclass(frozen=True, eq=False)
class Without:
    """What each agent contributes, by kind of row: training, validation, test.

    Attributes
    ----------
    errors : ndarray
        ``(D, 3)`` mean squared errors without each agent, the others combined anew; NaN for a kind without rows.
    harm : ndarray
        ``(D, 3)`` by how much an agent raises the mean squared error beyond what chance explains: the mean difference
        over the rows less three of its standard errors. -inf for a kind with fewer than two rows.
    """

    errors: Float64[np.ndarray, "D 3"]
    harm: Float64[np.ndarray, "D 3"]


@dataclass(frozen=True)
class LearningResult:
    """Combination of agents that an algorithm has chosen, and its learning curve.

    Attributes
    ----------
    names : tuple of str
        The D agents.
    algorithm : str
        One of `ALGORITHMS`.
    mean : float
        Intercept: the mean outcome of the training rows, or 0.
    beta : ndarray
        ``(D,)`` coefficients of the agents' predictions; zeros for meta-boosting, which has none; of boosting, 1 for an
        agent with a step.
    iteration : int
        Number of the chosen iterate; 0 is the one before any residual was fitted.
    p : float
        p of eq. (37); 0 for other algorithms than parallel.
    curve : ndarray
        ``(T + 1, 3)`` mean squared errors on training, validation and test rows, by iteration.
    power : ndarray
        ``(T + 1, D)`` variances of the agents' parts of the prediction, by iteration.
    step_power : ndarray
        ``(T,)`` mean squares of the steps of sip and greedy; else empty.
    split : Split
        Use of the rows.
    seen : ndarray
        ``(D,)`` agents that gave any prediction.
    model : estimator or None
        Model of meta-boosting, or of the finish of boosting.
    without : Without or None
        Errors without each agent; None: unknown.
    left_out : tuple of str
        Agents that raised the error on validation rows, and were left out from then on.
    weights : ndarray or None
        ``(k,)`` coefficients of the steps of boosting, agent by agent; None for other algorithms.
    widths : tuple of int
        Each agent's number of these steps, or of its columns of bins; empty for other algorithms.
    levels : tuple of int
        As in `AgentCombination`.
    own_site, own_share
        As in `AgentCombination`.
    epsilons : tuple of float
        Each agent's eps of randomized response to its bins, 0 without any; empty where no site has given bins.
    left : ndarray
        ``(n_test,)`` outcomes of the test rows minus their predictions; for classes, the probabilities of the rows' own
        classes; empty: unknown.
    alone : Alone or None
        Errors of the agents alone on the test rows; None: unknown.
    classes : ClassScores or None
        As in `AgentCombination`.
    probabilities : ndarray
        ``(n_test, k)`` predicted probabilities of the test rows; empty for amounts, or if they are unknown.
    scores : ndarray
        ``(1 + agents alone, 12)`` values and standard errors of `numerics.shared.classification.SCORES` on the test
        rows, first together, then of each agent of `alone`; -1 where one is not defined. Empty for amounts.
    threshold : float
        Probability of the second of two classes from which on it is predicted, by the validation rows; else -1.
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
    seen: Bool[np.ndarray, "D"]
    model: object = None
    without: Without | None = None
    left_out: tuple[str, ...] = ()
    weights: Float64[np.ndarray, "k"] | None = None
    widths: tuple[int, ...] = ()
    levels: tuple[int, ...] = ()
    own_site: str = ""
    own_share: float = 0.0
    epsilons: tuple[float, ...] = ()
    left: Float64[np.ndarray, "n_test"] = field(default_factory=lambda: np.zeros(0))
    alone: Alone | None = None
    classes: ClassScores | None = None
    probabilities: Float64[np.ndarray, "n_test k"] = field(default_factory=lambda: np.zeros((0, 0)))
    scores: Float64[np.ndarray, "ways scores"] = field(default_factory=lambda: np.zeros((0, 0)))
    threshold: float = -1.0

    @property
    def combination(self) -> AgentCombination:
        """Combination that predicts other rows."""
        beta = self.beta if self.weights is None else self.weights
        own = (self.own_site, self.own_share, self.classes)
        return AgentCombination(self.names, beta, self.mean, self.model, self.widths, self.levels, *own)


def selection_error(errors: Float64[np.ndarray, "... 3"], split: Split) -> Float64[np.ndarray, "..."]:
    """Return the errors by which iterates are compared: on the validation rows, or without these on the training rows.

    Examples
    --------
    >>> selection_error(np.array([[0.1, 0.3, 0.2], [0.2, 0.2, 0.2]]), Split(60, 20, 20))
    array([0.3, 0.2])
    """
    return np.asarray(errors[..., 1 if split.n_validation else 0])


def still_falls(errors: Sequence[float] | Float64[np.ndarray, "t"], patience: int) -> bool:
    """Return whether the smallest error is less than `patience` iterations old.

    Examples
    --------
    >>> still_falls([3.0, 2.0, 2.5, 2.4], patience=3), still_falls([3.0, 2.0, 2.5, 2.4], patience=2)
    (True, False)
    """
    values = np.asarray(errors, float)
    best, iteration = np.inf, 0
    for number, value in enumerate(values):
        if value < best * (1 - _LEAST_DECREASE):
            best, iteration = value, number
    return len(values) - 1 - iteration < patience
