"""A learner of sec: fits a model, tries the models of others on its own rows, and tries mixtures of them.

Between asks, its memory holds predictions of its held-out rows, and never a model of another learner.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float64, Shaped

from clients.digest import digest_of
from clients.dispatch import answers
from clients.sec.classes import ForeignPredictions, check_class_list, own_power, sharpened_right, with_scores
from clients.sec.disclosure import Disclosure, commit_to
from clients.sec.model_store import remove_results, save_models, save_result, senders_of
from clients.sec.own_model import keep_own_predictions, select_sendable
from clients.sec.rows import learner_rows, rows_and_held_out
from clients.sec.shard import FEWEST_HELD_OUT, MOST_ROWS
from clients.site import Site
from numerics.sec.losses import mixture_weights, right_probabilities
from numerics.sec.mixture import combine, mix
from numerics.sec.personal_weights import personal_weights, residual_factor
from numerics.sec.recommendation import first_choice
from numerics.shared.regression_rows import RegressionRows
from numerics.shared.threads import single_threaded
from protocols.sec.payloads import LARGEST_ERROR, Errors, Exchange, FittedModel, Losses, Pool, Predict, Rows, Select
from protocols.wire.faults import Fault, SiteFault, usable_name

if TYPE_CHECKING:  # importing scikit-learn takes a second, and not every ask needs it
    from sklearn.base import BaseEstimator

logger = logging.getLogger("flwr")

_COMBINATIONS = {"alone", "cluster", "all", "oracle", "personal"}


# -- select -----------------------------------------------------------------------------------------------------------


@answers(Select)
def select_model(ask: Select, site: Site) -> FittedModel:
    """Step 1: choose the candidate with the best predictions of rows that it was not fitted to; fit it to all rows."""
    commit_to(site, ask)
    everything, held_out = rows_and_held_out(site, ask.standardize)
    rows = everything.with_test(held_out)
    if ask.moments:  # the cluster's model is of these moments, and its rival is of the same rows
        everything, held_out = rows, np.zeros(rows.n, bool)
    if ask.moments and rows.n < len(rows.features) + 2:
        raise SiteFault(Fault.ROWS_IN_MOMENTS, f"{rows.n} rows of {len(rows.features)} inputs and an outcome")
    if ask.moments and site.has_private_rows and site.config.get("sec.combine") != "pooled-linear":
        raise SiteFault(Fault.MALFORMED_ASK, "moments are for sec.combine=pooled-linear")
    remove_results(site)
    chosen, model, left_out, error = select_sendable(ask, site, everything, held_out)
    with single_threaded():
        keep_own_predictions(site, rows, chosen, left_out, held_out)
    if left_out is not None and ask.reference == "left-out":
        site.memory["left_out"] = left_out.predictions[~held_out]
    if held_out.any():
        site.memory["own_model"] = np.array([len(model), *digest_of(model)], np.int64)
    save_models(site, {site.name: model})
    mean, scatter = _moments(rows) if ask.moments else (np.zeros(0), np.zeros((0, 0)))
    return FittedModel(
        method=chosen.method,
        error=error,
        variance=left_out.variance if left_out and ask.reference == "left-out" else 0.0,
        n=rows.n,
        features=rows.features,
        model=model,
        mean=mean,
        scatter=scatter,
        sampled_from=site.shard.n if site.shard.n > MOST_ROWS else 0,
        classes=rows.classes,
        held_out=int(held_out.sum()),
    )


def _moments(rows: RegressionRows) -> tuple[Float64[np.ndarray, "q"], Float64[np.ndarray, "q q"]]:
    """Compute the means of the columns ``[X y]``, and their products summed about these means."""
    columns = np.column_stack([rows.x, rows.y])
    mean = columns.mean(axis=0)
    # The mean of equal numbers is rounded: without this line, a constant column would seem to vary.
    mean = np.where(np.ptp(columns, axis=0) == 0, columns[0], mean)
    centered = columns - mean
    with single_threaded():
        return mean, centered.T @ centered


# -- exchange ---------------------------------------------------------------------------------------------------------


@answers(Exchange)
def evaluate_models(ask: Exchange, site: Site) -> Losses:
    """Step 2: compute the mean squared error, or log loss, of every model of the ask on this learner's rows."""
    if len(ask.learners) != len(ask.models) or len(set(ask.learners)) < len(ask.learners):
        raise SiteFault(Fault.MALFORMED_ASK, "there is not one model for every learner")
    _check_names(ask.learners)
    commit_to(site, ask)
    rows = learner_rows(site, ask.standardize)
    check_class_list(ask, rows)
    models, usable = _decode_usable(ask, site, rows.x.shape[1])
    predict, disclosure = ForeignPredictions(ask, site, rows, models, usable), Disclosure.of(site, rows)
    sent = [ask.models[place] for place in usable]
    losses = np.full(len(ask.models), np.inf)
    with single_threaded():  # sums run in the same order at every site
        predictions = predict.training_rows()
        losses[usable] = disclosure.errors(predictions, _fitted(site, rows), rows.y, sent)
        if ask.keep:
            others = np.full((len(ask.models), rows.n + len(rows.y_test)), np.nan)
            of_all = np.hstack([predictions, predict.held_out_rows()]) if len(rows.y_test) else predictions
            others[usable] = disclosure.supported(of_all, _own(site, rows), sent)
            site.memory["others"] = others[:, rows.n :]
            site.memory["senders"] = np.frombuffer("\n".join(ask.learners).encode(), np.uint8)
            site.memory.update(_stacking(ask, site, rows, others[:, : rows.n], predict))
    save_models(site, {ask.learners[i]: ask.models[i] for i in usable if ask.learners[i] != site.name})
    finite = losses <= LARGEST_ERROR
    return Losses(np.where(finite, losses, 0.0), finite, disclosure.noise(rows.n, len(sent)))


