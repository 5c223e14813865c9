"""An agent in a run: its rows, its method, its fits, and the steps that count."""

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
from clients.residual.group_store import group_values
from clients.residual.methods import MethodError, fit_method, parse_method, predict
from clients.residual.model_store import dump, restore
from clients.site import Site
from numerics.residual.chosen_boosting import Boosting, choose_boosting
from numerics.residual.columns_and_outcomes import Columns
from numerics.residual.rules import MOST_CLASSES, MOST_STEPS
from numerics.shared.candidates import Candidate
from numerics.shared.classes import balancing_weights
from numerics.shared.folds import Persons, of_rows
from numerics.shared.threads import single_threaded
from numerics.shared.value_groups import ValueGroups
from protocols.residual.payloads import Order
from protocols.wire.faults import Fault, SiteFault

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

FEWEST_EQUAL = 10
"""Fewest rows of a group of values that a real site treats as equal, unless its policy demands more (min-rows).
docs/residual.md, "A center that lies", has its cost."""
ROWS = "rows"
"""Name in the memory: places of the common entities among the site's rows, in the order of the run."""
_ABOUT, _DIGEST, _DIGEST_Y = "about", "digest", "digest-outcome"
_PENDING, _PENDING_ABOUT = "pending", "pending-about"
_KEPT_STEP = "step-"


def own_method(site: Site, default: str) -> Candidate:
    """Return the site's own method, or the run's; only the site itself, or a simulation, may name any estimator."""
    own = str(site.config.get("agent", ""))
    try:
        return parse_method(own or default, dotted=bool(own) or site.simulated)
    except MethodError as error:
        raise SiteFault(Fault.BAD_AGENT, str(error)) from error


