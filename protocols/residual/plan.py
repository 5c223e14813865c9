"""From rules to a result: choose p and the end on validation rows, learn from all rows, have the agents keep it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float64

from numerics.residual.rules import Result, Rules, Split
from numerics.shared.threads import single_threaded
from protocols.residual.parallel import Parallel
from protocols.residual.payloads import Concluded, Fit, Fitted, Show, Tried, Try
from protocols.residual.sequential import Greedy, Sip
from protocols.residual.single_round import Once
from protocols.wire.payload import Payload, PayloadError

Machine = Parallel | Greedy | Sip | Once
_MACHINES: Mapping[str, type[Machine]] = {"parallel": Parallel, "greedy": Greedy, "sip": Sip}


class Plan:
    """What the fusion center, or the site that plays it, asks the agents, and what it makes of their answers.

    `asks` says what every agent is to be asked now; `take` takes what came back, and the plan goes on; nobody is asked
    anything when it has ended, and `result` is there. The same answers lead to the same result, bit for bit.

    Parameters
    ----------
    names : tuple of str
        The agents, in order.
    y : ndarray
        ``(n,)`` outcomes in the agreed order.
    n_learn : int
        Rows to learn from, the first ones; the others are test rows.
    rules : Rules
        How to learn.
    """

    def __init__(self, names: tuple[str, ...], y: Float64[np.ndarray, "n"], n_learn: int, rules: Rules) -> None:
        self.names, self.y, self.rules = names, y, rules
        self.split = rules.split(len(y), n_learn)
        self.choosing = bool(self.split.n_validation)
        self.machine = _machine(names, y, self.split, rules.looking(self.split))
        self.trial: Result | None = None
        self.result: Result | None = None
        self.concluding: dict[str, Payload] = {}
        self.tries = 0
        self.unkept: tuple[str, ...] = ()

    def asks(self) -> dict[str, Payload]:
        """By agent, what it is to be asked."""
        if self.result is not None:
            return self.concluding
        with single_threaded():
            asks = self.machine.asks()
            if not asks and self.choosing:
                self._learn_from_all()
                asks = self.machine.asks()
            if not asks:
                self._conclude()
                asks = self.concluding
        return asks

    def take(self, answers: Mapping[str, Payload]) -> None:
        """Take the answers to `asks`; of an agent that gave none what it said before stands."""
        if self.result is not None:
            self._concluded(answers)
            return
        with single_threaded():
            self.machine.take(answers)

    def _learn_from_all(self) -> None:
        """The end of the choice: the chosen p and number of iterations once more, now on all rows to learn from."""
        self.choosing = False
        p, iterations = self.machine.chosen()
        self.trial = self.machine.result()
        if not self.rules.refit:
            return
        self.split = self.split.without_validation
        self.machine = _machine(self.names, self.y, self.split, self.rules.fixed(p, iterations))

    def _conclude(self) -> None:
        # What the choice has fixed is not to be chosen anew by the training error.
        fixed = self.trial is not None and self.rules.refit
        self.result = self.machine.result(last=fixed)
        self.concluding = self.machine.concluding(self.result) if self.rules.keep else {}

    def _concluded(self, answers: Mapping[str, Payload]) -> None:
        """Ask once more who did not say that it has kept its model; then name those who have a part and have not."""
        assert self.result is not None
        kept = {name for name, each in answers.items() if isinstance(each, Concluded) and each.kept}
        self.tries += 1
        left = {name: ask for name, ask in self.concluding.items() if name not in kept}
        self.unkept = tuple(name for name in left if self._has_part(name))
        # Who answered that it has no place to keep a model in has none the second time either.
        self.concluding = {name: ask for name, ask in left.items() if name not in answers} if self.tries == 1 else {}

    def _has_part(self, name: str) -> bool:
        assert self.result is not None
        return bool(self.result.seen[self.result.names.index(name)]) and self.result.ensemble.uses(name)

    @property
    def newest(self) -> Float64[np.ndarray, "3"]:
        """Mean squared errors of the newest ensemble, by kind of row; NaN where none is known."""
        curve = getattr(self.machine, "curve", np.full((1, 3), np.nan))
        flat = curve[0] if curve.ndim == 3 else curve
        known = np.flatnonzero(np.isfinite(flat[:, 0]))
        newest: Float64[np.ndarray, "3"] = flat[known[-1]] if len(known) else np.full(3, np.nan)
        return newest

    def check(self, name: str, ask: Payload, answer: Payload) -> None:
        """Refuse an answer whose shape is not that of its ask.

        Raises
        ------
        PayloadError
        """
        if isinstance(answer, Concluded):
            return
        n_fit, n_held, columns = self.machine.expected(name)
        if isinstance(ask, Fit | Show) and isinstance(answer, Fitted):
            expected: dict[str, tuple[int, ...]] = {"fitted": (n_fit, columns), "held": (n_held, columns)}
        elif isinstance(ask, Try) and isinstance(answer, Tried):
            if answer.error < 0:
                raise PayloadError(answer.title(), "error", "is a sum of squares, and negative")
            rides = answer.error < ask.bar
            expected = {"fitted": (n_fit if rides else 0,), "held": (n_held if rides else 0,)}
        else:
            raise PayloadError(answer.title(), "payload", f"is not the answer to {ask.title()}")
        for field, shape in expected.items():
            if (got := getattr(answer, field).shape) != shape:
                raise PayloadError(answer.title(), field, f"expected shape {shape}, got {got}")


def _machine(names: tuple[str, ...], y: Float64[np.ndarray, "n"], split: Split, rules: Rules) -> Machine:
    return _MACHINES.get(rules.algorithm, Once)(names, y, split, rules)
