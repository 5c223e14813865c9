"""A learner of Select-Exchange-Cluster: fits a model, tries the others' on its own rows, and tries their mixtures.

What it remembers between asks: predictions of its held-out rows, never another's model.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from jaxtyping import Float64, UInt8
from sklearn.base import BaseEstimator

from clients.data import DataError, Table, cell_name
from clients.data.regression import regression_rows
from clients.dispatch import answers
from clients.regressors import ROW_MODELS, Candidate, CandidateError, parse_candidates
from clients.sec.check import describe
from clients.selection import SelectionError, select
from clients.site import Site
from numerics.ensemble import Ensemble
from numerics.mixture import mix
from numerics.predictors import Predictors, mean_squared_errors
from numerics.rows import Rows
from protocols.faults import Fault, SiteFault, usable_name
from protocols.models import ModelError, decode_models, encode_model, n_features
from protocols.sec import Errors, Exchange, Fitted, Losses, Predict, Select

logger = logging.getLogger("flwr")

_SPLIT, _FIT = range(2)
"""Streams of a learner's randomness."""


def own_shard(loaded: Table | Ensemble, config: Mapping[str, object]) -> Rows:
    """A party's own table as a learner's rows.

    Raises
    ------
    DataError
        As `clients.data.regression.regression_rows`; if a party's function returned an Ensemble; or if the rows are
        too few to hold some out and select on the rest.
    """
    if not isinstance(loaded, Table):
        raise DataError("the data function returned an Ensemble; protocol sec needs a table of columns", "bad-shape")
    rows = regression_rows(loaded, config)
    held = _n_held_out(rows.n, config)
    if rows.n - held < 2:
        raise DataError(
            f"{cell_name(loaded, str(config['target']), rows.n - 1)}: is the last of {rows.n} rows, of which"
            f" sec.holdout takes {held}; at least two must remain to select a model on",
            "too-few-rows",
        )
    return rows


def check_lines(loaded: Table | Ensemble, config: Mapping[str, object]) -> list[str]:
    """What of a party's own data would be used, and what would leave the site; raises as `own_shard`."""
    rows = own_shard(loaded, config)
    assert isinstance(loaded, Table)
    return describe(rows, loaded, config, _n_held_out(rows.n, config))


def _n_held_out(n: int, config: Mapping[str, object]) -> int:
    return round(float(str(config.get("sec.holdout", 0.0))) * n)


def _rows(site: Site, standardize: str) -> Rows:
    """The learner's rows as models see them; of own data a share is held out, the same in every ask."""
    rows: Rows = site.shard
    held = _n_held_out(rows.n, site.config) if site.config.get("protocol") else 0
    if held:
        order = np.random.default_rng([_SPLIT, *_stream(site)]).permutation(rows.n)
        out, kept = np.sort(order[:held]), np.sort(order[held:])
        rows = replace(rows, x=rows.x[kept], y=rows.y[kept], x_test=rows.x[out], y_test=rows.y[out])
    return rows.standardised() if standardize == "learner" else rows


def _stream(site: Site) -> list[int]:
    """Seeds of this learner in this repetition: the same in every ask and in every cell of a table."""
    return [int(word) for word in site.shard_rng.integers(2**32, size=4)]


# -- select -----------------------------------------------------------------------------------------------------------


@answers(Select)
def select_model(ask: Select, site: Site) -> Fitted:
    """Step 1: the candidate that predicts the other half of the rows best, fitted to all of them."""
    rows = _rows(site, ask.standardize)
    candidates = _candidates(ask, site)
    seed = int(np.random.default_rng([_FIT, *_stream(site)]).integers(2**31))
    try:
        chosen = select(candidates, rows.x, rows.y, standardize=ask.standardize, min_leaf=ask.min_leaf, rng_seed=seed)
    except SelectionError as error:
        raise SiteFault(Fault.NO_MODEL, str(error)) from error
    if len(rows.y_test):
        site.memory["own"] = Predictors([chosen.model]).predict(rows.x_test)[0]
    model = encode_model(chosen.model)
    _keep_models(site, [site.name], [model])
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


def _candidates(ask: Select, site: Site) -> tuple[Candidate, ...]:
    """The learner's own list, or the run's; without the methods whose models hold rows, unless they are allowed."""
    try:
        candidates = parse_candidates(str(site.config.get("candidates", "")) or ask.candidates)
    except CandidateError as error:
        raise SiteFault(Fault.BAD_CANDIDATES, str(error)) from error
    if site.config.get("sec.allow-row-models" if site.simulated else "allow-row-models", False):
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


def _moments(rows: Rows) -> tuple[Float64[np.ndarray, "q"], Float64[np.ndarray, "q q"]]:
    columns = np.column_stack([rows.x, rows.y])
    mean = columns.mean(axis=0)
    centred = columns - mean
    return mean, centred.T @ centred


