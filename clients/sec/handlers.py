"""A learner of Select-Exchange-Cluster: fits a model, tries the others' on its own rows, and tries their mixtures.

What it remembers between asks: predictions of its held-out rows, never another's model.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float64, UInt8

from clients.dispatch import answers
from clients.logged_fault import LoggedFault
from clients.regressors import ROW_MODELS, Candidate, CandidateError, parse_candidates
from clients.sec.model_store import remove_results, save_models, save_result
from clients.sec.shard import FEWEST_HELD_OUT, n_held_out
from clients.site import Site
from numerics.sec.mixture import combine, mean_squared_errors
from numerics.shared.regression_rows import RegressionRows
from numerics.shared.threads import single_threaded
from protocols.sec.payloads import LARGEST_ERROR, Errors, Exchange, Fitted, Losses, Predict, Select
from protocols.sec.settings import Consents
from protocols.wire.faults import Fault, SiteFault, usable_name

if TYPE_CHECKING:  # scikit-learn takes a second to import, and not every ask needs it
    from sklearn.base import BaseEstimator

    from clients.sec.selection import Selection

logger = logging.getLogger("flwr")

_COMBINATIONS = {"alone", "cluster", "all", "oracle"}


def _rows(site: Site, standardize: str) -> RegressionRows:
    """The learner's rows as models see them; of own data a share is held out, the same in every ask."""
    rows: RegressionRows = site.shard
    held = n_held_out(rows.n, site.config) if site.config.get("protocol") else 0
    if held:
        # Given by the number of rows, not by what is in them: another choice of inputs is compared on the same rows.
        order = np.random.default_rng([site.seed, site.repetition, rows.n]).permutation(rows.n)
        out, kept = np.sort(order[:held]), np.sort(order[held:])
        rows = replace(rows, x=rows.x[kept], y=rows.y[kept], x_test=rows.x[out], y_test=rows.y[out])
    return rows.standardised() if standardize == "learner" else rows


# -- select -----------------------------------------------------------------------------------------------------------


@answers(Select)
def select_model(ask: Select, site: Site) -> Fitted:
    """Step 1: the candidate that predicts the other half of the rows best, fitted to all of them."""
    from numerics.sec.predictors import Predictors

    rows = _rows(site, ask.standardize)
    if ask.moments and rows.n < len(rows.features) + 2:
        raise SiteFault(Fault.ROWS_IN_MOMENTS, f"{rows.n} rows of {len(rows.features)} inputs and an outcome")
    remove_results(site)
    chosen, model = _selected(ask, site, rows)
    if len(rows.y_test):
        with single_threaded():
            site.memory["own"] = Predictors([chosen.model]).predict(rows.x_test)[0]
    save_models(site, {site.name: model})
    mean, scatter = _moments(rows) if ask.moments else (np.zeros(0), np.zeros((0, 0)))
    return Fitted(
        method=chosen.method,
        error=chosen.cv_error if ask.reference == "cv" else chosen.fitted_error,
        n=rows.n,
        features=rows.features,
        model=model,
        mean=mean,
        scatter=scatter,
    )


def _selected(ask: Select, site: Site, rows: RegressionRows) -> tuple[Selection, UInt8[np.ndarray, "bytes"]]:
    """The choice, and its model as it may be sent. Leaves are no smaller than the site allows (`min-leaf`)."""
    from clients.sec.selection import SelectionError, select
    from protocols.models import ModelError, encode_model

    candidates = _candidates(ask, site)
    seed = int(site.shard_rng.integers(2**31))
    own_floor = site.consents.number("min-leaf", Consents.min_leaf)
    min_leaf = max(ask.min_leaf, own_floor)
    try:
        chosen = select(candidates, rows.x, rows.y, standardize=ask.standardize, min_leaf=min_leaf, rng_seed=seed)
        return chosen, encode_model(chosen.model)
    except (SelectionError, ModelError) as error:
        raise LoggedFault(Fault.NO_MODEL, f"site {site.name}: {error}") from error


def _candidates(ask: Select, site: Site) -> tuple[Candidate, ...]:
    """The learner's own list, or the run's; without the methods whose models hold rows, unless they are allowed."""
    try:
        candidates = parse_candidates(str(site.config.get("candidates", "")) or ask.candidates)
    except CandidateError as error:
        raise LoggedFault(Fault.BAD_CANDIDATES, f"site {site.name}: {error}") from error
    if site.consents.allows("allow-row-models", run_key="sec.allow-row-models"):
        return candidates
    allowed = tuple(each for each in candidates if each.method not in ROW_MODELS)
    if not allowed:
        raise SiteFault(Fault.ROWS_IN_MODEL)
    if len(allowed) < len(candidates):
        left_out = ", ".join(sorted({each.method for each in candidates} & ROW_MODELS))
        logger.warning(
            "site %s: %s not tried: such a model holds rows (allow-row-models is not set)", site.name, left_out
        )
    return allowed