@dataclass
class Agent:
    """An agent and the rows of its run.

    Attributes
    ----------
    site : Site
        Its site.
    method : Candidate
        Its method.
    x : ndarray
        ``(n, p)`` its columns as fits see them, in the order of the run: at a real site with `groups` applied.
    min_leaf : int
        Fewest rows in a leaf.
    holder : str
        The site that holds the outcome; empty: the fusion center.
    sealed : bool
        Whether its asks come sealed.
    groups : ValueGroups or None
        Groups of values that no fit tells apart, whatever the fusion center asks; None in a simulation.
    person : ndarray or None
        ``(n,)`` persons of the rows; None: every row is of another person.
    """

    site: Site
    method: Candidate
    x: Float64[np.ndarray, "n p"]
    min_leaf: int
    holder: str
    sealed: bool
    groups: ValueGroups | None = None
    person: Persons = None

    @classmethod
    def begin(cls, site: Site, order: Order) -> None:
        """Store the order of the rows in the site's memory.

        Raises
        ------
        SiteFault
            If the method cannot be read, or the site has another order of this run.
        """
        own_method(site, order.agent)
        # A site may want larger leaves than the run, since its predictions do not tell rows of one leaf apart.
        min_leaf = max(order.min_leaf, site.consents.number("min-leaf", 1))
        about = {"agent": order.agent, "min_leaf": min_leaf, "holder": order.holder, "sealed": bool(order.names)}
        columns: Columns = site.shard
        memory = site.memory
        same = ROWS not in memory or (np.array_equal(memory[ROWS], order.rows) and _from_bytes(memory[_ABOUT]) == about)
        if not (site.commitments.keeps(f"order {site.lane}", order.rows, about) and same):
            raise SiteFault(
                Fault.MALFORMED_ASK, "another order was agreed on: sums over other rows would tell of single ones"
            )
        if ROWS in memory:
            return  # the answer to the first order was lost; the digests stay as they were
        memory[ROWS] = order.rows
        memory[_ABOUT] = _as_bytes(about)
        memory[_DIGEST] = np.array(digest_of(_inputs(site, order.rows)[0]))
        if columns.y is not None:
            memory[_DIGEST_Y] = np.array(digest_of(columns.y[order.rows]))

    @classmethod
    def of(cls, site: Site) -> Agent:
        """Return the agent of a site that has the order of the rows.

        Raises
        ------
        SiteFault
            If the site has no order, or its rows have changed since.
        """
        rows, memory = agreed_rows(site), site.memory
        about = _from_bytes(memory[_ABOUT])
        columns: Columns = site.shard
        if rows.max(initial=-1) >= columns.n:
            raise SiteFault(Fault.DATA_CHANGED, f"there are {columns.n} rows now")
        x, groups = _inputs(site, rows)
        # If the file is replaced during a run, its rows may be other entities.
        same = digest_of(x) == memory[_DIGEST].tolist()
        if columns.y is not None:
            same = same and digest_of(columns.y[rows]) == memory.get(_DIGEST_Y, np.zeros(0)).tolist()
        if not same:
            raise SiteFault(Fault.DATA_CHANGED, "the agreed rows are not what they were")
        method = own_method(site, about["agent"])
        holder, sealed = str(about["holder"]), bool(about["sealed"])
        person = of_rows(columns.person, rows)
        return cls(site, method, x, int(about["min_leaf"]), holder, sealed, groups, person)

    @classmethod
    def in_the_clear(cls, site: Site) -> Agent:
        """Return the agent as `of` does, for an ask in the clear; raises a fault in a sealed run."""
        agent = cls.of(site)
        if agent.sealed:
            raise SiteFault(Fault.SEALED_ONLY, "the run is sealed, and this ask was not")
        return agent

    # -- fits ---------------------------------------------------------------------------------------------------------

    def model(self, target: np.ndarray) -> BaseEstimator:
        """Fit the method to targets of the first rows; the same targets always give the same model."""
        return self._fitted(self.method, target, self.min_leaf)

    def boosted_alone(self, target: np.ndarray, n_fit: int, n_classes: int, *, balanced: bool) -> Boosting:
        """Boost trees on all columns, whatever the method; the same targets always give the same model.

        Parameters as of `Compare`.

        Raises
        ------
        SiteFault
            If the numbers do not fit the rows, or are no places of classes.
        """
        n, leaf = len(target), self.site.consents.number("min-leaf", 1)
        if not 0 < n_fit <= n <= len(self.x):
            raise SiteFault(Fault.MALFORMED_ASK, f"{n_fit} of {n} numbers to fit, {len(self.x)} rows were agreed on")
        y = target.astype(np.float64)
        if n_classes and not (1 < n_classes <= MOST_CLASSES and np.isin(y, np.arange(n_classes)).all()):
            raise SiteFault(Fault.MALFORMED_ASK, f"the numbers are not places of {n_classes} classes")
        weights = balancing_weights(y.astype(np.int64), n_fit, n_classes) if balanced and n_classes else None
        with single_threaded():
            return choose_boosting(self.x[:n], y, n_fit, n_classes=n_classes, weights=weights, min_leaf=leaf)

    def _fitted(self, method: Candidate, target: np.ndarray, min_leaf: int) -> BaseEstimator:
        n = len(target)
        if not 0 < n <= len(self.x):
            raise SiteFault(Fault.MALFORMED_ASK, f"{n} numbers to fit, {len(self.x)} rows were agreed on")
        try:
            return fit_method(
                method, self.x[:n], target.astype(np.float64), min_leaf=min_leaf, seed=self._seed,
                person=of_rows(self.person, np.arange(n)),
            )  # fmt: skip
        except MethodError as error:
            raise SiteFault(Fault.BAD_AGENT, str(error)) from error

    @cached_property
    def _seed(self) -> int:
        # From the rows in their common order: the order in the file does not matter, nor an outcome among the columns.
        # Of a real site from the groups: draws by the values would let a center test guesses of them.
        return int(self.site.rng_of(digest_of(self.x)).integers(2**31))

    def fit(self, targets: np.ndarray) -> Float64[np.ndarray, "n c"]:
        """Fit each column of targets, and return the predictions of all rows."""
        if targets.shape[1] > MOST_STEPS:
            raise SiteFault(Fault.MALFORMED_ASK, f"more than {MOST_STEPS} fits in one ask")
        with single_threaded():
            predictions = [predict(self.model(column), self.x) for column in targets.T]
        return np.stack(predictions, axis=1) if predictions else np.zeros((len(self.x), 0))

    def _models(self, residual: np.ndarray, add: float, steps: int) -> tuple[list[BaseEstimator], np.ndarray]:
        """Return the models of consecutive steps on a residual, and `add` times the sum of their predictions."""
        if not 1 <= steps <= MOST_STEPS:
            raise SiteFault(Fault.MALFORMED_ASK, f"{steps} steps in one ask; 1 to {MOST_STEPS} are taken")
        n = len(residual)
        remainder, total = residual.astype(np.float64), np.zeros(len(self.x))
        models = []
        with single_threaded():
            for _ in range(steps):
                models.append(self.model(remainder))
                step = add * predict(models[-1], self.x)
                total, remainder = total + step, remainder - step[:n]
        return models, total

    def step(
        self, residuals: np.ndarray, add: float, steps: int, number: int, *, keep: bool
    ) -> Float64[np.ndarray, "n c"]:
        """Take a step on each residual that counts, and return its predictions of all rows; parameters as of `Fit`."""
        if not 0 < residuals.shape[1] * steps <= MOST_STEPS:
            raise SiteFault(Fault.MALFORMED_ASK, f"more than {MOST_STEPS} fits in one ask, or none")
        each = [self._models(residual, add, steps) for residual in residuals.T]
        if keep:
            self._store(number, add, [model for models, _ in each for model in models])
        return np.stack([total for _, total in each], axis=1)

    # -- attempts: steps that count only once they are accepted -------------------------------------------------------

    def attempt(
        self, residual: np.ndarray, add: float, steps: int, number: int, *, keep: bool
    ) -> Float64[np.ndarray, "n"]:
        """Try a step, and return its predictions of all rows; parameters as of `Try`."""
        memory = self.site.memory
        memory[_PENDING] = residual
        memory[_PENDING_ABOUT] = _as_bytes({"add": add, "steps": steps, "number": number, "keep": keep})
        return self._models(residual, add, steps)[1]

    def last_attempt(self) -> tuple[int, np.dtype[Any], Float64[np.ndarray, "n"]]:
        """Return the number of training rows, the residual's type, and the predictions of the last attempt."""
        pending, about = self._pending()
        if about is None:
            raise SiteFault(Fault.STALE_MEMORY, "the last attempt is not in the memory")
        return len(pending), pending.dtype, self._models(pending, about["add"], about["steps"])[1]

    def accept(self, number: int) -> None:
        """Store the last attempt as a step that counts, if it has this number."""
        pending, about = self._pending()
        if about is not None and about["number"] == number and about["keep"]:
            self._store(number, about["add"], self._models(pending, about["add"], about["steps"])[0])

    def _pending(self) -> tuple[np.ndarray, dict[str, Any] | None]:
        memory = self.site.memory
        if _PENDING not in memory:
            return np.zeros(0), None
        return memory[_PENDING], _from_bytes(memory[_PENDING_ABOUT])

    # -- steps that count ---------------------------------------------------------------------------------------------

    def _store(self, number: int, add: float, models: Sequence[BaseEstimator]) -> None:
        memory = self.site.memory
        for name in [name for name in memory if name.startswith(f"{_KEPT_STEP}{number}/")]:
            del memory[name]
        for place, model in enumerate(models):
            memory[f"{_KEPT_STEP}{number}/{place}/{add!r}"] = np.frombuffer(dump(model), np.uint8)

    def steps_of(self, numbers: Int64[np.ndarray, "steps"]) -> tuple[tuple[float, BaseEstimator], ...]:
        """Return coefficient and model of all fits of the steps with these numbers."""
        for number in numbers.tolist():
            self.accept(number)
        fits: dict[int, list[tuple[int, float, BaseEstimator]]] = {}
        wanted = set(numbers.tolist())
        for name in self.site.memory:
            if name.startswith(_KEPT_STEP):
                number, place, add = name.removeprefix(_KEPT_STEP).split("/")
                if int(number) in wanted:
                    model = restore(self.site.memory[name].tobytes())
                    fits.setdefault(int(number), []).append((int(place), float(add), model))
        if set(fits) != wanted:
            raise SiteFault(Fault.STALE_MEMORY, "a step that counts is not in the memory")
        in_order = [sorted(fits[number], key=lambda each: each[0]) for number in sorted(fits)]
        return tuple((add, model) for steps in in_order for _, add, model in steps)


