"""What a learner keeps of a run in its own directory: its cluster, and in deployment the models to predict with."""

from __future__ import annotations

import csv
import io
import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from clients.site import Site
from protocols.sec.payloads import Predict
from protocols.wire.faults import Fault, SiteFault

logger = logging.getLogger("flwr")

_OURS = "models/.of-this-run"
"""Names of the files that a run wrote, so that a later one removes these and no others."""


def start_anew(site: Site) -> None:
    """Remove what an earlier run left."""
    _keep_only(site, ())
    if site.directory is not None:
        for name in ("collaborators.csv", "pooled.csv"):
            (site.directory / site.of_repetition(name)).unlink(missing_ok=True)


def keep_models(site: Site, models: Mapping[str, UInt8[np.ndarray, "_"]]) -> None:
    """Write models by learner; in a simulation they are in the center's results, and nothing is written.

    The site's own files stay as they are, also where one is called as a learner is: the center chooses these names.
    """
    if site.simulated or site.directory is None:
        return
    ours = set(_names(site))
    for learner in set(models) - ours:
        path = site.directory / site.of_repetition(f"models/{learner}.skops")
        if path.exists():
            logger.warning("site %s: %s is of no run and stays; %s's model is not kept", site.name, path, learner)
        else:
            ours.add(learner)
    _write_names(site, sorted(ours))
    for learner in sorted(ours & set(models)):
        site.write(f"models/{learner}.skops", partial(Path.write_bytes, data=models[learner].tobytes()))


def keep_result(ask: Predict, site: Site, features: Sequence[str]) -> None:
    """``collaborators.csv``: the cluster's members, with each one's share of eq. (5).

    And ``pooled.csv``, the coefficients of the cluster's pooled regression, where there is one; of the models that were
    sent, the members' stay.
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
    _keep_only(site, (*ask.members, site.name))


def _keep_only(site: Site, learners: Iterable[str]) -> None:
    if site.simulated or site.directory is None:
        return
    kept = set(learners)
    try:
        for name in set(_names(site)) - kept:
            (site.directory / site.of_repetition(f"models/{name}.skops")).unlink(missing_ok=True)
    except OSError as error:
        raise SiteFault(Fault.OUTPUT_NOT_WRITTEN, str(error)) from error
    if _names(site):
        _write_names(site, sorted(set(_names(site)) & kept))


def _names(site: Site) -> list[str]:
    path = None if site.directory is None else site.directory / site.of_repetition(_OURS)
    return path.read_text(encoding="utf-8").split() if path is not None and path.is_file() else []


def _write_names(site: Site, names: Sequence[str]) -> None:
    site.write(_OURS, partial(Path.write_text, data="\n".join(names) + "\n", encoding="utf-8"))


def _write_table(site: Site, name: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    site.write(name, partial(Path.write_text, data=text.getvalue(), encoding="utf-8"))
