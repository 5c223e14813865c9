"""A learner's own model: chosen among candidates, fitted to all rows, judged by fits without the judged rows."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, UInt8

from clients.logged_fault import LoggedFault
from clients.sec.rows import fit_settings
from clients.site import Site
from numerics.sec.disclosure import DIGITS
from numerics.sec.losses import Loss
from numerics.shared.candidates import ROW_MODELS, Candidate, CandidateError, parse_candidates
from numerics.shared.digits import rounded
from numerics.shared.regression_rows import RegressionRows
from protocols.sec.payloads import Select
from protocols.wire.faults import Fault, SiteFault

if TYPE_CHECKING:  # importing scikit-learn takes a second, and not every ask needs it
    from numerics.sec.left_out import LeftOut
    from numerics.sec.selection import Selection

logger = logging.getLogger("flwr")


def select_sendable(
    ask: Select, site: Site, rows: RegressionRows, held_out: Bool[np.ndarray, "n"]
) -> tuple[Selection, UInt8[np.ndarray, "bytes"], LeftOut | None, float]:
    """Select a candidate, fit it to all rows, encode its model, and compute `e_i` on the rows that are not held out.

    Leaves have at least as many rows as the site demands (`min-leaf`).
    """
    from numerics.sec.coarse_leaves import with_coarse_leaves
    from numerics.sec.selection import SelectionError, leave_out_chosen, select
    from protocols.models import ModelError, encode_model

    candidates = _candidates(ask, site, classes=bool(rows.classes))
    settings = {**fit_settings(site, ask), "loss": Loss(len(rows.classes)), "class_weight": ask.class_weight}
    settings["person"] = rows.person
    try:
        chosen = select(candidates, rows.x, rows.y, selection=ask.selection, **settings)
        if site.has_private_rows:
            chosen = replace(chosen, model=with_coarse_leaves(chosen.model, rows.y, len(rows.classes)))
        left_out = None
        if ask.reference == "left-out" or held_out.any():
            left_out = leave_out_chosen(chosen, rows.x, rows.y, **settings)
        error = _reference(ask.reference, rows.with_test(held_out), chosen, left_out, held_out)
        if site.has_private_rows:  # exact errors at two sizes of hold-out would differ by few rows
            [error] = rounded(np.array([error]), DIGITS).tolist()
        return chosen, encode_model(chosen.model, len(rows.classes)), left_out, error
    except (SelectionError, ModelError) as error:
        raise LoggedFault(Fault.NO_MODEL, f"site {site.name}: {error}") from error


def _reference(
    reference: str, rows: RegressionRows, chosen: Selection, left_out: LeftOut | None, held_out: Bool[np.ndarray, "n"]
) -> float:
    """Return `e_i`: on the rows that others' models are tried on, or by cross-validation of all rows."""
    loss = Loss(len(rows.classes))
    if reference == "cv":
        return chosen.cv_error
    if reference == "left-out" and left_out is not None:
        return float(loss.means(left_out.predictions[~held_out][np.newaxis], rows.y)[0])
    if not held_out.any():
        return chosen.fitted_error
    return float(loss.means(loss.predict(chosen.model, rows.x, rows.y, len(held_out))[np.newaxis], rows.y)[0])


def _candidates(ask: Select, site: Site, *, classes: bool) -> tuple[Candidate, ...]:
    """Return the site's own candidates, or those of the run; without row models, unless the site allows them."""
    own = str(site.config.get("candidates", ""))
    try:
        candidates = parse_candidates(own or ask.candidates, classes=classes, own=bool(own))
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


def keep_own_predictions(
    site: Site, rows: RegressionRows, chosen: Selection, left_out: LeftOut | None, held_out: Bool[np.ndarray, "n"]
) -> None:
    """Store the own model's predictions; those of held-out rows are by fits without them."""
    loss, n_fitted = Loss(len(rows.classes)), len(held_out)
    if left_out is not None and held_out.any():
        site.memory["own"] = left_out.predictions[held_out]
        if rows.classes:
            site.memory["own_probabilities"] = left_out.probabilities[held_out]
    elif len(rows.y_test):
        site.memory["own"] = loss.predict(chosen.model, rows.x_test, rows.y_test, n_fitted)
        if rows.classes:
            site.memory["own_probabilities"] = loss.probabilities(chosen.model, rows.x_test, n_fitted)
    if site.has_private_rows:
        site.memory["fitted"] = loss.predict(chosen.model, rows.x, rows.y, n_fitted)