def _stacking(
    ask: Exchange,
    site: Site,
    rows: RegressionRows,
    others: Float64[np.ndarray, "models n"],
    predict: ForeignPredictions,
) -> dict[str, Shaped[np.ndarray, "..."]]:
    """Return the data from which the learner computes its own weights of the ask's models and of its own model.

    The own model is the last one if it is not among them. Its predictions are leave-one-out; without these
    (`sec.reference`), nothing is returned.
    """
    if "left_out" not in site.memory:
        return {}
    own = ask.learners.index(site.name) if site.name in ask.learners else len(others)
    predictions = np.vstack([others, np.full(rows.n, np.nan)])
    predictions[own] = site.memory["left_out"]
    return predict.learned_rows(predictions) if rows.classes else {"factor": residual_factor(predictions, rows.y)}


def _fitted(site: Site, rows: RegressionRows) -> Float64[np.ndarray, "n"]:
    """Return the own model's predictions of the rows that it was fitted to; nothing if they are not needed."""
    if not site.has_private_rows:
        return np.zeros(0)
    if len(site.memory.get("fitted", ())) != rows.n:
        raise SiteFault(Fault.STALE_MEMORY, "the own predictions are not in the memory")
    return site.memory["fitted"]


def _own(site: Site, rows: RegressionRows) -> Float64[np.ndarray, "n"]:
    """Return the own model's predictions of all rows, the held-out ones last."""
    if not len(rows.y_test):
        return _fitted(site, rows)
    if "own" not in site.memory:
        raise SiteFault(Fault.STALE_MEMORY, "the own predictions are not in the memory")
    return np.concatenate([_fitted(site, rows), site.memory["own"]])


def _check_names(learners: Sequence[str]) -> None:
    """Refuse names of learners that cannot be names of files."""
    for learner in learners:
        if not usable_name(learner):
            raise SiteFault(Fault.MALFORMED_ASK, f"{learner!r} cannot be a learner's name")


def _decode_usable(ask: Exchange, site: Site, p: int) -> tuple[list[BaseEstimator], list[int]]:
    """Decode the models that take `p` inputs; return them with their places in the ask.

    The loss of any other model counts as infinite.
    """
    from protocols.models import ModelError, decode_models, n_features

    models, places = [], []
    for place, model in enumerate(decode_models(ask.models, [len(places) for places in ask.places])):
        if isinstance(model, ModelError):
            logger.warning("site %s: the model of %s is refused: %s", site.name, ask.learners[place], model)
        elif n_features(model) != p:
            logger.warning(
                "site %s: the model of %s takes %d inputs; the site has %d", site.name, ask.learners[place],
                n_features(model), p,
            )  # fmt: skip
        else:
            models.append(model)
            places.append(place)
    return models, places


# -- rows, where the site allows it -----------------------------------------------------------------------------------