def _moments(rows: RegressionRows) -> tuple[Float64[np.ndarray, "q"], Float64[np.ndarray, "q q"]]:
    columns = np.column_stack([rows.x, rows.y])
    mean = columns.mean(axis=0)
    # Exactly: the mean of equal numbers is rounded, and what does not vary would seem to.
    mean = np.where(np.ptp(columns, axis=0) == 0, columns[0], mean)
    centred = columns - mean
    with single_threaded():
        return mean, centred.T @ centred


# -- exchange ---------------------------------------------------------------------------------------------------------


@answers(Exchange)
def evaluate_models(ask: Exchange, site: Site) -> Losses:
    """Step 2: the mean squared error of every model that was sent on this learner's rows."""
    from numerics.sec.predictors import prepared

    if len(ask.learners) != len(ask.models) or len(set(ask.learners)) < len(ask.learners):
        raise SiteFault(Fault.MALFORMED_ASK, "there is not one model for every learner")
    _check_names(ask.learners)
    rows = _rows(site, ask.standardize)
    models, usable = _usable(ask, site, rows.x.shape[1])
    predictors = prepared(models)
    losses = np.full(len(ask.models), np.inf)
    with single_threaded():  # sums run in the same order at every site
        losses[usable] = mean_squared_errors(predictors.predict(rows.x), rows.y)
        if ask.keep and len(rows.y_test):
            others = np.full((len(ask.models), len(rows.y_test)), np.nan)
            others[usable] = predictors.predict(rows.x_test)
            site.memory["others"] = others
    save_models(site, {ask.learners[i]: ask.models[i] for i in usable if ask.learners[i] != site.name})
    finite = losses <= LARGEST_ERROR
    return Losses(np.where(finite, losses, 0.0), finite)


def _check_names(learners: Sequence[str]) -> None:
    """They become names of files."""
    for learner in learners:
        if not usable_name(learner):
            raise SiteFault(Fault.MALFORMED_ASK, f"{learner!r} cannot be a learner's name")


def _usable(ask: Exchange, site: Site, p: int) -> tuple[list[BaseEstimator], list[int]]:
    """The models that can be tried, and their places; another is left to count as a prediction that is not finite."""
    from protocols.models import ModelError, decode_models, n_features

    models, places = [], []
    for place, model in enumerate(decode_models(ask.models)):
        if isinstance(model, ModelError):
            logger.warning("site %s: the model of %s is refused: %s", site.name, ask.learners[place], model)
        elif n_features(model) != p:
            logger.warning(
                "site %s: the model of %s takes %d inputs, there are %d", site.name, ask.learners[place],
                n_features(model), p,
            )  # fmt: skip
        else:
            models.append(model)
            places.append(place)
    return models, places


# -- predict ----------------------------------------------------------------------------------------------------------


@answers(Predict)
def try_combinations(ask: Predict, site: Site) -> Errors:
    """Eq. (5) on the held-out rows: alone, with the cluster, with everybody."""
    _check_combinations(ask)
    rows = _rows(site, ask.standardize)
    n_test = len(rows.y_test) if len(rows.y_test) >= site.policy.at_least(FEWEST_HELD_OUT) else 0
    errors, finite = np.zeros(len(ask.combinations)), np.ones(len(ask.combinations), bool)
    if n_test:
        with single_threaded():
            errors = mean_squared_errors(_combine(ask, site, rows.x_test), rows.y_test)
        finite = errors <= LARGEST_ERROR
    save_result(ask, site, rows.features)
    for name in list(site.memory):
        del site.memory[name]  # the conversation ends here; of a table's hundreds of lanes nothing is to pile up
    return Errors(n_test, np.where(finite, errors, 0.0), finite)


def _check_combinations(ask: Predict) -> None:
    """Only what the protocol compares is tried: means of models, or pooled regressions, each once."""
    _check_names(ask.members)
    total = ask.weights.sum(axis=1) + ask.own
    # Of an outcome that is 0 everywhere the pooled coefficients are all 0, too.
    mean = np.isclose(total, 1.0) & ~ask.coefficients.any(axis=1)
    pooled = (total == 0) & (ask.coefficients.shape[1] > 0)
    sound = (
        set(ask.combinations) <= _COMBINATIONS
        and len(set(ask.combinations)) == len(ask.combinations)
        and (ask.weights >= 0).all()
        and (ask.own >= 0).all()
        and (mean | pooled).all()
        and (ask.rows >= 0).all()
    )
    if not sound:
        raise SiteFault(Fault.MALFORMED_ASK, "the combinations are not means of models or pooled regressions")


def _combine(ask: Predict, site: Site, x: Float64[np.ndarray, "t p"]) -> Float64[np.ndarray, "combinations t"]:
    """A prediction of every row by every combination."""
    if "own" not in site.memory:
        raise SiteFault(Fault.STALE_MEMORY, "the own predictions are not in the memory")
    others = site.memory.get("others", np.zeros((0, len(x))))
    if ask.weights.shape[1] not in (0, len(others)):
        raise SiteFault(Fault.STALE_MEMORY, "the others' predictions are not in the memory")
    return combine(ask.own, site.memory["own"], ask.weights, others, ask.coefficients, x)
