"""Attack by counts of residuals that crafted hyperparameters make the outputs themselves."""

from __future__ import annotations

import numpy as np

from consilience.attack.gp.center import LONGEST, MAX_ROWS
from consilience.attack.interface import Claims
from consilience.attack.site import AttackedSite
from numerics.gp.calibration import EDGES
from protocols.gp.payloads import Calibrate, Moments, Residuals, Survey

_NO_FUNCTION = 1e-3
"""Deviation of a function that explains nothing, for a noise of 1."""


def sizes(site: AttackedSite) -> Claims:
    """A function that explains nothing: sizes of residuals count the outputs, from another origin in every run."""
    q, (least, greatest) = site.ranges.shape[1], site.ranges[:, -1].tolist()
    span = greatest - least
    below: dict[float, int] = {}
    while site.start_run():
        moments = site.ask(Survey(MAX_ROWS, "se", fit=False))
        if not isinstance(moments, Moments) or moments.classes or len(moments.counts) != 1:
            return Claims.none(q, "the site takes no part, has classes or several experts")
        d, origin, unit = moments.means.shape[1], least - 0.01 * span * site.n_runs, 1.2 * span / float(EDGES[-2])
        answer = site.ask(
            Calibrate(
                max_rows=MAX_ROWS,
                counts=moments.counts,
                mean=moments.means[0],
                scale=np.ones(d),
                y_mean=origin,
                y_scale=unit,
                kernel="se",
                theta=np.log([*np.full(d, LONGEST), _NO_FUNCTION, 1.0]),
            )
        )
        if isinstance(answer, Residuals):
            below |= dict(zip((origin + unit * EDGES[1:-1]).tolist(), np.cumsum(answer.counts).tolist(), strict=False))
    if not below:
        return Claims.none(q, "the site counts no residuals")
    ends = np.array(sorted(below))
    counts = np.maximum(np.diff([below[end] for end in ends], prepend=0), 0)
    bounds = np.full((2, len(ends), q), np.inf)
    bounds[0], bounds[0, 1:, -1], bounds[1, :, -1] = -np.inf, ends[:-1], ends
    narrow = (counts == 1) & (np.diff(ends, prepend=-np.inf) < 0.01 * span)
    note = f"single outputs known to a hundredth of the range: {int(narrow.sum())}"
    return Claims(bounds[0], bounds[1], counts.astype(np.int64), [note])
