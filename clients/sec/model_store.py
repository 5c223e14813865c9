"""Files of a learner in its own directory: its cluster, and in deployment the models of its cluster."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from clients.model_store import FOLDER, model_file, save_model
from clients.site import Site
from common.csv_text import Column, csv_text
from common.files import encode_text
from numerics.sec.recommendation import recommend
from numerics.shared.classification import SCORES
from protocols.sec.payloads import Errors, Predict
from protocols.wire.faults import Fault, SiteFault

logger = logging.getLogger("flwr")

_LIST = f"{FOLDER}/.of-this-run"
"""File with the names of the learners whose models a run saved: a later run removes these models, and no others."""


def remove_results(site: Site) -> None:
    """Remove the files of an earlier run."""
    _remove_other_models(site, ())
    if site.directory is not None:
        for name in ("collaborators.csv", "pooled.csv", "pooled.skops", "personal.csv", "answers.csv"):
            (site.directory / site.of_repetition(name)).unlink(missing_ok=True)


def save_models(site: Site, models: Mapping[str, UInt8[np.ndarray, "_"]]) -> None:
    """Write models by learner, in deployment only: in a simulation the fusion center's results hold them.

    The fusion center chooses the names of learners. So a file that no run saved is never overwritten.
    """
    if not _saves_models(site):
        return
    saved = set(_saved_names(site))
    for learner in set(models) - saved:
        path = _model_path(site, learner)
        if path.exists():
            logger.warning(
                "site %s: the model of %s is not saved, because no run wrote the file %s", site.name, learner, path
            )
        else:
            saved.add(learner)
    _write_names(site, sorted(saved))
    for learner in sorted(saved & set(models)):
        save_model(site, learner, "skops", partial(Path.write_bytes, data=models[learner].tobytes()))


def save_result(ask: Predict, site: Site, features: Sequence[str], errors: Errors) -> None:
    """Write the learner's cluster, personal mixture and pooled models, and their errors.

    ``collaborators.csv`` has the members of the cluster with their weights in eq. (5), and marks those that the model
    of pooled rows, ``pooled.skops``, represents; ``pooled.csv`` has the coefficients of the cluster's pooled
    regression, ``personal.csv`` the weights of the personal mixture and, for classes, the power of its probabilities;
    ``answers.csv`` has the exact errors of all combinations on the held-out rows, and the recommendation;
    ``medians.csv`` the medians that have filled empty cells. The saved models of all other learners are removed.
    """
    if "." in site.lane:  # a cell of a table: its site takes part in many lanes at once
        return
    cluster = [ask.cluster] * len(ask.members)
    table: dict[str, Column] = {"cluster": cluster, "learner": ask.members, "rows": ask.rows, "weight": ask.shares}
    if ask.pooled.any():
        table["pool_member"] = ["yes" if each else "" for each in ask.pooled.tolist()]
        model = ask.models[int(np.argmax(ask.pool_weights[ask.combinations.index("cluster")]))]
        if _saves_models(site):
            site.write("pooled.skops", partial(Path.write_bytes, data=model.tobytes()))
    _write_table(site, "collaborators.csv", table)
    if ask.coefficients.shape[1] and "cluster" in ask.combinations:
        values = ask.coefficients[ask.combinations.index("cluster")]
        _write_table(site, "pooled.csv", {"input": ("(intercept)", *features), "coefficient": values})
    site.write_medians()
    personal = _save_personal_weights(ask, site)
    _save_answers(ask, site, errors)
    _remove_other_models(site, (*ask.members, *personal, site.name))


def senders_of(site: Site) -> list[str]:
    """Return the learners whose models the site got."""
    return site.memory["senders"].tobytes().decode().split("\n")


def _save_personal_weights(ask: Predict, site: Site) -> list[str]:
    """Write the learners of the personal mixture, and return their names."""
    if "personal" not in ask.combinations:
        return []
    weights = site.memory["personal"]
    names = [*senders_of(site), site.name]
    chosen = [(name, weight) for name, weight in zip(names, weights.tolist(), strict=True) if weight > 0]
    table: dict[str, Column] = {
        "learner": [name for name, _ in chosen],
        "weight": np.array([weight for _, weight in chosen]),
    }
    if site.shard.classes:
        table["power"] = np.full(len(chosen), float(site.memory.get("power", np.ones(()))))
    _write_table(site, "personal.csv", table)
    return [name for name, _ in chosen]


def _save_answers(ask: Predict, site: Site, errors: Errors) -> None:
    """Write the errors of all combinations except ``oracle``, and the recommendation.

    The standard errors are those of `protocols.sec.payloads.Errors.deviations`: the reference has 0.
    """
    if not errors.n_test or "cluster" not in ask.combinations:
        return
    places = [place for place, name in enumerate(ask.combinations) if name != "oracle"]
    names = [ask.combinations[place] for place in places]
    values = np.where(errors.finite, errors.errors, np.inf)[places]
    best = recommend(
        dict(zip(names, values.tolist(), strict=True)),
        dict(zip(names, errors.deviations[places].tolist(), strict=True)),
        errors.n_test,
        squared=not errors.scores.size,
    )
    scores: dict[str, Column] = {
        name: np.where(column < 0, np.nan, column)
        for name, column in zip(SCORES, errors.scores[places].T if errors.scores.size else (), strict=False)
        if name != "log_loss"
    }
    thresholds = site.memory.get("thresholds", np.zeros(0))
    if np.isfinite(thresholds).any():
        scores["threshold"] = thresholds[places]  # chosen on the held-out rows, so it is not judged on them
    _write_table(
        site,
        "answers.csv",
        {
            "prediction": names,
            "log_loss" if scores else "mean_squared_error": values,
            "standard_error_of_difference": errors.deviations[places],
            **scores,
            "recommended": ["yes" if name == best else "" for name in names],
        },
    )


def _remove_other_models(site: Site, learners: Iterable[str]) -> None:
    """Remove the saved models of all learners but these."""
    if not _saves_models(site):
        return
    saved = set(_saved_names(site))
    try:
        for learner in saved.difference(learners):
            _model_path(site, learner).unlink(missing_ok=True)
    except OSError as error:
        raise SiteFault(Fault.OUTPUT_NOT_WRITTEN, str(error)) from error
    if saved:
        _write_names(site, sorted(saved.intersection(learners)))


def _saves_models(site: Site) -> bool:
    return not site.simulated and site.directory is not None


def _model_path(site: Site, learner: str) -> Path:
    assert site.directory is not None  # noqa: S101 - _saves_models has looked
    return site.directory / site.of_repetition(model_file(learner, "skops"))


def _saved_names(site: Site) -> list[str]:
    assert site.directory is not None  # noqa: S101 - _saves_models has looked
    path = site.directory / site.of_repetition(_LIST)
    return path.read_text(encoding="utf-8").split() if path.is_file() else []


def _write_names(site: Site, names: Sequence[str]) -> None:
    site.write(_LIST, partial(Path.write_text, data="\n".join(names) + "\n", encoding="utf-8"))


def _write_table(site: Site, name: str, columns: Mapping[str, Column]) -> None:
    site.write(name, partial(Path.write_bytes, data=encode_text(csv_text(columns))))
