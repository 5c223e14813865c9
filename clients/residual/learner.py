"""An agent's fits of a run: on which rows, by which method, and which of its steps may count."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64
from sklearn.base import BaseEstimator

from clients.residual.agents import Agent, AgentError, fit_agent, parse_agent, predict
from clients.residual.keep import dump, restore
from clients.site import Site
from numerics.columns import Columns
from numerics.residual.rules import MOST_STEPS
from numerics.threads import single_threaded
from protocols.faults import Fault, SiteFault
from protocols.residual import Order

ROWS = "rows"
"""Of the memory: places of the common entities among the site's rows, in the agreed order."""
_ABOUT, _PENDING, _PENDING_ABOUT = "about", "pending", "pending-about"
_KEPT_STEP = "step-"


def own_agent(site: Site, asked: str) -> Agent:
    """The site's own method, or the run's. Only the site itself, or a simulation, may name a class of scikit-learn."""
    own = str(site.config.get("agent", ""))
    try:
        return parse_agent(own or asked, dotted=bool(own) or site.simulated)
    except AgentError as error:
        raise SiteFault(Fault.BAD_AGENT, str(error)) from error


@dataclass
class Learner:
    """An agent with the rows that were agreed on.

    Attributes
    ----------
    site : Site
        Whose it is.
    agent : Agent
        Its method.
    x : ndarray
        ``(n, p)`` its columns, in the agreed order.
    min_leaf : int
        Fewest rows in a leaf.
    keep : bool
        Whether its model will be wanted later.
    """

    site: Site
    agent: Agent
    x: Float64[np.ndarray, "n p"]
    min_leaf: int
    keep: bool

    @classmethod
    def begin(cls, site: Site, order: Order) -> None:
        """Remember an order."""
        own_agent(site, order.agent)  # one that cannot be read is refused before anything is fitted
        site.memory[ROWS] = order.rows
        about = {"agent": order.agent, "min_leaf": order.min_leaf, "keep": order.keep}
        site.memory[_ABOUT] = _as_bytes(about)

    @classmethod
    def of(cls, site: Site) -> Learner:
        """The agent of a site that has been told the order."""
        memory = site.memory
        if ROWS not in memory:
            raise SiteFault(Fault.STALE_MEMORY, "the agreed order of the rows is not in the memory")
        about = _from_bytes(memory[_ABOUT])
        columns: Columns = site.shard
        # A site may want larger leaves than the run: rows of one leaf are what its predictions do not tell apart.
        min_leaf = max(int(about["min_leaf"]), int(site.config.get("min-leaf", 1)))
        return cls(site, own_agent(site, about["agent"]), columns.x[memory[ROWS]], min_leaf, bool(about["keep"]))

    # -- fits ---------------------------------------------------------------------------------------------------------

    def model(self, target: np.ndarray) -> BaseEstimator:
        """The method fitted to numbers of the first rows; the same numbers always give the same model."""
        n = len(target)
        if not 0 < n <= len(self.x):
            raise SiteFault(Fault.MALFORMED_ASK, f"{n} numbers to fit, {len(self.x)} rows were agreed on")
        try:
            return fit_agent(self.agent, self.x[:n], target.astype(np.float64), min_leaf=self.min_leaf, seed=self._seed)
        except AgentError as error:
            raise SiteFault(Fault.BAD_AGENT, str(error)) from error

    @cached_property
    def _seed(self) -> int:
        # Of the agreed rows: neither the order of a file may matter, nor whether the outcome is in it.
        return int(self.site.rng_of(self.x).integers(2**31))

    def fit(self, targets: np.ndarray) -> Float64[np.ndarray, "n c"]:
        """Predictions of all rows by a fit to each column."""
        if targets.shape[1] > MOST_STEPS:
            raise SiteFault(Fault.MALFORMED_ASK, f"more than {MOST_STEPS} fits in one ask")
        with single_threaded():
            fitted = [predict(self.model(column), self.x) for column in targets.T]
        return np.stack(fitted, axis=1) if fitted else np.zeros((len(self.x), 0))

    def _models(self, residual: np.ndarray, add: float, steps: int) -> tuple[list[BaseEstimator], np.ndarray]:
        """Models of consecutive steps on a residual, and the sum of what they predict times `add`."""
        if not 1 <= steps <= MOST_STEPS:
            raise SiteFault(Fault.MALFORMED_ASK, f"{steps} steps in one ask; 1 to {MOST_STEPS} are taken")
        n = len(residual)
        left, total = residual.astype(np.float64), np.zeros(len(self.x))
        models = []
        with single_threaded():
            for _ in range(steps):
                models.append(self.model(left))
                step = add * predict(models[-1], self.x)
                total, left = total + step, left - step[:n]
        return models, total

    def step(self, residual: np.ndarray, add: float, steps: int, number: int) -> Float64[np.ndarray, "n"]:
        """One step of a sum, and what it adds to the predictions of all rows."""
        models, total = self._models(residual, add, steps)
        self._remember(number, add, models)
        return total

    # -- attempts that may not count ----------------------------------------------------------------------------------

    def attempt(self, residual: np.ndarray, add: float, steps: int, number: int) -> Float64[np.ndarray, "n"]:
        """What a step would add to the predictions of all rows; it counts when it is accepted."""
        memory = self.site.memory
        memory[_PENDING] = residual
        memory[_PENDING_ABOUT] = _as_bytes({"add": add, "steps": steps, "number": number})
        return self._models(residual, add, steps)[1]

    def last_attempt(self) -> tuple[int, np.dtype[Any], Float64[np.ndarray, "n"]]:
        """Rows fitted, type of the numbers asked about, and predictions of the last attempt."""
        pending, about = self._pending()
        if about is None:
            raise SiteFault(Fault.STALE_MEMORY, "the last attempt is not in the memory")
        return len(pending), pending.dtype, self._models(pending, about["add"], about["steps"])[1]

    def accept(self, number: int) -> None:
        """Let the last attempt count, if it has this number."""
        pending, about = self._pending()
        if about is not None and about["number"] == number and self.keep:
            self._remember(number, about["add"], self._models(pending, about["add"], about["steps"])[0])

    def _pending(self) -> tuple[np.ndarray, dict[str, Any] | None]:
        memory = self.site.memory
        if _PENDING not in memory:
            return np.zeros(0), None
        return memory[_PENDING], _from_bytes(memory[_PENDING_ABOUT])

    # -- what counts --------------------------------------------------------------------------------------------------

    def _remember(self, number: int, add: float, models: Sequence[BaseEstimator]) -> None:
        if not self.keep:
            return
        memory = self.site.memory
        for name in [name for name in memory if name.startswith(f"{_KEPT_STEP}{number}/")]:
            del memory[name]
        for place, model in enumerate(models):
            memory[f"{_KEPT_STEP}{number}/{place}/{add!r}"] = np.frombuffer(dump(model), np.uint8)

    def steps_of(self, numbers: Int64[np.ndarray, "steps"]) -> tuple[tuple[float, BaseEstimator], ...]:
        """Coefficient and model of every step of these numbers."""
        for number in numbers.tolist():
            self.accept(number)
        found: dict[int, list[tuple[int, float, BaseEstimator]]] = {}
        wanted = set(numbers.tolist())
        for name in self.site.memory:
            if name.startswith(_KEPT_STEP):
                number, place, add = name.removeprefix(_KEPT_STEP).split("/")
                if int(number) in wanted:
                    model = restore(self.site.memory[name].tobytes())
                    found.setdefault(int(number), []).append((int(place), float(add), model))
        if set(found) != wanted:
            raise SiteFault(Fault.STALE_MEMORY, "a step that counts is not in the memory")
        in_order = [sorted(found[number], key=lambda each: each[0]) for number in sorted(found)]
        return tuple((add, model) for steps in in_order for _, add, model in steps)

    def forget(self) -> None:
        """Forget what was learnt on the way."""
        for name in list(self.site.memory):
            if name.startswith(_KEPT_STEP) or name in (_PENDING, _PENDING_ABOUT):
                del self.site.memory[name]


def _as_bytes(about: dict[str, Any]) -> np.ndarray:
    return np.frombuffer(json.dumps(about).encode(), np.uint8)


def _from_bytes(data: np.ndarray) -> dict[str, Any]:
    return dict(json.loads(data.tobytes()))