# -- exchange ---------------------------------------------------------------------------------------------------------


@answers(Exchange)
def evaluate_models(ask: Exchange, site: Site) -> Losses:
    """Step 2: the mean squared error of every model that was sent on this learner's rows."""
    rows = _rows(site, ask.standardize)
    models, usable = _usable(ask, site, rows.x.shape[1])
    predictors = Predictors(models)
    losses = np.full(len(ask.models), np.inf)
    losses[usable] = mean_squared_errors(predictors.predict(rows.x), rows.y)
    if ask.keep and len(rows.y_test):
        others = np.full((len(ask.models), len(rows.y_test)), np.nan)
        others[usable] = predictors.predict(rows.x_test)
        site.memory["others"] = others
    _keep_models(site, ask.learners, ask.models)
    finite = np.isfinite(losses)
    return Losses(np.where(finite, losses, 0.0), finite)


def _usable(ask: Exchange, site: Site, p: int) -> tuple[list[BaseEstimator], list[int]]:
    """The models that can be tried, and their places; another is left to count as a prediction that is not finite."""
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


def _keep_models(site: Site, learners: Sequence[str], models: Sequence[UInt8[np.ndarray, "_"]]) -> None:
    """A real site keeps its own model and those that it was sent; of a simulation they are in the center's results."""
    if site.simulated:
        return
    for learner, model in zip(learners, models, strict=True):
        if not usable_name(learner):
            raise SiteFault(Fault.MALFORMED_ASK, f"{learner!r} cannot be a learner's name")
        site.write(f"models/{learner}.skops", partial(Path.write_bytes, data=model.tobytes()))


# -- predict ----------------------------------------------------------------------------------------------------------


@answers(Predict)
def try_combinations(ask: Predict, site: Site) -> Errors:
    """Eq. (5) on the held-out rows: alone, with the cluster, with everybody."""
    rows = _rows(site, ask.standardize)
    errors, finite = np.zeros(len(ask.combinations)), np.ones(len(ask.combinations), bool)
    if len(rows.y_test):
        errors = mean_squared_errors(_combine(ask, site, rows.x_test), rows.y_test)
        finite = np.isfinite(errors)
    _write_result(ask, site, rows.features)
    for name in list(site.memory):
        del site.memory[name]  # the conversation ends here; of a table's hundreds of lanes nothing is to pile up
    return Errors(len(rows.y_test), np.where(finite, errors, 0.0), finite)


def _combine(ask: Predict, site: Site, x: Float64[np.ndarray, "t p"]) -> Float64[np.ndarray, "combinations t"]:
    """A prediction of every row by every combination."""
    if "own" not in site.memory:
        raise SiteFault(Fault.STALE_MEMORY, "the own predictions are not in the memory")
    total = mix(ask.own[:, np.newaxis], site.memory["own"][np.newaxis])
    if ask.weights.shape[1]:
        if "others" not in site.memory or len(site.memory["others"]) != ask.weights.shape[1]:
            raise SiteFault(Fault.STALE_MEMORY, "the others' predictions are not in the memory")
        total += mix(ask.weights, site.memory["others"])
    if ask.coefficients.shape[1]:
        total += ask.coefficients[:, :1] + ask.coefficients[:, 1:] @ x.T
    return total


def _write_result(ask: Predict, site: Site, features: Sequence[str]) -> None:
    """What the site keeps: its cluster's members, and what its cluster predicts with.

    ``collaborators.csv``, with each member's share of eq. (5); ``pooled.csv``, the coefficients of the cluster's pooled
    regression, where there is one; of the models that were sent, in deployment, the members'.
    """
    if "." in site.lane:  # a cell of a table: its sites play many parts
        return
    shares = ask.rows / max(ask.rows.sum(), 1)
    lines = [
        f"{ask.cluster},{member},{n},{share!r}"
        for member, n, share in zip(ask.members, ask.rows.tolist(), shares.tolist(), strict=True)
    ]
    _write_lines(site, "collaborators.csv", ["cluster,learner,rows,weight", *lines])
    if ask.coefficients.shape[1] and "cluster" in ask.combinations:
        values = ask.coefficients[ask.combinations.index("cluster")].tolist()
        pairs = zip(("(intercept)", *features), values, strict=True)
        _write_lines(site, "pooled.csv", ["input,coefficient", *(f'"{name}",{value!r}' for name, value in pairs)])
    folder = None if site.simulated or site.directory is None else site.directory / "models"
    for model in folder.glob("*.skops") if folder else ():
        if model.stem not in {*ask.members, site.name}:
            model.unlink(missing_ok=True)


def _write_lines(site: Site, name: str, lines: Sequence[str]) -> None:
    site.write(name, partial(Path.write_text, data="\n".join(lines) + "\n", encoding="utf-8"))
