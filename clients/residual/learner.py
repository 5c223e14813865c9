"""An agent's fits of a run: on which rows, by which method, and which of its steps may count."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float64, Int64

from clients.digest import digest_of
from clients.memory import CONCLUDED
from clients.residual.agents import Agent, AgentError, fit_agent, parse_agent, predict
from clients.residual.model_store import dump, restore
from clients.site import Site
from numerics.residual.columns_and_outcomes import Columns
from numerics.residual.rules import MOST_STEPS
from numerics.shared.threads import single_threaded
from protocols.residual.payloads import Order
from protocols.wire.faults import Fault, SiteFault

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

ROWS = "rows"
"""Of the memory: places of the common entities among the site's rows, in the agreed order."""
_ABOUT, _DIGEST, _DIGEST_Y = "about", "digest", "digest-outcome"
_PENDING, _PENDING_ABOUT = "pending", "pending-about"
_KEPT_STEP = "step-"


def own_agent(site: Site, asked: str) -> Agent:
    """The site's own method, or the run's. Only the site itself, or a simulation, may name a class of scikit-learn."""
    own = str(site.config.get("agent", ""))
    try:
        return parse_agent(own or asked, dotted=bool(own) or site.policy.trusts_center)
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
    holder : str
        The site that holds the outcome; empty: the fusion center does, or nobody told.
    sealed : bool
        Whether what it is asked comes sealed.
    digest : tuple of int
        Of `x`.
    """

    site: Site
    agent: Agent
    x: Float64[np.ndarray, "n p"]
    min_leaf: int
    holder: str
    sealed: bool
    digest: tuple[int, ...]

    @classmethod
    def begin(cls, site: Site, order: Order) -> None:
        """Remember an order."""
        own_agent(site, order.agent)  # one that cannot be read is refused before anything is fitted
        # A site may want larger leaves than the run: rows of one leaf are what its predictions do not tell apart.
        least = max(order.min_leaf, site.consents.number("min-leaf", 1))
        about = {"agent": order.agent, "min_leaf": least, "holder": order.holder, "sealed": bool(order.names)}
        columns: Columns = site.shard
        memory = site.memory
        same = ROWS not in memory or (np.array_equal(memory[ROWS], order.rows) and _from_bytes(memory[_ABOUT]) == about)
        if not (site.commitments.keeps(f"order {site.lane}", order.rows, about) and same):
            raise SiteFault(
                Fault.MALFORMED_ASK, "another order was agreed on: sums over other rows would tell of single ones"
            )
        if ROWS in memory:
            return  # told once more, since its answer was lost; what the rows are to be stays as it was
        memory[ROWS] = order.rows
        memory[_ABOUT] = _as_bytes(about)
        memory[_DIGEST] = np.array(digest_of(columns.x[order.rows]))
        if columns.y is not None:
            memory[_DIGEST_Y] = np.array(digest_of(columns.y[order.rows]))

    @classmethod
    def of(cls, site: Site) -> Learner:
        """The agent of a site that has been told the order."""
        rows, memory = agreed_rows(site), site.memory
        about = _from_bytes(memory[_ABOUT])
        columns: Columns = site.shard
        if rows.max(initial=-1) >= columns.n:
            raise SiteFault(Fault.DATA_CHANGED, f"there are {columns.n} rows now")
        x = columns.x[rows]
        digest = tuple(digest_of(x))
        # A file may be written anew while a run is under way; its rows would stand for other entities.
        same = list(digest) == memory[_DIGEST].tolist()
        if columns.y is not None:
            same = same and digest_of(columns.y[rows]) == memory.get(_DIGEST_Y, np.zeros(0)).tolist()
        if not same:
            raise SiteFault(Fault.DATA_CHANGED, "the agreed rows are not what they were")
        agent = own_agent(site, about["agent"])
        return cls(site, agent, x, int(about["min_leaf"]), str(about["holder"]), bool(about["sealed"]), digest)

    @classmethod
    def in_the_clear(cls, site: Site) -> Learner:
        """As `of`, where the fusion center itself asks: of a run whose asks come sealed it is told nothing."""
        learner = cls.of(site)
        if learner.sealed:
            raise SiteFault(Fault.SEALED_ONLY, "the run is sealed, and this ask was not")
        return learner

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
        return int(self.site.rng_of(self.digest).integers(2**31))

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

    def step(
        self, residual: np.ndarray, add: float, steps: int, number: int, *, keep: bool
    ) -> Float64[np.ndarray, "n"]:
        """One step of a sum, and what it adds to the predictions of all rows."""
        models, total = self._models(residual, add, steps)
        if keep:
            self._remember(number, add, models)
        return total

    # -- attempts that may not count ----------------------------------------------------------------------------------

    def attempt(
        self, residual: np.ndarray, add: float, steps: int, number: int, *, keep: bool
    ) -> Float64[np.ndarray, "n"]:
        """What a step would add to the predictions of all rows; it counts when it is accepted."""
        memory = self.site.memory
        memory[_PENDING] = residual
        memory[_PENDING_ABOUT] = _as_bytes({"add": add, "steps": steps, "number": number, "keep": keep})
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
        if about is not None and about["number"] == number and about["keep"]:
            self._remember(number, about["add"], self._models(pending, about["add"], about["steps"])[0])

    def _pending(self) -> tuple[np.ndarray, dict[str, Any] | None]:
        memory = self.site.memory
        if _PENDING not in memory:
            return np.zeros(0), None
        return memory[_PENDING], _from_bytes(memory[_PENDING_ABOUT])

    # -- what counts --------------------------------------------------------------------------------------------------

    def _remember(self, number: int, add: float, models: Sequence[BaseEstimator]) -> None:
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


def agreed_rows(site: Site) -> Int64[np.ndarray, "n"]:
    """Places of the common entities among the site's rows."""
    if ROWS not in site.memory:
        raise SiteFault(Fault.STALE_MEMORY, "the agreed order of the rows is not in the memory")
    return site.memory[ROWS]


def forget(site: Site, *, kept: bool = False) -> None:
    """Forget the run, private key and residuals too: with what is left, nothing recorded of it can be opened.

    That it is over stays, lest it begin anew with rows of another choice: nobody would see that from one run.
    """
    for name in list(site.memory):
        del site.memory[name]
    site.memory[CONCLUDED] = np.array(kept)
    site.commitments.count(f"{CONCLUDED} {site.lane}", 1)


def is_over(site: Site) -> bool:
    """Whether the run has been concluded here, under whatever name of a session the center goes on."""
    return CONCLUDED in site.memory or site.commitments.count(f"{CONCLUDED} {site.lane}", 0) > 0


def _as_bytes(about: dict[str, Any]) -> np.ndarray:
    return np.frombuffer(json.dumps(about).encode(), np.uint8)


def _from_bytes(data: np.ndarray) -> dict[str, Any]:
    return dict(json.loads(data.tobytes()))
