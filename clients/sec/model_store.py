"""Files that a learner leaves in its own directory: its cluster, and in deployment the models to predict with."""

from __future__ import annotations

import csv
import io
import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from clients.model_store import FOLDER, model_file, save_model
from clients.site import Site
from protocols.sec.payloads import Predict
from protocols.wire.faults import Fault, SiteFault

logger = logging.getLogger("flwr")

_LIST = f"{FOLDER}/.of-this-run"
"""File with the learners whose models a run has saved, so that a later run removes these and no others."""


def remove_results(site: Site) -> None:
    """Remove the files of an earlier run."""
    _remove_other_models(site, ())
    if site.directory is not None:
        for name in ("collaborators.csv", "pooled.csv"):
            (site.directory / site.of_repetition(name)).unlink(missing_ok=True)


def save_models(site: Site, models: Mapping[str, UInt8[np.ndarray, "_"]]) -> None:
    """Write models by learner, at a real site only: in a simulation they stand in the fusion center's results.

    The center chooses the learners' names. So a file that no run has saved stays as it is, even under such a name.
    """
    if not _saves_models(site):
        return
    saved = set(_saved_names(site))
    for learner in set(models) - saved:
        path = _model_path(site, learner)
        if path.exists():
            logger.warning("site %s: %s is of no run and stays; %s's model is not saved", site.name, path, learner)
        else:
            saved.add(learner)
    _write_names(site, sorted(saved))
    for learner in sorted(saved & set(models)):
        save_model(site, learner, "skops", partial(Path.write_bytes, data=models[learner].tobytes()))


def save_result(ask: Predict, site: Site, features: Sequence[str]) -> None:
    """Write ``collaborators.csv``: the cluster's members, with each one's share of eq. (5).

    And ``pooled.csv``, the coefficients of the cluster's pooled regression, if there is one. Of the saved models, those
    of the members stay.
    """
    if "." in site.lane:  # a cell of a table: its sites play many parts
        return
    shares = ask.rows / max(ask.rows.sum(), 1)
    members = zip(ask.members, ask.rows.tolist(), shares.tolist(), strict=True)
    rows = [(ask.cluster, member, n, repr(share)) for member, n, share in members]
    _write_table(site, "collaborators.csv", ("cluster", "learner", "rows", "weight"), rows)
    if ask.coefficients.shape[1] and "cluster" in ask.combinations:
        values = ask.coefficients[ask.combinations.index("cluster")].tolist()
        pairs = zip(("(intercept)", *features), map(repr, values), strict=True)
        _write_table(site, "pooled.csv", ("input", "coefficient"), pairs)
    _remove_other_models(site, (*ask.members, site.name))


def _remove_other_models(site: Site, learners: Iterable[str]) -> None:
    """Remove the saved models of all but these learners."""
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
    assert site.directory is not None
    return site.directory / site.of_repetition(model_file(learner, "skops"))


def _saved_names(site: Site) -> list[str]:
    assert site.directory is not None
    path = site.directory / site.of_repetition(_LIST)
    return path.read_text(encoding="utf-8").split() if path.is_file() else []


def _write_names(site: Site, names: Sequence[str]) -> None:
    site.write(_LIST, partial(Path.write_text, data="\n".join(names) + "\n", encoding="utf-8"))


def _write_table(site: Site, name: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    site.write(name, partial(Path.write_text, data=text.getvalue(), encoding="utf-8"))