def _inputs(site: Site, rows: Int64[np.ndarray, "n"]) -> tuple[Float64[np.ndarray, "n p"], ValueGroups | None]:
    """Return the columns of these rows as fits see them, and the groups of values.

    The groups are of all rows of the file. Those of the common rows would be others in every run; the center, which
    chooses these rows, could solve the groups' means for single values.
    """
    columns: Columns = site.shard
    least = site.rows_that_hold(FEWEST_EQUAL) if site.has_private_rows else 1
    groups = group_values(site.directory, columns, least) if least > 1 else None
    x = columns.x[rows]
    return groups.apply(x) if groups else x, groups


def agreed_rows(site: Site) -> Int64[np.ndarray, "n"]:
    """Return the places of the common entities among the site's rows."""
    if ROWS not in site.memory:
        raise SiteFault(Fault.STALE_MEMORY, "the agreed order of the rows is not in the memory")
    return site.memory[ROWS]


def forget(site: Site, *, with_model: bool = False) -> None:
    """Delete the memory of the run, also private key and residuals: no recorded message can be opened any more.

    The memory still says that the run is over, and whether the model was stored. So the center cannot begin the run
    again with other rows, to compare the sums.
    """
    for name in list(site.memory):
        del site.memory[name]
    site.memory[CONCLUDED] = np.array(with_model)
    site.commitments.count(f"{CONCLUDED} {site.lane}", 1)


def is_over(site: Site) -> bool:
    """Return whether the site has concluded this run, under any name of its session."""
    return CONCLUDED in site.memory or site.commitments.count(f"{CONCLUDED} {site.lane}", 0) > 0


def _as_bytes(about: dict[str, Any]) -> np.ndarray:
    return np.frombuffer(json.dumps(about).encode(), np.uint8)


def _from_bytes(data: np.ndarray) -> dict[str, Any]:
    return dict(json.loads(data.tobytes()))
