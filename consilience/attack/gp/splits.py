"""Attack by moments of experts over several runs: rows that one split puts in another expert than the next."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from jaxtyping import Float64

from consilience.attack.interface import Claims
from consilience.attack.site import AttackedSite
from protocols.gp.payloads import MOST_ROWS, Moments, Survey

_EXACT = 1e-6
"""Half the width of a claim, and largest misfit of a sum of squares, as a share of a column's range."""


def splits(site: AttackedSite) -> Claims:
    """Experts of one row more in every run: moments of two that differ by a single row tell it.

    The difference of the sums of squares of two sets of rows, of which one has a row more, is that of this row.
    """
    n_columns, span = site.ranges.shape[1], np.ptp(site.ranges, axis=0)
    experts: dict[tuple[float, ...], tuple[int, Float64[np.ndarray, "q"], Float64[np.ndarray, "q"]]] = {}
    max_rows, n = MOST_ROWS, 0
    while site.start_run():
        answer = site.ask(Survey(max_rows, "se", fit=False))
        if isinstance(answer, Moments):
            n = n or int(answer.counts.sum())
            means = np.column_stack([answer.means, answer.y_means]) - site.ranges[0]
            variances = np.column_stack([np.einsum("mdd->md", answer.covariances), answer.y_variances])
            for count, mean, square in zip(answer.counts.tolist(), means, variances + means**2, strict=True):
                experts[(count, *mean.tolist())] = count, count * mean, count * square
        max_rows = -(-n // 2) if max_rows == MOST_ROWS else max_rows + 1
    rows = []
    for (count, total, squares), (other, other_total, other_squares) in combinations(experts.values(), 2):
        if abs(count - other) == 1:
            row = (total - other_total) * (count - other)
            misfit = (squares - other_squares) * (count - other) - row**2
            if (np.abs(misfit) <= _EXACT * span**2).all():
                rows.append(row + site.ranges[0])
    note = f"different experts: {len(experts)}"
    return Claims.points(np.array(rows), _EXACT * span, [note]) if rows else Claims.none(n_columns, note)