@answers(Pool)
def send_rows(ask: Pool, site: Site) -> Rows:
    """Between the steps: send the rows that are not held out, or none unless ``allow-pooling`` is set."""
    if ask.standardize == "learner":
        raise SiteFault(Fault.MALFORMED_ASK, "standardized rows are not pooled")
    commit_to(site, ask)
    rows = learner_rows(site, ask.standardize)
    n = rows.n if site.consents.allows("allow-pooling") else 0
    return Rows(rows.x[:n], rows.y[:n])


# -- predict ----------------------------------------------------------------------------------------------------------


@answers(Predict)
def try_combinations(ask: Predict, site: Site) -> Errors:
    """Step 3: compute the errors of the combinations on the held-out rows (eq. 5)."""
    _check_combinations(ask)
    commit_to(site, ask)
    rows = learner_rows(site, ask.standardize)
    if rows.classes and (ask.coefficients.shape[1] or ask.models):
        raise SiteFault(Fault.MALFORMED_ASK, "classes have no pooled regression, and no model of pooled rows")
    if "personal" in ask.combinations:
        weights = site.memory["personal"] = _personal_weights(ask, site, rows.n)
        if "learned" in site.memory:
            site.memory["power"] = own_power(site, weights)
    n_test = len(rows.y_test) if len(rows.persons_test) >= site.policy.at_least(FEWEST_HELD_OUT) else 0
    answer = exact = _no_errors(len(ask.combinations))
    if n_test:
        disclosure = Disclosure.of(site, rows)
        with single_threaded():
            combined = _combine(ask, site, rows, disclosure)
            # Guarded answers do not use the own power: crafted models could make it depend on a single row.
            guarded = _errors(ask, site, rows, combined, disclosure) if disclosure.floor else None
            if rows.classes and "personal" in ask.combinations:
                place = ask.combinations.index("personal")
                combined[place] = sharpened_right(site, rows, combined[place])
            exact = _errors(ask, site, rows, combined, Disclosure.of_trusted_center(disclosure.loss))
            if rows.classes:
                exact = with_scores(ask, site, rows, exact)
            answer = guarded or exact
    save_result(ask, site, rows.features, exact)
    for name in list(site.memory):
        del site.memory[name]  # the conversation ends here, and a table has hundreds of lanes
    return answer


def _personal_weights(ask: Predict, site: Site, n: int) -> Float64[np.ndarray, "models_and_own"]:
    """Return the own weights. They start from those of the cluster, and stay there if nothing else is known."""
    if "senders" not in site.memory:
        raise SiteFault(Fault.STALE_MEMORY, "the others' predictions are not in the memory")
    senders = senders_of(site)
    shares = dict(zip(ask.members, ask.shares.tolist(), strict=True))
    cluster = np.array([*(shares.get(name, 0.0) for name in senders), 0.0])
    if site.name not in senders:
        cluster[-1] = shares.get(site.name, 0.0)
    if "factor" in site.memory:
        return personal_weights(site.memory["factor"], cluster, n)
    if "learned" in site.memory:
        right = right_probabilities(site.memory["learned"], site.memory["learned_places"])
        return mixture_weights(right, cluster)
    if not cluster.any():
        cluster[senders.index(site.name) if site.name in senders else -1] = 1.0
    return np.asarray(cluster / cluster.sum())


def _by_pool_models(
    ask: Predict, site: Site, rows: RegressionRows, disclosure: Disclosure
) -> Float64[np.ndarray, "pool_models t"]:
    """Predict every held-out row by the models of pooled rows."""
    from numerics.sec.predictors import Predictors
    from protocols.models import ModelError, decode_models, n_features

    models = []
    for model in decode_models(ask.models):
        if isinstance(model, ModelError) or n_features(model) != rows.x.shape[1]:
            raise SiteFault(Fault.MALFORMED_ASK, "a model of pooled rows cannot be used")
        models.append(model)
    predictions = Predictors(models).predict(np.vstack([rows.x, rows.x_test]))
    if disclosure.floor:
        predictions = disclosure.supported(predictions, _own(site, rows), list(ask.models))
    return predictions[:, rows.n :]


def _no_errors(n: int) -> Errors:
    return Errors(0, np.zeros(n), np.ones(n, bool), np.zeros(n), 0.0)


def _errors(
    ask: Predict,
    site: Site,
    rows: RegressionRows,
    combined: Float64[np.ndarray, "combinations t"],
    disclosure: Disclosure,
) -> Errors:
    """Compute the errors of the combinations, and their standard errors, by rules of disclosure."""
    questions, y = _questions(ask), rows.y_test
    errors = disclosure.errors(combined, site.memory["own"], y, questions, supported=True, answers=2)
    finite = errors <= LARGEST_ERROR
    first = first_choice([name for name, usable in zip(ask.combinations, finite, strict=True) if usable])
    deviations = disclosure.deviations(combined, ask.combinations.index(first) if first else 0, y, questions, answers=2)
    noise = disclosure.noise(len(y), 2 * len(questions), supported=True)
    deviations = np.where(finite, np.minimum(deviations, LARGEST_ERROR), 0.0)
    return Errors(len(y), np.where(finite, errors, 0.0), finite, deviations, noise)


def _check_combinations(ask: Predict) -> None:
    """Refuse combinations that are neither a mean of models nor a pooled regression, or that come twice."""
    _check_names(ask.members)
    total = _total(ask)
    # Pooled coefficients are all 0 if the outcome is 0 everywhere, so their weights decide which kind it is.
    mean = np.isclose(total, 1.0) & ~ask.coefficients.any(axis=1)
    pooled = (total == 0) & (ask.coefficients.shape[1] > 0)
    nothing = (total == 0) & ~ask.coefficients.any(axis=1)
    sound = (
        set(ask.combinations) <= _COMBINATIONS
        and len(ask.combinations) == len(ask.own)
        and len(set(ask.combinations)) == len(ask.combinations)
        and (ask.weights >= 0).all()
        and (ask.own >= 0).all()
        and (ask.pool_weights >= 0).all()
        and ask.pool_weights.shape[1] == len(ask.models) <= len(ask.combinations)
        and np.where(_personal(ask), nothing, mean | pooled).all()
        and (ask.rows >= 0).all()
        and (ask.shares >= 0).all()
        and len(ask.members) == len(ask.shares)
    )
    if not sound:
        raise SiteFault(Fault.MALFORMED_ASK, "the combinations are not means of models or pooled regressions")


def _total(ask: Predict) -> Float64[np.ndarray, "combinations"]:
    """Return the sum of the weights of models by combination: 1, or 0 where there are none."""
    return np.asarray(ask.weights.sum(axis=1) + ask.own + ask.pool_weights.sum(axis=1))


def _personal(ask: Predict) -> Bool[np.ndarray, "combinations"]:
    """Return a mask of the combination whose weights the learner finds itself."""
    return np.array([name == "personal" for name in ask.combinations], bool)


def _questions(ask: Predict) -> list[object]:
    """Return, for each combination, everything that the center has sent."""
    questions: list[tuple[object, ...]] = list(zip(ask.own.tolist(), ask.weights, ask.coefficients, strict=True))
    if ask.models:
        questions = [(*each, shares, *ask.models) for each, shares in zip(questions, ask.pool_weights, strict=True)]
    # Personal weights start from these, so other shares are another question.
    start = (*ask.members, ask.shares)
    return [(*each, *start) if own else each for each, own in zip(questions, _personal(ask), strict=True)]


def _combine(
    ask: Predict, site: Site, rows: RegressionRows, disclosure: Disclosure
) -> Float64[np.ndarray, "combinations t"]:
    """Predict every held-out row by every combination."""
    own, n_test = _own(site, rows)[-len(rows.y_test) :], len(rows.y_test)
    others = site.memory.get("others", np.zeros((0, n_test)))
    if ask.weights.shape[1] not in (0, len(others)):
        raise SiteFault(Fault.STALE_MEMORY, "the others' predictions are not in the memory")
    combined = combine(ask.own, own, ask.weights, others, ask.coefficients, rows.x_test)
    if ask.models:
        combined += mix(ask.pool_weights, _by_pool_models(ask, site, rows, disclosure))
    if "personal" in ask.combinations:
        if "personal" not in site.memory:
            raise SiteFault(Fault.STALE_MEMORY, "the personal weights are not in the memory")
        shares = site.memory["personal"][np.newaxis]
        combined[ask.combinations.index("personal")] = mix(shares, np.vstack([others, own])[: shares.shape[1]])[0]
    pooled = (_total(ask) == 0) & ~_personal(ask)
    if pooled.any() and disclosure.floor:
        coefficients, x = ask.coefficients[pooled], np.vstack([rows.x, rows.x_test])
        predictions = coefficients[:, :1] + coefficients[:, 1:] @ x.T
        combined[pooled] = disclosure.supported(predictions, _own(site, rows), list(coefficients))[:, rows.n :]
    return combined
